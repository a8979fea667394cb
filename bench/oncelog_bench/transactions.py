"""Work in transactions, and the same work without: rates through the public SDK.

Each function measures one repeat. What is compared is fed in the same way: pieces of half a
megabyte, as many outstanding.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Literal

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog_bench.throughput import BATCH_BYTES, Acks

PIECE = 500
"""Records that are handed over at once."""
OUTSTANDING_MAX = 16
PARTITIONS = 6

Isolation = Literal["read_committed", "read_uncommitted"]


async def make_topic(bootstrap: str, name: str, partitions: int = PARTITIONS) -> None:
    """Make a replicated topic whose files go at once when it is dropped."""
    configs = {"min_insync_replicas": "2", "file_delete_delay_ms": "0"}
    async with Admin(bootstrap) as admin:
        (await admin.create_topics([NewTopic(name, partitions, 3, configs)])).raise_for_errors()


def _producer(
    bootstrap: str, acks: Acks, *, idempotent: bool = True, transactional_id: str | None = None
) -> Producer:
    return Producer(
        bootstrap,
        acks=acks,
        enable_idempotence=idempotent,
        transactional_id=transactional_id,
        linger_ms=5,
        batch_size=BATCH_BYTES,
        buffer_memory=128 << 20,
    )


class _Feed:
    """The feed hands records over, with a bounded number of pieces outstanding."""

    def __init__(self, producer: Producer, topic: str, size: int) -> None:
        self._producer = producer
        self._topic = topic
        self._values = [b"x" * size] * PIECE
        self._outstanding: deque[asyncio.Task[object]] = deque()
        self.sent = 0

    async def piece(self) -> None:
        """Hand over one piece more."""
        sending = self._producer.send_many(self._topic, self._values)
        self._outstanding.append(asyncio.create_task(sending))
        self.sent += PIECE
        while len(self._outstanding) > OUTSTANDING_MAX:
            await self._outstanding.popleft()
        await asyncio.sleep(0)

    async def drain(self) -> None:
        """Wait until all is acknowledged."""
        await asyncio.gather(*self._outstanding)
        self._outstanding.clear()


async def produce(
    bootstrap: str, topic: str, *, size: int, seconds: float, acks: Acks, idempotent: bool = True
) -> float:
    """Return the records a second without transactions."""
    async with _producer(bootstrap, acks, idempotent=idempotent) as producer:
        feed = _Feed(producer, topic, size)
        await feed.piece()
        await feed.drain()
        began = time.perf_counter()
        first = feed.sent
        while time.perf_counter() - began < seconds:
            await feed.piece()
        await feed.drain()
        return (feed.sent - first) / (time.perf_counter() - began)


async def produce_in_transactions(
    bootstrap: str, topic: str, *, size: int, seconds: float, txn_s: float, abort_every: int = 0
) -> float:
    """Return the records a second in transactions of ``txn_s`` seconds, one after the other.

    With ``abort_every`` one in so many is aborted.
    """
    async with _producer(bootstrap, "all", transactional_id=f"bench-{topic}") as producer:
        feed = _Feed(producer, topic, size)
        await _one(producer, feed, 0.0, commit=True)
        began = time.perf_counter()
        first = feed.sent
        count = 0
        while time.perf_counter() - began < seconds:
            count += 1
            aborts = abort_every > 0 and count % abort_every == 0
            await _one(producer, feed, txn_s, commit=not aborts)
        return (feed.sent - first) / (time.perf_counter() - began)


async def _one(producer: Producer, feed: _Feed, txn_s: float, *, commit: bool) -> None:
    await producer.begin_transaction()
    until = time.perf_counter() + txn_s
    await feed.piece()
    while time.perf_counter() < until:
        await feed.piece()
    await feed.drain()
    await (producer.commit_transaction() if commit else producer.abort_transaction())


async def per_second(bootstrap: str, topic: str, *, ids: int, seconds: float) -> float:
    """Return the transactions a second, of one record each, by ``ids`` ids side by side."""
    begin = asyncio.Event()
    started = asyncio.Semaphore(0)

    async def one(number: int) -> int:
        async with Producer(
            bootstrap, transactional_id=f"tps-{topic}-{number}", linger_ms=0
        ) as producer:
            async with producer.transaction() as txn:
                await txn.send(topic, b"x" * 100)
            started.release()
            await begin.wait()
            until = time.perf_counter() + seconds
            done = 0
            while time.perf_counter() < until:
                async with producer.transaction() as txn:
                    await txn.enqueue(topic, b"x" * 100)
                done += 1
            return done

    ready = [asyncio.create_task(one(number)) for number in range(ids)]
    for _ in range(ids):
        await started.acquire()
    began = time.perf_counter()
    begin.set()
    counts = await asyncio.gather(*ready)
    return sum(counts) / (time.perf_counter() - began)


async def read_through(bootstrap: str, topic: str, *, isolation: Isolation, columns: bool) -> float:
    """Return the log's records a second from beginning to end, those that are skipped too."""
    every = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level=isolation,
        max_partition_fetch_bytes=4 << 20,
    ) as consumer:
        consumer.assign(every)
        ends = await consumer.end_offsets(every)
        total = sum(ends.values())
        began = time.perf_counter()
        reached = dict.fromkeys(every, 0)
        while any(reached[tp] < ends[tp] for tp in every):
            if columns:
                await consumer.getbatch()
            else:
                await consumer.getmany(max_records=5000, timeout_ms=200)
            for tp in every:
                if reached[tp] < ends[tp]:
                    reached[tp] = await consumer.position(tp)
        return total / (time.perf_counter() - began)


async def over_partitions(
    bootstrap: str, topic: str, *, partitions: int, count: int, transactional: bool
) -> float:
    """Return the milliseconds of one round: a record to each partition, acknowledged.

    The round is committed, too, if ``transactional``.
    """
    name = f"markers-{topic}-{partitions}" if transactional else None
    async with Producer(bootstrap, transactional_id=name, linger_ms=0) as producer:

        async def round_() -> None:
            if transactional:
                await producer.begin_transaction()
            for number in range(partitions):
                await producer.enqueue(topic, b"x" * 100, partition=number)
            await producer.flush()
            if transactional:
                await producer.commit_transaction()

        await round_()
        began = time.perf_counter()
        for _ in range(count):
            await round_()
        return (time.perf_counter() - began) / count * 1000
