"""What is in the application's hands, and what it came back from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import Consumer, TopicPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@asynccontextmanager
async def reading(*sizes: int, partitions: int = 1) -> AsyncIterator[Consumer]:
    """A consumer of batches of these sizes."""
    async with FakeCluster() as cluster:
        for partition in cluster.create_topic("t", partitions):
            for size in sizes:
                partition.append(encode_batch([b"v"] * size, timestamps=[0] * size))
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1)}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **options) as consumer:
            yield consumer


def offsets(consumer: Consumer, *, safe: bool) -> list[int]:
    return [item.offset for item in consumer._reader.positions(safe=safe).values()]


@pytest.mark.asyncio
async def test_with_a_loop_the_last_record_is_in_hand() -> None:
    async with reading(3, 2) as consumer:
        assert offsets(consumer, safe=True) == []
        seen = []
        async for record in consumer:
            seen.append((*offsets(consumer, safe=True), *offsets(consumer, safe=False)))
            if record.offset == 4:
                break
        assert seen == [(n, n + 1) for n in range(5)]
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0)
        assert consumer._reader.inside
        assert offsets(consumer, safe=True) == [5], "it came back"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not consumer._reader.inside


@pytest.mark.asyncio
async def test_a_loop_that_is_sent_elsewhere_still_holds_its_record() -> None:
    async with reading(5) as consumer:
        async for record in consumer:
            if record.offset == 2:
                consumer._reader.drop_cursor()
                assert offsets(consumer, safe=True) == [2]
            if record.offset == 3:
                assert offsets(consumer, safe=True) == [3]
                break


@pytest.mark.asyncio
async def test_a_list_and_a_batch_are_in_hand_as_a_whole() -> None:
    async with reading(4, 4) as consumer:
        assert len((await consumer.getmany(max_records=3, timeout_ms=1000))[A]) == 3
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([0], [3])
        assert len((await consumer.getmany(max_records=3, timeout_ms=1000))[A]) == 3
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([3], [6])
        assert len(await consumer.getbatch()) == 2
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([6], [8])
        assert await consumer.getmany() == {}
        assert offsets(consumer, safe=True) == [8]


@pytest.mark.asyncio
async def test_records_one_by_one() -> None:
    async with reading(2, 2) as consumer:
        for number in range(4):
            assert (await consumer.getone()).offset == number
            assert offsets(consumer, safe=True) == [number]
        await consumer.getmany()
        assert offsets(consumer, safe=True) == [4]


@pytest.mark.asyncio
async def test_a_seek_is_the_application_s_word() -> None:
    async with reading(5) as consumer:
        await consumer.getone()
        await consumer.getone()
        consumer.seek(A, 4)
        assert offsets(consumer, safe=True) == [4]
        await consumer.getmany(timeout_ms=1000)
        consumer.seek(A, 1)
        assert offsets(consumer, safe=True) == [1]


@pytest.mark.asyncio
async def test_when_the_application_last_came() -> None:
    async with reading(5) as consumer:
        reader = consumer._reader
        await consumer.getone()
        assert reader.last_poll_at(10.0) == 10.0
        assert reader.last_poll_at(20.0) == 10.0
        records = consumer.__aiter__()
        await anext(records)
        assert reader.last_poll_at(30.0) == 30.0
        await anext(records)
        assert reader.last_poll_at(40.0) == 40.0, "a loop goes on without asking here"
        assert reader.last_poll_at(50.0) == 40.0
        for _ in range(2):
            await anext(records)
        waiting = asyncio.ensure_future(anext(records))
        await asyncio.sleep(0)
        assert [reader.last_poll_at(60.0), reader.last_poll_at(70.0)] == [60.0, 70.0]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.asyncio
async def test_work_at_a_poll_comes_before_the_next_record() -> None:
    async with reading(2, 2) as consumer:
        done: list[str] = []
        pending = True

        async def work() -> None:
            await asyncio.sleep(0.01)
            done.append("work")

        def at_poll() -> Any:
            nonlocal pending
            due, pending = pending, False
            return work() if due else None

        await consumer.getone()
        consumer._reader.at_poll = at_poll
        await consumer.getone()
        assert done == [], "the batch goes on"
        assert (await consumer.getone()).offset == 2
        assert done == ["work"]


@pytest.mark.asyncio
async def test_what_is_read_no_more_is_not_in_hand() -> None:
    async with reading(3, partitions=2) as consumer:
        found = await consumer.getmany(timeout_ms=1000)
        while len(found) < 2:
            found |= await consumer.getmany(timeout_ms=1000)
        consumer._reader.forget([A, B])
        assert offsets(consumer, safe=True) == [3, 3]
