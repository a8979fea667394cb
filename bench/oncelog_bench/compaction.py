"""This measures the cleaner: how fast it is when it may, and what producers notice of it.

A topic is filled while it is not compacted, then told to be. The cleaner is watched from outside,
through the files of the partition.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from oncelog import Admin, Producer
from oncelog_bench.offsets import make_topic

UNBOUND = {
    "log_cleaner_backoff_ms": "100",
    "log_cleaner_io_max_bytes_per_second": str(1 << 40),
    "log_cleaner_cpu_percent": "100",
}
"""The cleaner may do what it can: for MB/s."""

BESIDE = {"log_cleaner_backoff_ms": "100"}
"""The setting is as a user has it: it shows the effect on producers."""

VALUE_BYTES = 1000
SEGMENT_BYTES = 16 * 1024 * 1024
QUIET_S = 1.0
"""So long nothing changes: the cleaner is through."""


@dataclass(slots=True)
class Cleaning:
    """The cleaner works on one partition between these times of ``time.perf_counter``."""

    began_s: float
    ended_s: float
    bytes_before: int
    bytes_after: int

    @property
    def seconds(self) -> float:
        """Return how long it took, in seconds."""
        return self.ended_s - self.began_s


async def fill(bootstrap: str, topic: str, *, bytes_total: int, keys: int) -> None:
    """Fill one partition, not compacted yet, with about ``bytes_total`` bytes of values."""
    await make_topic(
        bootstrap,
        topic,
        partitions=1,
        segment_bytes=str(SEGMENT_BYTES),
        min_cleanable_dirty_ratio="0.01",
        file_delete_delay_ms="0",
    )
    names = [b"key-%08d" % number for number in range(keys)]
    many = (names * (2000 // keys + 1))[:2000] if keys < 2000 else names
    async with Producer(bootstrap, acks=1, linger_ms=5) as producer:
        for _ in range(max(1, bytes_total // (len(many) * VALUE_BYTES))):
            values = [b"x" * VALUE_BYTES] * len(many)
            await producer.send_many(topic, values, keys=many, partition=0)


def log_files(directory: Path) -> dict[str, int]:
    """Return the sizes of the partition's segments; a file that goes meanwhile is left out."""
    found = {}
    for path in sorted(directory.glob("*.log")):
        try:
            found[path.name] = path.stat().st_size
        except FileNotFoundError:
            continue
    return found


def is_at_work(directory: Path) -> bool:
    """Return whether the cleaner has a segment in hand."""
    return any(directory.glob("*.cleaned")) or any(directory.glob("*.swap"))


async def compact(bootstrap: str, topic: str, directory: Path) -> Cleaning:
    """Have the topic compacted, and watch the cleaner until it is through.

    The time is from the first file that it begins to the last change; what lies between passes
    counts.
    """
    before = log_files(directory)
    async with Admin(bootstrap) as admin:
        (await admin.alter_configs({topic: {"cleanup_policy": "compact"}})).raise_for_errors()
    began = changed = 0.0
    now_there = before
    async with asyncio.timeout(300):
        while True:
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            there = log_files(directory)
            if there != now_there or is_at_work(directory):
                began = began or now
                changed, now_there = now, there
            elif began and now - changed > QUIET_S:
                break
    last = max(before)
    closed = sum(size for name, size in before.items() if name != last)
    return Cleaning(began, changed, closed, sum(now_there.values()))


T = TypeVar("T")


async def produce_until(
    bootstrap: str, topic: str, *, rate: int, until: Awaitable[T]
) -> tuple[list[tuple[float, float]], T]:
    """Send to another topic, ``rate`` records a second, until something is over.

    :returns: (when it was sent, ms to its acknowledgement) of every record; what is over.
    """
    sends: list[tuple[float, float]] = []
    over = asyncio.ensure_future(until)
    async with Producer(bootstrap, acks="all", linger_ms=0) as producer:
        await producer.send(topic, b"warm")
        began = time.perf_counter()
        running: list[asyncio.Task[None]] = []
        while not over.done():
            due = int((time.perf_counter() - began) * rate) + 1
            while len(running) < due:
                running.append(asyncio.create_task(_send(producer, topic, sends)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*running)
    return sends, await over


async def _send(producer: Producer, topic: str, sends: list[tuple[float, float]]) -> None:
    begun = time.perf_counter()
    await producer.send(topic, b"x" * 100)
    sends.append((begun, (time.perf_counter() - begun) * 1000))
