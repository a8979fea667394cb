"""A broker is asked how its replica lies on disk: the leader, or any that is named."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.logs import LogIndexEntry
from oncelog.errors import (
    BrokerUnreachableError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.log_description import (
    AbortedRange,
    DescribedBatch,
    DescribedEpoch,
    DescribedSegment,
    DescribeLogRequest,
    DescribeLogResponse,
    IndexEntry,
)
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

T0 = TopicPartition("t", 0)
SEGMENT = DescribedSegment(0, 5, 100, -1, -1, -1, -1, -1, -1, -1)
BATCH = DescribedBatch(
    0, 0, 0, 4, 5, 100, 1, "none", "create_time", -1, -1, -1, -1, -1, False, "abort"
)


class Told:
    """One broker tells this, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[DescribeLogRequest] = []

    def __call__(self, request: DescribeLogRequest) -> DescribeLogResponse:
        self.asked.append(request)
        return DescribeLogResponse(
            topic="t",
            partition=0,
            leader_epoch=3,
            high_watermark=4,
            log_end_offset=5,
            segments=[SEGMENT],
            epochs=[DescribedEpoch(1, 0)],
            aborted=[AbortedRange(7, 1, 4)],
            next_offset=9,
            snapshots=[5],
            index=[IndexEntry(0, 0, -1)],
            batches=[BATCH],
        )


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2) as made:
        (partition,) = made.create_topic("t", 1)
        partition.leader = 1
        made.logs = {1: Told(), 2: Told()}
        yield made


def make(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


async def test_the_leader_tells(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        found = await admin.describe_log(T0, at_offset=3, batches=10)
    assert (found.partition, found.broker_id, found.leader_epoch) == (T0, 1, 3)
    (segment,) = found.segments
    assert (segment.record_count, segment.created_ms, segment.index_entries) == (None, None, None)
    assert found.index == (LogIndexEntry(0, 0, None),)
    assert (found.batches[0].producer_id, found.batches[0].marker) == (None, "abort")
    assert (found.next_offset, found.next_batch) == (9, None)
    assert found.aborted[0].marker_offset == 4
    told = cluster.logs[1]
    assert isinstance(told, Told)
    assert told.asked == [DescribeLogRequest("t", 0, 0, 3, -1, 10)]


async def test_a_replica_that_does_not_lead(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        found = await admin.describe_log(T0, 2, from_offset=6, batches_from=8, batches=1)
    assert (found.broker_id, found.is_leader) == (2, False)
    told = cluster.logs[2]
    assert isinstance(told, Told)
    assert told.asked == [DescribeLogRequest("t", 0, 6, -1, 8, 1)]
    assert cluster.count(ApiKey.DESCRIBE_LOG, 1) == 0


async def test_a_leader_that_moves_is_asked_where_it_is(cluster: FakeCluster) -> None:
    cluster.rule(ApiKey.DESCRIBE_LOG, Action.ERROR, error=NotLeaderOrFollowerError, broker=1)
    async with make(cluster) as admin:
        assert (await admin.describe_log(T0)).broker_id == 1
    assert cluster.count(ApiKey.DESCRIBE_LOG, 1) == 2


async def test_errors(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        del cluster.logs[2]
        with pytest.raises(NotLeaderOrFollowerError, match="t-0"):
            await admin.describe_log(T0, 2)
        cluster.rule(ApiKey.DESCRIBE_LOG, Action.ERROR, error=StorageError, broker=2)
        with pytest.raises(StorageError):
            await admin.describe_log(T0, 2)
        cluster.rule(ApiKey.DESCRIBE_LOG, Action.DROP_BEFORE, broker=2)
        with pytest.raises(BrokerUnreachableError, match="broker 2"):
            await admin.describe_log(T0, 2)
        with pytest.raises(UnknownTopicOrPartitionError, match="no 1"):
            await admin.describe_log(TopicPartition("t", 1), timeout_ms=300)
