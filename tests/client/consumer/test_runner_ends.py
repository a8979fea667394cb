"""``run`` loses partitions, and ends in all possible ways."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Consumer, Record, Retry
from oncelog.errors import (
    ClientError,
    CorruptRecordError,
)
from support.running import A, B, Handler, committable, fake, fill, raised, reading, running
from support.waiting import eventually

# ------------------------------------------------------------------------------ taken away


async def test_what_has_begun_ends_before_a_partition_is_taken_away_the_rest_is_forgotten() -> None:
    async with fake(10, 10) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.partition == 0 and record.offset in (0, 1)
        async with running(consumer, handler, concurrency=8):
            await eventually(lambda: len(handler.done) == 10 + 3, what="B, and a key of A")
            assert consumer._core.boundary.work is not None
            taking = asyncio.ensure_future(consumer._core.boundary.work.taking_away([A]))
            await asyncio.sleep(0.01)
            assert not taking.done()
            handler.gate.set()
            await taking
            assert len(handler.done) == 15
            assert committable(consumer) == {A: 3, B: 10}, "0, 1 and 2 are done, 3 has not begun"
            # It stays with us after all: what was forgotten is read again.
            fill(cluster, 1)
            await eventually(lambda: committable(consumer)[A] == 11)
        assert len(handler.done) == 15 + 8, "5 and 8 of A once more, for the position was 3"


async def test_a_handler_that_takes_too_long_is_cancelled_and_its_worker_goes_on() -> None:
    async with fake(10, 10) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.partition == 0
        options: dict[str, Any] = {"order": "partition", "drain_timeout_ms": 20}
        async with running(consumer, handler, concurrency=2, **options):
            await eventually(lambda: len(handler.done) == 10)
            assert consumer._core.boundary.work is not None
            await consumer._core.boundary.work.taking_away([A])
            assert handler.cancelled == [0]
            assert committable(consumer) == {A: 0, B: 10}
            handler.slow = lambda record: False
            fill(cluster, 5, 1)
            await eventually(lambda: committable(consumer)[B] == 15)


async def test_a_partition_that_was_lost_and_came_back_begins_anew() -> None:
    async with (
        fake(10) as cluster,
        Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([A])
        handler = Handler()
        handler.slow = lambda record: record.offset == 0
        async with running(consumer, handler, concurrency=4, order="none"):
            await eventually(lambda: len(handler.done) == 9)
            consumer.assign([])
            consumer.assign([A])
            await eventually(lambda: sorted(handler.done) == sorted([*range(1, 10)] * 2))
            assert committable(consumer) == {A: 0}
            handler.gate.set()
            await eventually(lambda: committable(consumer) == {A: 10})
            assert len(handler.done) == 20


async def test_of_a_partition_that_is_withheld_nothing_more_begins() -> None:
    """It is withheld without a word to us: it is lost, and so perhaps another's already."""
    async with fake(10) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset == 0
        async with running(consumer, handler, order="partition"):
            await eventually(lambda: handler.begun == [0])
            state = consumer._core.subscription.states[A]
            state.withheld = True
            handler.gate.set()
            await eventually(lambda: handler.done == [0])
            for _ in range(20):
                await asyncio.sleep(0)
            assert handler.begun == [0]
            assert committable(consumer) == {A: 1}
            state.withheld = False
            fill(cluster, 1)
            await eventually(lambda: handler.done == list(range(11)))


async def test_seeking_back_reads_again() -> None:
    async with fake(10) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, handler):
            await eventually(lambda: len(handler.done) == 10)
            consumer.seek(A, 4)
            await eventually(lambda: len(handler.done) == 16)
            assert committable(consumer) == {A: 10}


# ------------------------------------------------------------------------------ ends


async def test_closing_ends_the_run_after_what_has_begun() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset in (0, 1)
        async with running(consumer, handler, concurrency=2, order="none") as task:
            await eventually(lambda: handler.begun == [0, 1])
            closing = asyncio.create_task(consumer.close())
            await asyncio.sleep(0.01)
            assert not closing.done()
            handler.gate.set()
            await closing
            async with asyncio.timeout(5):
                await task
        assert handler.done == [0, 1]
        assert committable(consumer) == {A: 2}


async def test_a_clean_end_leaves_no_gap_below_what_was_done() -> None:
    """Records of three keys: those of the first wait behind record 0, the others go on."""
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset in (0, 13)
        async with running(consumer, handler, concurrency=2) as task:
            await eventually(lambda: 13 in handler.begun)
            closing = asyncio.create_task(consumer.close())
            await eventually(lambda: consumer._core.closing.waiting)
            handler.gate.set()
            await closing
            async with asyncio.timeout(5):
                await task
        assert sorted(handler.done) == list(range(14))
        assert committable(consumer) == {A: 14}


async def test_a_clean_end_does_not_wait_for_another_attempt() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 0
        retry = Retry(5, backoff_ms=3_600_000, backoff_max_ms=3_600_000)
        async with running(consumer, handler, concurrency=2, retry=retry) as task:
            await eventually(lambda: 29 in handler.done)
            await consumer.close()
            async with asyncio.timeout(5):
                await task
        assert committable(consumer) == {A: 0}


async def test_nothing_overtakes_a_record_that_fails_while_the_run_ends() -> None:
    """Records 3, 6, 9 and 12 have its key: whoever has the partition next handles them after it."""
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset in (0, 13)
        handler.bad = lambda record: record.offset == 0
        retry = Retry(5, backoff_ms=1)
        async with running(consumer, handler, concurrency=2, retry=retry) as task:
            await eventually(lambda: 13 in handler.begun)
            closing = asyncio.create_task(consumer.close())
            await eventually(lambda: consumer._core.closing.waiting)
            handler.gate.set()
            await closing
            async with asyncio.timeout(5):
                await task
        assert not {3, 6, 9, 12} & set(handler.begun)
        assert committable(consumer) == {A: 0}


async def test_a_handler_may_close_the_consumer() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        seen: list[int] = []

        async def handler(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 3:
                await consumer.close()

        async with asyncio.timeout(5):
            await consumer.run(handler, order="partition")
        assert seen == [0, 1, 2, 3]


async def test_cancelling_cancels_handlers_and_sets_the_position_back() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset in (5, 6)
        async with running(consumer, handler, concurrency=2, order="none") as task:
            await eventually(lambda: len(handler.now) == 2 and 6 in handler.begun)
            task.cancel()
            assert isinstance(await raised(task), asyncio.CancelledError)
        assert handler.cancelled == [5, 6]
        assert await consumer.position(A) == 5
        assert (await consumer.getone()).offset == 5


async def test_a_batch_that_does_not_hold_ends_the_run_and_what_was_before_it_is_done() -> None:
    async with fake(5) as cluster, reading(cluster) as consumer:
        fill(cluster, 5)
        broken = bytearray(cluster.partition("t").batches[1])
        broken[-1] ^= 0xFF
        cluster.partition("t").batches[1] = bytes(broken)
        handler = Handler()
        async with running(consumer, handler, dead_letter=None) as task:
            error = await raised(task)
        assert isinstance(error, CorruptRecordError)
        assert handler.done == list(range(await consumer.position(A))), "and nothing behind it"


async def test_one_run_at_a_time() -> None:
    async with fake(5) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, handler):
            await eventually(lambda: handler.done)
            with pytest.raises(ClientError, match="one at a time"):
                await consumer.run(handler)
            assert consumer._core.boundary.work is not None


async def test_handlers_that_never_wait_let_the_loop_go_round() -> None:
    async with fake(5000) as cluster, reading(cluster) as consumer:
        count = 0

        async def handler(record: Record) -> None:
            nonlocal count
            count += 1

        async with running(consumer, handler, concurrency=4):
            await eventually(lambda: count == 5000)
