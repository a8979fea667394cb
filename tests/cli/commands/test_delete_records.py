"""These tests run ``oncelog delete-records`` and ``topics trim-prefix`` against real brokers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from support.cluster import Cluster
from support.hand_records import produce
from support.shell import oncelog


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker, whose topic t has ten records in partition 0."""
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=2)
        channel = await cluster.channel(1)
        for number in range(10):
            await produce(channel, "t", 0, [b"%d" % number])
        channel.close()
        await channel.wait_closed()
        yield cluster


def rows(document: Any) -> list[tuple[int, ...]]:
    return [
        (row["partition"], row["start_offset"], row["before_offset"], row["low_watermark"])
        for row in document["partitions"]
    ]


async def test_offsets_and_the_end(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    wish = ("delete-records", "t", "--before", "4")
    shown = await oncelog(*wish, bootstrap=servers)
    assert shown.code == 2, "nobody is there to ask"
    shown = await oncelog(*wish, "--dry-run", "--json", bootstrap=servers)
    assert shown.code == 1, "partition 1 has not so many"
    shown = await oncelog("delete-records", "t:0", "--before", "4", "-y", bootstrap=servers)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1].split() == ["t", "0", "0", "10", "4", "4", "4"]
    shown = await oncelog("consume", "t", "-o", "start:end", bootstrap=servers)
    assert shown.out.split() == ["4", "5", "6", "7", "8", "9"]
    shown = await oncelog(
        "topics", "trim-prefix", "t", "--before", "-2", "-y", "--json", bootstrap=servers
    )
    assert shown.code == 0, shown.err
    assert rows(shown.document) == [(0, 4, 8, 8), (1, 0, 0, None)]
    shown = await oncelog(
        "delete-records", "t", "--before", "@-0s", "-y", "--json", bootstrap=servers
    )
    assert rows(shown.document) == [(0, 8, 10, 10), (1, 0, 0, None)]


async def test_files(cluster: Cluster, tmp_path: Path) -> None:
    servers = cluster.bootstrap
    file = tmp_path / "offsets.json"
    partitions = [{"topic": "t", "partition": 0, "offset": 3}]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    shown = await oncelog("delete-records", "--from-file", str(file), "-y", bootstrap=servers)
    assert shown.code == 0, shown.err
    shown = await oncelog(
        *("delete-records", "--from-file", "-", "-y", "--json"),
        stdin=b"t,0,5\n",
        bootstrap=servers,
    )
    assert rows(shown.document) == [(0, 3, 5, 5)]


async def test_what_cannot_be(cluster: Cluster, tmp_path: Path) -> None:
    servers = cluster.bootstrap
    shown = await oncelog(
        "delete-records", "t:0", "--before", "11", "-y", "--json", bootstrap=servers
    )
    assert shown.code == 1
    assert "not committed" in shown.document["errors"][0]["message"]
    shown = await oncelog("delete-records", "t:7", "--before", "1", "-y", bootstrap=servers)
    assert (shown.code, "no partition 7" in shown.err) == (1, True)
    bad = tmp_path / "bad"
    for text in (
        "",
        "{}",
        '{"partitions": [1]}',
        '{"partitions": [{"topic": "t", "partition": true, "offset": 1}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "offset": -2}]}',
        "t,0\n",
    ):
        bad.write_text(text)
        shown = await oncelog("delete-records", "--from-file", str(bad), bootstrap=servers)
        assert (shown.code, shown.out) == (2, ""), text
    for wrong in (
        [],
        ["t"],
        ["--before", "3"],
        ["t", "--before", "1:2"],
        ["t", "--before", "soon"],
        ["t", "--before", "1", "--from-file", "x"],
        ["--from-file", str(tmp_path / "none")],
    ):
        shown = await oncelog("delete-records", *wrong, bootstrap=servers)
        assert (shown.code, shown.out) == (2, ""), wrong
