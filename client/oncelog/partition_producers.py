"""What partitions know of their producers, asked of the leaders (KIP-664).

Rules: one request a leader; partitions whose leader has moved are asked about again after a
metadata refresh, until the deadline; what is wrong with one partition stands with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from oncelog.coordinators import attempt_deadline
from oncelog.errors import (
    ApiError,
    DeadlineExceededError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    is_retriable,
)
from oncelog.router import Failure, Router
from oncelog.transaction_results import PartitionProducers, ProducerDescription
from oncelog_protocol.errors import RequestTimedOutError, error_for
from oncelog_protocol.messages import transaction_admin as wire
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import NO_LEADER, TopicPartition


async def describe_producers(
    router: Router, partitions: Iterable[TopicPartition], deadline: float
) -> list[PartitionProducers]:
    """One answer a partition, in the order of asking. ``deadline`` is in the loop's time."""
    named = [TopicPartition(*tp) for tp in dict.fromkeys(partitions)]
    topics = list(dict.fromkeys(tp.topic for tp in named))
    errors = await asyncio.gather(*(find_topic_error(router, topic, deadline) for topic in topics))
    of_topic = dict(zip(topics, errors, strict=True))
    found: dict[TopicPartition, PartitionProducers] = {}
    for tp in named:
        error = of_topic[tp.topic] or find_partition_error(router, tp)
        if error is not None:
            found[tp] = PartitionProducers(tp, error)
    left = [tp for tp in named if tp not in found]
    if left:
        await _Questions(router, left, found, deadline).ask()
    return [found[tp] for tp in named]


def leader_of(router: Router, tp: TopicPartition) -> int:
    """The broker id of the leader, as far as is known.

    :raises LeaderNotAvailableError: it has none at the moment.
    """
    leader = router.cluster.leader(tp)
    if leader == NO_LEADER:
        raise LeaderNotAvailableError(f"{tp} has no leader at the moment")
    return leader


class _Questions:
    """Partitions that are asked about until each has an answer in ``found``."""

    def __init__(
        self,
        router: Router,
        partitions: list[TopicPartition],
        found: dict[TopicPartition, PartitionProducers],
        deadline: float,
    ) -> None:
        self._router = router
        self._partitions = partitions
        self._found = found
        self._deadline = deadline
        self._failed: dict[TopicPartition, BaseException] = {}

    async def ask(self) -> None:
        try:
            await self._router.retry(self._attempt, self._deadline, "DescribeProducers")
        except DeadlineExceededError as error:
            for tp in self._partitions:
                if tp not in self._found:
                    cause = self._failed.get(tp, error)
                    self._found[tp] = PartitionProducers(tp, as_api_error(str(tp), cause))

    async def _attempt(self) -> None:
        self._failed.clear()
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in self._partitions:
            if tp in self._found:
                continue
            try:
                by_leader.setdefault(leader_of(self._router, tp), []).append(tp)
            except LeaderNotAvailableError as error:
                self._failed[tp] = error
        await asyncio.gather(*(self._ask(leader, some) for leader, some in by_leader.items()))
        for failure in self._failed.values():
            raise failure

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> None:
        topics: dict[str, TxnTopic] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, TxnTopic(tp.topic, [])).partitions.append(tp.partition)
        request = wire.DescribeProducersRequest(list(topics.values()))
        try:
            response = await self._router.call_broker(
                leader, request, attempt_deadline(self._deadline)
            )
            if response.error_code:
                raise error_for(response.error_code)
        except Failure as error:
            for tp in partitions:
                if is_retriable(error):
                    self._failed[tp] = error
                else:
                    self._found[tp] = PartitionProducers(tp, as_api_error(str(tp), error))
            return
        for topic in response.topics:
            for item in topic.partitions:
                self._take(TopicPartition(topic.topic, item.partition), item)

    def _take(self, tp: TopicPartition, item: wire.DescribeProducersPartition) -> None:
        error = None
        if item.error_code:
            refusal = error_for(item.error_code)
            error = type(refusal)(f"{tp}: {refusal}")
            if error.retriable:
                self._failed[tp] = error
                return
        producers = tuple(_producer(each) for each in item.producers)
        self._found[tp] = PartitionProducers(tp, error, producers)


def _producer(item: wire.DescribedProducer) -> ProducerDescription:
    def known(value: int) -> int | None:
        return None if value < 0 else value

    return ProducerDescription(
        item.producer_id,
        item.producer_epoch,
        known(item.last_sequence),
        known(item.last_timestamp_ms),
        known(item.coordinator_epoch),
        known(item.txn_start_offset),
    )


async def find_topic_error(router: Router, topic: str, deadline: float) -> ApiError | None:
    """Why nobody can be asked about a topic; None when somebody can."""
    try:
        await router.topic(topic, deadline)
    except (ApiError, DeadlineExceededError) as error:
        return as_api_error(topic, error)
    return None


def find_partition_error(router: Router, tp: TopicPartition) -> ApiError | None:
    """The same of a partition of a topic that is known."""
    if router.cluster.partition(tp) is not None:
        return None
    return UnknownTopicOrPartitionError(f"there is no partition {tp}")


def as_api_error(name: str, error: BaseException) -> ApiError:
    """What stands at an item: the broker's word, or that nobody answered in time."""
    if isinstance(error, ApiError):
        return error
    return RequestTimedOutError(f"{name}: {error}")
