"""Leaders are asked what partitions know of their producers (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.admin.calls import known
from oncelog.admin.transaction_results import PartitionProducers, ProducerDescription
from oncelog.core.coordinators import attempt_deadline
from oncelog.core.partition_leaders import LeaderQuestion
from oncelog.core.router import Router
from oncelog.errors import ApiError
from oncelog_protocol.messages import transaction_admin as wire
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import TopicPartition


async def describe_producers(
    router: Router, partitions: Iterable[TopicPartition], deadline: float
) -> list[PartitionProducers]:
    """Ask the leaders for the producers of partitions, and return them in the order of asking.
    ``deadline`` is in the loop's time.

    Leaders answer in pages: a partition is asked about until it has told all its producers, and has
    an error and none of them if that was not possible.
    """
    question = _ProducersQuestion(router, partitions, deadline)
    found = await question.ask()
    return [
        await _whole(router, answer, deadline) if answer.partition in question.more else answer
        for answer in found
    ]


async def _whole(router: Router, page: PartitionProducers, deadline: float) -> PartitionProducers:
    producers, more = list(page.producers), True
    while more:
        after = producers[-1].producer_id if producers else -1
        question = _ProducersQuestion(router, [page.partition], deadline, after=after)
        (page,) = await question.ask()
        if page.error is not None:
            return page
        producers += page.producers
        more = page.partition in question.more and bool(page.producers)
    return PartitionProducers(page.partition, None, tuple(producers))


class _ProducersQuestion(LeaderQuestion[PartitionProducers]):
    name = "DescribeProducers"

    def __init__(
        self,
        router: Router,
        partitions: Iterable[TopicPartition],
        deadline: float,
        *,
        after: int = -1,
    ) -> None:
        super().__init__(router, partitions, deadline)
        self._after = after
        self.more: dict[TopicPartition, None] = {}
        """Partitions that have more producers than they have told."""

    def request(
        self, partitions: list[TopicPartition]
    ) -> tuple[wire.DescribeProducersRequest, float]:
        topics: dict[str, TxnTopic] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, TxnTopic(tp.topic, [])).partitions.append(tp.partition)
        request = wire.DescribeProducersRequest(list(topics.values()), self._after)
        return request, attempt_deadline(self._deadline)

    def outcome(
        self,
        tp: TopicPartition,
        error: ApiError | None,
        item: wire.DescribeProducersPartition | None,
    ) -> PartitionProducers:
        if item is not None and item.more:
            self.more[tp] = None
        producers = () if item is None else tuple(_producer(each) for each in item.producers)
        return PartitionProducers(tp, error, producers)


def _producer(item: wire.DescribedProducer) -> ProducerDescription:
    return ProducerDescription(
        item.producer_id,
        item.producer_epoch,
        known(item.last_sequence),
        known(item.last_timestamp_ms),
        known(item.coordinator_epoch),
        known(item.txn_start_offset),
    )
