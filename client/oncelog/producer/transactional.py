"""The part of a producer that only transactions need: begin, offsets, commit, abort.

Rules: all of it needs a ``transactional_id``. The four calls are Kafka's; ``transaction()`` is the
short way, which cannot forget one. What their errors say about what comes next is their ``kind``;
see ``docs/transactions.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata, checked_offsets
from oncelog.errors import ConfigurationError, NoTransactionError
from oncelog.producer.transaction import Partaker, Transaction
from oncelog.producer.transactions import Transactions
from oncelog_protocol.types import TopicPartition

if TYPE_CHECKING:
    from oncelog.consumer.consumer import Consumer
    from oncelog.producer.producer import Producer


class Transactional:
    """What ``Producer`` is besides."""

    _transactions: Transactions | None

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """``async with producer.transaction() as txn: await txn.send(...)``: all of it, or nothing.

        The end of the block commits; an exception aborts, and goes on its way. With a ``consumer``
        (of a group) its positions are committed in the transaction: what was read in the block
        counts as read when, and only when, what was sent in it is visible. Aborted, it is read
        again.

        :raises TransactionAbortableError: leaving the block: it was aborted, do it again.
        :raises TransactionOutcomeUnknownError: leaving the block: nobody knows.
        :raises ProducerFencedError: another producer has the transactional id now; stop.
        """
        self._check_usable()
        return Transaction(
            cast("Producer", self), self._in_transactions(), cast("Partaker | None", consumer)
        )

    async def begin_transaction(self) -> None:
        """Begin: what is sent from now on belongs together. Asks nobody, unless nobody knew how the
        last one ended.

        :raises NoTransactionError: one is open.
        :raises ProducerFencedError: another producer has the transactional id now.
        """
        self._check_usable()
        await self._outside_of_blocks().begin()

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: GroupMetadata,
    ) -> None:
        """Make offsets of a group a part of the transaction: they are committed with it.

        :param group_metadata: ``consumer.group_metadata()``; a member that the group went on
            without is fenced by it (KIP-447).
        :raises TransactionAbortableError: refused; the transaction can only be aborted now.
        """
        self._check_usable()
        await self._in_transactions().send_offsets(checked_offsets(offsets), group_metadata)

    async def commit_transaction(self) -> None:
        """Wait until everything that was sent is acknowledged, then commit. It is decided for good
        when this returns, and readers see it a moment later.

        :raises TransactionAbortableError: something of it failed (``__cause__``), or its time was
            over: ``abort_transaction`` and do it again.
        :raises TransactionOutcomeUnknownError: nobody knows; it may be called again.
        :raises ProducerFencedError: another producer has the transactional id now; ``definite``
            says whether the transaction is certainly not committed.
        :raises NoTransactionError: none is open.
        """
        self._check_usable()
        await self._outside_of_blocks().commit()

    async def abort_transaction(self) -> None:
        """Make everything that was sent invisible for good; waits for no acknowledgement.

        :raises TransactionOutcomeUnknownError: not confirmed; it will not be committed, and is
            ended by the next transaction, or by its time-out.
        :raises ProducerFencedError: another producer has the transactional id now.
        :raises NoTransactionError: none is open.
        """
        self._check_usable()
        await self._outside_of_blocks().abort()

    def _in_transactions(self) -> Transactions:
        if self._transactions is None:
            raise ConfigurationError("transactions need a producer with a transactional_id")
        return self._transactions

    def _outside_of_blocks(self) -> Transactions:
        transactions = self._in_transactions()
        if transactions.block is not None:
            raise NoTransactionError("this transaction is a block: leaving it is its end")
        return transactions

    def _check_usable(self) -> None:
        raise NotImplementedError
