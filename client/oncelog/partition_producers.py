"""What partitions know of their producers, asked of the leaders (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.coordinators import attempt_deadline
from oncelog.errors import ApiError
from oncelog.partition_leaders import LeaderQuestion
from oncelog.router import Router
from oncelog.transaction_results import PartitionProducers, ProducerDescription
from oncelog_protocol.messages import transaction_admin as wire
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import TopicPartition


async def describe_producers(
    router: Router, partitions: Iterable[TopicPartition], deadline: float
) -> list[PartitionProducers]:
    """One answer a partition, in the order of asking. ``deadline`` is in the loop's time."""
    return await _ProducersQuestion(router, partitions, deadline).ask()


class _ProducersQuestion(LeaderQuestion[PartitionProducers]):
    name = "DescribeProducers"

    def request(
        self, partitions: list[TopicPartition]
    ) -> tuple[wire.DescribeProducersRequest, float]:
        topics: dict[str, TxnTopic] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, TxnTopic(tp.topic, [])).partitions.append(tp.partition)
        request = wire.DescribeProducersRequest(list(topics.values()))
        return request, attempt_deadline(self._deadline)

    def outcome(
        self,
        tp: TopicPartition,
        error: ApiError | None,
        item: wire.DescribeProducersPartition | None,
    ) -> PartitionProducers:
        producers = () if item is None else tuple(_producer(each) for each in item.producers)
        return PartitionProducers(tp, error, producers)


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
