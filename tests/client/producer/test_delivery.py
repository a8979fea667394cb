"""A delivery may be awaited, asked, called back; cancelling an await cancels nothing else."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.backoff import Backoff
from oncelog.errors import ClosedError
from oncelog.producer.accumulator import Accumulator, Batch
from oncelog.producer.delivery import BatchMetadata, Delivery, RecordMetadata, WrittenRange
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy


def make() -> tuple[Accumulator, Batch, Delivery]:
    accumulator = Accumulator(
        batch_size=100,
        buffer_memory=1000,
        linger_s=0,
        delivery_timeout_s=1,
        new_backoff=lambda name: Backoff(0.01, 1, SeededEntropy(name)),
    )
    assert accumulator.try_reserve(100)
    batch = accumulator.open_batch(accumulator.queue(TopicPartition("t", 3)), 0.0, 100)
    accumulator.add(batch, b"a", None, None, 10)
    return accumulator, batch, accumulator.add(batch, b"b", None, None, 20)


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_a_failure_is_raised_wherever_one_looks() -> None:
    accumulator, batch, delivery = make()
    error = ClosedError("x")
    accumulator.fail(batch, error)
    assert delivery.exception() is error
    with pytest.raises(ClosedError):
        delivery.result()
    with pytest.raises(ClosedError):
        await delivery


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_unasked_offsets_and_the_brokers_own_time() -> None:
    accumulator, batch, delivery = make()
    accumulator.close_batch(batch)
    accumulator.acknowledge(batch, -1, 99)
    assert await delivery == RecordMetadata("t", 3, -1, 99)


def test_metadata_of_many() -> None:
    metadata = BatchMetadata("t", (WrittenRange(0, 10, range(2)), WrittenRange(1, -1, range(2, 3))))
    assert metadata.record_count == 3
    assert list(metadata.positions()) == [(0, 0, 10), (1, 0, 11), (2, 1, -1)]
