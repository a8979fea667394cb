"""A compacted topic is under load: one writes it, one reads along, one looks at disks.

``KeyedLoad`` writes new values of few keys again and again, and now and then takes a key back.
``Contents`` is what somebody knows of a partition.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncelog import Consumer, Delivery, Producer, TopicPartition
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.decode import decode_batch
from simulation.checkers.newest_values_kept import Kept

KEYS = 40
PADDING = b"." * 60
TOMBSTONE_EVERY = 23
BURST = 20


class Contents:
    """It holds the records of one partition, by offset."""

    def __init__(self) -> None:
        self.records: dict[int, Kept] = {}

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Add a record that was found, or is known to be there."""
        self.records.setdefault(offset, Kept(offset, key, value))

    def in_order(self) -> list[Kept]:
        """Return them by offset."""
        return [self.records[offset] for offset in sorted(self.records)]


class KeyedLoad:
    """It writes until the block ends: ``async with KeyedLoad(...)``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, pause_s: float = 0.01):
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self._stop = asyncio.Event()
        self.acknowledged = 0
        self.contents = {TopicPartition(topic, p): Contents() for p in range(partitions)}
        """What was acknowledged, where."""

    async def __aenter__(self) -> KeyedLoad:
        self._task = asyncio.create_task(self._run())
        await self.wait_for(BURST)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Write no more; again, it does nothing."""
        self._stop.set()
        await self._task

    async def wait_for(self, more: int, *, timeout_s: float = 60) -> None:
        """Wait until so many more records than now are acknowledged."""
        goal = self.acknowledged + more
        async with asyncio.timeout(timeout_s):
            while self.acknowledged < goal:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.02)

    async def _run(self) -> None:
        number = 0
        async with Producer(self._bootstrap, acks="all", linger_ms=0) as producer:
            while not self._stop.is_set():
                for _ in range(BURST):
                    await self._send(producer, number)
                    number += 1
                await producer.flush()
                await asyncio.sleep(self._pause_s)

    async def _send(self, producer: Producer, number: int) -> None:
        key = b"key-%d" % (number * 7 % KEYS)
        value = None if number % TOMBSTONE_EVERY == 0 else b"%d" % number + PADDING
        partition = number % self._partitions

        def on_done(delivery: Delivery) -> None:
            if delivery.exception() is None:
                self.acknowledged += 1
                place = TopicPartition(self._topic, partition)
                self.contents[place].add(delivery.result().offset, key, value)

        delivery = await producer.enqueue(self._topic, value, key=key, partition=partition)
        delivery.add_done_callback(on_done)


class Tail:
    """It reads along from offset 0, ahead of the cleaner: ``async with Tail(...)``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._all = [TopicPartition(topic, number) for number in range(partitions)]
        self.contents = {tp: Contents() for tp in self._all}

    async def __aenter__(self) -> Tail:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with Consumer(bootstrap_servers=self._bootstrap) as consumer:
            consumer.assign(self._all)
            for tp in self._all:
                consumer.seek(tp, 0)
            while True:
                await _take(consumer, self.contents)

    async def wait_for(self, ends: dict[TopicPartition, int], *, timeout_s: float = 30) -> None:
        """Wait until it has read up to these ends."""
        async with asyncio.timeout(timeout_s):
            while any(end - 1 not in self.contents[tp].records for tp, end in ends.items() if end):
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.02)


async def _take(consumer: Consumer, contents: dict[TopicPartition, Contents]) -> None:
    for tp, records in (await consumer.getmany(timeout_ms=500)).items():
        for record in records:
            contents[tp].add(record.offset, record.key, record.value)


async def read_from_zero(
    bootstrap: str, topic: str, partitions: int
) -> tuple[dict[TopicPartition, Contents], dict[TopicPartition, int]]:
    """Return what a new reader finds, and the ends up to which it read."""
    everything = [TopicPartition(topic, number) for number in range(partitions)]
    contents = {tp: Contents() for tp in everything}
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(everything)
        ends = await consumer.end_offsets(everything)
        for tp in everything:
            consumer.seek(tp, 0)
        async with asyncio.timeout(30):
            while any([await consumer.position(tp) < ends[tp] for tp in everything]):
                await _take(consumer, contents)
    return contents, ends


def contents_on_disk(log_dir: Path, topic: str, partition: int, end: int) -> Contents:
    """Return what a broker's files hold below ``end``. The broker must not be cleaning
    meanwhile."""
    contents = Contents()
    for path in sorted((log_dir / f"{topic}-{partition}").glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            columns = decode_batch(data[position : position + header.size_bytes])
            keys = columns.keys or [None] * len(columns.values)
            for offset, key, value in zip(columns.offsets(), keys, columns.values, strict=True):
                if offset < end:
                    contents.add(offset, key, value)
    return contents


def record_count_on_disk(log_dir: Path, topic: str, partition: int) -> int:
    """Return how many records the files hold; a file that vanishes meanwhile counts as empty."""
    count = 0
    for path in sorted((log_dir / f"{topic}-{partition}").glob("*.log")):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        count += sum(header.record_count for _, header in iter_headers(data))
    return count
