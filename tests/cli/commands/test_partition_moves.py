"""These tests move partitions of a scripted cluster by ``oncelog partitions``, and watch them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog.admin.reassignments import COPYING, STALLED
from oncelog.errors import ClusterAuthorizationFailedError
from oncelog_protocol.errors import NotControllerError
from oncelog_protocol.messages import balance
from oncelog_protocol.messages.admin import ReplicaSize
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.moves import PartitionMove
from support.admin_cluster import AdminCluster
from support.fake_cluster import Action
from support.golden import tp
from support.shell import Shown, oncelog, start

MOVE = ("partitions", "move")
STATUS = ("partitions", "status")
SOON = ("--interval", "10ms")


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Start two brokers; topic t has two partitions, both at broker 1."""
    async with AdminCluster(2) as cluster:
        cluster.create_topic("t", 2)
        for number in range(2):
            cluster.moves.settled[tp("t", number)] = [1]
        yield cluster


def stalled(number: int = 0) -> PartitionMove:
    move = PartitionMove("t", number, "p1", [1, 2], [1], [2], [], STALLED, 2048, 1024)
    move.reason = "broker 2 is away"
    return move


async def run(cluster: AdminCluster, *words: str, stdin: bytes = b"") -> Shown:
    return await oncelog(*words, bootstrap=cluster.bootstrap, stdin=stdin)


async def test_a_move_asks_first(cluster: AdminCluster) -> None:
    shown = await run(cluster, *MOVE, "t:0", "--to", "2")
    assert shown.code == 2
    assert "Move 1 partition: 1 replica to copy, their size is not known?" in shown.err
    assert cluster.moves.open == {}
    shown = await run(cluster, *MOVE, "t:0", "--to", "2", "--dry-run")
    assert shown.code == 0
    assert shown.out.splitlines()[1].split()[:4] == ["t", "0", "1", "2"]
    assert cluster.moves.open == {}


async def test_a_move_is_kept_and_cancelled(cluster: AdminCluster) -> None:
    cluster.moves.bytes_to_copy, cluster.moves.seconds = 3 * 1024**2, 600
    shown = await run(cluster, *MOVE, "t", "--to", "2", "-y", "--reason", "old disk")
    assert shown.code == 0, shown.err
    assert "2 replicas to copy, 6.0 MiB, about 20 min at the pace of the last hour" in shown.out
    assert "plan plan-1: see 'oncelog partitions status'" in shown.out
    assert cluster.moves.plans["plan-1"].reason == "old disk"
    assert cluster.moves.open[tp("t", 1)].target == [2]
    shown = await run(cluster, *STATUS)
    assert shown.code == 0
    assert shown.out.splitlines()[-1] == "2 copying"
    shown = await run(cluster, "partitions", "cancel", "--all", "--now")
    assert shown.code == 2, "nobody is there to ask"
    shown = await run(cluster, "partitions", "cancel", "--all", "--now", "-y", "--json")
    assert shown.code == 0, shown.err
    assert [row["result"] for row in shown.document["partitions"]] == ["cancelled"] * 2
    assert cluster.moves.open[tp("t", 1)].target == [1]
    _, request = cluster.requests[-1]
    assert request.now


async def test_kafkas_file(cluster: AdminCluster, tmp_path: Path) -> None:
    file = tmp_path / "kafka.json"
    rows = [{"topic": "t", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]}]
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    shown = await run(cluster, *MOVE, "--from-file", str(file), "--yes", "--json")
    assert shown.code == 1, "there is one replica more"
    assert shown.document["partitions"][0]["error"] == "INVALID_REPLICATION_FACTOR"
    shown = await run(
        cluster,
        *(*MOVE, "--from-file", "-", "--yes", "--json", "--allow-replication-factor-change"),
        stdin=file.read_bytes(),
    )
    assert shown.code == 0, shown.err
    assert cluster.moves.open[tp("t", 1)].target == [2, 1]


@pytest.mark.parametrize(
    "words",
    [
        [*MOVE, "t:0"],
        [*MOVE, "--to", "1"],
        [*MOVE, "t:0", "--to", "1,one"],
        [*MOVE, "t:", "--to", "1"],
        [*MOVE, "t:0", "--from-file", "-"],
        [*MOVE, "--from-file", "none.json"],
        ["partitions", "cancel"],
        ["partitions", "cancel", "t:0", "--all"],
        [*STATUS, "-e"],
        [*STATUS, "--timeout", "5s"],
        [*STATUS, "-w", "--json"],
        [*STATUS, "-w", "--interval", "soon"],
    ],
)
async def test_contradictions(words: list[str]) -> None:
    shown = await oncelog(*words, bootstrap="127.0.0.1:1")
    assert shown.code == 2


# ------------------------------------------------------------------------------ status


async def test_a_stalled_move_is_named(cluster: AdminCluster) -> None:
    assert (await run(cluster, *STATUS)).out == "nothing moves\n"
    cluster.moves.open[tp("t")] = stalled()
    shown = await run(cluster, *STATUS)
    assert shown.code == 10
    assert shown.out.splitlines()[-1] == "1 stalled; 50 % of 2.0 KiB; t-0: broker 2 is away"
    shown = await run(cluster, *STATUS, "u", "--json")
    assert (shown.code, shown.document["partitions"]) == (0, [])


async def test_it_is_watched_until_nothing_moves(cluster: AdminCluster) -> None:
    await run(cluster, *MOVE, "t:0", "--to", "2", "-y")
    async with start(*STATUS, "-w", "-e", *SOON, bootstrap=cluster.bootstrap) as process:
        assert process.stdout is not None
        for _ in range(2):
            line = await process.stdout.readline()
            assert line.endswith(b"  1 copying\n")
        # The controller moves meanwhile, and the question is asked again.
        cluster.rule(
            ApiKey.LIST_PARTITION_REASSIGNMENTS, Action.ERROR, error=NotControllerError, times=2
        )
        cluster.moves.finish(tp("t"))
        rest = await process.stdout.read()
        assert rest.endswith(b"  nothing moves\n")
        assert await process.wait() == 0


async def test_moves_between_directories_are_watched_too(cluster: AdminCluster) -> None:
    cluster.futures.append(ReplicaSize("t", 0, 5, 0, 1, 1, is_future=True, offset_lag=1))
    shown = await run(cluster, *STATUS, "--json")
    assert [row["target"] for row in shown.document["directories"]] == ["/data2"]
    watch = (*STATUS, "-w", "-e", *SOON)
    shown = await run(cluster, *watch, "--timeout", "10ms")
    assert shown.code == 10
    assert "1 replica to another directory, 5 B of 10 B" in shown.out
    async with start(*watch, bootstrap=cluster.bootstrap) as process:
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line.endswith(b"  1 replica to another directory, 5 B of 10 B\n")
        cluster.futures.clear()
        rest = await process.stdout.read()
        assert rest.endswith(b"  nothing moves\n")
        assert await process.wait() == 0


async def test_what_is_stalled_is_not_waited_for(cluster: AdminCluster) -> None:
    cluster.moves.open[tp("t")] = stalled()
    shown = await run(cluster, *STATUS, "--watch", "--exit-when-done", "--json")
    assert (shown.code, shown.document["stalled"]) == (10, 1)


async def test_there_is_an_end_of_watching(cluster: AdminCluster) -> None:
    move = stalled()
    move.phase = COPYING
    cluster.moves.open[tp("t")] = move
    watch = (*STATUS, "--watch", "--exit-when-done", "--timeout", "10ms", *SOON)
    shown = await run(cluster, *watch)
    assert shown.code == 10
    assert "1 copying; 50 % of 2.0 KiB" in shown.out


async def test_who_may_not_ask_does_not_watch(cluster: AdminCluster) -> None:
    error: Any = ClusterAuthorizationFailedError
    cluster.rule(ApiKey.LIST_PARTITION_REASSIGNMENTS, Action.ERROR, error=error)
    shown = await run(cluster, *STATUS, "-w", "-e", "--json")
    assert shown.code == 1
    assert shown.document["errors"][0]["error"] == "CLUSTER_AUTHORIZATION_FAILED"


async def test_replicas_move_off_a_broker_where_the_controller_says(cluster: AdminCluster) -> None:
    cluster.moves.balance = balance.BalanceResponse(
        steps=[balance.PlannedReplicas("t", 0, [1], [2], 2048, "evacuate", 4)],
        held_up=[balance.HeldUpPartition("t", 1, "evacuate", "it has no leader")],
    )
    words = ("--from-broker", "1", "--topic", "t.*")
    shown = await run(cluster, *MOVE, *words, "--dry-run")
    assert shown.code == 0, shown.err
    assert "1 replica to copy, 2.0 KiB, about 4 s at the pace of the last hour" in shown.out
    assert "t-1 stays: it has no leader" in shown.out
    assert cluster.moves.open == {}
    (request,) = cluster.moves.asked_for
    assert (request.purpose, request.topics, request.from_brokers) == ("evacuate", ["t"], [1])
    shown = await run(cluster, *MOVE, *words, "--yes")
    assert "planned" in shown.out
    assert cluster.moves.open.keys() == {tp("t", 0)}


async def test_a_broker_to_leave_says_it_all(cluster: AdminCluster) -> None:
    for words, said in (
        (("t", "--from-broker", "1"), "--from-broker finds partitions"),
        (("t", "--to", "1", "--topic", "t"), "--topic is for --from-broker"),
    ):
        shown = await run(cluster, *MOVE, *words)
        assert (shown.code, said in shown.err) == (2, True), shown.err
