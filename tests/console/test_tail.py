"""What comes now is told in ticks: all of it, or a sample and how much there was."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import pytest

from oncelog import Consumer, Producer, Record
from oncelog_console import tail as tail_module
from oncelog_console.message_range import WantedRecords
from oncelog_console.tail import Tick, thinned, tick_of, ticks
from support.cluster import Cluster

TAIL = WantedRecords("t")


def record(offset: int) -> Record:
    return Record("t", 0, offset, 0, None, b"")


@pytest.mark.parametrize(("count", "most"), [(0, 3), (3, 3), (10, 3), (1000, 50), (51, 50)])
def test_a_sample_is_spread_evenly(count: int, most: int) -> None:
    sample = thinned([record(n) for n in range(count)], most)
    assert len(sample) == min(count, most)
    offsets = [each.offset for each in sample]
    assert offsets == sorted(set(offsets))
    assert not offsets or offsets[-1] == count - 1


async def until(source: object, arrived: int) -> list[Tick]:
    """Return the next ticks until so many records have come."""
    found: list[Tick] = []
    async with asyncio.timeout(20):
        while sum(tick.arrived for tick in found) < arrived:
            found.append(await anext(source))  # type: ignore[call-overload]
    return found


async def test_what_comes_is_told_and_nothing_before(cluster: Cluster) -> None:
    await cluster.create_topic("t", partitions=2)
    make = partial(Consumer, bootstrap_servers=cluster.bootstrap)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send("t", b"before")
        wanted = replace(TAIL, where="value != 'b'")
        async with aclosing(ticks(TAIL, make)) as every, aclosing(ticks(wanted, make)) as some:
            assert await anext(every) == Tick((), 0, 0)
            assert await anext(some) == Tick((), 0, 0)
            for value in (b"a", b"b", b"c"):
                await producer.send("t", value, partition=1)
            told = await until(every, 3)
            rows = [row for tick in told for row in tick.rows]
            assert [(row.partition, row.value, row.state) for row in rows] == [
                (1, "a", "committed"),
                (1, "b", "committed"),
                (1, "c", "committed"),
            ]
            fitting = await until(some, 3)
            assert [row.value for tick in fitting for row in tick.rows] == ["a", "c"]
            assert sum(tick.found for tick in fitting) == 2
    assert tick_of(told[0].document()) == told[0]


async def test_too_much_is_counted_and_left_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "TICK_RECORDS_MAX", 10)
    await cluster.create_topic("t")
    make = partial(Consumer, bootstrap_servers=cluster.bootstrap)
    async with (
        Producer(cluster.bootstrap, linger_ms=0, batch_size=1) as producer,
        aclosing(ticks(replace(TAIL, isolation="all"), make)) as source,
    ):
        await anext(source)
        for number in range(200):
            await producer.send("t", b"%d" % number)
        told = await until(source, 200)
    assert sum(tick.arrived for tick in told) == 200
    assert sum(tick.unread for tick in told) > 0
    assert all(len(tick.rows) <= 50 for tick in told)
    assert {row.state for tick in told for row in tick.rows} == {""}
