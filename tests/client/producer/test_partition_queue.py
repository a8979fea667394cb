"""A delivery may be awaited, asked, called back. A queue knows when its batches may go out."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from oncelog.core.backoff import Backoff
from oncelog.errors import ClosedError
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.partition_queue import Batch, Delivery, watch
from oncelog.producer.record_metadata import RecordMetadata
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy


def make() -> tuple[Accumulator, Batch, Delivery]:
    accumulator = Accumulator(
        buffer_memory=1000,
        linger_s=0,
        delivery_timeout_s=1,
        new_backoff=lambda name: Backoff(0.01, 1, SeededEntropy(name)),
    )
    assert accumulator.try_reserve(100)
    batch = accumulator.open_batch(accumulator.queue(TopicPartition("t", 3)), 0.0, 100)
    accumulator.add(batch, b"a", None, None, 10)
    return accumulator, batch, accumulator.add(batch, b"b", None, None, 20)


async def test_await() -> None:
    accumulator, batch, delivery = make()
    assert not delivery.done()
    with pytest.raises(RuntimeError):
        delivery.result()
    with pytest.raises(RuntimeError):
        delivery.exception()

    async def wait() -> RecordMetadata:
        return await delivery

    first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    accumulator.close_batch(batch)
    accumulator.acknowledge(batch, 100, -1)
    assert await second == RecordMetadata("t", 3, 101, 20)
    assert first.cancelled()
    assert await delivery == delivery.result()
    assert delivery.exception() is None
    assert "t-3 done" in repr(delivery)


async def test_a_failure_is_raised_wherever_one_looks() -> None:
    accumulator, batch, delivery = make()
    error = ClosedError("x")
    accumulator.fail(batch, error)
    assert delivery.exception() is error
    with pytest.raises(ClosedError):
        delivery.result()
    with pytest.raises(ClosedError):
        await delivery


async def test_callbacks_run_on_the_loop_also_when_it_is_done_already() -> None:
    accumulator, batch, delivery = make()
    seen: list[Delivery] = []
    delivery.add_done_callback(seen.append)
    accumulator.close_batch(batch)
    accumulator.acknowledge(batch, 0, -1)
    delivery.add_done_callback(seen.append)
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [delivery, delivery]
    assert batch.observed


async def test_unasked_offsets_and_the_brokers_own_time() -> None:
    accumulator, batch, delivery = make()
    accumulator.close_batch(batch)
    accumulator.acknowledge(batch, -1, 99)
    assert await delivery == RecordMetadata("t", 3, -1, 99)


async def test_who_only_watches_leaves_a_failure_to_flush() -> None:
    accumulator, batch, delivery = make()
    seen: list[object] = []
    watch(delivery, seen.append)
    error = ClosedError("x")
    accumulator.fail(batch, error)
    await asyncio.sleep(0)
    assert seen == [error]
    assert accumulator.take_unobserved() == [(2, error)]


async def test_a_queue_waits_for_its_former_leader_and_pauses_after_a_failure() -> None:
    accumulator, batch, _ = make()
    queue = batch.queue
    accumulator.close_batch(batch)
    queue.led_by(1, 5)
    accumulator.take(batch)
    queue.sent(batch, 1)
    assert queue.may_go_at(1, 5, 10.0) == 10.0
    assert queue.may_go_at(2, 6, 10.0) == inf
    queue.answered(batch)
    queue.set_aside(batch)
    queue.put_back(10.0)
    assert 10.0 < queue.may_go_at(1, 5, 10.0) <= 11.0
    assert queue.may_go_at(2, 6, 10.0) == 10.0, "another leader is tried without waiting"
    assert queue.acknowledged(batch, 5) == []
    assert queue.window == 5
    queue.led_by(2, 6)
    assert queue.window == 1, "a new leader gets one batch at first"
