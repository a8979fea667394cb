"""Orders of many partitions: others are served meanwhile, and the line is kept."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.replication import replica_manager
from oncelog_broker.replication.replica_manager import ORDERS_PER_TURN, STOPS_AT_ONCE
from oncelog_protocol.errors import UnknownTopicOrPartitionError
from oncelog_protocol.messages.replication import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopPartition,
    StopReplicaRequest,
    TopicOverrides,
)
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Cluster
from support.turns import Turns

COUNT = 5 * ORDERS_PER_TURN


def order(epoch: int, count: int = COUNT, *, topics: int = 1) -> LeaderAndIsrRequest:
    names = [f"t{number}" for number in range(topics)]
    orders = [
        LeaderAndIsrPartition(name, f"id of {name}", number, 1, epoch, [1], 0, [1], True, [], [])
        for name in names
        for number in range(count // topics)
    ]
    return LeaderAndIsrRequest(
        9, 1, 0, True, orders, [], [TopicOverrides(name, 0, [], []) for name in names]
    )


def stop(count: int) -> StopReplicaRequest:
    stops = [StopPartition("t0", "id of t0", number, -2, True) for number in range(count)]
    return StopReplicaRequest(9, 1, 0, stops)


async def test_others_are_served_while_a_large_order_is_applied() -> None:
    async with Cluster(brokers=1) as cluster, Turns() as turns:
        results = await cluster[1].replicas.apply_leader_and_isr(order(0))
        assert turns.count >= COUNT / ORDERS_PER_TURN - 1
        assert [(each.partition, each.error_code) for each in results] == [
            (number, 0) for number in range(COUNT)
        ]
        before = turns.count
        await cluster[1].replicas.apply_leader_and_isr(order(1, topics=COUNT))
        assert turns.count - before >= 2 * (COUNT / ORDERS_PER_TURN - 1)


async def test_an_order_of_few_partitions_is_applied_at_once() -> None:
    async with Cluster(brokers=1) as cluster, Turns() as turns:
        before = turns.count
        await cluster[1].replicas.apply_leader_and_isr(order(0, ORDERS_PER_TURN - 1))
        assert turns.count == before


async def test_what_comes_later_waits_in_line() -> None:
    """An order of a new controller comes on another connection, and so does its stop."""
    async with Cluster(brokers=1) as cluster:
        replicas = cluster[1].replicas
        older = asyncio.create_task(replicas.apply_leader_and_isr(order(1)))
        await asyncio.sleep(0)
        newer = asyncio.create_task(replicas.apply_leader_and_isr(order(2)))
        stopped = asyncio.create_task(replicas.stop_replicas(stop(COUNT)))
        await asyncio.sleep(0)
        assert not older.done()
        assert {result.error_code for result in await older} == {0}
        assert {result.error_code for result in await newer} == {0}
        assert {result.error_code for result in await stopped} == {0}
        with pytest.raises(UnknownTopicOrPartitionError):
            replicas.partition(TopicPartition("t0", COUNT - 1))
        assert not cluster[1].logs.all()


async def test_replicas_are_deleted_side_by_side() -> None:
    """One after the other, each would wait for the disk alone."""
    async with Cluster(brokers=1) as cluster:
        await cluster[1].replicas.apply_leader_and_isr(order(0))
        removing = most = 0
        delete = cluster[1].logs.delete

        async def counted(topic_partition: TopicPartition) -> None:
            nonlocal removing, most
            removing += 1
            most = max(most, removing)
            await delete(topic_partition)
            removing -= 1

        cluster[1].logs.delete = counted  # type: ignore[method-assign]
        results = await cluster[1].replicas.stop_replicas(stop(COUNT))
        assert {result.error_code for result in results} == {0}
        assert most == STOPS_AT_ONCE
        assert not cluster[1].logs.all()


async def test_others_are_served_while_replicas_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_manager, "CHECKS_PER_TURN", 10)
    async with Cluster(brokers=1) as cluster, Turns() as turns:
        await cluster[1].replicas.apply_leader_and_isr(order(0))
        before = turns.count
        await cluster[1].replicas.check_lag_once()
        assert turns.count - before >= COUNT / 10 - 1


async def test_settings_of_a_topic_are_looked_for_among_its_own_logs() -> None:
    async with Cluster(brokers=1) as cluster:
        replicas, logs = cluster[1].replicas, cluster[1].logs
        await replicas.apply_leader_and_isr(order(0, topics=2))
        assert len(logs.of_topic("t0")) == COUNT / 2
        replicas.reconfigure_topic("t0", {"retention_ms": "5"})
        assert {log.config.retention_ms for log in logs.of_topic("t0")} == {5}
        assert 5 not in {log.config.retention_ms for log in logs.of_topic("t1")}
        await replicas.stop_replicas(stop(COUNT // 2))
        assert logs.of_topic("t0") == []
        assert len(logs.all()) == COUNT / 2
