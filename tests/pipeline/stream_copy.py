"""A pipeline copies one topic, and the copy is exact or not.

The source holds numbered values, written in transactions between others that were aborted, so its
offsets have gaps. Whether everything has arrived is found out by reading the target, not by asking
Spark.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from integration.copied import Copied, compare, read_all, settled, value_of
from integration.processes import Processes
from oncelog import Consumer, Producer, TopicPartition
from oncelog.errors import OncelogError
from pipeline.chaos_driver import Query

CHUNK = 400
"""Records of a partition in one of the source's transactions."""
ABORT_EVERY = 4
NEVER = b"never"
"""Aborted in the source: if it arrives, it counts as doubled."""


@dataclass(frozen=True, slots=True)
class StreamCopy:
    """It is a source, a target and the query between them, all of one name."""

    processes: Processes
    name: str
    partitions: int
    messages: int

    @property
    def source(self) -> str:
        """Return the topic that is copied."""
        return f"{self.name}-in"

    @property
    def target(self) -> str:
        """Return the topic that it is copied into."""
        return f"{self.name}-out"

    @property
    def counts(self) -> dict[int, int]:
        """Return the number of records of each partition."""
        return {p: len(range(p, self.messages, self.partitions)) for p in range(self.partitions)}

    def query(self, batches: int, fail_part: float = 0.0) -> Query:
        """Return a query that takes about so many micro-batches."""
        step = max(self.partitions, self.messages // batches)
        return Query(self.name, self.source, self.target, step, fail_part)

    async def prepare(self) -> None:
        """Make both topics, and the source's records."""
        for topic in (self.source, self.target):
            await self.processes.create_topic(topic, self.partitions)
        await self.fill(0, max(self.counts.values()))

    async def fill(self, first: int, stop: int) -> None:
        """Write the numbers from ``first`` on, below ``stop``, of every partition."""
        async with Producer(
            self.processes.bootstrap, transactional_id=f"fill-{self.name}", linger_ms=5
        ) as producer:
            for turn, begin in enumerate(range(first, stop, CHUNK)):
                if turn % ABORT_EVERY == 1:
                    await self._garbage(producer)
                async with producer.transaction() as txn:
                    for partition, count in self.counts.items():
                        numbers = range(begin, min(begin + CHUNK, stop, count))
                        values = [value_of(partition, number) for number in numbers]
                        if values:
                            await txn.send_many(self.source, values, partition=partition)

    async def _garbage(self, producer: Producer) -> None:
        await producer.begin_transaction()
        for partition in self.counts:
            await producer.send_many(self.source, [NEVER] * CHUNK, partition=partition)
        await producer.abort_transaction()

    async def arrived(self, within_s: float, mind: Callable[[], None] = lambda: None) -> bool:
        """Return whether every record is in the target, for readers of committed records, in time.

        :param mind: called now and then meanwhile.
        """
        missing = {(p, value_of(p, n)) for p, count in self.counts.items() for n in range(count)}
        every = [TopicPartition(self.target, p) for p in range(self.partitions)]
        deadline = time.monotonic() + within_s
        while missing and time.monotonic() < deadline:
            try:
                async with Consumer(
                    bootstrap_servers=self.processes.bootstrap, auto_offset_reset="earliest"
                ) as consumer:
                    consumer.assign(every)
                    while missing and time.monotonic() < deadline:
                        mind()
                        for records in (await consumer.getmany(timeout_ms=200)).values():
                            missing -= {(r.partition, r.value or b"") for r in records}
            except (OncelogError, OSError):
                await asyncio.sleep(0.2)  # brokers are down: from the beginning again
        return not missing

    async def compare(self) -> Copied:
        """Wait until no transaction is open in the target, read all of it, and compare."""
        every = [TopicPartition(self.target, p) for p in range(self.partitions)]
        bootstrap = self.processes.bootstrap
        await settled(bootstrap, every)
        return compare(await read_all(bootstrap, self.target, self.partitions), self.counts)

    async def remove(self) -> None:
        """Remove both topics."""
        for topic in (self.source, self.target):
            await self.processes.delete_topic(topic)
