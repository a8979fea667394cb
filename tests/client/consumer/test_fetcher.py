"""A fetcher supplies a consumer despite bounds, moved leaders, lost connections and silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from oncelog import Consumer, TopicPartition
from oncelog.errors import (
    ClosedError,
    CorruptMessageError,
    CorruptRecordError,
    DeadlineExceededError,
    LogTruncationError,
    NoOffsetError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.histories import ListHistory
from support.waiting import eventually

TP = TopicPartition("t", 0)


def fill(cluster: FakeCluster, count: int, *, topic: str = "t", number: int = 0) -> None:
    partition = cluster.partition(topic, number)
    for _ in range(count):
        partition.append(encode_batch([b"%06d" % partition.next_offset], timestamps=0))
    cluster.announce()


@asynccontextmanager
async def reading(cluster: FakeCluster, **options: Any) -> AsyncIterator[Consumer]:
    given = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1), **options}
    async with Consumer("t", bootstrap_servers=cluster.bootstrap, **given) as consumer:
        yield consumer


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    return [(await consumer.getone()).value for _ in range(count)]


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%06d" % number for number in range(start, stop)]


async def test_a_long_poll_answers_when_there_is_data() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with reading(cluster, fetch_max_wait_ms=60_000) as consumer:
            waiting = asyncio.create_task(consumer.getone())
            await eventually(lambda: cluster.count(ApiKey.FETCH) == 1)
            fill(cluster, 1)
            assert (await waiting).value == b"000000"
            await eventually(lambda: cluster.count(ApiKey.FETCH) == 2)


async def test_what_is_held_in_advance_is_bounded() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 500)
        options = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 10_000}
        async with reading(cluster, **options) as consumer:
            await consumer.getone()
            await asyncio.sleep(0.05)
            assert consumer._core.subscription.buffered < 2200
            before = cluster.count(ApiKey.FETCH)
            await asyncio.sleep(0.02)
            assert cluster.count(ApiKey.FETCH) == before
            assert await read(consumer, 499) == numbered(1, 500)


async def test_all_partitions_together_are_bounded_too() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 5)
        for number in range(5):
            fill(cluster, 100, number=number)
        options = {"max_partition_fetch_bytes": 3000, "fetch_max_bytes": 1500}
        async with reading(cluster, **options) as consumer:
            await eventually(lambda: consumer._core.subscription.buffered >= 3000)
            fetches = cluster.count(ApiKey.FETCH)
            await asyncio.sleep(0.03)
            assert cluster.count(ApiKey.FETCH) == fetches
            records = [await consumer.getone() for _ in range(500)]
            assert len({record[:3] for record in records}) == 500


async def test_the_leader_moves() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        fill(cluster, 3)
        async with reading(cluster, fetch_max_wait_ms=50) as consumer:
            assert await read(consumer, 3) == numbered(0, 3)
            cluster.move_leader("t", 0, 2)
            fill(cluster, 3)
            assert await read(consumer, 3) == numbered(3, 6)


@pytest.mark.parametrize("action", [Action.DROP_BEFORE, Action.DROP_AFTER])
async def test_lost_connections(action: Action) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5)
        cluster.rule(ApiKey.FETCH, action, times=3)
        async with reading(cluster) as consumer:
            assert await read(consumer, 5) == numbered(0, 5)


async def test_a_dead_leader_is_left_for_the_next() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t")
        fill(cluster, 2)
        async with reading(cluster, fetch_max_wait_ms=60_000) as consumer:
            assert await read(consumer, 2) == numbered(0, 2)
            await cluster.brokers[1].stop()
            cluster.move_leader("t", 0, 3)
            fill(cluster, 2)
            assert await read(consumer, 2) == numbered(2, 4)


async def test_a_silent_leader_that_was_deposed_is_given_up() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        fill(cluster, 1)
        held = cluster.rule(ApiKey.FETCH, Action.HOLD, broker=1, times=10)
        async with reading(cluster, fetch_max_wait_ms=10) as consumer:
            waiting = asyncio.create_task(consumer.getone())
            await eventually(lambda: held.met == 1)
            cluster.move_leader("t", 0, 2)
            assert (await waiting).value == b"000000"
            held.release.set()


@pytest.mark.parametrize("times", [1, 4])
async def test_retriable_errors_are_waited_out(times: int) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 2)
        cluster.rule(ApiKey.FETCH, Action.ERROR, error=NotLeaderOrFollowerError, times=times)
        async with reading(cluster) as consumer:
            assert await read(consumer, 2) == numbered(0, 2)


async def test_other_errors_are_raised_and_may_be_tried_again() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1)
        cluster.rule(ApiKey.FETCH, Action.ERROR, error=TopicAuthorizationFailedError)
        async with reading(cluster) as consumer:
            with pytest.raises(TopicAuthorizationFailedError, match="t-0"):
                await consumer.getone()
            assert (await consumer.getone()).offset == 0


async def test_rot_that_the_broker_found() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1)
        cluster.rule(ApiKey.FETCH, Action.ERROR, error=CorruptMessageError)
        async with reading(cluster) as consumer:
            with pytest.raises(CorruptRecordError) as caught:
                await consumer.getone()
            assert caught.value.offset == 0


@pytest.mark.parametrize(("policy", "first"), [("earliest", b"000003"), ("latest", b"000010")])
async def test_out_of_range_resets_by_policy(policy: Any, first: bytes) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 10)
        history = ListHistory()
        async with reading(cluster, auto_offset_reset=policy, history=history) as consumer:
            start = await consumer.position(TP)
            cluster.partition("t").log_start_offset = 3
            consumer.seek(TP, 1)
            waiting = asyncio.create_task(consumer.getone())
            await eventually(lambda: cluster.count(ApiKey.LIST_OFFSETS) == 2)
            await eventually(lambda: consumer._core.subscription.state(TP).offset is not None)
            fill(cluster, 1)
            assert (await waiting).value == first
        found = int(first)
        assert [event for event in history.events if event[0] == "moved"] == [
            ("moved", "t", 0, None, "assign"),
            ("moved", "t", 0, start, "found"),
            ("moved", "t", 0, 1, "seek"),
            ("moved", "t", 0, None, "reset"),
            ("moved", "t", 0, found, "found"),
        ]


async def test_out_of_range_is_an_error_when_one_wants_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5)
        async with reading(cluster, auto_offset_reset="error") as consumer:
            with pytest.raises(NoOffsetError, match="t-0"):
                await consumer.getone()
            consumer.seek(TP, 99)
            with pytest.raises(OffsetOutOfRangeError, match="99"):
                await consumer.getone()
            consumer.seek(TP, 4)
            assert (await consumer.getone()).offset == 4


async def test_truncation_is_told_and_never_skipped() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5)
        history = ListHistory()
        async with reading(cluster, fetch_max_wait_ms=20, history=history) as consumer:
            assert await read(consumer, 5) == numbered(0, 5)
            cluster.partition("t").diverging = (0, 3)
            with pytest.raises(LogTruncationError) as caught:
                await consumer.getone()
            assert (caught.value.offset, caught.value.divergence_offset) == (5, 3)
            assert await read(consumer, 2) == numbered(3, 5)
            await eventually(lambda: history.marks[-1] == ("t", 0, 0, 5, -1))
        assert ("moved", "t", 0, 3, "truncated") in history.events
        assert history.marks[0] == ("t", 0, 0, 5, 5)


async def test_truncation_of_what_was_only_fetched_in_advance_loses_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 10)
        async with reading(cluster, fetch_max_wait_ms=20) as consumer:
            assert await read(consumer, 3) == numbered(0, 3)
            cluster.partition("t").diverging = (0, 8)
            await eventually(lambda: cluster.partition("t").diverging is None)
            assert await read(consumer, 7) == numbered(3, 10)


async def test_when_nothing_comes_for_too_long_the_application_hears_why() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 1)
        async with reading(cluster, max_block_ms=200) as consumer:
            await consumer.getone()
            await cluster.brokers[1].stop()
            with pytest.raises(DeadlineExceededError, match="nothing could be fetched"):
                await consumer.getone()
            with pytest.raises(DeadlineExceededError, match="nothing could be fetched"):
                await consumer.getmany(timeout_ms=60_000)  # an empty answer would hide it
            await cluster.brokers[1].start()
            fill(cluster, 1)
            assert (await consumer.getone()).offset == 1


async def test_a_failure_inside_is_heard_by_the_caller() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with reading(cluster) as consumer:
            waiting = asyncio.create_task(consumer.getone())
            await eventually(lambda: cluster.count(ApiKey.FETCH) == 1)

            def broken() -> None:
                raise ZeroDivisionError

            assert consumer._core.fetcher is not None
            consumer._core.fetcher._schedule = broken  # type: ignore[method-assign]
            consumer._core.fetcher.wake()
            with pytest.raises(ClosedError) as caught:
                await waiting
            assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_is_due_at_once_is_no_timer_with_uvloop() -> None:
    """Nor does it know when it is due: a leader that is found and lost at one time asks."""

    async def story() -> None:
        async with FakeCluster() as cluster:
            cluster.create_topic("t")
            fill(cluster, 1)
            async with reading(cluster) as consumer:
                fetcher = consumer._core.fetcher
                assert fetcher is not None
                now = asyncio.get_running_loop().time()
                for when in (now, now + 1, now - 1):
                    fetcher._wake_at(when)
                assert await read(consumer, 1) == numbered(0, 1)

    uvloop.run(story())
