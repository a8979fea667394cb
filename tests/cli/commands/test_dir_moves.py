"""``oncelog partitions move --log-dir`` shows, asks, and has replicas moved."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.admin_cluster import AdminCluster
from support.shell import Shown, oncelog

MOVE = ("partitions", "move", "t:0", "--log-dir", "/data2", "--broker", "1")


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Start a broker with the directories /data, where all replicas are, and /data2."""
    async with AdminCluster(1) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


async def run(cluster: AdminCluster, *words: str) -> Shown:
    return await oncelog(*words, bootstrap=cluster.bootstrap)


async def test_a_move_to_a_directory_asks_first(cluster: AdminCluster) -> None:
    shown = await run(cluster, *MOVE, "--dry-run")
    assert shown.code == 0
    words = [line.split() for line in shown.out.splitlines()]
    assert words == [
        ["TOPIC", "PARTITION", "BROKER", "FROM", "TO", "BYTES", "RESULT"],
        ["t", "0", "1", "/data", "/data2", "10", "B", "would", "move"],
    ]
    shown = await run(cluster, *MOVE)
    assert shown.code == 2
    assert "Move 1 replica of broker 1 to /data2?" in shown.err


async def test_a_move_to_a_directory_is_begun(cluster: AdminCluster) -> None:
    shown = await run(cluster, *MOVE, "--yes", "--json")
    document = json.loads(shown.out)
    assert (shown.code, document["dry_run"]) == (0, False)
    (row,) = document["partitions"]
    assert (row["result"], row["log_dir"], row["target"]) == ("moving", "/data", "/data2")


async def test_a_directory_that_the_broker_has_not(cluster: AdminCluster) -> None:
    shown = await run(cluster, *MOVE[:4], "/none", *MOVE[5:], "--yes")
    assert shown.code == 1
    assert "refused" in shown.out


@pytest.mark.parametrize(
    "words",
    [
        ["partitions", "move", "t:0", "--log-dir", "/data2"],
        ["partitions", "move", "t:0", "--broker", "1"],
        [*MOVE, "--to", "2"],
        ["partitions", "move", "--log-dir", "/data2", "--broker", "1"],
    ],
)
async def test_contradictions(words: list[str]) -> None:
    shown = await oncelog(*words, bootstrap="127.0.0.1:1")
    assert shown.code == 2
