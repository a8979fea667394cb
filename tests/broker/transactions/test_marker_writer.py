"""Markers go to the partitions of this broker: one answer for all, each partition for itself."""

from __future__ import annotations

import pytest

from oncelog_broker.transactions import marker_writer
from oncelog_broker.transactions.marker_writer import MarkerWriter
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    InvalidProducerEpochError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import MarkerResult, TxnMarker, TxnTopic
from oncelog_protocol.types import TopicPartition
from support.fake_transactions import FakeGroups
from support.replication_cluster import Cluster, transact
from support.waiting import eventually

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def marker(
    *topics: TxnTopic, pid: int = 7, epoch: int = 2, coordinator_epoch: int = 4
) -> TxnMarker:
    return TxnMarker(pid, epoch, coordinator_epoch, True, list(topics))


class Asked:
    """It tells what became of some markers."""

    def __init__(self, writer: MarkerWriter, *markers: TxnMarker) -> None:
        self.answers: list[list[MarkerResult]] = []
        writer.write(list(markers), self.answers.append)

    async def codes(self) -> list[dict[tuple[str, int], int]]:
        """Return them by marker, by partition."""
        await eventually(lambda: self.answers)
        (results,) = self.answers
        return [
            {(t.topic, p.partition): p.error_code for t in result.topics for p in t.partitions}
            for result in results
        ]


async def test_all_of_several_producers() -> None:
    async with Cluster(brokers=2) as cluster:
        groups = FakeGroups()
        for where in (T0, T1):
            cluster.lead(where, 1)
            transact(cluster[1], where)
        cluster.lead(TopicPartition("u", 0), 2)
        transact(cluster[1], T1, pid=8)
        asked = Asked(
            MarkerWriter(cluster[1].replicas, groups),
            marker(TxnTopic("t", [0, 1]), TxnTopic("u", [0]), TxnTopic("x", [0])),
            marker(TxnTopic("t", [1]), TxnTopic(GROUP_TOPIC, [3]), pid=8, epoch=9),
        )
        assert await asked.codes() == [
            {
                ("t", 0): 0,
                ("t", 1): 0,
                ("u", 0): NotLeaderOrFollowerError.code,
                ("x", 0): UnknownTopicOrPartitionError.code,
            },
            {("t", 1): 0, (GROUP_TOPIC, 3): 0},
        ]
        assert groups.ended == [(3, 8, 9, True)]
        for where in (T0, T1):
            partition = cluster[1].partition(where)
            assert partition.last_stable_offset == partition.high_watermark
            assert partition.high_watermark == partition.log.log_end_offset


async def test_nothing_is_answered_at_once() -> None:
    async with Cluster(brokers=1) as cluster:
        writer = MarkerWriter(cluster[1].replicas, FakeGroups())
        assert await Asked(writer).codes() == []
        assert await Asked(writer, marker()).codes() == [{}]


async def test_what_a_partition_says() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(T0, 1)
        writer = MarkerWriter(cluster[1].replicas, FakeGroups())

        def end(**more: int) -> Asked:
            return Asked(writer, marker(TxnTopic("t", [0]), **more))

        transact(cluster[1], T0)
        assert await end().codes() == [{("t", 0): 0}]
        assert await end().codes() == [{("t", 0): 0}], "a repeat"
        assert cluster[1].partition(T0).log.log_end_offset == 2
        transact(cluster[1], T0, epoch=2)
        assert await end().codes() == [{("t", 0): InvalidProducerEpochError.code}]
        assert await end(epoch=3, coordinator_epoch=3).codes() == [
            {("t", 0): TransactionCoordinatorFencedError.code}
        ]
        assert await end(epoch=3).codes() == [{("t", 0): 0}]


async def test_offsets_partitions_answer_for_themselves() -> None:
    async with Cluster(brokers=1) as cluster:
        code = CoordinatorLoadInProgressError.code
        writer = MarkerWriter(cluster[1].replicas, FakeGroups(code))
        asked = Asked(writer, marker(TxnTopic(GROUP_TOPIC, [0])))
        assert await asked.codes() == [{(GROUP_TOPIC, 0): code}]


async def test_one_that_is_slow_is_told_of_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_writer, "MARKER_WAIT_S", 0.1)
    async with Cluster(brokers=2) as cluster:
        cluster.lead(T0, 1, isr=[1, 2])
        cluster.lead(T1, 1, isr=[1])
        cluster[2].cut()
        for where in (T0, T1):
            transact(cluster[1], where)
        writer = MarkerWriter(cluster[1].replicas, FakeGroups())
        asked = Asked(writer, marker(TxnTopic("t", [0, 1])))
        assert await asked.codes() == [{("t", 0): RequestTimedOutError.code, ("t", 1): 0}]
        await cluster.isr_is(T0, 1)
        again = Asked(writer, marker(TxnTopic("t", [0])))
        assert await again.codes() == [{("t", 0): 0}]
        assert cluster[1].partition(T0).log.log_end_offset == 2, "it is there once"
        assert len(cluster[1].replicas.deadlines) == 0
