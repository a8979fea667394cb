"""The source works in another thread than the scripted cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from oncelog_protocol.records.builder import encode_batch
from pyspark_oncelog import connections
from pyspark_oncelog.options import SourceOptions
from support.fake_cluster import FakeCluster

__all__ = ["apart", "append", "asked", "opened", "transaction"]

T = TypeVar("T")


async def apart(function: Callable[..., T], *args: Any) -> T:
    """Call ``function(*args)`` in a thread, as Spark's workers call it: it may block."""
    return await asyncio.to_thread(function, *args)


async def asked(function: Callable[..., Any], *args: Any) -> Any:
    """Run the coroutine ``function(*args)`` on the source's own loop."""
    return await apart(connections.call, function, *args)


@asynccontextmanager
async def opened(topic: str = "t", *sizes: int, **given: str) -> AsyncIterator[Any]:
    """Yield (cluster, options) with a topic whose partitions hold so many records; their values are
    their offsets, their times ten times as much."""
    async with FakeCluster() as cluster:
        cluster.create_topic(topic, max(len(sizes), 1))
        for number, size in enumerate(sizes):
            append(cluster, topic, size, number)
        told = {"bootstrap.servers": cluster.bootstrap, "subscribe": topic, **given}
        if "subscribePattern" in given or "assign" in given:
            del told["subscribe"]
        try:
            yield cluster, SourceOptions.parse(told)
        finally:
            for made in connections._here:
                await apart(made.stop)
            connections._here.clear()


def append(cluster: FakeCluster, topic: str, count: int, number: int = 0) -> None:
    if count:
        cluster.partition(topic, number).append(_batch(cluster, topic, number, count))
        cluster.announce()


def transaction(
    cluster: FakeCluster, topic: str, count: int, *, commit: bool | None, number: int = 0
) -> int:
    """Append the same of a producer in a transaction, and its marker; without one for ``commit``
    None. The producer's id."""
    producer = cluster.next_id()
    partition = cluster.partition(topic, number)
    batch = _batch(
        cluster, topic, number, count, producer_id=producer, producer_epoch=0, transactional=True
    )
    partition.append(batch)
    if commit is not None:
        partition.mark(commit, producer, 0)
    cluster.announce()
    return producer


def _batch(
    cluster: FakeCluster, topic: str, number: int, count: int, **header: Any
) -> bytes | bytearray:
    first = cluster.partition(topic, number).next_offset
    offsets: Sequence[int] = range(first, first + count)
    if header:
        header["base_sequence"] = 0
    return encode_batch(
        [b"%d" % offset for offset in offsets],
        timestamps=[10 * offset for offset in offsets],
        **header,
    )
