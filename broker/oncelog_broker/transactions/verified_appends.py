"""Batches of transactions enter a partition in order here, and never unverified [K13].

Rules
-----
* The first batch of a transaction in a partition waits until the coordinator knows of the partition
  (``TransactionVerifier``). It is appended under a guard that was taken before the coordinator was
  asked, is one of its kind, and is void when the transaction has ended here meanwhile, or the
  leadership has. A void guard asks anew; nothing else can say whether the batch is late.
* Whatever of the same producer comes for the same partition meanwhile waits behind it, in order.
  When the first is refused those of its transaction behind it are refused like it: their sequences
  would have a gap. Those of another transaction are verified for themselves: a late batch of an old
  one must not condemn the next.
* A batch that waits holds a copy of its bytes: the receive buffer is gone. All of a broker together
  hold ``PENDING_BYTES_MAX``; above that a batch is refused, retriably.
* A batch whose connection has gone is not appended: its producer asks again elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.transactions.ports import Verifier
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    InvalidTxnStateError,
    error_for,
)
from oncelog_protocol.records.batch import BatchHeader, parse_header
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

if TYPE_CHECKING:
    from oncelog_broker.log.log_producers import TxnGuard

logger = get_logger(__name__)

PENDING_BYTES_MAX = 256 * 1024 * 1024
"""All batches of one broker that wait for a coordinator may have so many bytes together."""

GUARDS_MAX = 3
"""So often one batch asks the coordinator, when its guards keep becoming void."""


@dataclass(slots=True, eq=False)
class TxnBatch:
    """It is one batch of a transaction. ``append`` is called when its turn has come, with the bytes
    and the guard, or ``refuse`` with the reason; one of them at most, once. Neither may raise."""

    transactional_id: str
    partition: TopicPartition
    batch: memoryview
    append: Callable[[memoryview, TxnGuard | None], None]
    refuse: Callable[[ApiError], None]
    is_gone: Callable[[], bool]
    """It returns whether nobody waits for an answer any more."""
    by_number: bool = False
    """Its transaction ends by number, so its client has added the partition [N112]."""


@dataclass(slots=True, eq=False)
class _Queue:
    """It keeps batches of one producer for one partition; the first of them is being verified."""

    batches: deque[TxnBatch] = field(default_factory=deque)
    guards: int = 0
    """The first batch has taken so many."""


class VerifiedAppends:
    """It takes batches of transactions into the partitions of this broker."""

    def __init__(self, replicas: ReplicaManager, verifier: Verifier) -> None:
        self._replicas = replicas
        self._verifier = verifier
        self._queues: dict[tuple[TopicPartition, int], _Queue] = {}
        self.pending_bytes = 0
        """The batches that wait have so many bytes."""

    def submit(self, batch: TxnBatch) -> None:
        """Append ``batch`` now, or when the coordinator knows of it. Its bytes are copied if they
        must wait.

        :raises ApiError, ProtocolError, OSError: it is refused at once; neither of its callbacks is
            called.
        """
        header = parse_header(batch.batch)
        key = batch.partition, header.producer_id
        queue = self._queues.get(key)
        if queue is None:
            guard = self._guard(batch, header)
            if guard is None:
                batch.append(batch.batch, None)
                return
        size = len(batch.batch)
        if self.pending_bytes + size > PENDING_BYTES_MAX:
            raise ConcurrentTransactionsError("too much waits for transaction coordinators")
        batch.batch = memoryview(bytearray(batch.batch))
        self.pending_bytes += size
        if queue is not None:
            queue.batches.append(batch)
            return
        queue = self._queues[key] = _Queue()
        queue.batches.append(batch)
        self._verify(key, queue, header.producer_epoch, guard)

    def _guard(self, batch: TxnBatch, header: BatchHeader) -> TxnGuard | None:
        """Return the guard under which the batch must be verified, or None: its transaction is open
        here, it repeats what is here, or the log refuses it anyway.

        :raises ApiError: the partition is not led here.
        """
        partition = self._replicas.partition(batch.partition)
        partition.leader_role()
        producers = partition.log.producers
        if not producers.needs_guard(header):
            return None
        return producers.take_guard(
            header.producer_id, header.producer_epoch, by_number=batch.by_number
        )

    def _verify(
        self, key: tuple[TopicPartition, int], queue: _Queue, epoch: int, guard: TxnGuard | None
    ) -> None:
        queue.guards += 1
        first = queue.batches[0]
        verified = partial(self._verified, key, queue, guard)
        if first.by_number:
            self._verifier.verify_number(
                first.transactional_id, key[1], epoch, key[0], lambda code, _: verified(code)
            )
        else:
            self._verifier.verify(first.transactional_id, key[1], epoch, key[0], verified)

    def _verified(
        self,
        key: tuple[TopicPartition, int],
        queue: _Queue,
        guard: TxnGuard | None,
        error_code: int,
    ) -> None:
        """Go on with ``queue``, about whose first batch the coordinator has answered."""
        if error_code:
            self._refuse_transaction(queue, error_for(error_code))
            guard, queue.guards = None, 0
        # One after the other, until one must be verified itself (of the next transaction).
        while queue.batches:
            first = queue.batches[0]
            if not first.is_gone():
                again, error = self._append(first, guard, queue.guards)
                if again is not None:
                    self._verify(key, queue, parse_header(first.batch).producer_epoch, again)
                    return
                if error is not None:
                    first.refuse(error)
            self._pop(queue)
            guard, queue.guards = None, 0
        del self._queues[key]

    def _append(
        self, batch: TxnBatch, guard: TxnGuard | None, guards: int
    ) -> tuple[TxnGuard | None, ApiError | None]:
        """Append it and return (None, None); or return a guard under which to verify it, or why it
        is refused."""
        try:
            if guard is None or not guard.valid:
                needed = self._guard(batch, parse_header(batch.batch))
                if needed is not None:
                    if guards >= GUARDS_MAX:
                        raise InvalidTxnStateError("its transaction has ended")
                    return needed, None
                guard = None
            batch.append(batch.batch, guard)
        except ApiError as error:
            return None, error
        except Exception:
            # A bug. Its producer gets no answer and asks again; those behind it must go on.
            logger.exception("transaction_batch_failed", partition=batch.partition)
        return None, None

    def _refuse_transaction(self, queue: _Queue, error: ApiError) -> None:
        """Refuse the first batch, and those behind it that are of the same transaction."""
        first = queue.batches[0]
        header = parse_header(first.batch)
        epoch = header.producer_epoch
        logger.debug(
            "transaction_batch_refused",
            partition=first.partition,
            producer_id=header.producer_id,
            error=error,
        )
        while queue.batches and parse_header(queue.batches[0].batch).producer_epoch == epoch:
            self._pop(queue).refuse(error)

    def _pop(self, queue: _Queue) -> TxnBatch:
        batch = queue.batches.popleft()
        self.pending_bytes -= len(batch.batch)
        return batch
