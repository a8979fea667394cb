"""These tests plan by ``oncelog balance``, and have the plan carried out, on a scripted cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest_asyncio

from oncelog.admin.reassignments import STALLED
from oncelog_protocol.messages import balance as wire
from support.admin_cluster import AdminCluster
from support.golden import tp
from support.shell import Shown, oncelog
from support.waiting import eventually

PLAN = ("balance", "plan")
RUN = ("balance", "run")


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    """Start two brokers; partition 0 of topic t is at broker 1 and would be at broker 2."""
    async with AdminCluster(2) as cluster:
        cluster.create_topic("t", 2)
        for number in range(2):
            cluster.moves.settled[tp("t", number)] = [1]
        cluster.moves.balance = wire.BalanceResponse(
            steps=[wire.PlannedReplicas("t", 0, [1], [2], 2048, "replicas")],
            measures=[wire.GoalMeasure("replicas", 2, 0), wire.GoalMeasure("bytes", 2048, 0)],
        )
        yield cluster


async def run(cluster: AdminCluster, *words: str) -> Shown:
    return await oncelog(*words, bootstrap=cluster.bootstrap)


async def test_a_plan_moves_nothing(cluster: AdminCluster) -> None:
    shown = await run(cluster, *PLAN)
    assert shown.code == 0
    assert shown.out.splitlines()[1].split()[:6] == ["t", "0", "1", "2", "2.0", "KiB"]
    assert "1 replica to copy, 2.0 KiB" in shown.out
    assert "replicas: off by 2, afterwards by 0" in shown.out
    assert "bytes: off by 2.0 KiB, afterwards by 0 B" in shown.out
    assert cluster.moves.open == {}


async def test_disks_are_shown_as_they_are_and_as_the_plan_leaves_them(
    cluster: AdminCluster,
) -> None:
    cluster.disk = (10_240, 8192)
    shown = await run(cluster, *PLAN)
    assert "broker 1: disks 20 % full, afterwards 20 %" in shown.out
    assert "broker 2: disks 20 % full, afterwards 40 %" in shown.out
    disks = json.loads((await run(cluster, *PLAN, "--json")).out)["disks"]
    assert [row["used_bytes_after"] for row in disks] == [2048 - 10, 4096]
    assert "disks" not in (await run(cluster, *PLAN, "--format", "tsv")).out


async def test_of_many_brokers_the_range_is_shown() -> None:
    async with AdminCluster(6) as many:
        many.create_topic("t", 1)
        many.disk = (10_240, 8192)
        step = wire.PlannedReplicas("t", 0, [1], [2, 3, 4, 5, 6], 5 * 1024, "whole")
        many.moves.balance = wire.BalanceResponse(steps=[step])
        shown = await run(many, *PLAN)
        assert "6 brokers: disks 20 % full, afterwards 20 to 30 %" in shown.out
        many.moves.balance.steps[0].bytes = -1
        shown = await run(many, *PLAN)
        assert "6 brokers: disks 20 % full, afterwards -" in shown.out


async def test_what_is_asked_for(cluster: AdminCluster) -> None:
    words = ("t", "--goal", "bytes", "--goal", "disks", "--max-moves", "3", "--max-bytes", "2KiB")
    await run(cluster, *PLAN, *words)
    await run(cluster, *PLAN, "--purpose", "repair")
    first, second = cluster.moves.asked_for
    assert (first.purpose, first.topics, first.goals) == ("balance", ["t"], ["bytes", "disks"])
    assert (first.max_moves, first.max_bytes) == (3, 2048)
    assert (second.purpose, second.topics, second.goals) == ("repair", None, None)
    shown = await run(cluster, *PLAN, "--max-bytes", "much")
    assert shown.code == 2
    assert "--max-bytes 'much' is no size" in shown.err


async def test_a_run_asks_first_and_begins_what_was_shown(cluster: AdminCluster) -> None:
    shown = await run(cluster, *RUN)
    assert shown.code == 2
    assert "Move 1 partition: 1 replica to copy, 2.0 KiB?" in shown.err
    assert cluster.moves.open == {}
    shown = await run(cluster, *RUN, "--yes")
    assert shown.code == 0
    assert "see 'oncelog partitions status'" in shown.out
    (move,) = cluster.moves.open.values()
    assert (move.target, move.reason) == ([2], "balance: balance")


async def test_what_has_changed_since_is_refused(cluster: AdminCluster) -> None:
    cluster.moves.settled[tp("t", 0)] = [2]
    shown = await run(cluster, *RUN, "--yes", "--json")
    document = json.loads(shown.out)
    assert shown.code == 1
    assert [row["result"] for row in document["partitions"]] == ["refused"]
    assert cluster.moves.open == {}


async def test_an_even_cluster_has_nothing_to_run(cluster: AdminCluster) -> None:
    cluster.moves.balance = wire.BalanceResponse()
    shown = await run(cluster, *RUN)
    assert shown.code == 0
    assert "nothing has to move" in shown.out


async def test_who_is_held_up_is_named_up_to_a_number(cluster: AdminCluster) -> None:
    held = [wire.HeldUpPartition("u", n, "whole", "it has no leader") for n in range(7)]
    cluster.moves.balance = wire.BalanceResponse(held_up=held)
    shown = await run(cluster, "balance", "status")
    assert shown.out.count("it has no leader") == 5
    assert "2 others stay as well" in shown.out
    assert cluster.moves.asked_for[0].max_moves == 0


async def test_status_counts_what_moves(cluster: AdminCluster) -> None:
    await run(cluster, *RUN, "--yes")
    shown = await run(cluster, "balance", "status", "--json")
    document = json.loads(shown.out)
    assert (document["plans"], document["moving"], document["stalled"]) == (1, 1, 0)
    assert document["goals"][0] == {"goal": "replicas", "before": 2}


async def test_a_run_is_watched_until_it_is_over(cluster: AdminCluster) -> None:
    watched = asyncio.create_task(run(cluster, *RUN, "--yes", "--watch", "--interval", "10ms"))
    await eventually(lambda: bool(cluster.moves.open))
    cluster.moves.finish(tp("t", 0))
    shown = await watched
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[-1].endswith("nothing moves")


async def test_a_run_that_is_stalled_ends_with_10(cluster: AdminCluster) -> None:
    watched = asyncio.create_task(run(cluster, *RUN, "--yes", "--watch", "--interval", "10ms"))
    await eventually(lambda: bool(cluster.moves.open))
    cluster.moves.open[tp("t", 0)].phase = STALLED
    shown = await watched
    assert shown.code == 10
    assert "1 stalled" in shown.out


async def test_a_dry_run_moves_nothing(cluster: AdminCluster) -> None:
    shown = await run(cluster, *RUN, "--dry-run")
    assert (shown.code, "would move" in shown.out) == (0, True)
    assert cluster.moves.open == {}
    shown = await run(cluster, *RUN, "--dry-run", "--watch")
    assert (shown.code, "nothing to watch" in shown.err) == (2, True)
