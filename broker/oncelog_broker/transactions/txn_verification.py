"""A leader asks the coordinator before it appends the first batch of a transaction (KIP-890).

Rules
-----
* Asking is adding: once the coordinator has answered 0 it knows, durably, that the partition is to
  get a marker when that very transaction (producer id and epoch) ends.
* A transaction that ends by number is added to by its client alone: of that one it is only asked
  whether the partition is in it, and which number it has [N112].
* The coordinator is found by what this broker knows of the cluster; this broker itself is asked
  without a socket. What is asked of another broker while all lanes to it are busy leaves together,
  in one request, with the next lane that is free. What is asked again has lanes of its own, so that
  a transaction that goes on ending holds up only itself.
* Whatever says nothing of the transaction (no connection, another coordinator, one that loads, the
  last transaction being ended) is asked again within ``VERIFY_S``; then the answer is
  COORDINATOR_NOT_AVAILABLE, or CONCURRENT_TRANSACTIONS. Both are retriable: nothing was appended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from oncelog_broker.transactions.ports import (
    AddsPartitions,
    BrokerCallsPort,
    ClusterView,
    TopicSizes,
)
from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidTxnStateError,
    NotCoordinatorError,
    OncelogError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnTopic,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

VERIFY_S = 5.0
ATTEMPT_S = 2.0
"""One request to another broker may take so long before its connection is given up."""

PAUSE_S = 0.01
PAUSE_S_MAX = 0.2
"""It is asked again after a pause, which doubles up to this maximum."""

LANES = 4
LANES_AGAIN = 2
"""So many requests go to one broker at a time: the answer to one may have to wait for a transaction
that is still being ended."""

BATCH_MAX = 1000
"""One request has so many questions."""

_ASK_AGAIN = frozenset(
    error.code
    for error in (
        ConcurrentTransactionsError,
        CoordinatorLoadInProgressError,
        CoordinatorNotAvailableError,
        NotCoordinatorError,
        RequestTimedOutError,
        UnknownTopicOrPartitionError,  # the coordinator has yet to hear of the topic
    )
)


_Key = tuple[str, int, int, bool]


@dataclass(slots=True, eq=False)
class _PendingVerification:
    """It asks whether a partition is in a transaction."""

    added: AddedTransaction
    callback: Callable[[int, int], None]
    """It gets the error code and the number."""
    deadline_s: float
    pause_s: float = PAUSE_S
    again: bool = False

    @property
    def key(self) -> _Key:
        """Return what names the transaction, and what is asked of it."""
        added = self.added
        return (
            added.transactional_id,
            added.producer_id,
            added.producer_epoch,
            added.verify_only,
        )


class _Broker:
    """It keeps the questions to one broker, asked for the first time or again, and which lanes are
    free."""

    __slots__ = ("free", "queue")

    def __init__(self, *, again: bool) -> None:
        self.queue: deque[_PendingVerification] = deque()
        self.free = list(range(LANES, LANES + LANES_AGAIN) if again else range(LANES))


class TransactionVerifier:
    """It asks for this broker's partitions. It is made open; ``close`` ends it."""

    def __init__(
        self,
        *,
        broker_id: int,
        image: ClusterView,
        topics: TopicSizes,
        calls: BrokerCallsPort,
        transactions: AddsPartitions,
        tasks: Tasks,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._topics = topics
        self._calls = calls
        self._transactions = transactions
        self._tasks = tasks
        self._brokers: dict[tuple[int, bool], _Broker] = {}
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int], None],
    ) -> None:
        """Have the partition added to the transaction; ``callback`` gets 0 once it is, or why not.

        It is called once, at once or later. Codes: those of AddPartitionsToTxn that are not tried
        again, COORDINATOR_NOT_AVAILABLE, CONCURRENT_TRANSACTIONS.
        """
        topics = [TxnTopic(topic_partition.topic, [topic_partition.partition])]
        added = AddedTransaction(transactional_id, producer_id, producer_epoch, topics)
        self._begin(added, lambda code, _: callback(code))

    def verify_number(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int, int], None],
    ) -> None:
        """Ask whether the partition is in the transaction, which ends by number; ``callback`` gets
        0 and its number, or a code as ``verify`` gives it and 0.

        It is INVALID_TXN_STATE for a transaction that ends in the other way.
        """
        topics = [TxnTopic(topic_partition.topic, [topic_partition.partition])]
        added = AddedTransaction(transactional_id, producer_id, producer_epoch, topics, True)

        def answered(code: int, number: int) -> None:
            if not code and number < 1:
                code = InvalidTxnStateError.code
            callback(code, 0 if code else number)

        self._begin(added, answered)

    def _begin(self, added: AddedTransaction, callback: Callable[[int, int], None]) -> None:
        self._ask(_PendingVerification(added, callback, self._loop.time() + VERIFY_S))

    def close(self) -> None:
        """Ask nothing any more; callers that wait are told COORDINATOR_NOT_AVAILABLE."""
        self._closed = True
        for broker in self._brokers.values():
            waiting, broker.queue = broker.queue, deque()
            for pending in waiting:
                pending.callback(CoordinatorNotAvailableError.code, 0)

    # ---- asking

    def _ask(self, pending: _PendingVerification) -> None:
        if self._closed or self._tasks.closed:
            pending.callback(CoordinatorNotAvailableError.code, 0)
            return
        coordinator = self._coordinator(pending.added.transactional_id)
        if coordinator is None:
            self._answered(pending, CoordinatorNotAvailableError.code)
        elif coordinator == self._broker_id and not self._knows(pending.added):
            self._answered(pending, UnknownTopicOrPartitionError.code)
        elif coordinator == self._broker_id:
            self._transactions.add_partitions(pending.added, partial(self._answered_here, pending))
        else:
            key = coordinator, pending.again
            broker = self._brokers.get(key)
            if broker is None:
                broker = self._brokers[key] = _Broker(again=pending.again)
            broker.queue.append(pending)
            if broker.free:
                lane = broker.free.pop(0)
                name = f"verifying transactions at broker {coordinator}"
                self._tasks.spawn(name, self._run(coordinator, broker, lane))

    def _knows(self, added: AddedTransaction) -> bool:
        """Return whether the partitions are known here, as AddPartitionsToTxn asks on the other
        path: this broker may lead one before it was told who else does."""
        return all(
            self._image.partition(TopicPartition(topic.topic, partition)) is not None
            for topic in added.topics
            for partition in topic.partitions
        )

    def _coordinator(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates the id, if that is known and it lives."""
        count = self._topics.partition_count(TRANSACTION_TOPIC)
        if count is None:
            return None
        number = coordinator_partition(transactional_id, count)
        state = self._image.partition(TopicPartition(TRANSACTION_TOPIC, number))
        if state is None or state.leader not in self._image.brokers:
            return None
        return state.leader

    async def _run(self, coordinator: int, broker: _Broker, lane: int) -> None:
        try:
            while broker.queue:
                count = min(len(broker.queue), BATCH_MAX)
                batch = [broker.queue.popleft() for _ in range(count)]
                await self._ask_broker(coordinator, lane, batch)
        finally:
            broker.free.append(lane)
            broker.free.sort()

    async def _ask_broker(
        self, coordinator: int, lane: int, batch: list[_PendingVerification]
    ) -> None:
        """Ask in one request; every question of ``batch`` is answered, or asked again later."""
        merged: dict[_Key, AddedTransaction] = {}
        for pending in batch:
            added = pending.added
            transaction = merged.setdefault(
                pending.key,
                AddedTransaction(
                    added.transactional_id,
                    added.producer_id,
                    added.producer_epoch,
                    [],
                    added.verify_only,
                ),
            )
            transaction.topics += added.topics
        request = AddPartitionsToTxnRequest(list(merged.values()))
        found: dict[_Key, AddPartitionsResult] = {}
        try:
            response: AddPartitionsToTxnResponse = await self._calls.call(
                coordinator, request, timeout_s=ATTEMPT_S, lane=lane
            )
            if response.error_code == 0 and len(response.results) == len(merged):
                found = _found(merged, response.results)
            else:
                logger.info(
                    "transaction_verification_refused",
                    broker_id=coordinator,
                    error_code=response.error_code,
                )
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info("transaction_verification_failed", broker_id=coordinator, error=error)
        for question in batch:
            result = found.get(question.key)
            if result is None:
                self._answered(question, CoordinatorNotAvailableError.code)
            else:
                self._answered(question, result.error_code, result.number)

    # ---- answers

    def _answered_here(self, pending: _PendingVerification, result: AddPartitionsResult) -> None:
        self._answered(pending, result.error_code, result.number)

    def _answered(self, pending: _PendingVerification, error_code: int, number: int = 0) -> None:
        if error_code not in _ASK_AGAIN:
            pending.callback(error_code, number)
            return
        pending.again = True
        pause_s, pending.pause_s = pending.pause_s, min(2 * pending.pause_s, PAUSE_S_MAX)
        if self._closed or self._loop.time() + pause_s > pending.deadline_s:
            if error_code != ConcurrentTransactionsError.code:
                error_code = CoordinatorNotAvailableError.code
            pending.callback(error_code, 0)
        else:
            self._loop.call_later(pause_s, self._ask, pending)


def _found(
    asked: Iterable[_Key], results: list[AddPartitionsResult]
) -> dict[_Key, AddPartitionsResult]:
    """Return the answers by transaction; they come in the order of asking."""
    return {
        key: result
        for key, result in zip(asked, results, strict=True)
        if result.transactional_id == key[0]
    }
