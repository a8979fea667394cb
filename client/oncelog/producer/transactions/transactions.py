"""A producer's transactions run one after the other here: begin, offsets, commit, abort.

Rules
-----
* One epoch a transaction: the answer to an end brings the identity of the next one (KIP-890), so
  that nothing late of one can touch the next, and the next waits for nothing.
* A commit first waits until everything that was sent is acknowledged. A batch that failed, or an
  offset that was refused, makes the transaction one that can only be aborted; what has not gone out
  of it then never does.
* A transaction of which nothing went out ends without a word to anybody.
* An end is asked for until it is answered, ``delivery_timeout_ms`` long. Unanswered, nobody knows;
  the next transaction then begins with the coordinator's settling of this one (KIP-360).
* Who is fenced is done: every call raises ProducerFencedError from then on.
* Leaders add their partitions to the transaction, and group coordinators theirs; the client need
  not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.consumer.offset_metadata import (
    NOT_A_MEMBER,
    GroupMetadata,
    Offsets,
    checked_offsets,
    left_behind,
)
from oncelog.errors import (
    ApiError,
    DeadlineExceededError,
    InvalidProducerIdMappingError,
    NoTransactionError,
    OncelogError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    is_definite,
    is_retriable,
)
from oncelog.history import note_failure
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.safeguards import SAFE, ProducerSafeguards
from oncelog.producer.transactions.calls import ProducerIdentity, TxnCalls
from oncelog.producer.transactions.state import FATAL_ERRORS, ProducerPhase, ProducerTxnState

if TYPE_CHECKING:
    from oncelog.producer.sender import Sender

logger = logging.getLogger(__name__)

Refused = Callable[[GroupMetadata, ApiError], None]


class Transactions:
    """A producer with a transactional id sends in this session (the port ``session.Session``)."""

    def __init__(
        self,
        calls: TxnCalls,
        accumulator: Accumulator,
        *,
        transactional_id: str,
        end_within_s: float,
        init_within_s: float,
        safeguards: ProducerSafeguards = SAFE,
    ) -> None:
        self.transactional_id = transactional_id
        self.serial = 0
        self.history_number = -1
        self.identity = ProducerIdentity()
        self.in_block = False
        """Whether the transaction is an ``async with`` block, which ends it."""
        self._calls = calls
        self._accumulator = accumulator
        self._sender: Sender | None = None
        self._end_within_s = end_within_s
        self._init_within_s = init_within_s
        self._history = calls.history
        self._safeguards = safeguards
        self._state = ProducerTxnState()
        self._touched = False
        self._must_init = False
        """The coordinator does not know this identity: it has to give another one."""
        self._asked: bool | None = None
        """Which end was asked for; True is a commit."""
        self._indefinite = False
        """Whether an end was asked for before, and nobody answered."""
        self._asking = 0
        """How many send_offsets are under way."""

    @property
    def phase(self) -> ProducerPhase:
        """Return the phase in which the producer stands."""
        return self._state.phase

    # ------------------------------------------------------------------------------ the session

    @property
    def retries(self) -> bool:
        """Return whether what failed is worth another attempt."""
        return self.phase in (ProducerPhase.OPEN, ProducerPhase.COMMITTING)

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        if self.phase is ProducerPhase.OPEN:
            return
        self._state.raise_if_fatal()
        if self.phase is ProducerPhase.ABORTABLE:
            raise self._state.abortable()
        raise NoTransactionError(
            f"a producer with a transactional_id sends in transactions only, and is"
            f" {self.phase.value}: async with producer.transaction()"
        )

    def touched(self) -> None:
        """Note that the cluster may know of this transaction from now on."""
        self._touched = True

    def lost(self, error: BaseException) -> None:
        """Note that something of the transaction failed for good."""
        if self.phase not in (ProducerPhase.OPEN, ProducerPhase.COMMITTING):
            return
        if isinstance(error, FATAL_ERRORS):
            # A new one, which is definite: nobody has asked for a commit.
            self._fail(type(error)(str(error)).because_of(error))
            return
        was_committing = self.phase is ProducerPhase.COMMITTING
        self._must_init = self._must_init or isinstance(error, InvalidProducerIdMappingError)
        self._state.move(ProducerPhase.ABORTABLE, error)
        self._discard(in_flight=was_committing)

    def _fail(self, error: BaseException) -> None:
        """End the producer with this error."""
        self._state.move(ProducerPhase.FATAL, error)
        logger.error("%s: no more transactions here: %s", self.transactional_id, error)
        self._end_history(error)
        self._discard(in_flight=True)
        self._accumulator.take_unobserved()  # every call says it from now on

    def _discard(self, *, in_flight: bool) -> None:
        cause = self._state.cause

        def reason() -> BaseException:
            why = "the transaction is aborted" + (f": {cause}" if cause is not None else "")
            error = TransactionAbortableError(why)
            error.__cause__ = cause
            return error

        self._accumulator.refuse_waiting(reason())  # first: what becomes free is not for them
        if self._sender is not None:
            self._sender.discard(reason, in_flight=in_flight)

    # ------------------------------------------------------------------------------ begin

    async def start(self, sender: Sender) -> None:
        """Take over the transactional id: aborts what a predecessor left open, and fences it.

        :raises ApiError: INVALID_TRANSACTION_TIMEOUT, INVALID_TXN_STATE,
            TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST.
        :raises DeadlineExceededError: no coordinator within ``max_block_ms``.
        """
        self._sender = sender
        loop = asyncio.get_running_loop()
        self._adopt(await self._calls.init(ProducerIdentity(), loop.time() + self._init_within_s))
        self._state.move(ProducerPhase.READY)

    def _adopt(self, identity: ProducerIdentity) -> None:
        self.identity = identity
        assert self._sender is not None
        self._sender.adopt(*identity)

    async def begin(self) -> None:
        """Open the next transaction."""
        self._state.raise_if_fatal()
        if self.phase is ProducerPhase.UNKNOWN:
            await self._settle()
        if self.phase is not ProducerPhase.READY:
            raise NoTransactionError(f"cannot begin: this producer is {self.phase.value}")
        self._touched, self._asked, self._indefinite = False, None, False
        self.serial += 1
        self._state.move(ProducerPhase.OPEN)
        self.history_number = self._history.begin_txn(self.transactional_id)

    def enter_block(self) -> None:
        """Note that the open transaction is a block from now on."""
        self.in_block = True

    def leave_block(self) -> None:
        """Note that the block is over, however the transaction ended."""
        self.in_block = False

    async def _settle(self) -> None:
        """Let the coordinator end what nobody knows the end of, and give a new epoch."""
        await self._safeguards.settle(self._init_anew)
        self._state.move(ProducerPhase.READY)

    async def _init_anew(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            identity = await self._calls.init(self.identity, loop.time() + self._init_within_s)
        except ApiError as error:
            if self.phase is ProducerPhase.UNKNOWN:
                self._fail(error)
            raise
        self._adopt(identity)
        self._must_init = False

    # ------------------------------------------------------------------------------ offsets

    async def send_offsets(
        self, offsets: Offsets, group: GroupMetadata, refused: Refused | None = None
    ) -> None:
        """Add offsets to the transaction.

        :param refused: hears that the group's coordinator does not take the member for one.
        """
        self.check_open()
        if not isinstance(group, GroupMetadata):
            raise TypeError(f"group_metadata: {type(group).__name__}: consumer.group_metadata()")
        checked = checked_offsets(offsets)
        if not checked:
            return
        self._touched = True
        serial, number = self.serial, self._invoke_offsets(checked, group)
        self._asking += 1
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._end_within_s
        try:
            await self._calls.commit_offsets(self.identity, checked, group, deadline)
        except BaseException as error:
            note_failure(self._history, number, error)
            if serial == self.serial:
                self._offsets_failed(error, group, refused)
            raise
        finally:
            self._asking -= 1
        self._history.ok(number, ())

    def _offsets_failed(
        self, error: BaseException, group: GroupMetadata, refused: Refused | None
    ) -> None:
        """Let the transaction fail by an error of its offsets.

        :raises TransactionAbortableError: because of the error; a fatal one raises itself.
        """
        if isinstance(error, NOT_A_MEMBER):
            if refused is not None:
                refused(group, error)
            cause, error = error, left_behind(group, error)
            error.__cause__ = cause
        self.lost(error)
        if isinstance(error, Exception):
            self._raise_if_spoiled()

    def _raise_if_spoiled(self) -> None:
        self._state.raise_if_fatal()
        if self.phase is ProducerPhase.ABORTABLE:
            raise self._state.abortable()

    def _invoke_offsets(self, offsets: Offsets, group: GroupMetadata) -> int:
        return self._history.invoke_group(
            "commit",
            group.group_id,
            group.member_id,
            group.generation_id,
            {tp: item.offset for tp, item in offsets.items()},
            self.history_number,
        )

    def send_what_is_open(self) -> None:
        """Send what was put in line, without waiting for more."""
        assert self._sender is not None
        self._accumulator.close_all()
        self._sender.wake()

    # ------------------------------------------------------------------------------ ends

    async def commit(self) -> None:
        """Commit the transaction; see ``Producer.commit_transaction``."""
        self._state.raise_if_fatal()
        if self.phase is ProducerPhase.UNKNOWN and self._asked:
            self._state.move(ProducerPhase.COMMITTING)
            await self._end(True)
            return
        if self.phase is ProducerPhase.ABORTABLE:
            raise self._state.abortable()
        if self.phase is not ProducerPhase.OPEN:
            raise NoTransactionError(f"cannot commit: this producer is {self.phase.value}")
        if self._asking:
            raise NoTransactionError("cannot commit: send_offsets is still under way, await it")
        self._state.move(ProducerPhase.COMMITTING)
        try:
            await self._flush()
        except BaseException as error:
            self.lost(error)
            raise
        self._raise_if_spoiled()
        await self._end(True)

    async def _flush(self) -> None:
        self.send_what_is_open()
        self._accumulator.refuse_waiting(NoTransactionError("the transaction is being committed"))
        for batch in list(self._accumulator.incomplete):
            await batch.wait()

    async def abort(self, within_s: float | None = None) -> None:
        """Abort the transaction; see ``Producer.abort_transaction``."""
        self._state.raise_if_fatal()
        if self.phase is ProducerPhase.UNKNOWN and self._asked is False:
            self._state.move(ProducerPhase.ABORTING)
        elif self.phase in (ProducerPhase.OPEN, ProducerPhase.ABORTABLE):
            self._state.move(ProducerPhase.ABORTING)
            self._discard(in_flight=True)
        else:
            raise NoTransactionError(
                f"cannot abort: this producer is {self.phase.value}"
                + (f": {self._state.cause}" if self.phase is ProducerPhase.UNKNOWN else "")
            )
        cause = self._state.cause or TransactionAbortableError("it was aborted")
        try:
            await self._end(False, within_s)
        finally:  # whoever ends it now, it is not committed
            self._end_history(cause)

    async def _end(self, commit: bool, within_s: float | None = None) -> None:
        """Ask for the end of a transaction whose phase is COMMITTING or ABORTING."""
        self._accumulator.take_unobserved()  # the end says it all
        if not self._touched:
            self._ended(commit)
            return
        if self._asked is None:
            self._history.ending_txn(self.history_number, commit)
        self._asked = commit
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._end_within_s if within_s is None else within_s)
        try:
            identity = await self._ask_end(commit, deadline)
        except BaseException as error:
            self._end_failed(error, commit)
            raise
        self._must_init = False
        self._adopt(identity)
        self._ended(commit)

    async def _ask_end(self, commit: bool, deadline: float) -> ProducerIdentity:
        if not self._must_init:
            try:
                return await self._calls.end(self.identity, commit, deadline)
            except InvalidProducerIdMappingError:
                if commit:
                    raise
        return await self._calls.init(self.identity, deadline)

    def _ended(self, commit: bool) -> None:
        self.serial += 1
        self._calls.counters.transaction_ended(commit)
        if commit and self.history_number >= 0:
            self._history.ok(self.history_number, ())
            self.history_number = -1
        self._state.move(ProducerPhase.READY)

    def _end_failed(self, error: BaseException, commit: bool) -> None:
        """Decide what a failed end means, and raise it; a fatal error ends the producer.

        :raises TransactionAbortableError: it is not committed and can be aborted.
        :raises TransactionOutcomeUnknownError: nobody knows.
        """
        unknown_id = isinstance(error, InvalidProducerIdMappingError)
        unasked = (unknown_id or isinstance(error, DeadlineExceededError)) and (
            is_definite(error) and not self._indefinite
        )
        if commit and (unasked or isinstance(error, TransactionAbortableError)):
            self._must_init = unknown_id
            self._state.move(ProducerPhase.ABORTABLE, error)
        elif isinstance(error, ApiError) and not is_retriable(error) and not unknown_id:
            if self._indefinite:
                error.may_have_acted()
            self._fail(error)
            return
        else:
            self._indefinite = True
            self._state.move(ProducerPhase.UNKNOWN, error)
            if commit and self.history_number >= 0:
                self._history.info(self.history_number, error)
                self.history_number = -1
        if not isinstance(error, Exception):
            return
        if self.phase is ProducerPhase.ABORTABLE:
            raise self._state.abortable() from error
        word = "committed" if commit else "aborted; it will not be committed"
        raise TransactionOutcomeUnknownError(
            f"{self.transactional_id}: nobody answered whether the transaction is {word}: {error}"
        ) from error

    def _end_history(self, error: BaseException) -> None:
        """Note in the history that nothing is committed, unless the error leaves that open."""
        if self.history_number >= 0:
            asked_commit = self._asked is True and not is_definite(error)
            end = self._history.info if asked_commit else self._history.fail
            end(self.history_number, error)
            self.history_number = -1

    async def close(self, within_s: float) -> None:
        """Abort what is open, as far as that is possible in ``within_s`` seconds.

        A transaction whose end nobody knows may be open still: the coordinator ends it.
        """
        if self.phase is ProducerPhase.UNKNOWN:
            await self._close_unknown()
        if self.phase not in (ProducerPhase.OPEN, ProducerPhase.ABORTABLE):
            return
        logger.warning("%s: closed in a transaction, which is aborted", self.transactional_id)
        try:
            await self.abort(within_s)
        except OncelogError as error:
            logger.warning("%s: it ends by its time-out: %s", self.transactional_id, error)

    async def _close_unknown(self) -> None:
        """Settle a transaction with an unknown end, for as long as the close may take."""
        try:
            await self._settle()
        except (OncelogError, OSError, asyncio.CancelledError) as error:
            logger.warning(
                "%s: closed while nobody knows how its last transaction ended; it is open until"
                " its time-out, unless it was committed: %r",
                self.transactional_id,
                error,
            )
            if isinstance(error, asyncio.CancelledError):
                raise
