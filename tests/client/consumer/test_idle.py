"""Iterations end when nothing comes any more, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Consumer, Record, TopicPartition, blocking
from oncelog.errors import DeadlineExceededError, NotLeaderOrFollowerError
from oncelog_protocol.messages.base import ApiKey
from support.client_threads import in_thread
from support.fake_cluster import Action
from support.fake_members import GroupCluster
from support.group_members import fill
from support.waiting import eventually

IDLE_S = 0.05
"""Every wait here ends by what happens; this only has to be short."""


def make(cluster: GroupCluster, *topics: str, **options: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 10,
    }
    return Consumer(*topics, **{**defaults, **options})


async def read(
    consumer: Consumer, into: list[Record] | None = None, seconds: float = IDLE_S
) -> list[Record]:
    seen = [] if into is None else into
    async for record in consumer.until_idle(seconds):
        seen.append(record)
    return seen


async def test_it_ends_behind_the_last_record_and_may_be_begun_again() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", partitions=3)
        fill(cluster, 5, 0, 2)
        async with make(cluster, "t") as consumer:
            assert len(await read(consumer)) == 10
            assert await read(consumer) == []
            fill(cluster, 3, 1)
            assert [record.partition for record in await read(consumer)] == [1, 1, 1]
            assert [await consumer.position(TopicPartition("t", p)) for p in range(3)] == [5, 3, 5]


async def test_each_record_begins_the_wait_anew() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        async with make(cluster, "t") as consumer:
            count = 0
            async for _ in consumer.until_idle(2.0):
                count += 1
                if count == 4:
                    break
                asyncio.get_running_loop().call_later(0.02, fill, cluster, 1, 0)
            assert count == 4


@pytest.mark.slow
async def test_a_leader_that_cannot_be_reached_is_not_idle() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        away = cluster.rule(
            ApiKey.FETCH, Action.ERROR, error=NotLeaderOrFollowerError, times=100_000
        )
        async with make(cluster, "t") as consumer:
            reading = asyncio.create_task(read(consumer))
            await eventually(lambda: away.met > 20)
            assert not reading.done()
            away.times = 0
            assert len(await reading) == 5


async def test_a_partition_that_nobody_answers_for_is_named_in_the_end() -> None:
    async with GroupCluster(2) as cluster:
        cluster.create_topic("t", partitions=2)
        for number in range(2):
            cluster.move_leader("t", number, number + 1)
        fill(cluster, 5, 0, 1)
        cluster.rule(ApiKey.FETCH, Action.HOLD, broker=2, times=100_000)
        async with make(cluster, "t", max_block_ms=400) as consumer:
            seen: list[Record] = []
            with pytest.raises(DeadlineExceededError, match="t-1 .*there may be more to read"):
                await read(consumer, seen)
            assert [record.partition for record in seen] == [0] * 5


async def test_a_dead_cluster_is_no_end() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)
        async with make(cluster, "t", max_block_ms=300) as consumer:
            seen: list[Record] = []
            reading = asyncio.create_task(read(consumer, seen, 10.0))
            await eventually(lambda: len(seen) == 5)
            await cluster.brokers[1].stop()
            with pytest.raises(DeadlineExceededError):
                await reading


async def test_a_group_that_is_still_sharing_out_is_not_idle() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", partitions=2)
        fill(cluster, 5, 0, 1)
        held = cluster.rule(ApiKey.SYNC_GROUP, Action.HOLD)
        async with make(cluster, "t", group_id="g") as consumer:
            reading = asyncio.create_task(read(consumer))
            await eventually(lambda: held.met)
            await asyncio.sleep(3 * IDLE_S)  # longer than the time that it would be idle for
            assert not reading.done()
            held.release.set()
            assert len(await reading) == 10


async def test_paused_partitions_and_none_at_all_are_idle() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t", partitions=2)
        fill(cluster, 5, 0, 1)
        async with make(cluster, "t") as consumer:
            consumer.pause(TopicPartition("t", 1))
            assert len(await read(consumer)) == 5
            consumer.pause(TopicPartition("t", 0))
            assert await read(consumer) == []
        async with make(cluster) as consumer:
            assert await read(consumer) == []


async def test_closing_ends_it() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1, 0)
        async with make(cluster, "t") as consumer:
            async for _ in consumer.until_idle(3600):
                asyncio.get_running_loop().call_soon(asyncio.create_task, consumer.close())


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "1", None])
async def test_seconds_are_a_number_above_zero(seconds: Any) -> None:
    with pytest.raises(ValueError, match="seconds"):
        Consumer("t", bootstrap_servers="h:1").until_idle(seconds)


async def test_the_blocking_consumer_has_it() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)

        def work() -> None:
            servers = cluster.bootstrap
            with blocking.Consumer(
                "t", bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=10
            ) as consumer:
                seen = [record.value for record in consumer.until_idle(IDLE_S)]
                assert seen == [b"0", b"1", b"2", b"3", b"4"]
                with pytest.raises(ValueError, match="seconds"):
                    consumer.until_idle(0)

        await in_thread(work)
