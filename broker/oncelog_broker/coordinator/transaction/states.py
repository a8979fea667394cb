"""Each state of a transactional id has its answers, its following states and its end here. Pure.

All rules that depend on the state alone are in ``RULES``; whether the producer that asks is the
present one is checked before. Ordinary and shared transactions have the same states: a shared one
is never Empty, its first writer begins it.

No id hangs. The time-out of the transaction leaves Ongoing. The markers leave Prepare* (whoever
coordinates sends them until they are all written). The others wait for nobody and may expire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique

from oncelog_protocol.errors import OncelogError


@unique
class TxnState(IntEnum):
    """The numbers stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id is forgotten, and nothing follows."""

    @property
    def label(self) -> str:
        """Return the name that ListTransactions and DescribeTransactions use."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Return whether it is decided how the transaction ends, and its markers are being
        written."""
        return self in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Return whether the last transaction has ended everywhere."""
        return self in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)

    @property
    def is_committed(self) -> bool:
        """Return whether the transaction commits, or the last one did."""
        return self in (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT)

    @property
    def completed(self) -> TxnState:
        """Return the state that follows a prepared one, once all markers are written."""
        return TxnState.COMPLETE_COMMIT if self.is_committed else TxnState.COMPLETE_ABORT


_LABELS = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
}


@unique
class Ending(IntEnum):
    """This tells who ended a transaction. The numbers stand in the log."""

    CLIENT = 0
    """Its producer or owner ended it, by EndTxn or EndSharedTxn."""
    TIMEOUT = 1
    """The coordinator ended it, because its time was over. Its producer may go on after an
    abort."""
    FENCE = 2
    """A newer instance or owner, which has taken the id, ended it."""
    REINIT = 3
    """Its producer ended it, by an InitPid that names itself."""


@unique
class Act(IntEnum):
    """A request of the present producer does one of these."""

    BEGIN = 0
    """A transaction begins."""
    ADD = 1
    """The open transaction grows."""
    PREPARE = 2
    """The open transaction ends; its end is written down, and markers follow."""
    BUMP = 3
    """Nothing is open; the producer gets a new epoch, for what is late shall not count later."""
    WAIT = 4
    """Wait until the last transaction is complete, then see."""
    REFUSE = 5
    """It is refused with INVALID_TXN_STATE."""


class IllegalTxnTransitionError(OncelogError):
    """A transactional id was to change to what cannot follow, which is a defect of the
    coordinator."""


class StillEndingError(OncelogError):
    """An operation has to wait until the last transaction is complete (``Act.WAIT``)."""


@dataclass(frozen=True, slots=True)
class TxnStateRules:
    """A state says by this what each request does in it."""

    next_states: tuple[TxnState, ...]
    add: Act
    """AddPartitionsToTxn of the present producer does this; for shared ids, a join of the next
    ordinal does."""
    commit: Act
    abort: Act
    init: Act
    """InitPid does this; PREPARE means that the open transaction is aborted first."""
    left_by: str
    """It takes an id out of the state when no request does."""


_EMPTY = TxnState.EMPTY
_ONGOING = TxnState.ONGOING
_PREPARE_COMMIT = TxnState.PREPARE_COMMIT
_PREPARE_ABORT = TxnState.PREPARE_ABORT
_COMPLETE_COMMIT = TxnState.COMPLETE_COMMIT
_COMPLETE_ABORT = TxnState.COMPLETE_ABORT
_DEAD = TxnState.DEAD


def _at_rest() -> TxnStateRules:
    return TxnStateRules(
        next_states=(_EMPTY, _ONGOING, _PREPARE_ABORT, _DEAD),
        add=Act.BEGIN,
        commit=Act.REFUSE,
        abort=Act.BUMP,
        init=Act.BUMP,
        left_by="expiry",
    )


def _prepared(complete: TxnState) -> TxnStateRules:
    return TxnStateRules(
        next_states=(complete,),
        add=Act.WAIT,
        commit=Act.WAIT,
        abort=Act.WAIT,
        init=Act.WAIT,
        left_by="markers",
    )


RULES: dict[TxnState, TxnStateRules] = {
    _EMPTY: _at_rest(),
    _ONGOING: TxnStateRules(
        next_states=(_ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT),
        add=Act.ADD,
        commit=Act.PREPARE,
        abort=Act.PREPARE,
        init=Act.PREPARE,
        left_by="time-out",
    ),
    _PREPARE_COMMIT: _prepared(_COMPLETE_COMMIT),
    _PREPARE_ABORT: _prepared(_COMPLETE_ABORT),
    _COMPLETE_COMMIT: _at_rest(),
    _COMPLETE_ABORT: _at_rest(),
    _DEAD: TxnStateRules(
        next_states=(),
        add=Act.REFUSE,
        commit=Act.REFUSE,
        abort=Act.REFUSE,
        init=Act.REFUSE,
        left_by="nothing",
    ),
}

FIRST_STATES = (_EMPTY, _ONGOING, _PREPARE_ABORT)
"""An id that is not known begins in one of these: by InitPid, by the first writer of a shared
transaction, or by an owner's abort before any came."""


def check_transition(old: TxnState | None, new: TxnState) -> None:
    """Check that ``new`` may follow ``old``; None means that the id is not known.

    :raises IllegalTxnTransitionError: ``new`` cannot follow ``old``.
    """
    if new not in (FIRST_STATES if old is None else RULES[old].next_states):
        before = "nothing" if old is None else old.label
        raise IllegalTxnTransitionError(
            f"a transactional id cannot go from {before} to {new.label}"
        )
