"""A consumer can wait for records without reading them."""

from __future__ import annotations

import asyncio

from oncelog import Consumer, TopicPartition
from oncelog_protocol.errors import NotLeaderOrFollowerError
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster
from support.running import A, B, fake, fill
from support.waiting import eventually


def consumer_of(cluster: FakeCluster) -> Consumer:
    return Consumer(bootstrap_servers=cluster.bootstrap)


async def test_what_is_there_is_told_at_once() -> None:
    async with fake(3, 0) as cluster, consumer_of(cluster) as consumer:
        assert await consumer.wait_for_records({A: 0, B: 0}, timeout_ms=60_000)
        assert await consumer.wait_for_records({A: 2}, timeout_ms=60_000)
        assert not await consumer.wait_for_records({A: 3, B: 0}, timeout_ms=20)


async def test_what_comes_ends_the_waiting() -> None:
    async with fake(3, 0) as cluster, consumer_of(cluster) as consumer:
        waiting = asyncio.create_task(consumer.wait_for_records({A: 3, B: 0}, timeout_ms=60_000))
        await eventually(lambda: cluster.count(ApiKey.FETCH) == 1)
        fill(cluster, 1, 1)
        assert await waiting


async def test_one_question_a_leader_is_under_way() -> None:
    """A call that has given up leaves its question; the next one does not add to it."""
    async with fake(0, 0) as cluster, consumer_of(cluster) as consumer:
        held = cluster.rule(ApiKey.FETCH, Action.HOLD)
        for _ in range(5):
            assert not await consumer.wait_for_records({A: 0, B: 0}, timeout_ms=10)
        assert cluster.count(ApiKey.FETCH) == 1
        waiting = asyncio.create_task(consumer.wait_for_records({A: 0, B: 0}, timeout_ms=60_000))
        held.release.set()
        fill(cluster, 1)
        assert await waiting


async def test_an_error_is_a_reason_to_look() -> None:
    async with fake(0) as cluster, consumer_of(cluster) as consumer:
        cluster.rule(ApiKey.FETCH, Action.ERROR, error=NotLeaderOrFollowerError)
        assert await consumer.wait_for_records({A: 0}, timeout_ms=60_000)
        cluster.rule(ApiKey.FETCH, Action.DROP_BEFORE)
        assert await consumer.wait_for_records({A: 0}, timeout_ms=60_000)


async def test_a_partition_without_a_leader_is_not_waited_for() -> None:
    async with fake(0) as cluster, consumer_of(cluster) as consumer:
        assert not await consumer.wait_for_records({TopicPartition("t", 9): 0}, timeout_ms=10)
