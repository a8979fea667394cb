"""These tests check what is in the application's hands, and what it came back from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import Consumer, TopicPartition
from oncelog.consumer.reading import HIDDEN_MAX
from oncelog.errors import ClosedError, CorruptRecordError, DeadlineExceededError
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster, FakePartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@asynccontextmanager
async def reading(*sizes: int, partitions: int = 1) -> AsyncIterator[Consumer]:
    """Open a consumer of batches of these sizes."""
    async with FakeCluster() as cluster:
        for partition in cluster.create_topic("t", partitions):
            for size in sizes:
                partition.append(encode_batch([b"v"] * size, timestamps=[0] * size))
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1)}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **options) as consumer:
            yield consumer


def offsets(consumer: Consumer, *, safe: bool) -> list[int]:
    return [item.offset for item in consumer._core.reader.positions(safe=safe).values()]


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
        assert consumer._core.reader.inside
        assert offsets(consumer, safe=True) == [5], "it came back"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not consumer._core.reader.inside


async def test_a_loop_that_is_sent_elsewhere_still_holds_its_record() -> None:
    async with reading(5) as consumer:
        async for record in consumer:
            if record.offset == 2:
                consumer._core.reader.drop_cursor()
                assert offsets(consumer, safe=True) == [2]
            if record.offset == 3:
                assert offsets(consumer, safe=True) == [3]
                break


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


async def test_records_one_by_one() -> None:
    async with reading(2, 2) as consumer:
        for number in range(4):
            assert (await consumer.getone()).offset == number
            assert offsets(consumer, safe=True) == [number]
        await consumer.getmany()
        assert offsets(consumer, safe=True) == [4]


async def test_a_seek_is_the_application_s_word() -> None:
    async with reading(5) as consumer:
        await consumer.getone()
        await consumer.getone()
        consumer.seek(A, 4)
        assert offsets(consumer, safe=True) == [4]
        await consumer.getmany(timeout_ms=1000)
        consumer.seek(A, 1)
        assert offsets(consumer, safe=True) == [1]


async def test_when_the_application_last_came() -> None:
    async with reading(5) as consumer:
        reader = consumer._core.reader
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
        consumer._core.reader.call_at_poll(at_poll)
        await consumer.getone()
        assert done == [], "the batch goes on"
        assert (await consumer.getone()).offset == 2
        assert done == ["work"]


async def test_what_is_read_no_more_is_not_in_hand() -> None:
    async with reading(3, partitions=2) as consumer:
        found = await consumer.getmany(timeout_ms=1000)
        while len(found) < 2:
            found |= await consumer.getmany(timeout_ms=1000)
        consumer._core.reader.forget([A, B])
        assert offsets(consumer, safe=True) == [3, 3]


# ---- transactions


@asynccontextmanager
async def transactions(**options: Any) -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    """Offsets 0 1 are plain, 2 3 aborted, 4 is a marker, 5 6 are committed, 7 is a marker, 8 is
    open."""
    async with FakeCluster() as cluster:
        (log,) = cluster.create_topic("t")
        log.append(encode_batch([b"0", b"1"], timestamps=0))
        transact(log, 7, [b"2", b"3"])
        log.mark(False, 7, 1)
        transact(log, 8, [b"5", b"6"])
        log.mark(True, 8, 1)
        transact(log, 9, [b"8"])
        given = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1), **options}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **given) as consumer:
            yield cluster, consumer


def transact(log: FakePartition, producer_id: int, values: list[bytes]) -> None:
    log.append(
        encode_batch(
            values,
            timestamps=0,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )


async def test_what_is_committed_is_read_and_the_lag_reaches_zero() -> None:
    async with transactions() as (cluster, consumer):
        seen = [(await consumer.getone()).value for _ in range(4)]
        assert seen == [b"0", b"1", b"5", b"6"]
        assert await consumer.position(A) == 8, "behind the marker: nothing is before it to read"
        assert await consumer.lag() == {A: 0}
        assert await consumer.end_offsets([A]) == {A: 8}, "the last stable offset"
        cluster.partition("t").mark(True, 9, 1)
        cluster.announce()
        assert (await consumer.getone()).value == b"8"
        assert await consumer.lag() == {A: 0}


async def test_everything_is_read_uncommitted_but_markers() -> None:
    async with transactions(isolation_level="read_uncommitted") as (_, consumer):
        seen = [(await consumer.getone()).value for _ in range(7)]
        assert seen == [b"0", b"1", b"2", b"3", b"5", b"6", b"8"]
        assert await consumer.lag() == {A: 0}


@pytest.mark.parametrize("start", range(9))
async def test_reading_may_begin_anywhere(start: int) -> None:
    """It may begin in the middle of what was aborted too, in batches as well."""
    async with transactions() as (_, consumer):
        consumer.seek(A, start)
        expected = [
            value
            for offset, value in ((0, b"0"), (1, b"1"), (5, b"5"), (6, b"6"))
            if offset >= start
        ]
        found: list[bytes | None] = []
        while len(found) < len(expected):
            found.extend((await consumer.getbatch()).values)
        assert found == expected
        assert await consumer.getmany(timeout_ms=20) == {}
        assert await consumer.position(A) == max(start, 8)


async def test_what_was_handed_out_is_safe_up_to_the_hidden_behind_it() -> None:
    async with transactions() as (_, consumer):
        await consumer.getone()
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([0], [1])
        await consumer.getone()
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([1], [5])
        waiting = asyncio.ensure_future(consumer.getone())
        await waiting
        assert (offsets(consumer, safe=True), offsets(consumer, safe=False)) == ([5], [6])


async def test_a_pause_in_the_middle_keeps_what_is_hidden_behind() -> None:
    async with transactions() as (_, consumer):
        consumer.seek(A, 5)
        assert (await consumer.getone()).value == b"5"
        consumer.pause(A)
        consumer.resume(A)
        assert (await consumer.getone()).value == b"6"
        assert await consumer.position(A) == 8


async def test_a_batch_that_is_hidden_has_to_hold_too() -> None:
    """What says that it is hidden is in the batch."""
    async with transactions() as (cluster, consumer):
        log = cluster.partition("t")
        rotten = bytearray(log.batches[1])
        rotten[-1] ^= 1
        log.batches[1] = bytes(rotten)
        assert [(await consumer.getone()).value for _ in range(2)] == [b"0", b"1"]
        with pytest.raises(CorruptRecordError, match="offset 2"):
            await consumer.getone()
        consumer.seek(A, 5)
        assert (await consumer.getone()).value == b"5"


async def test_a_long_stretch_of_aborted_batches_does_not_hold_up_the_loop() -> None:
    async with FakeCluster() as cluster:
        (log,) = cluster.create_topic("t")
        for producer_id in range(2 * HIDDEN_MAX):
            transact(log, producer_id, [b"x"])
            log.mark(False, producer_id, 1)
        log.append(encode_batch([b"end"], timestamps=0))
        given: dict[str, Any] = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1)}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **given) as consumer:
            stops: list[int | None] = []

            async def count() -> None:
                while True:
                    await asyncio.sleep(0)
                    stops.append(consumer._core.subscription.states[A].offset)

            counting = asyncio.ensure_future(count())
            assert (await consumer.getone()).value == b"end"
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            assert {500, 1000, 1500} <= {*stops}
            consumer.seek(A, 0)
            for _ in range(200):  # polls that do not wait come forward too
                if found := await consumer.getmany():
                    break
                await asyncio.sleep(0.005)
            assert [record.value for record in found[A]] == [b"end"]


async def test_batches_up_to_an_offset() -> None:
    async with reading(3, 3, 3) as consumer:
        found = await consumer.getbatches(A, 5, max_records=1)
        assert [list(batch.offsets) for batch in found] == [[0, 1, 2]]
        found = await consumer.getbatches(A, 5)
        assert [list(batch.offsets) for batch in found] == [[3, 4]]
        assert await consumer.getbatches(A, 5) == []
        assert await consumer.position(A) == 5
        assert [list(batch.offsets) for batch in await consumer.getbatches(A, 9)] == [
            [5],
            [6, 7, 8],
        ]


async def test_batches_up_to_an_offset_that_no_record_has() -> None:
    """It steps over what is hidden at the end, and does not wait for it."""
    async with transactions() as (_, consumer):
        found = await consumer.getbatches(A, 8)
        assert [list(batch.offsets) for batch in found] == [[0, 1], [5, 6]]
        assert await consumer.getbatches(A, 8) == []
        consumer.seek(A, 2)
        assert await consumer.getbatches(A, 5) == []
        consumer.seek(A, 2)
        assert [list(batch.offsets) for batch in await consumer.getbatches(A, 6)] == [[5]]


async def test_batches_of_one_partition_leave_those_of_others() -> None:
    async with reading(2, partitions=2) as consumer:
        assert [b.partition for b in await consumer.getbatches(B, 2)] == [1]
        assert await consumer.getbatches(B, 2) == []
        assert [b.partition for b in await consumer.getbatches(A, 2)] == [0]


async def test_batches_that_do_not_come_in_time() -> None:
    async with reading(2) as consumer:
        assert len(await consumer.getbatches(A, 3)) == 1
        with pytest.raises(DeadlineExceededError, match="from offset 2, and 3 was to be reached"):
            await consumer.getbatches(A, 3, timeout_ms=10)


async def test_batches_before_a_corrupt_one_are_handed_out_first() -> None:
    async with FakeCluster() as cluster:
        (log,) = cluster.create_topic("t")
        for _ in range(2):
            log.append(encode_batch([b"v"], timestamps=0))
        damaged = bytearray(log.batches[1])
        damaged[-1] ^= 1
        log.batches[1] = bytes(damaged)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1)}
        async with Consumer("t", bootstrap_servers=cluster.bootstrap, **options) as consumer:
            assert [list(batch.offsets) for batch in await consumer.getbatches(A, 2)] == [[0]]
            with pytest.raises(CorruptRecordError, match="offset 1"):
                await consumer.getbatches(A, 2)


async def test_batches_of_a_consumer_that_is_closed() -> None:
    async with reading(2) as consumer:
        waiting = asyncio.ensure_future(consumer.getbatches(A, 9))
        assert [list(batch.offsets) for batch in await waiting] == [[0, 1]]
        waiting = asyncio.ensure_future(consumer.getbatches(A, 9))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(ClosedError):
            await waiting


async def test_batches_up_to_so_many_bytes() -> None:
    async with reading(3, 3, 3) as consumer:
        found = await consumer.getbatches(A, 9, max_bytes=1)
        assert [list(batch.offsets) for batch in found] == [[0, 1, 2]]
        found = await consumer.getbatches(A, 9, max_bytes=100)
        assert [list(batch.offsets) for batch in found] == [[3, 4, 5], [6, 7, 8]]
