"""The producer is the public class for sending, with and without transactions.

Rules: all calls of transactions need a ``transactional_id``. The four calls are Kafka's;
``transaction()`` is the short way, which cannot forget one. What their errors say about what comes
next is their ``kind``; see ``docs/transactions.md``.
"""

from __future__ import annotations

from oncelog.consumer.offset_metadata import GivenOffsets, GroupMetadata, checked_offsets
from oncelog.errors import ConfigurationError, NoTransactionError
from oncelog.producer.record_producer import RecordProducer
from oncelog.producer.sender import Sender
from oncelog.producer.transactions.calls import TxnCalls
from oncelog.producer.transactions.session import TransactionSession
from oncelog.producer.transactions.transaction import Elsewhere, Partaker, Transaction
from oncelog.producer.transactions.transactions import Transactions


class Producer(RecordProducer):
    """A producer sends records.

    Use it as ``async with Producer("localhost:9092") as producer: ...``.

    :param bootstrap_servers: "host:port,host:port" or a list of them: where to ask first.
    :param enable_idempotence: on unless ``acks`` or more than five requests in flight speak against
        it; True makes these an error.
    :param acks: "all" (every in-sync replica), 1 (the leader), 0 (nobody is asked).
    :param transactional_id: names this producer over restarts and lets it send in transactions, and
        only so. Of all producers with one id only the one started last can write; starting aborts
        what the one before left open.
    :param transaction_timeout_ms: after so long the coordinator aborts a transaction.
    :param linger_ms: how long a batch waits for more records.
    :param batch_size: bytes of a batch; :param buffer_memory: bytes of all, unacknowledged.
    :param delivery_timeout_ms: from a batch's first record to its acknowledgement, with retries.
    :param partitioner: "default" (xxh3 of the key; sticky without one), "murmur2" (as Kafka),
        "round_robin", "sticky", a function of (topic, key, partition_count), or an object.
    :param clock: stamps records; :param entropy: jitter and choices; :param history: a recorder of
        what was asked and known.

    Retries never write a record twice and never change the order (KIP-98). Where idempotence is off
    a retry after an indefinite error (a lost connection, say) may write a batch twice. A write that
    is not known to have failed is never reported so: see ``definite`` of the errors.
    """

    _transactions: Transactions | None = None

    # ------------------------------------------------------------------------------ the session

    def _new_session(self) -> TransactionSession | None:
        name = self._options.transactional_id
        if name is None:
            return None
        self._transactions = Transactions(
            TxnCalls(self._router, name, self._options.transaction_timeout_ms),
            self._accumulator,
            transactional_id=name,
            end_within_s=self._options.delivery_timeout_ms / 1000,
            init_within_s=self._router.options.max_block_ms / 1000,
            safeguards=self._safeguards,
        )
        return self._transactions

    async def _begin_session(self, sender: Sender) -> None:
        if self._transactions is not None:
            await self._transactions.start(sender)

    async def _end_session(self, within_s: float) -> None:
        if self._transactions is not None:
            await self._transactions.close(within_s)

    # ------------------------------------------------------------------------------ transactions

    def transaction(self, consumer: Partaker | Elsewhere | None = None) -> Transaction:
        """Return a block whose sends become visible all together, or none of them.

        Use it as ``async with producer.transaction() as txn: await txn.send(...)``. The end of the
        block commits; an exception aborts, and goes on its way. With a ``consumer`` (of a group)
        its positions are committed in the transaction: what was read in the block counts as read
        when, and only when, what was sent in it is visible. After an abort it is read again.

        :raises TransactionAbortableError: leaving the block: it was aborted, do it again.
        :raises TransactionOutcomeUnknownError: leaving the block: nobody knows.
        :raises ProducerFencedError: another producer has the transactional id now; stop.
        """
        return Transaction(self, self._in_transactions(), consumer, self.send_offsets)

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on belongs together.

        No broker is asked, unless nobody knows how the last one ended.

        :raises NoTransactionError: one is open.
        :raises ProducerFencedError: another producer has the transactional id now.
        """
        await self._outside_of_blocks().begin()

    async def send_offsets(self, offsets: GivenOffsets, group_metadata: GroupMetadata) -> None:
        """Add offsets of a group to the transaction, which commits them.

        :param group_metadata: ``consumer.group_metadata()``; a member that the group went on
            without is fenced by it (KIP-447).
        :raises TransactionAbortableError: refused; the transaction can only be aborted now.
        """
        await self._in_transactions().send_offsets(checked_offsets(offsets), group_metadata)

    async def commit_transaction(self) -> None:
        """Wait until everything that was sent is acknowledged, then commit.

        It is decided for good when this returns, and readers see it a moment later.

        :raises TransactionAbortableError: something of it failed (``__cause__``), or its time was
            over: ``abort_transaction`` and do it again.
        :raises TransactionOutcomeUnknownError: nobody knows; it may be called again.
        :raises ProducerFencedError: another producer has the transactional id now; ``definite``
            says whether the transaction is certainly not committed.
        :raises NoTransactionError: none is open.
        """
        await self._outside_of_blocks().commit()

    async def abort_transaction(self) -> None:
        """Make everything that was sent invisible for good, without waiting for acknowledgements.

        :raises TransactionOutcomeUnknownError: not confirmed; it will not be committed, and is
            ended by the next transaction, or by its time-out.
        :raises ProducerFencedError: another producer has the transactional id now.
        :raises NoTransactionError: none is open.
        """
        await self._outside_of_blocks().abort()

    def _in_transactions(self) -> Transactions:
        self._placing.check_running()
        if self._transactions is None:
            raise ConfigurationError("transactions need a producer with a transactional_id")
        return self._transactions

    def _outside_of_blocks(self) -> Transactions:
        transactions = self._in_transactions()
        if transactions.in_block:
            raise NoTransactionError("this transaction is a block: leaving it is its end")
        return transactions
