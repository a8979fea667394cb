"""A coordinator's partition is read at a follower, over real replicas."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.server.followed_partition import FollowedPartition
from oncelog_broker.server.partition_gateway import PartitionGateway
from oncelog_protocol.errors import NotLeaderOrFollowerError, StorageError
from oncelog_protocol.types import TopicPartition
from support.clock import ManualClock
from support.compaction import make_cleaner
from support.replicas import NOW_MS
from support.replication_cluster import Cluster
from support.waiting import eventually

TP = TopicPartition("__consumer_offsets", 0)
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "1024", "delete_retention_ms": "0"}


def write(
    cluster: Cluster, *values: str, key: str = "a", leader: int = 1
) -> list[CoordinatorRecord]:
    """Have the leader's coordinator write, a batch a record."""
    gateway = PartitionGateway(cluster[leader].replicas, ManualClock(NOW_MS))
    records = [CoordinatorRecord(key.encode(), value.encode()) for value in values]
    for record in records:
        gateway.append(TP, cluster[leader].partition(TP).leader_epoch, [record])
    return records


async def followed(cluster: Cluster, end: int, broker_id: int = 2) -> None:
    """Wait until a follower knows that all below ``end`` is committed."""
    await eventually(lambda: cluster[broker_id].partition(TP).high_watermark == end)


async def read_on(log: FollowedPartition) -> list[CoordinatorRecord]:
    return [record async for records in log.read_on() for record in records]


async def test_a_follower_is_read_on_and_on_up_to_what_is_committed() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        first = write(cluster, "1", "2")
        await followed(cluster, 2)
        log = FollowedPartition(cluster[2].partition(TP))
        assert log.left == 2
        assert await read_on(log) == first
        assert (log.position, log.left, log.holds) == (2, 0, True)
        assert await read_on(log) == []
        cluster[3].cut()
        second = write(cluster, "3")
        await eventually(lambda: cluster[2].partition(TP).log.log_end_offset == 3)
        assert await read_on(log) == []
        cluster[3].reachable = True
        await followed(cluster, 3)
        assert await read_on(log) == second


async def test_what_is_left_is_not_known_before_the_leader_has_told() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        write(cluster, "1")
        await followed(cluster, 1)
        log = FollowedPartition(cluster[2].partition(TP))
        cluster[2].cut()
        cluster.lead(TP, 3, to=[2])
        assert log.left is None
        cluster[2].reachable = True


async def test_a_log_that_was_cut_does_not_hold() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        write(cluster, "1", "2")
        await followed(cluster, 2)
        log = FollowedPartition(cluster[2].partition(TP))
        await read_on(log)
        cluster[2].partition(TP).log.truncate_to(1)
        assert not log.holds


async def compact(cluster: Cluster, broker_id: int) -> int:
    cleaner = make_cleaner(cluster[broker_id].partition(TP).log)
    while await cleaner.clean_dirtiest():
        pass
    return cleaner.passes


async def test_what_compaction_took_before_it_was_read_does_not_hold() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1, configs=COMPACTED)
        write(cluster, *map(str, range(40)))
        await followed(cluster, 40)
        log = FollowedPartition(cluster[2].partition(TP))
        assert await compact(cluster, 2) > 0
        assert not log.holds


async def test_a_log_is_not_compacted_while_it_is_read_and_may_be_afterwards() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1, configs=COMPACTED)
        write(cluster, *map(str, range(40)))
        await followed(cluster, 40)
        log = FollowedPartition(cluster[2].partition(TP))
        async with aclosing(log.read_on()) as batches:
            async for _ in batches:
                assert await compact(cluster, 2) == 0
        assert await compact(cluster, 2) > 0
        assert log.holds, "all of it was read before"
        assert await read_on(log) == []


async def test_rot_is_the_replicas_trouble() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        write(cluster, "1")
        await followed(cluster, 1)
        partition = cluster[2].partition(TP)
        path, size = partition.log.segments.active.path, partition.log.size_bytes
        cluster[2].files.corrupt(path, size - 1, mask=0x20)
        with pytest.raises(StorageError):
            await read_on(FollowedPartition(partition))
        assert partition.repair.corruption
        cluster[2].broken = 0


async def test_a_replica_that_is_gone_is_not_read() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        write(cluster, "1")
        await followed(cluster, 1)
        partition = cluster[2].partition(TP)
        partition.fail()
        with pytest.raises(NotLeaderOrFollowerError):
            await read_on(FollowedPartition(partition))
        await asyncio.sleep(0)


async def test_who_is_to_lead_is_told_in_an_epoch_that_is_known() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        order = replace(cluster.orders[TP], is_new=False, next_leader=2)
        for broker_id in (1, 2, 3):
            cluster.send_orders(broker_id, [order])
        assert [cluster[b].partition(TP).is_next_leader for b in (1, 2, 3)] == [False, True, False]
        cluster.send_orders(2, [replace(order, next_leader=-1)])
        assert not cluster[2].partition(TP).is_next_leader
        cluster.lead(TP, 2)
        assert cluster[2].partition(TP).next_leader == -1
