"""Moves are settled before they begin, and what is not known of them is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from oncelog import Admin
from oncelog.admin.reassignments import COPYING, IN_SYNC, LEAVING, QUEUED, STALLED
from oncelog_cli.documents.answer import Row
from oncelog_cli.documents.moves import (
    begun_moves,
    cancelled_moves,
    listed_moves,
    planned_cancellation,
    planned_moves,
)
from oncelog_cli.exits import CommandError
from oncelog_cli.group_offsets import Chosen, Partition
from oncelog_protocol.messages.moves import MovePlan, PartitionMove
from support.admin_cluster import AdminCluster
from support.golden import tp


@pytest.fixture
def cluster(fake: AdminCluster) -> AdminCluster:
    """Have topic t with three partitions at broker 1, and broker 2 without any."""
    fake.create_topic("t", 3)
    for number in range(3):
        fake.moves.settled[tp("t", number)] = [1]
    return fake


def moving(number: int, phase: str, *, total: int = -1, done: int = -1, **more: Any) -> Any:
    move = PartitionMove("t", number, "p1", [1, 2], [1], [2], [], phase, total, done)
    for name, value in more.items():
        setattr(move, name, value)
    return move


async def plan(
    asker: Admin,
    *partitions: Partition,
    to: Mapping[Partition, Sequence[int]] | Sequence[int] = (2,),
    **options: Any,
) -> list[Row]:
    answer = await planned_moves(asker, Chosen((), partitions), to, **options)
    return list(answer.document["partitions"])


def results(rows: Sequence[Row]) -> list[str]:
    return [row["result"] for row in rows]


# ------------------------------------------------------------------------------ move


async def test_a_plan_says_what_is_copied(cluster: AdminCluster, asker: Admin) -> None:
    cluster.moves.bytes_to_copy, cluster.moves.seconds = 500, 3
    answer = await planned_moves(asker, Chosen(("t",)), [2])
    document = answer.document
    assert results(document["partitions"]) == ["would move"] * 3
    assert (document["copies"], document["bytes_to_copy"], document["seconds"]) == (3, 1500, 9)
    assert (document["plan_id"], document["dry_run"], answer.failures) == (None, True, [])
    row = document["partitions"][0]
    assert (row["replicas"], row["target"]) == ([1], [2])
    assert (row["adding"], row["removing"]) == ([2], [1])
    assert cluster.moves.open == {}
    cluster.moves.seconds = cluster.moves.bytes_to_copy = -1
    document = (await planned_moves(asker, Chosen(("t",)), [2])).document
    assert (document["copies"], document["bytes_to_copy"], document["seconds"]) == (3, None, None)


async def test_each_partition_has_its_own_target(cluster: AdminCluster, asker: Admin) -> None:
    cluster.moves.settled[tp("t", 1)] = [2]
    rows = await plan(asker, ("t", 0), ("t", 1), to={("t", 0): [2], ("t", 1): [1]})
    assert [row["target"] for row in rows] == [[2], [1]]


async def test_what_is_as_wished_already(cluster: AdminCluster, asker: Admin) -> None:
    rows = await plan(asker, ("t", 0), to=[1])
    assert results(rows) == ["nothing to do"]
    # While it moves, the same wish is one to turn back.
    cluster.moves.open[tp("t")] = moving(0, COPYING, replicas=[1], target=[1, 2])
    assert results(await plan(asker, ("t", 0), to=[1])) == ["would move"]


async def test_what_is_refused_is_a_failure_and_stops_no_other(
    cluster: AdminCluster, asker: Admin
) -> None:
    answer = await planned_moves(
        asker, Chosen(("t",)), {("t", 0): [2], ("t", 1): [7], ("t", 2): [1, 2]}
    )
    rows = answer.document["partitions"]
    assert results(rows) == ["would move", "refused", "refused"]
    assert rows[2]["error"] == "INVALID_REPLICATION_FACTOR"
    assert [each.item for each in answer.failures] == ["t-1", "t-2"]
    assert answer.document["copies"] == 1
    begun = await begun_moves(asker, rows)
    assert results(begun.document["partitions"]) == ["planned", "refused", "refused"]
    assert list(cluster.moves.open) == [tp("t")]
    rows = await plan(asker, ("t", 2), to=[1, 2], allow_replication_factor_change=True)
    assert results(rows) == ["would move"]


async def test_partitions_that_are_not_there(cluster: AdminCluster, asker: Admin) -> None:
    with pytest.raises(CommandError, match="topic 't' has no partition 9"):
        await plan(asker, ("t", 9))


async def test_a_plan_that_is_out_of_date_is_refused(cluster: AdminCluster, asker: Admin) -> None:
    rows = await plan(asker, ("t", 0), ("t", 1))
    cluster.moves.settled[tp("t", 1)] = [2, 1]
    answer = await begun_moves(asker, rows, reason="why not")
    document = answer.document
    assert results(document["partitions"]) == ["planned", "refused"]
    assert document["partitions"][1]["error"] == "INVALID_UPDATE_VERSION"
    assert [each.item for each in answer.failures] == ["t-1"]
    assert document["copies"] == 1
    assert cluster.moves.plans[document["plan_id"]].reason == "why not"


# ------------------------------------------------------------------------------ cancel


async def test_what_moves_is_cancelled(cluster: AdminCluster, asker: Admin) -> None:
    await begun_moves(asker, await plan(asker, ("t", 0), ("t", 1)))
    cluster.moves.open[tp("t", 2)] = moving(2, LEAVING, origin=[], target=[], leaving=[2])
    answer = await planned_cancellation(asker, None)
    rows = answer.document["partitions"]
    assert [(row["partition"], row["origin"], row["result"]) for row in rows] == [
        (0, [1], "would cancel"),
        (1, [1], "would cancel"),
    ]
    assert cluster.moves.open[tp("t")].target == [2]
    done = await cancelled_moves(asker, rows[:1], now=True)
    assert results(done.document["partitions"]) == ["cancelled"]
    assert (done.document["now"], done.document["dry_run"], done.failures) == (True, False, [])
    assert cluster.moves.open[tp("t")].target == [1]
    assert cluster.moves.open[tp("t", 1)].target == [2]
    # A move that has ended meanwhile cannot be cancelled.
    cluster.moves.finish(tp("t", 1))
    done = await cancelled_moves(asker, rows[1:])
    assert results(done.document["partitions"]) == ["refused"]
    assert [each.item for each in done.failures] == ["t-1"]


async def test_of_a_topic_what_moves_and_of_partitions_all(
    cluster: AdminCluster, asker: Admin
) -> None:
    await begun_moves(asker, await plan(asker, ("t", 1)))
    answer = await planned_cancellation(asker, Chosen(("t",)))
    assert results(answer.document["partitions"]) == ["would cancel"]
    answer = await planned_cancellation(asker, Chosen((), (("t", 0), ("t", 1))))
    found = {row["partition"]: row["result"] for row in answer.document["partitions"]}
    assert found == {1: "would cancel", 0: "refused"}
    assert [each.item for each in answer.failures] == ["t-0"]
    assert (await planned_cancellation(asker, Chosen(("u",)))).document["partitions"] == []


# ------------------------------------------------------------------------------ status


async def test_how_far_it_is(cluster: AdminCluster, asker: Admin) -> None:
    document = await listed_moves(asker)
    assert document["partitions"] == document["plans"] == []
    assert (document["stalled"], document["percent"]) == (0, None)
    cluster.moves.plans["p1"] = MovePlan("p1", "User:me", "disk", 5, 1)
    cluster.moves.open = {
        tp("t", 0): moving(0, COPYING, total=1000, done=999, bytes_per_s=3, since_ms=7),
        tp("t", 1): moving(1, STALLED, total=3000, done=0, bytes_per_s=0, reason="broker 2"),
        tp("t", 2): moving(2, QUEUED),
        tp("u", 0): moving(0, IN_SYNC, total=0, done=0, topic="u"),
    }
    document = await listed_moves(asker)
    rows = document["partitions"]
    assert [row["percent"] for row in rows] == [99, 0, None, 100]
    assert [row["seconds_left"] for row in rows] == [1, None, None, None]
    assert [row["since_ms"] for row in rows] == [7, None, None, None]
    assert rows[1]["reason"] == "broker 2"
    assert (document["stalled"], document["bytes_total"], document["bytes_done"]) == (1, 4000, 999)
    assert document["percent"] == 24
    (of_plan,) = document["plans"]
    assert (of_plan["by"], of_plan["queued"]) == ("User:me", 1)
    assert len((await listed_moves(asker, ["u"]))["partitions"]) == 1


async def test_what_is_left_of_a_move_that_is_over(cluster: AdminCluster, asker: Admin) -> None:
    over = moving(0, LEAVING, replicas=[3, 2], origin=[3, 2], target=[], leaving=[1, 4])
    cluster.moves.open[tp("t")] = over
    (row,) = (await listed_moves(asker))["partitions"]
    assert (row["origin"], row["target"], row["leaving"]) == ([], [3, 2], [1, 4])
    assert row["reason"] == "to be deleted on broker 1, broker 4"
