"""Produce and consume rates through the public SDK.

Every function measures one repeat: it returns records a second from the first send to the last
acknowledgement, or from the first to the last record handed out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import uvloop

from oncelog import Admin, ColumnBatch, Consumer, NewTopic, Producer

Acks = Literal["all", 0, 1]
Work = Callable[[str, str], Coroutine[Any, Any, float]]
"""It measures something on the brokers, and the topic, that it is given."""
PARTITIONS = 6
BATCH_BYTES = 512 * 1024


async def make_topic(
    bootstrap: str, name: str, *, replication_factor: int, flush: str = "commit"
) -> None:
    """Create a topic of six partitions for one row of the table."""
    # Files go at once with their topic, so that the page cache of one row serves the next.
    configs = {"flush": flush, "file_delete_delay_ms": "0"}
    if replication_factor >= 3:
        configs["min_insync_replicas"] = "2"
    async with Admin(bootstrap) as admin:
        topic = NewTopic(name, PARTITIONS, replication_factor, configs)
        (await admin.create_topics([topic])).raise_for_errors()


async def drop_topic(bootstrap: str, name: str) -> None:
    """Delete a topic, so that rows do not fill the disk."""
    async with Admin(bootstrap) as admin:
        (await admin.delete_topics([name])).raise_for_errors()


def on_topic(
    bootstrap: str, work: Work, *, replication_factor: int = 3, flush: str = "commit"
) -> float:
    """Run ``work(bootstrap, topic)`` on a fresh topic that is dropped afterwards."""

    async def whole() -> float:
        topic = f"bench-{replication_factor}-{flush}"
        await make_topic(bootstrap, topic, replication_factor=replication_factor, flush=flush)
        try:
            return await work(bootstrap, topic)
        finally:
            await drop_topic(bootstrap, topic)

    return uvloop.run(whole())


def _producer(bootstrap: str, acks: Acks, batch_size: int = BATCH_BYTES) -> Producer:
    return Producer(
        bootstrap, acks=acks, linger_ms=5, batch_size=batch_size, buffer_memory=128 << 20
    )


async def produce_many(
    bootstrap: str, topic: str, *, size: int, count: int, acks: Acks, batch_size: int = BATCH_BYTES
) -> float:
    """Measure ``send_many`` by columns: lists of 5 MB of values, eight of them outstanding."""
    values = [b"x" * size] * (5_000_000 // size)
    async with _producer(bootstrap, acks, batch_size) as producer:
        await producer.send_many(topic, values[:1000])
        began = time.perf_counter()
        outstanding: deque[asyncio.Task[object]] = deque()
        sent = 0
        while sent < count:
            outstanding.append(asyncio.create_task(producer.send_many(topic, values)))
            sent += len(values)
            if len(outstanding) > 8:
                await outstanding.popleft()
        await asyncio.gather(*outstanding)
        return sent / (time.perf_counter() - began)


async def produce_each(bootstrap: str, topic: str, *, size: int, count: int, acks: Acks) -> float:
    """``enqueue`` record by record: each call hands back a delivery, all are awaited."""
    value = b"x" * size
    async with _producer(bootstrap, acks) as producer:
        await producer.send(topic, value)
        began = time.perf_counter()
        enqueue = producer.enqueue
        for _ in range(count):
            await enqueue(topic, value)
        await producer.flush()
        return count / (time.perf_counter() - began)


def _consumer(bootstrap: str, topic: str) -> Consumer:
    return Consumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4 << 20,
    )


async def consume_each(bootstrap: str, topic: str, *, count: int) -> float:
    """Measure ``async for record in consumer``."""
    async with _consumer(bootstrap, topic) as consumer:
        seen = 0
        began = time.perf_counter()
        async for record in consumer:
            if record.value is not None:
                seen += 1
            if seen == count:
                break
        return count / (time.perf_counter() - began)


async def consume_columns(bootstrap: str, topic: str, *, count: int) -> float:
    """Measure ``async for batch in consumer.batches()``, with values as a list."""
    return await _consume_batches(bootstrap, topic, count, lambda batch: len(batch.values))


async def consume_arrow(bootstrap: str, topic: str, *, count: int) -> float:
    """Measure the same batches turned into Arrow record batches."""
    import pyarrow  # noqa: F401 - importing it takes longer than some runs

    return await _consume_batches(
        bootstrap, topic, count, lambda batch: int(batch.to_arrow().num_rows)
    )


async def _consume_batches(
    bootstrap: str, topic: str, count: int, rows_of: Callable[[ColumnBatch], int]
) -> float:
    async with _consumer(bootstrap, topic) as consumer:
        seen = 0
        began = time.perf_counter()
        async for batch in consumer.batches():
            seen += rows_of(batch)
            if seen >= count:
                break
        return seen / (time.perf_counter() - began)
