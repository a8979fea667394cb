"""``run`` keeps order, counts attempts, writes dead letters, holds back, and uses threads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from oncelog import Record
from oncelog.consumer.retry import Retry
from oncelog.errors import (
    ClientError,
    ConfigurationError,
    DeadlineExceededError,
    MessageTooLargeError,
    NotEnoughReplicasError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.decode import decode_batch
from support.fake_cluster import Action, FakePartition
from support.running import A, B, Handler, committable, fake, fill, raised, reading, running
from support.waiting import eventually


def dead_letters(partition: FakePartition) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    found = []
    for batch in partition.batches:
        columns = decode_batch(batch)
        assert columns.headers is not None
        found += [
            (value, dict(headers))
            for value, headers in zip(columns.values, columns.headers, strict=True)
        ]
    return found


# ------------------------------------------------------------------------------ order


async def test_all_records_each_once_and_the_position_behind_them() -> None:
    async with fake(300, 200) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, handler, concurrency=8):
            await eventually(lambda: len(handler.done) == 500)
            await eventually(lambda: committable(consumer) == {A: 300, B: 200})
        assert handler.most == 8 or handler.most == 6, "three keys in each of two partitions"
        assert [await consumer.position(tp) for tp in (A, B)] == [300, 200]
        assert consumer._core.boundary.work is None


async def test_keys_keep_their_order_and_do_not_wait_for_each_other() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset == 0
        async with running(consumer, handler, concurrency=4):
            await eventually(lambda: len(handler.done) == 20)
            assert all(offset % 3 for offset in handler.done)
            assert [offset for offset in handler.done if offset % 3 == 1] == list(range(1, 30, 3))
            assert committable(consumer) == {A: 0}
            handler.gate.set()
            await eventually(lambda: len(handler.done) == 30)
            await eventually(lambda: committable(consumer) == {A: 30})
        assert [offset for offset in handler.done if offset % 3 == 0] == list(range(0, 30, 3))


async def test_partitions_one_record_at_a_time() -> None:
    async with fake(20, 20) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, handler, concurrency=8, order="partition"):
            await eventually(lambda: len(handler.done) == 40)
        assert handler.most == 2


async def test_no_order_at_all() -> None:
    async with fake(20) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset < 7
        async with running(consumer, handler, concurrency=8, order="none"):
            await eventually(lambda: len(handler.done) == 13)
            assert handler.most == 8
            handler.gate.set()
            await eventually(lambda: committable(consumer) == {A: 20})


async def test_new_records_are_handled_as_they_come() -> None:
    async with fake(0) as cluster, reading(cluster) as consumer:
        handler = Handler()

        def done_so_far(count: int) -> bool:
            return len(handler.done) == count

        async with running(consumer, handler, concurrency=2):
            for count in range(1, 4):
                fill(cluster, 1)
                await eventually(partial(done_so_far, count))


# ------------------------------------------------------------------------------ attempts


async def test_a_record_that_is_tried_again_holds_up_its_key_only() -> None:
    async with fake(9) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 0 and not handler.gate.is_set()
        retry = Retry(1000, backoff_ms=1, backoff_max_ms=2)
        async with running(consumer, handler, concurrency=1, retry=retry):
            await eventually(lambda: len(handler.done) == 6)
            await eventually(lambda: handler.begun.count(0) > 3)
            assert sorted(handler.done) == [1, 2, 4, 5, 7, 8]
            assert committable(consumer) == {A: 0}
            handler.gate.set()
            await eventually(lambda: committable(consumer) == {A: 9})
        assert handler.done[6:] == [0, 3, 6]


async def test_without_a_dead_letter_topic_the_last_error_ends_the_run() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 7
        retry = Retry(3, backoff_ms=1)
        async with running(consumer, handler, concurrency=3, retry=retry) as task:
            error = await raised(task)
        assert isinstance(error, ValueError)
        assert error.__notes__ == ["t-0 offset 7 failed after 3 attempts"]
        assert handler.begun.count(7) == 3
        assert await consumer.position(A) == 7
        assert not consumer.paused()
        again = Handler()
        async with running(consumer, again, concurrency=3):
            await eventually(lambda: sorted(again.done) == list(range(7, 30)))


async def test_handlers_under_way_end_before_an_error_is_raised() -> None:
    async with fake(30) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset == 1
        handler.bad = lambda record: record.offset == 2
        async with running(consumer, handler, concurrency=3) as task:
            await eventually(lambda: 2 in handler.begun and 1 in handler.begun)
            await asyncio.sleep(0.01)
            assert not task.done()
            handler.gate.set()
            assert isinstance(await raised(task), ValueError)
        assert 1 in handler.done
        assert await consumer.position(A) == 2


async def test_some_errors_are_not_tried_again() -> None:
    async with fake(3) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 1
        retry = Retry(5, give_up_on=(ValueError,))
        async with running(consumer, handler, retry=retry) as task:
            assert isinstance(await raised(task), ValueError)
        assert handler.begun.count(1) == 1


async def test_an_attempt_that_takes_too_long_has_failed() -> None:
    async with fake(3) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.offset == 1
        options: dict[str, Any] = {"handler_timeout_ms": 10, "retry": Retry(2, backoff_ms=1)}
        async with running(consumer, handler, **options) as task:
            error = await raised(task)
        assert isinstance(error, DeadlineExceededError)
        assert handler.cancelled == [1, 1]


async def test_time_outs_and_cancellations_of_the_handler_itself_are_errors_like_others() -> None:
    async with fake(1) as cluster, reading(cluster) as consumer:
        errors: list[BaseException] = [TimeoutError("own"), asyncio.CancelledError()]

        async def handler(record: Record) -> None:
            raise errors.pop(0)

        options: dict[str, Any] = {"handler_timeout_ms": 10_000, "retry": Retry(2, backoff_ms=1)}
        async with running(consumer, handler, **options) as task:
            error = await raised(task)
        assert isinstance(error, ClientError)
        assert "cancelled from within" in str(error)


# ------------------------------------------------------------------------------ dead letters


async def test_after_the_last_attempt_a_record_becomes_a_dead_letter() -> None:
    async with fake(30, dead=True) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset % 10 == 4
        options: dict[str, Any] = {"retry": Retry(2, backoff_ms=1), "dead_letter": "dead"}
        async with running(consumer, handler, concurrency=4, **options):
            await eventually(lambda: committable(consumer) == {A: 30})
        assert len(handler.done) == 27
        letters = dead_letters(cluster.partition("dead"))
        assert sorted(value for value, _ in letters if value) == [b"14", b"24", b"4"]
        for value, headers in letters:
            assert value is not None
            assert headers["oncelog-dead-letter-offset"] == value
            assert headers["oncelog-dead-letter-attempts"] == b"2"
            assert headers["oncelog-dead-letter-message"] == b"bad record " + value


async def test_what_cannot_be_decoded_becomes_a_dead_letter_at_once() -> None:
    async with fake(6, dead=True) as cluster, reading(cluster) as consumer:
        seen: list[int] = []

        async def handler(number: int) -> None:
            seen.append(number)

        def decode(record: Record) -> int:
            assert record.value is not None
            if record.offset == 2:
                raise UnicodeDecodeError("utf-8", record.value, 0, 1, "not today")
            return 100 + int(record.value)

        options: dict[str, Any] = {"retry": Retry(5, backoff_ms=60_000), "dead_letter": "dead"}
        async with running(consumer, handler, decode=decode, **options):
            await eventually(lambda: committable(consumer) == {A: 6})
        assert seen == [100, 101, 103, 104, 105]
        ((value, headers),) = dead_letters(cluster.partition("dead"))
        assert value == b"2"
        assert headers["oncelog-dead-letter-attempts"] == b"0"
        assert headers["oncelog-dead-letter-error"] == b"UnicodeDecodeError"


async def test_a_record_is_not_done_before_its_dead_letter_is_acknowledged() -> None:
    async with fake(3, dead=True) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 0
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        async with running(consumer, handler, concurrency=3, dead_letter="dead"):
            await eventually(lambda: held.met == 1 and len(handler.done) == 2)
            assert committable(consumer) == {A: 0}
            held.release.set()
            await eventually(lambda: committable(consumer) == {A: 3})


async def test_a_dead_letter_that_cannot_be_written_ends_the_run() -> None:
    async with fake(3, dead=True) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 1
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=MessageTooLargeError)
        async with running(consumer, handler, dead_letter="dead") as task:
            error = await raised(task)
        assert isinstance(error, MessageTooLargeError)
        assert isinstance(error.__cause__, ValueError)
        assert "its dead letter was not written" in error.__notes__[0]
        assert await consumer.position(A) == 1


async def test_brokers_in_trouble_delay_a_dead_letter() -> None:
    async with fake(3, dead=True) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.bad = lambda record: record.offset == 1
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError, times=3)
        async with running(consumer, handler, dead_letter="dead"):
            await eventually(lambda: committable(consumer) == {A: 3})
        assert len(dead_letters(cluster.partition("dead"))) == 1


async def test_a_topic_is_not_its_own_dead_letter_topic() -> None:
    async with fake(3) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, handler, dead_letter="t") as task:
            assert isinstance(await raised(task), ConfigurationError)
        assert not handler.begun
        assert await consumer.position(A) == 0


# ------------------------------------------------------------------------------ back-pressure


async def test_a_partition_that_is_stuck_does_not_hold_up_the_others() -> None:
    async with fake(400, 400) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: record.partition == 0
        options: dict[str, Any] = {"order": "partition", "max_records_in_flight": 100}
        async with running(consumer, handler, concurrency=4, **options):
            await eventually(lambda: len(handler.done) == 400)
            assert consumer.paused() == [A]
            assert await consumer.position(A) <= 100
            handler.gate.set()
            await eventually(lambda: len(handler.done) == 800)
            await eventually(lambda: not consumer.paused())


async def test_what_is_under_way_is_bounded() -> None:
    async with fake(500, 500) as cluster, reading(cluster) as consumer:
        handler = Handler()
        handler.slow = lambda record: True
        options: dict[str, Any] = {"order": "none", "max_records_in_flight": 64}
        async with running(consumer, handler, concurrency=50, **options):
            await eventually(lambda: consumer.paused() == [A, B])
            taken = [await consumer.position(tp) for tp in (A, B)]
            assert sum(taken) <= 64
            handler.gate.set()
            await eventually(lambda: len(handler.done) == 1000)


# ------------------------------------------------------------------------------ threads


async def test_plain_functions_run_in_threads() -> None:
    async with fake(20) as cluster, reading(cluster) as consumer:
        seen: list[int] = []
        loops: list[object] = []

        def handler(record: Record) -> None:
            try:
                asyncio.get_running_loop()
                loops.append(record)
            except RuntimeError:
                seen.append(record.offset)

        async with running(consumer, handler, concurrency=4):
            await eventually(lambda: committable(consumer) == {A: 20})
        assert sorted(seen) == list(range(20))
        assert not loops
        for key in range(3):
            assert [n for n in seen if n % 3 == key] == list(range(key, 20, 3))


async def test_a_plain_function_may_return_a_coroutine() -> None:
    async with fake(5) as cluster, reading(cluster) as consumer:
        handler = Handler()
        async with running(consumer, lambda record: handler(record)):
            await eventually(lambda: handler.done == [0, 1, 2, 3, 4])


@pytest.mark.parametrize("error", [StopIteration(), KeyError("k")])
async def test_errors_of_threads(error: Exception) -> None:
    async with fake(5) as cluster, reading(cluster) as consumer:

        def handler(record: Record) -> None:
            raise error

        async with running(consumer, handler) as task:
            assert isinstance(await raised(task), RuntimeError | KeyError)
