"""End-to-end latency is from the call of ``enqueue`` to the record in the consumer's hands."""

from __future__ import annotations

import asyncio
import time

from oncelog import Consumer, Producer, TopicPartition, defaults
from oncelog_bench.throughput import PARTITIONS, Acks


async def end_to_end_ms(
    bootstrap: str, topic: str, *, rate: int, seconds: float, acks: Acks = defaults.ACKS
) -> list[float]:
    """Return latencies in ms at ``rate`` records/s; the first fifth is warm-up and dropped."""
    async with (
        Producer(bootstrap, acks=acks, linger_ms=0) as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") as consumer,
    ):
        consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        await consumer.seek_to_end()
        total = int(rate * seconds)
        latencies: list[float] = []
        reading = asyncio.create_task(_read(consumer, total, latencies))
        await _send(producer, topic, rate, total)
        await asyncio.wait_for(reading, 30)
        return latencies[len(latencies) // 5 :]


async def _send(producer: Producer, topic: str, rate: int, total: int) -> None:
    began = time.perf_counter()
    sent = 0
    while sent < total:
        due = min(total, int((time.perf_counter() - began) * rate) + 1)
        while sent < due:
            stamp = b"%020.9f" % time.perf_counter()
            await producer.enqueue(topic, stamp + b"x" * 80)
            sent += 1
        # Timers of libuv count whole milliseconds: a shorter sleep would spin.
        await asyncio.sleep(max(0.001, began + sent / rate - time.perf_counter()))
    await producer.flush()


async def _read(consumer: Consumer, total: int, latencies: list[float]) -> None:
    async for record in consumer:
        assert record.value is not None
        latencies.append((time.perf_counter() - float(record.value[:20])) * 1000)
        if len(latencies) == total:
            return
