"""One transaction is a block: ``async with producer.transaction() as txn``.

Rules
-----
* The block's end commits, an exception that leaves it aborts. A commit that turns out impossible
  aborts too, and says so with TransactionAbortableError: the block may be done again.
* With a consumer its positions are a part of the transaction: committed with it, and taken back
  when it aborts, so that what was read in the block is read again.
* What is sent through a transaction that is over is refused, whatever goes on in the producer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from oncelog.consumer.offset_metadata import GivenOffsets, GroupMetadata, OffsetAndMetadata
from oncelog.errors import (
    ApiError,
    NoTransactionError,
    OncelogError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
    is_definite,
)
from oncelog.producer.record_producer import RecordProducer
from oncelog.producer.transactions.sending import Sending
from oncelog.producer.transactions.state import ProducerPhase
from oncelog.producer.transactions.transactions import Transactions
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")

SendOffsets = Callable[[GivenOffsets, GroupMetadata], Awaitable[None]]
"""``Producer.send_offsets``."""

LEAVE_WITHIN_S = 5.0
"""How long an abort may take when the block was cancelled; the time-out does it all the same."""


class ConsumerPart(Protocol):
    """A transaction takes this of a consumer: see ``consumer.in_transaction``."""

    def commits(self) -> tuple[dict[TopicPartition, OffsetAndMetadata], GroupMetadata]:
        """Return the positions that moved, and who commits them."""
        ...

    def refused(self, who: GroupMetadata, error: ApiError) -> None:
        """Note that the group's coordinator does not take ``who`` for a member."""
        ...

    def committed(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Note that the transaction is committed, with these offsets."""
        ...

    def aborted(self) -> None:
        """Note that the transaction is certainly not committed."""
        ...

    def unknown(self) -> None:
        """Note that nobody knows how the transaction ended."""
        ...


class Partaker(Protocol):
    """A consumer that can take part in a transaction has this."""

    def _join_transaction(self) -> ConsumerPart: ...


class Loop(Protocol):
    """Work can be done on another event loop than the producer's."""

    async def visit(self, work: Callable[[], T]) -> T:
        """Do ``work`` there, and wait for it here."""
        ...

    def tell(self, work: Callable[[], object]) -> None:
        """Do ``work`` there, soon."""
        ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """This consumer belongs to another loop than the producer."""

    consumer: Partaker
    loop: Loop


class Transaction(Sending):
    """``Producer.transaction`` makes it: its records all become visible, or none does."""

    def __init__(
        self,
        producer: RecordProducer,
        transactions: Transactions,
        consumer: Partaker | Elsewhere | None,
        send_offsets: SendOffsets,
    ) -> None:
        super().__init__(producer)
        self._transactions = transactions
        self._send_group_offsets = send_offsets
        self._loop: Loop | None = None
        """Where the consumer lives, if not here."""
        self._consumer: Partaker | None
        if isinstance(consumer, Elsewhere):
            self._consumer, self._loop = consumer.consumer, consumer.loop
        else:
            self._consumer = consumer
        self._part: ConsumerPart | None = None
        self._serial = -1
        self._aborted = False

    async def __aenter__(self) -> Transaction:
        if self._serial >= 0:
            raise NoTransactionError("a transaction is entered once")
        await self._transactions.begin()
        self._transactions.enter_block()
        self._serial = self._transactions.serial
        if self._consumer is not None:
            try:
                self._part = await self._at_consumer(self._consumer._join_transaction)
            except BaseException:
                self._transactions.leave_block()
                await self._transactions.abort()
                raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if self._aborted:
                return
            if error is None:
                await self._commit()
            elif self._transactions.phase in (ProducerPhase.OPEN, ProducerPhase.ABORTABLE):
                await self._abort_after(error)
            else:  # fenced
                await self._settle_part(error)
        finally:
            self._transactions.leave_block()

    # ------------------------------------------------------------------------------ sending

    async def send_offsets(self, offsets: GivenOffsets, group_metadata: GroupMetadata) -> None:
        """Add offsets of a group, as ``Producer.send_offsets`` does."""
        self._check()
        await self._send_group_offsets(offsets, group_metadata)

    async def abort(self) -> None:
        """Abort now as ``Producer.abort_transaction``; the block goes on, and sends nothing."""
        self._check()
        self._aborted = True
        try:
            await self._transactions.abort()
        finally:
            await self._take_back()

    def _check(self) -> None:
        if self._aborted or self._serial != self._transactions.serial:
            raise NoTransactionError("this transaction has not begun, or is over")

    # ------------------------------------------------------------------------------ ends

    async def _commit(self) -> None:
        part = self._part
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        try:
            if part is not None:
                offsets, who = await self._at_consumer(part.commits)
                if offsets:  # while the last records are on their way
                    self._transactions.send_what_is_open()
                    await self._transactions.send_offsets(offsets, who, self._refused)
            await self._transactions.commit()
        except BaseException as error:
            if self._transactions.phase in (ProducerPhase.OPEN, ProducerPhase.ABORTABLE):
                await self._abort_after(error)
                if isinstance(error, OncelogError) and not isinstance(
                    error, TransactionAbortableError
                ):
                    raise TransactionAbortableError(
                        f"the transaction was aborted: {error}"
                    ) from error
            else:
                await self._settle_part(error)
            raise
        if part is not None:
            await self._at_consumer(partial(part.committed, offsets))

    async def _abort_after(self, error: BaseException) -> None:
        """Abort because of ``error``, which the caller hears whatever comes of the abort."""
        leaving = isinstance(error, asyncio.CancelledError)
        try:
            await self._transactions.abort(LEAVE_WITHIN_S if leaving else None)
        except OncelogError as failure:
            logger.warning("after %r the abort failed: %s", error, failure)
        finally:
            await self._take_back()

    async def _settle_part(self, error: BaseException) -> None:
        """Tell the consumer that the end failed: it reads on from where that leaves it."""
        if self._part is None:
            return
        unknown = isinstance(error, TransactionOutcomeUnknownError) or not is_definite(error)
        if unknown or self._transactions.phase is ProducerPhase.UNKNOWN:
            await self._at_consumer(self._part.unknown)
        else:
            await self._at_consumer(self._part.aborted)

    async def _take_back(self) -> None:
        """Move the consumer back: nothing of the transaction was committed, nor will be."""
        if self._part is not None:
            await self._at_consumer(self._part.aborted)

    # ------------------------------------------------------------------------------ the consumer

    async def _at_consumer(self, work: Callable[[], T]) -> T:
        """Do ``work`` where the consumer lives."""
        return work() if self._loop is None else await self._loop.visit(work)

    def _refused(self, who: GroupMetadata, error: ApiError) -> None:
        assert self._part is not None
        if self._loop is None:
            self._part.refused(who, error)
        else:
            self._loop.tell(partial(self._part.refused, who, error))
