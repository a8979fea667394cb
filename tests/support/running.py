"""Tests of ``run`` share a topic ``t`` with records, and a handler that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from oncelog import Consumer, Record, TopicPartition
from oncelog.consumer.consumer import core_of
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster

__all__ = ["A", "B", "Handler", "committable", "fake", "fill", "raised", "reading", "running"]

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(cluster: FakeCluster, count: int, number: int = 0, keys: int = 3) -> None:
    """Append one batch; values are offsets, keys go round."""
    partition = cluster.partition("t", number)
    offsets = range(partition.next_offset, partition.next_offset + count)
    partition.append(
        encode_batch(
            [b"%d" % offset for offset in offsets],
            keys=[b"key-%d" % (offset % keys) for offset in offsets],
            timestamps=[10 * offset for offset in offsets],
        )
    )
    cluster.announce()


@asynccontextmanager
async def reading(cluster: FakeCluster, **options: Any) -> AsyncIterator[Consumer]:
    given = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(1), **options}
    async with Consumer("t", bootstrap_servers=cluster.bootstrap, **given) as consumer:
        yield consumer


@asynccontextmanager
async def fake(*sizes: int, dead: bool = False) -> AsyncIterator[FakeCluster]:
    """Start a cluster with topic ``t``, its partitions filled, and perhaps a topic ``dead``."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t", len(sizes))
        for number, size in enumerate(sizes):
            if size:
                fill(cluster, size, number)
        if dead:
            cluster.create_topic("dead")
        yield cluster


@asynccontextmanager
async def running(
    consumer: Consumer, handler: Any, **options: Any
) -> AsyncIterator[asyncio.Task[None]]:
    """Call ``run`` beside the test; cancel it at the end if it still goes on."""
    task = asyncio.create_task(consumer.run(handler, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def raised(task: asyncio.Task[None]) -> BaseException:
    """Return what a run ends with."""
    async with asyncio.timeout(30):
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, BaseException)
    return outcome


class Handler:
    """It keeps what it was given; it fails, waits and lets go as told."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done: list[int] = []
        self.now: list[Record] = []
        self.most = 0
        self.cancelled: list[int] = []
        self.bad: Callable[[Record], bool] = lambda _: False
        self.slow: Callable[[Record], bool] = lambda _: False
        self.gate = asyncio.Event()

    async def __call__(self, record: Record) -> None:
        self.begun.append(record.offset)
        self.now.append(record)
        self.most = max(self.most, len(self.now))
        try:
            await asyncio.sleep(0)
            if self.slow(record):
                await self.gate.wait()
            if self.bad(record):
                raise ValueError(f"bad record {record.offset}")
        except asyncio.CancelledError:
            self.cancelled.append(record.offset)
            raise
        finally:
            self.now.remove(record)
        self.done.append(record.offset)


def committable(consumer: Consumer) -> dict[TopicPartition, int]:
    """Return what a commit would say at this moment; that is nothing before the run has begun."""
    work = core_of(consumer).boundary.work
    return {} if work is None else {tp: item.offset for tp, item in work.done_offsets().items()}
