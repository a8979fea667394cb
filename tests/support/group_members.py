"""Consumers are in groups of a fake cluster, for tests of what members do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from oncelog import Consumer, RebalanceListener, Record, TopicPartition
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_members import GroupCluster

__all__ = [
    "TPS",
    "A",
    "B",
    "Notes",
    "committed",
    "fill",
    "make",
    "member",
    "poll_until",
    "read",
    "take",
]

TPS = [TopicPartition("t", number) for number in range(6)]
A, B = TPS[:2]


def fill(cluster: GroupCluster, count: int, *numbers: int, topic: str = "t") -> None:
    """Append one batch of ``count`` records to each partition; values are offsets."""
    for number in numbers:
        partition = cluster.partition(topic, number)
        offsets = range(partition.next_offset, partition.next_offset + count)
        values = [b"%d" % offset for offset in offsets]
        partition.append(encode_batch(values, timestamps=[10 * offset for offset in offsets]))
    cluster.announce()


def make(cluster: GroupCluster, *topics: str, **options: Any) -> Consumer:
    given: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "entropy": SeededEntropy(1),
        "group_id": "g",
        "heartbeat_interval_ms": 20,
        "session_timeout_ms": 2000,
        **options,
    }
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **given)


@asynccontextmanager
async def member(cluster: GroupCluster, *topics: str, **options: Any) -> AsyncIterator[Consumer]:
    async with make(cluster, *(topics or ("t",)), **options) as consumer:
        yield consumer


class Notes(RebalanceListener):
    """It notes what was heard, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("assigned", list(partitions)))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("revoked", list(partitions)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("lost", list(partitions)))


async def poll_until(
    *consumers: Consumer, until: Callable[[], object]
) -> dict[Consumer, list[Record]]:
    """Let everybody poll, in turns, until a condition holds."""
    found: dict[Consumer, list[Record]] = {consumer: [] for consumer in consumers}
    async with asyncio.timeout(10):
        while not until():
            for consumer in consumers:
                for records in (await consumer.getmany(timeout_ms=10)).values():
                    found[consumer] += records
    return found


async def take(consumer: Consumer, count: int) -> list[Record]:
    async with asyncio.timeout(5):
        return [await consumer.getone() for _ in range(count)]


def committed(cluster: GroupCluster) -> dict[TopicPartition, int]:
    return {tp: item.offset for tp, item in sorted(cluster.group().offsets.items())}


async def read(*consumers: Consumer, count: int) -> dict[Consumer, list[Record]]:
    """Let everybody poll, in turns, until there are so many records."""
    found: dict[Consumer, list[Record]] = {consumer: [] for consumer in consumers}
    async with asyncio.timeout(10):
        while sum(map(len, found.values())) < count:
            for consumer in consumers:
                for records in (await consumer.getmany(timeout_ms=10)).values():
                    found[consumer] += records
    return found
