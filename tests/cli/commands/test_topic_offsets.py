"""``oncelog topics offsets`` runs against real brokers here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.commands.topic_offsets import parse_place
from support.cluster import Cluster
from support.shell import Shown, oncelog
from support.waiting import eventually

NOW_MS = 1_800_000_000_000


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """In t-0 are five records, stamped 1000 to 5000; the first two are deleted."""
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", partitions=2, replication_factor=2)
        await cluster.create_topic("other")
        async with Producer(cluster.bootstrap) as producer:
            for number in range(1, 6):
                await producer.send("t", b"v", partition=0, timestamp_ms=1_000 * number)
        async with Admin(cluster.bootstrap) as admin:
            (await admin.delete_records({TopicPartition("t", 0): 2})).raise_for_errors()
        yield cluster


async def offsets(cluster: Cluster, *arguments: str) -> Shown:
    return await oncelog("topics", "offsets", *arguments, bootstrap=cluster.bootstrap)


def rows(shown: Shown) -> list[tuple[str, int, int | None]]:
    assert shown.code == 0, shown.err
    return [(row["topic"], row["partition"], row["offset"]) for row in shown.document["offsets"]]


async def test_the_ends(cluster: Cluster) -> None:
    shown = await offsets(cluster, "t")
    assert (shown.code, shown.err) == (0, "")
    assert [line.split() for line in shown.out.splitlines()] == [
        ["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"],
        ["t", "0", "5", "-"],
        ["t", "1", "0", "-"],
    ]
    shown = await offsets(cluster, "t", "other", "--at", "earliest", "--json")
    assert rows(shown) == [("t", 0, 2), ("t", 1, 0), ("other", 0, 0)]
    assert (shown.document["at"], shown.document["isolation_level"]) == (
        "earliest",
        "read_uncommitted",
    )
    shown = await offsets(cluster, "-r", "t|o.*", "-p", "0", "--json")
    assert rows(shown) == [("other", 0, 0), ("t", 0, 5)]


async def test_by_time(cluster: Cluster) -> None:
    shown = await offsets(cluster, "t", "--at", "1970-01-01T00:00:03.500Z", "--json")
    assert rows(shown) == [("t", 0, 3), ("t", 1, None)]
    assert shown.document["at"] == 3_500
    assert shown.document["offsets"][0]["timestamp_ms"] == 4_000
    shown = await offsets(cluster, "t", "-p", "0", "--at", "@1h")
    assert [line.split() for line in shown.out.splitlines()[1:]] == [["t", "0", "-", "-"]]


async def test_the_last_stable_offset(cluster: Cluster) -> None:
    async with Producer(cluster.bootstrap, transactional_id="open") as producer:
        await producer.begin_transaction()
        await producer.send("t", b"v", partition=0)
        await producer.flush()
        committed = ("t", "-p", "0", "--isolation-level", "read_committed", "--json")
        assert rows(await offsets(cluster, *committed)) == [("t", 0, 5)]
        assert rows(await offsets(cluster, "t", "-p", "0", "--json")) == [("t", 0, 6)]
        await producer.commit_transaction()

        leader = cluster.brokers[cluster.leader("t")].replicas.partition(TopicPartition("t", 0))
        await eventually(lambda: leader.last_stable_offset == 7, what="the marker")
        assert rows(await offsets(cluster, *committed)) == [("t", 0, 7)]


async def test_what_is_not_there(cluster: Cluster) -> None:
    shown = await offsets(cluster, "t", "-p", "1", "-p", "7", "--json")
    assert shown.code == 1
    assert [row["partition"] for row in shown.document["offsets"]] == [1]
    assert [(each["item"], each["error"]) for each in shown.document["errors"]] == [
        ("t-7", "UNKNOWN_TOPIC_OR_PARTITION")
    ]
    shown = await offsets(cluster, "none", "t", "--json")
    assert shown.code == 1
    assert len(shown.document["offsets"]) == 2
    assert [(each["item"], each["error"]) for each in shown.document["errors"]] == [
        ("none", "UNKNOWN_TOPIC_OR_PARTITION")
    ]
    for wrong in (["t", "--at", "soon"], ["t", "-p", "-1"], []):
        shown = await offsets(cluster, *wrong)
        assert (shown.code, shown.out) == (2, ""), wrong


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", "earliest"),
        ("start", "earliest"),
        ("latest", "latest"),
        ("end", "latest"),
        ("0", 0),
        ("1770000000", 1_770_000_000_000),
        ("@1770000000001", 1_770_000_000_001),
        ("1970-01-01T01:00+01:00", 0),
        ("-1h30m", NOW_MS - 5_400_000),
        ("5s", NOW_MS - 5_000),
    ],
)
def test_a_place(text: str, place: str | int) -> None:
    assert parse_place(text, NOW_MS) == place


@pytest.mark.parametrize("text", ["", "-1", "+5", "first", "12345678901234", "@"])
def test_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="earliest, latest, a time"):
        parse_place(text, NOW_MS)
