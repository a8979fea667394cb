"""A page reads no more than it can show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog import Producer, Record, TopicPartition
from oncelog.consumer.markers import TransactionMarker
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_console.browsing import Browsing, chosen, per_partition
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import BEGINNING, NEWEST, WantedRecords
from oncelog_console.reading import Row
from support.cluster import Cluster


def row(partition: int, offset: int, timestamp: int) -> Row:
    return Row(partition, offset, timestamp, None, "v", None, 1, 0, "committed")


@pytest.mark.parametrize(
    ("rows", "partitions", "each"), [(50, 1, 50), (50, 16, 50), (50, 100, 8), (50, 10_000, 1)]
)
def test_how_much_is_read_of_each_partition(rows: int, partitions: int, each: int) -> None:
    assert per_partition(rows, partitions) == each


def test_rows_are_shown_by_time() -> None:
    rows = [row(0, 0, 5), row(0, 1, 7), row(1, 0, 6)]
    assert chosen(rows, WantedRecords("t", start=BEGINNING, rows=2)) == (rows[0], rows[2])
    assert chosen(rows, WantedRecords("t", start=NEWEST, rows=2)) == (rows[1], rows[2])


async def test_the_newest_of_a_long_range_are_read_alone(cluster: Cluster) -> None:
    await cluster.create_topic("t")
    async with Producer(cluster.bootstrap) as producer:
        for number in range(20):
            await producer.send("t", b"%d" % number, timestamp_ms=number)
    clients = ClusterClients(cluster.bootstrap)
    wanted = WantedRecords("t", start=RangePoint(Base.END, -1000), rows=3)
    found = await Browsing().browse(clients, wanted, 1)
    assert [each.value for each in found.rows] == ["19", "18", "17"]
    assert found.is_whole
    assert found.progress.scanned == 3
    first = await Browsing().browse(clients, replace(wanted, start=BEGINNING), 1)
    assert [each.value for each in first.rows] == ["0", "1", "2"]


async def test_what_is_at_an_offset(cluster: Cluster) -> None:
    await cluster.create_topic("t")
    async with Producer(cluster.bootstrap, transactional_id="x") as producer:
        await producer.begin_transaction()
        await producer.send("t", b"v", timestamp_ms=5)
        await producer.commit_transaction()
    browsing, clients = Browsing(), ClusterClients(cluster.bootstrap)
    tp = TopicPartition("t", 0)
    found = await browsing.one(clients, tp, 0)
    assert found == (Record("t", 0, 0, 5, None, b"v"), "committed")
    end = await browsing.one(clients, tp, 1)
    assert end is not None
    assert isinstance(end[0], TransactionMarker)
    assert end[1] == "COMMIT"
    assert await browsing.one(clients, tp, 2) is None
