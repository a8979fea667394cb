"""The controller is asked for plans, and they are carried out as moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.balancing import (
    EVACUATE,
    REPLICATION_FACTOR,
    GoalDistance,
    PartitionHeldUp,
    PlannedBalance,
    PlannedMove,
)
from oncelog.errors import (
    ClusterAuthorizationFailedError,
    InvalidRequestError,
)
from oncelog_protocol.messages import balance as wire
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster

TP = TopicPartition("t", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Start three brokers; the partition of topic t is at the first two."""
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t")
        cluster.moves.settled[TP] = [1, 2]
        yield cluster


@pytest_asyncio.fixture
async def admin(cluster: FakeCluster) -> AsyncIterator[Admin]:
    """Connect an admin client."""
    async with Admin(cluster.bootstrap) as admin:
        yield admin


def answer(cluster: FakeCluster, *, size: int = 7) -> None:
    cluster.moves.balance = wire.BalanceResponse(
        steps=[wire.PlannedReplicas("t", 0, [1, 2], [3, 2], size, "replicas")],
        measures=[wire.GoalMeasure("replicas", 4, 0)],
        held_up=[wire.HeldUpPartition("u", 1, "whole", "it has no leader")],
    )


async def test_a_plan_is_told(cluster: FakeCluster, admin: Admin) -> None:
    answer(cluster)
    plan = await admin.balance()
    move = PlannedMove(TP, (1, 2), (3, 2), 7, "replicas")
    held = PartitionHeldUp(TopicPartition("u", 1), "whole", "it has no leader")
    assert plan == PlannedBalance((move,), (GoalDistance("replicas", 4, 0),), (held,))
    assert (move.adding, move.removing) == ((3,), (1,))
    assert cluster.moves.asked_for == [wire.BalanceRequest("balance", timeout_ms=30_000)]


async def test_bytes_that_nobody_knows_are_none(cluster: FakeCluster, admin: Admin) -> None:
    answer(cluster, size=wire.NOT_KNOWN)
    assert (await admin.balance()).moves[0].bytes_to_copy is None


async def test_what_is_asked_for(cluster: FakeCluster, admin: Admin) -> None:
    await admin.balance(EVACUATE, goals=["evacuate"], max_moves=0, max_bytes=9, timeout_ms=5000)
    await admin.balance(REPLICATION_FACTOR, topics=["t", "t"], replication_factor=3)
    first, second = cluster.moves.asked_for
    assert first == wire.BalanceRequest("evacuate", None, 0, ["evacuate"], 0, 9, 5000)
    assert (second.purpose, second.topics, second.factor) == ("replication_factor", ["t"], 3)


async def test_a_plan_is_carried_out(cluster: FakeCluster, admin: Admin) -> None:
    answer(cluster)
    plan = await admin.balance()
    begun = await admin.alter_partition_reassignments(plan.targets, expected=plan.expected)
    begun.raise_for_errors()
    assert cluster.moves.open[TP].target == [3, 2]


async def test_it_follows_the_controller(cluster: FakeCluster, admin: Admin) -> None:
    await admin.balance()
    cluster.controller_id = 2
    answer(cluster)
    assert len((await admin.balance()).moves) == 1


async def test_errors_are_raised(cluster: FakeCluster, admin: Admin) -> None:
    cluster.moves.balance = wire.BalanceResponse(InvalidRequestError.code, "no such goal")
    with pytest.raises(InvalidRequestError, match="no such goal"):
        await admin.balance()
    cluster.rule(ApiKey.BALANCE, Action.ERROR, error=ClusterAuthorizationFailedError)
    with pytest.raises(ClusterAuthorizationFailedError, match="DESCRIBE"):
        await admin.balance()
