"""A steady producer for failure tests, and the check of what it was promised.

Numbers go to the partitions in turn, one by one; every delivery is written down as acknowledged or
failed. ``verify`` reads the topic back and holds the brokers to what they acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from oncelog import Consumer, Delivery, Producer, TopicPartition


@dataclass
class History:
    """What happened to each number, by partition."""

    acknowledged: dict[int, list[int]] = field(default_factory=dict)
    failed: list[tuple[int, BaseException]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Acknowledged records so far."""
        return sum(len(numbers) for numbers in self.acknowledged.values())


class Workload:
    """``async with Workload(...)``: produces until the block ends, then awaits all deliveries."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, rate: int = 400) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._stop = asyncio.Event()
        self.history = History()
        self.sent = 0

    async def __aenter__(self) -> Workload:
        self._task = asyncio.create_task(self._run())
        await self.wait_for(50)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._stop.set()
        await self._task

    async def wait_for(self, more: int, *, timeout_s: float = 60) -> None:
        """Wait until ``more`` records than now are acknowledged: the cluster takes writes."""
        goal = self.history.count + more
        async with asyncio.timeout(timeout_s):
            while self.history.count < goal:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.02)

    async def _run(self) -> None:
        async with Producer(self._bootstrap, acks="all", linger_ms=2) as producer:
            while not self._stop.is_set():
                number = self.sent
                self.sent += 1
                partition = number % self._partitions
                delivery = await producer.enqueue(self._topic, b"%d" % number, partition=partition)
                delivery.add_done_callback(partial(self._on_done, number, partition))
                await asyncio.sleep(1 / self._rate)
            await producer.flush()

    def _on_done(self, number: int, partition: int, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is None:
            self.history.acknowledged.setdefault(partition, []).append(number)
        else:
            self.history.failed.append((number, error))


async def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[int]]:
    """Every number of the topic by partition, in the order of offsets, to the end as it is now."""
    everything = [TopicPartition(topic, index) for index in range(partitions)]
    read: dict[int, list[int]] = {index: [] for index in range(partitions)}
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(everything)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(everything)
        positions = dict.fromkeys(everything, 0)
        async with asyncio.timeout(60):
            while any(positions[tp] < ends[tp] for tp in everything):
                for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                    read[tp.partition] += [int(record.value or b"-1") for record in records]
                    if records:
                        positions[tp] = records[-1].offset + 1
    return read


def verify(history: History, read: dict[int, list[int]], *, duplicates_allowed: bool) -> None:
    """Assert that nothing acknowledged is lost or misordered.

    A retry may store a record twice until producers are idempotent; even then first
    occurrences keep their order.
    """
    for partition, acknowledged in history.acknowledged.items():
        stored = read[partition]
        missing = set(acknowledged) - set(stored)
        assert not missing, f"partition {partition} lost {sorted(missing)[:10]}"
        firsts = list(dict.fromkeys(stored))
        assert firsts == sorted(firsts), f"partition {partition} is out of order"
        if not duplicates_allowed:
            repeated = [number for number, times in Counter(stored).items() if times > 1]
            assert not repeated, f"partition {partition} repeats {repeated[:10]}"
