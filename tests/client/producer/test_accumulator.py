"""Batches keep memory and order, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.core.backoff import Backoff
from oncelog.errors import BufferExhaustedError, ClosedError
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.partition_queue import Batch
from oncelog.producer.slicing import record_size
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy

TP = TopicPartition("t", 0)
BATCH_SIZE = 100


def make(**options: Any) -> Accumulator:
    given: dict[str, Any] = {
        "buffer_memory": 300,
        "linger_s": 1.0,
        "delivery_timeout_s": 10.0,
        "new_backoff": lambda name: Backoff(0.01, 1, SeededEntropy(name)),
    }
    return Accumulator(**{**given, **options})


def opened(accumulator: Accumulator, tp: TopicPartition = TP, now: float = 0.0) -> Batch:
    assert accumulator.try_reserve(BATCH_SIZE)
    return accumulator.open_batch(accumulator.queue(tp), now, BATCH_SIZE)


def test_a_batch_holds_room_for_itself_and_then_for_its_records() -> None:
    accumulator = make()
    batch = opened(accumulator)
    assert accumulator.used == 100
    accumulator.add(batch, b"v" * 10, None, None, 5)
    accumulator.close_batch(batch)
    assert accumulator.used == batch.size == record_size(b"v" * 10, None, None)
    accumulator.acknowledge(batch, 7, -1)
    assert accumulator.used == 0
    assert not accumulator.incomplete


def test_columns_appear_when_they_are_first_used() -> None:
    accumulator = make()
    batch = opened(accumulator)
    accumulator.stick(batch)
    accumulator.add(batch, b"a", None, None, 1)
    assert accumulator.sticky == {"t": batch}
    accumulator.add(batch, b"b", b"k", None, 2)
    assert not accumulator.sticky, "keys: no longer a batch of bare values"
    accumulator.add(batch, b"c", None, [("h", b"1")], 3)
    assert batch.keys == [None, b"k", None]
    assert batch.headers == [None, None, [("h", b"1")]]
    assert batch.timestamps == [1, 2, 3]
    accumulator.stick(batch)
    assert not accumulator.sticky


def test_lingers_end_in_order_and_a_batch_grows_until_it_is_sent() -> None:
    accumulator = make()
    first = opened(accumulator, TP, now=0.0)
    second = opened(accumulator, TopicPartition("t", 1), now=0.5)
    assert accumulator.end_lingers(0.9) == 1.0
    lingering = not first.queue.may_send
    assert accumulator.end_lingers(1.0) == 1.5
    assert lingering
    assert first.queue.may_send
    assert list(accumulator.sendable) == [first.queue]
    accumulator.add(first, b"late", None, None, 1)
    assert accumulator.next_ready(first.queue) is first
    assert first.count == 1
    assert accumulator.next_ready(second.queue) is None
    accumulator.close_batch(second)
    assert accumulator.end_lingers(2.0) is None


def test_what_has_timed_out_is_passed_over() -> None:
    accumulator = make()
    batch = opened(accumulator)
    accumulator.fail(batch, ClosedError("x"))
    assert batch.queue.ready
    assert accumulator.next_ready(batch.queue) is None
    assert not batch.queue.has_work


def test_whole_batches_go_behind_what_is_open() -> None:
    accumulator = make()
    batch = opened(accumulator)
    accumulator.add(batch, b"a", None, None, 1)
    assert accumulator.try_reserve(50)
    whole = accumulator.add_columns(batch.queue, 0.0, 50, 3, bytearray(40), 9, ())
    assert list(batch.queue.ready) == [batch, whole]
    assert whole.timestamp_of(2) == 9
    accumulator.acknowledge(whole, 5, 77)
    assert whole.timestamp_of(2) == 77


def test_what_failed_goes_first_again_in_order() -> None:
    accumulator = make()
    queue = accumulator.queue(TP)
    batches = []
    for _ in range(3):
        assert accumulator.try_reserve(10)
        batches.append(accumulator.add_columns(queue, 0.0, 10, 1, bytearray(1), 0, ()))
    queue.ready.popleft()
    queue.ready.popleft()
    queue.failed.extend(batches[:2])
    muted = not queue.may_send
    queue.put_back(0.0)
    assert list(queue.ready) == batches
    assert muted, "until everything in flight was answered"
    assert queue.may_send
    assert queue.load == 3


def test_failures_nobody_looked_at_are_reported_once() -> None:
    accumulator = make()
    batch = opened(accumulator)
    accumulator.add(batch, b"a", None, None, 1)
    error = ClosedError("x")
    accumulator.fail(batch, error)
    assert accumulator.take_unobserved() == [(1, error)]
    assert accumulator.take_unobserved() == []
    watched = opened(accumulator)
    accumulator.add(watched, b"a", None, None, 1)
    watched.observed = True
    accumulator.fail(watched, error)
    assert accumulator.take_unobserved() == []
    seen_later = opened(accumulator)
    delivery = accumulator.add(seen_later, b"a", None, None, 1)
    accumulator.fail(seen_later, error)
    assert delivery.exception() is error
    assert accumulator.take_unobserved() == []


async def test_who_waits_for_room_is_served_in_order() -> None:
    accumulator = make()
    until = asyncio.get_running_loop().time() + 5
    await accumulator.reserve(300, until)
    order: list[int] = []

    async def wait(number: int, size: int) -> None:
        await accumulator.reserve(size, until)
        order.append(number)

    waiting = [asyncio.create_task(wait(number, size)) for number, size in enumerate([200, 10, 10])]
    await asyncio.sleep(0)
    accumulator.release(100)
    await asyncio.sleep(0)
    assert order == [], "the first in line needs more; nobody overtakes it"
    assert not accumulator.try_reserve(1)
    accumulator.release(200)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2]
    assert accumulator.used == 220


async def test_no_room_in_time_says_so_and_leaves_the_line() -> None:
    accumulator = make()
    now = asyncio.get_running_loop().time()
    await accumulator.reserve(300, now + 5)
    with pytest.raises(BufferExhaustedError, match="buffer_memory=300"):
        await accumulator.reserve(10, now + 0.02)
    accumulator.release(300)
    assert accumulator.try_reserve(300)
    with pytest.raises(BufferExhaustedError, match="do not fit"):
        await accumulator.reserve(301, now + 5)


async def test_a_cancelled_wait_loses_no_room() -> None:
    accumulator = make()
    until = asyncio.get_running_loop().time() + 5
    await accumulator.reserve(300, until)
    waiting = asyncio.create_task(accumulator.reserve(100, until))
    await asyncio.sleep(0)
    accumulator.release(300)  # the room is given, and its owner is cancelled before it runs
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert accumulator.used == 0


async def test_waiting_closes_open_batches_that_hold_more_than_they_need() -> None:
    accumulator = make()
    for number in range(3):
        batch = opened(accumulator, TopicPartition("t", number))
        accumulator.add(batch, b"v", None, None, 1)
    assert accumulator.used == 300
    await accumulator.reserve(100, asyncio.get_running_loop().time() + 5)
    assert accumulator.used == 100 + 3 * record_size(b"v", None, None)


async def test_closing_refuses_who_waits() -> None:
    accumulator = make()
    until = asyncio.get_running_loop().time() + 5
    await accumulator.reserve(300, until)
    waiting = asyncio.create_task(accumulator.reserve(100, until))
    await asyncio.sleep(0)
    accumulator.refuse_waiting(ClosedError("closed"))
    with pytest.raises(ClosedError):
        await waiting
    assert accumulator.used == 300


def test_the_size_of_a_record_is_an_upper_bound() -> None:
    value, key, headers = b"v" * 300, b"k" * 70_000, [("name", b"x" * 300), ("n", None)]
    bare = len(encode_batch([b""], timestamps=[1]))
    many = len(
        encode_batch(
            [value] * 10, keys=[key] * 10, headers=[headers] * 10, timestamps=list(range(10))
        )
    )
    assert many <= bare + 64 + 10 * record_size(value, key, headers)
