"""Groups run against real brokers in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from support.cluster import Cluster
from support.group_members import Notes

TPS = [TopicPartition("t", number) for number in range(6)]

PATIENT: dict[str, Any] = {"session_timeout_ms": 6_000}
"""A lost session would be a repetition here: brokers sync small batches on the loop of the test,
and a disk that is busy with other work has held it for two seconds."""


def make(cluster: Cluster, *topics: str, **options: Any) -> Consumer:
    given: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 2000,
        "auto_commit_interval_ms": 100,
        **options,
    }
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **given)


async def collect(seen: dict[bytes, int], consumer: Consumer, timeout_ms: int = 50) -> None:
    for records in (await consumer.getmany(timeout_ms=timeout_ms)).values():
        for record in records:
            assert record.value is not None
            seen[record.value] = seen.get(record.value, 0) + 1


@pytest.mark.slow
async def test_two_share_a_topic_and_survive_each_other(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", partitions=6, replication_factor=3)
        seen: dict[bytes, int] = {}
        notes = [Notes(), Notes()]
        async with (
            Producer(cluster.bootstrap, linger_ms=0) as producer,
            make(cluster, **PATIENT) as first,
            asyncio.timeout(60),
        ):
            first.subscribe(["t"], listener=notes[0])
            await producer.send_many("t", [b"a%d" % n for n in range(600)])
            while len(seen) < 600:
                await collect(seen, first)
            second = make(cluster, **PATIENT)
            await second.start()
            second.subscribe(["t"], listener=notes[1])
            while len(second.assignment()) < 3:
                await collect(seen, first)
                await collect(seen, second)
            await producer.send_many("t", [b"b%d" % n for n in range(600)])
            while len(seen) < 1200:
                await collect(seen, first)
                await collect(seen, second)
            assert set(seen.values()) == {1}, "handed over behind what was committed"
            crash(second)
            await producer.send_many("t", [b"c%d" % n for n in range(600)])
            while len(seen) < 1800 or len(first.assignment()) < 6:
                await collect(seen, first)
            assert sorted(first.assignment()) == TPS
            await second._router.close()


def crash(consumer: Consumer) -> None:
    """Nothing is said to anybody any more."""
    assert consumer._core.group is not None
    member = consumer._core.group._member
    assert member is not None
    for tasks in (member._tasks, consumer._core.group._tasks):
        for task in list(tasks._tasks):
            task.cancel()


async def test_the_coordinator_dies_and_nobody_rebalances(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        seen: dict[bytes, int] = {}
        async with (
            Producer(cluster.bootstrap, linger_ms=0) as producer,
            make(cluster, "t", session_timeout_ms=10_000) as consumer,
            asyncio.timeout(60),
        ):
            await producer.send_many("t", [b"a%d" % n for n in range(300)])
            while len(seen) < 300:
                await collect(seen, consumer)
            await consumer.commit()
            before = consumer.group_metadata()
            assert consumer._core.group is not None
            victim = consumer._core.group._coordinator.broker_id
            assert victim is not None
            await cluster.crash_broker(victim)
            await producer.send_many("t", [b"b%d" % n for n in range(300)])
            while len(seen) < 600:
                await collect(seen, consumer)
            await consumer.commit()
            assert consumer.group_metadata() == before
            assert consumer._core.group._coordinator.broker_id != victim
            held = await consumer.committed(consumer.assignment())
            assert sum(item.offset for item in held.values() if item) == 600
        assert set(seen.values()) == {1}


async def test_a_static_member_comes_back_without_a_rebalance(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=1) as cluster:
        await cluster.create_topic("t", partitions=4)
        options = {"session_timeout_ms": 10_000}
        async with asyncio.timeout(40), make(cluster, "t", **options) as dynamic:
            seen: dict[bytes, int] = {}
            static = {**options, "group_instance_id": "one"}
            async with make(cluster, "t", **static) as first:
                while len(first.assignment()) < 2 or len(dynamic.assignment()) > 2:
                    await collect(seen, first)
                    await collect(seen, dynamic)
                await collect(seen, first)
                held, before = first.assignment(), dynamic.group_metadata()
            async with make(cluster, "t", **static) as again:
                while again.assignment() != held:
                    await collect(seen, again)
                    await collect(seen, dynamic)
                assert dynamic.group_metadata() == before


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
async def test_a_pattern_and_partitions_that_are_added(tmp_path: Path, strategy: str) -> None:
    async with Cluster(tmp_path, brokers=1) as cluster, Admin(cluster.bootstrap) as admin:
        await cluster.create_topic("logs-a", partitions=1)
        options = {"partition_assignment_strategy": strategy, "metadata_max_age_ms": 200}
        async with (
            make(cluster, **options) as one,
            make(cluster, **options) as two,
            asyncio.timeout(40),
        ):
            for consumer in (one, two):
                consumer.subscribe(pattern=".*")
            for topic, count in (("logs-a", 1), ("logs-a", 3), ("logs-b", 5)):
                if topic == "logs-b":
                    (await admin.create_topics([NewTopic("logs-b", 2, 1)])).raise_for_errors()
                elif count == 3:
                    (await admin.create_partitions({"logs-a": 3})).raise_for_errors()
                while len({*one.assignment(), *two.assignment()}) < count:
                    await collect({}, one)
                    await collect({}, two)
            assert not set(one.assignment()) & set(two.assignment())
