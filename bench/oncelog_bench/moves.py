"""Moves of partitions are measured: small ones, copies, and what clients notice of a copy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from oncelog import Admin, Delivery, NewTopic, Producer, TopicPartition
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.cpu import cpu_seconds
from oncelog_bench.throughput import produce_many

LOOK_S = 0.002
MOVE_TIMEOUT_S = 600.0
RECORD_BYTES = 1000

Targets = Mapping[TopicPartition, Sequence[int]]


async def make_topic(bootstrap: str, name: str, partitions: int, brokers: Sequence[int]) -> None:
    """Create a topic whose partitions are all on these brokers."""
    configs = {"file_delete_delay_ms": "0"}
    topic = NewTopic(name, assignment=[list(brokers)] * partitions, configs=configs)
    async with Admin(bootstrap) as admin:
        (await admin.create_topics([topic], timeout_ms=60_000)).raise_for_errors()


async def moved(admin: Admin, targets: Targets, *, look_s: float = LOOK_S) -> float:
    """Move partitions; return the seconds from the request until nothing of it is left to do."""
    began = time.perf_counter()
    outcomes = await admin.alter_partition_reassignments(
        targets, allow_replication_factor_change=True
    )
    outcomes.raise_for_errors()
    topics = list({tp.topic for tp in targets})
    async with asyncio.timeout(MOVE_TIMEOUT_S):
        while True:
            if not (await admin.list_partition_reassignments(topics)).partitions:
                return time.perf_counter() - began
            await asyncio.sleep(look_s)


async def empty_moves_ms(bootstrap: str, topic: str, *, count: int) -> list[float]:
    """Return how long it takes each time that an empty partition goes to the other of two
    brokers, from the request until its files are gone at the old one."""
    tp = TopicPartition(topic, 0)
    async with Admin(bootstrap) as admin:
        return [
            await moved(admin, {tp: [2 if number % 2 == 0 else 1]}) * 1000
            for number in range(count)
        ]


async def many_moves_s(bootstrap: str, topic: str, *, partitions: int, to: int) -> float:
    """Return how long it takes until so many partitions are at another broker."""
    async with Admin(bootstrap) as admin:
        targets = {TopicPartition(topic, number): [to] for number in range(partitions)}
        return await moved(admin, targets, look_s=0.05)


async def fill(bootstrap: str, topic: str, size: int, *, batch_bytes: int) -> None:
    """Write so many bytes of records of 1 KB to a topic."""
    await produce_many(
        bootstrap,
        topic,
        size=RECORD_BYTES,
        count=size // RECORD_BYTES,
        acks=1,
        batch_size=batch_bytes,
    )


async def copied(cluster: BenchCluster, topic: str, size: int) -> tuple[float, float]:
    """Give the one replica of a partition a second one, and take it away again.

    Return the MB a second of the copy, and the CPU seconds of all brokers for each GB.
    """
    tp = TopicPartition(topic, 0)
    pids = cluster.pids().values()
    async with Admin(cluster.bootstrap) as admin:
        before = cpu_seconds(pids)
        seconds = await moved(admin, {tp: [1, 2]}, look_s=0.02)
        spent = cpu_seconds(pids) - before
        await moved(admin, {tp: [1]})
    return size / 1e6 / seconds, spent / (size / 1e9)


async def held_pace(cluster: BenchCluster, topic: str, *, seconds: float) -> float:
    """Copy a partition to broker 2, and return the bytes a second that come to its disk once the
    copy is under way."""
    tp = TopicPartition(topic, 0)
    async with Admin(cluster.bootstrap) as admin:
        moving = asyncio.create_task(moved(admin, {tp: [2]}, look_s=0.1))
        had = 0
        while not had and not moving.done():
            await asyncio.sleep(1.0)  # what a burst allows is behind it then
            had = _on_disk(cluster, 2, tp)
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        rate = (_on_disk(cluster, 2, tp) - had) / (time.perf_counter() - began)
        if moving.done():
            raise RuntimeError("the copy was over before its pace was known: it needs more bytes")
        await moving
        await moved(admin, {tp: [1]})
    return rate


def _on_disk(cluster: BenchCluster, broker_id: int, tp: TopicPartition) -> int:
    directory: Path = cluster.directory / f"broker-{broker_id}" / "data" / str(tp)
    return sum(path.stat().st_size for path in sorted(directory.glob("*.log")))


@asynccontextmanager
async def always_copying(bootstrap: str, topic: str, brokers: Sequence[int]) -> AsyncIterator[None]:
    """Something is copied all the time while the block runs: the partition goes round."""
    over = asyncio.Event()
    tp = TopicPartition(topic, 0)

    async def go_round() -> None:
        number = 0
        async with Admin(bootstrap) as admin:
            while not over.is_set():
                number += 1
                await moved(admin, {tp: [brokers[number % len(brokers)]]}, look_s=0.05)

    moving = asyncio.create_task(go_round())
    try:
        yield
        if moving.done():
            await moving
    finally:
        over.set()
        await moving


def _note_wait(waited: list[float], since_s: float, delivery: Delivery) -> None:
    if delivery.exception() is None:
        waited.append((time.perf_counter() - since_s) * 1000)


async def acknowledged_ms(bootstrap: str, topic: str, *, rate: int, seconds: float) -> list[float]:
    """Return how long records waited for their acknowledgement, at so many a second; the first
    fifth is warm-up and dropped."""
    waited: list[float] = []
    async with Producer(bootstrap, acks="all", linger_ms=0) as producer:
        began, sent = time.perf_counter(), 0
        while sent < rate * seconds:
            due = int((time.perf_counter() - began) * rate) + 1
            while sent < due:
                at = time.perf_counter()
                delivery = await producer.enqueue(topic, b"x" * 100)
                delivery.add_done_callback(partial(_note_wait, waited, at))
                sent += 1
            await asyncio.sleep(0.001)
        await producer.flush()
    if len(waited) < sent:
        raise RuntimeError(f"{sent - len(waited)} of {sent} records were not taken")
    return waited[len(waited) // 5 :]
