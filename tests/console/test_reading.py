"""Ranges of real topics are read, searched, and told apart: committed, aborted, open."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from oncelog import Admin, Consumer, Producer
from oncelog_cli.exits import CommandError
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_cli.where.words import WhereError
from oncelog_console.message_range import BEGINNING, Places, WantedRecords
from oncelog_console.reading import Reading, Row
from support.cluster import Cluster

NOON_MS = 1_769_860_800_000
ALL = WantedRecords("t", start=BEGINNING)


async def read(
    cluster: Cluster, wanted: WantedRecords, per_partition: int | None = None
) -> tuple[list[Row], Reading]:
    """Return everything that is found, and what has read it."""
    make = partial(Consumer, bootstrap_servers=cluster.bootstrap)
    rows: list[Row] = []
    async with Reading(wanted, make, per_partition=per_partition) as reading:
        async for found in reading.found():
            rows += found.rows(decodes=wanted.decodes)
    return sorted(rows, key=lambda row: (row.partition, row.offset)), reading


def places(rows: list[Row]) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in rows]


async def fill(cluster: Cluster, count: int = 10) -> None:
    """Make a topic with two partitions; a record a second in each."""
    await cluster.create_topic("t", partitions=2)
    async with Producer(cluster.bootstrap) as producer:
        for number in range(count):
            for partition in (0, 1):
                await producer.send(
                    "t",
                    f'{{"n": {number}}}'.encode(),
                    key=b"k%d" % number,
                    partition=partition,
                    timestamp_ms=NOON_MS + number * 1000,
                    headers=[("h", b"v")],
                )


async def test_ranges(cluster: Cluster) -> None:
    await fill(cluster)
    rows, reading = await read(cluster, ALL)
    assert places(rows) == [(p, n) for p in (0, 1) for n in range(10)]
    assert rows[3] == Row(0, 3, NOON_MS + 3000, "k3", '{"n": 3}', 2, 8, 1, "committed")
    progress = reading.progress
    assert (progress.total, progress.scanned, progress.found) == (20, 20, 20)
    assert progress.last_ms == NOON_MS + 9000
    some = replace(ALL, partitions=(1,), start=RangePoint(Base.END, -3))
    assert places((await read(cluster, some))[0]) == [(1, 7), (1, 8), (1, 9)]
    before = replace(some, end=RangePoint(Base.TIME, NOON_MS + 5000))
    assert places((await read(cluster, before))[0]) == [(1, 2), (1, 3), (1, 4)]
    times = replace(
        ALL,
        start=RangePoint(Base.TIME, NOON_MS + 7500),
        end=RangePoint(Base.TIME, NOON_MS + 9000),
    )
    assert places((await read(cluster, times))[0]) == [(0, 8), (1, 8)]
    beyond = replace(ALL, start=RangePoint(Base.ZERO, 9), end=RangePoint(Base.ZERO, 500))
    assert places((await read(cluster, beyond))[0]) == [(0, 9), (1, 9)]
    named = replace(ALL, start=RangePoint(Base.END, -2), end=Places(((0, 5), (1, 3))))
    assert places((await read(cluster, named))[0]) == [(0, 3), (0, 4), (1, 1), (1, 2)]
    assert places((await read(cluster, replace(named, partitions=(1,))))[0]) == [(1, 1), (1, 2)]
    assert places((await read(cluster, ALL, 2))[0]) == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_what_an_expression_finds(cluster: Cluster) -> None:
    await fill(cluster)
    rows, reading = await read(cluster, replace(ALL, where="value.n >= 8 and partition == 1"))
    assert places(rows) == [(1, 8), (1, 9)]
    assert (reading.progress.scanned, reading.progress.found) == (20, 2)
    with pytest.raises(WhereError):
        await read(cluster, replace(ALL, where="value ="))


async def test_what_is_not_there(cluster: Cluster) -> None:
    await cluster.create_topic("t")
    assert (await read(cluster, ALL))[0] == []
    with pytest.raises(CommandError, match="there is no 7"):
        await read(cluster, replace(ALL, partitions=(7,)))


async def test_committed_aborted_and_open(cluster: Cluster) -> None:
    await cluster.create_topic("t")
    async with (
        Producer(cluster.bootstrap, transactional_id="one") as one,
        Producer(cluster.bootstrap, transactional_id="two") as two,
        Producer(cluster.bootstrap) as plain,
    ):
        await plain.send("t", b"plain")
        async with one.transaction():
            await one.send("t", b"kept")
        await one.begin_transaction()
        await one.send("t", b"taken back")
        await one.abort_transaction()
        await two.begin_transaction()
        await two.send("t", b"open")
        await plain.send("t", b"behind it")
        wanted = replace(ALL, isolation="all")
        rows, _ = await read(cluster, wanted)
        assert [(row.value, row.state) for row in rows if row.value_bytes is not None] == [
            ("plain", "committed"),
            ("kept", "committed"),
            ("taken back", "aborted"),
            ("open", "open"),
            ("behind it", "open"),
        ]
        assert [row.state for row in rows if row.value_bytes is None] == ["COMMIT", "ABORT"]
        found, _ = await read(cluster, replace(wanted, where="value contains 'e'"))
        assert [(row.value, row.state) for row in found] == [
            ("kept", "committed"),
            ("taken back", "aborted"),
            ("open", "open"),
            ("behind it", "open"),
        ]
        committed, _ = await read(cluster, ALL)
        assert [row.value for row in committed] == ["plain", "kept"]
        await two.abort_transaction()


async def test_records_of_coordinators_can_be_read(cluster: Cluster, admin: Admin) -> None:
    await fill(cluster, 1)
    async with Consumer(
        "t", bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getone()
        await consumer.commit()
    wanted = WantedRecords("__consumer_offsets", start=BEGINNING, where='key.type == "offset"')
    rows, _ = await read(cluster, wanted)
    assert '"group":"g"' in (rows[-1].key or "")
