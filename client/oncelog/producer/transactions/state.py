"""A transactional producer stands in a phase; a table says which may follow. Pure.

Rules
-----
* READY is between two transactions, OPEN inside of one. COMMITTING and ABORTING end it.
* ABORTABLE: something of the transaction failed, so that it can only be aborted; the producer is
  fine. FATAL: the producer is done, whatever is asked of it raises why.
* UNKNOWN: an end was asked for and nobody answered. The same end may be asked for again; or the
  coordinator settles it with a new epoch, which makes the producer READY.
"""

from __future__ import annotations

from enum import Enum

from oncelog.errors import (
    ClusterAuthorizationFailedError,
    OncelogError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
    is_definite,
)

FATAL_ERRORS = (
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    UnsupportedVersionError,
)
"""The errors that end a producer, whoever answers them. All else that a leader or a group's
coordinator says concerns the transaction only: its end will show whether there is more to it."""


class ProducerPhase(Enum):
    """A producer stands in one of the phases that the module explains."""

    UNINITIALIZED = "not started"
    READY = "between transactions"
    OPEN = "in a transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE = "in a transaction that can only be aborted"
    UNKNOWN = "after a transaction of which nobody knows how it ended"
    FATAL = "failed for good"


NEXT: dict[ProducerPhase, frozenset[ProducerPhase]] = {
    ProducerPhase.UNINITIALIZED: frozenset({ProducerPhase.READY, ProducerPhase.FATAL}),
    ProducerPhase.READY: frozenset({ProducerPhase.OPEN, ProducerPhase.FATAL}),
    ProducerPhase.OPEN: frozenset(
        {
            ProducerPhase.COMMITTING,
            ProducerPhase.ABORTING,
            ProducerPhase.ABORTABLE,
            ProducerPhase.FATAL,
        }
    ),
    ProducerPhase.COMMITTING: frozenset(
        {ProducerPhase.READY, ProducerPhase.ABORTABLE, ProducerPhase.UNKNOWN, ProducerPhase.FATAL}
    ),
    ProducerPhase.ABORTING: frozenset(
        {ProducerPhase.READY, ProducerPhase.UNKNOWN, ProducerPhase.FATAL}
    ),
    ProducerPhase.ABORTABLE: frozenset({ProducerPhase.ABORTING, ProducerPhase.FATAL}),
    ProducerPhase.UNKNOWN: frozenset(
        {ProducerPhase.READY, ProducerPhase.COMMITTING, ProducerPhase.ABORTING, ProducerPhase.FATAL}
    ),
    ProducerPhase.FATAL: frozenset(),
}
"""The phases that may follow each phase."""


class ProducerTxnState:
    """The state is a phase, and the reason if it is a bad one."""

    def __init__(self) -> None:
        self.phase = ProducerPhase.UNINITIALIZED
        self.cause: BaseException | None = None
        """Of ABORTABLE, UNKNOWN and FATAL."""

    def move(self, phase: ProducerPhase, cause: BaseException | None = None) -> None:
        """Go on to ``phase``; a step that is not in the table is a bug here."""
        if phase not in NEXT[self.phase]:
            raise AssertionError(f"a producer {self.phase.value} cannot be {phase.value}")
        self.phase = phase
        if cause is not None or phase in (ProducerPhase.READY, ProducerPhase.OPEN):
            self.cause = cause

    def raise_if_fatal(self) -> None:
        """Raise the error that ended the producer, each time anew; return if none did."""
        if self.phase is ProducerPhase.FATAL:
            assert self.cause is not None
            cause = self.cause
            if not isinstance(cause, OncelogError):
                raise cause
            error = type(cause)(str(cause))
            if not is_definite(cause):
                error.may_have_acted()
            raise error from cause

    def abortable(self) -> TransactionAbortableError:
        """Return the error that is raised while the transaction can only be aborted."""
        error = TransactionAbortableError(f"abort this transaction: {self.cause}")
        error.__cause__ = self.cause
        return error
