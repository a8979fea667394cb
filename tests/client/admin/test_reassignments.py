"""Moves of partitions are asked for, cancelled and listed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.reassignments import (
    COPYING,
    LEAVING,
    QUEUED,
    TURNING_BACK,
    PartitionReassignment,
    ReassignmentOutcome,
)
from oncelog.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidUpdateVersionError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster

TP = TopicPartition("t", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Start three brokers; of both partitions of topic t the third has none."""
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", 2)
        for number in range(2):
            cluster.moves.settled[TopicPartition("t", number)] = [1, 2]
        yield cluster


@pytest_asyncio.fixture
async def admin(cluster: FakeCluster) -> AsyncIterator[Admin]:
    """Connect an admin client."""
    async with Admin(cluster.bootstrap) as admin:
        yield admin


async def test_a_move_from_its_wish_to_its_end(cluster: FakeCluster, admin: Admin) -> None:
    cluster.moves.bytes_to_copy, cluster.moves.seconds = 500, 4
    assert (await admin.list_partition_reassignments()).partitions == ()
    outcomes = await admin.alter_partition_reassignments({TP: [3, 2]}, reason="broker 1 is old")
    assert list(outcomes.raise_for_errors()) == [ReassignmentOutcome(TP, None, 500, 4)]
    listed = await admin.list_partition_reassignments()
    (plan,), (move,) = listed.plans, listed.partitions
    assert (plan.plan_id, plan.reason) == (outcomes.plan_id, "broker 1 is old")
    assert (move.partition, move.plan_id, move.phase) == (TP, plan.plan_id, COPYING)
    assert (move.replicas, move.origin, move.target) == ((1, 2, 3), (1, 2), (3, 2))
    assert (move.adding, move.removing) == ((3,), (1,))
    assert (move.bytes_total, move.bytes_done, move.bytes_per_s) == (None, None, None)
    (topic,) = await admin.describe_topics(["t"])
    assert topic.partitions[0].replicas == (1, 2, 3)
    cluster.moves.finish(TP)
    assert await admin.list_partition_reassignments() == type(listed)()


async def test_what_is_refused_keeps_no_other_from_moving(
    cluster: FakeCluster, admin: Admin
) -> None:
    other, missing = TopicPartition("t", 1), TopicPartition("none", 0)
    outcomes = await admin.alter_partition_reassignments(
        {TP: [1, 7], missing: [1, 2], other: [3, 1]}
    )
    assert [type(each.error) for each in outcomes] == [
        InvalidReplicaAssignmentError,
        UnknownTopicOrPartitionError,
        type(None),
    ]
    assert str(outcomes[0].error) == "t-0 cannot move to 7, not registered"
    assert outcomes[2].bytes_to_copy is outcomes[2].seconds is None
    assert list(cluster.moves.open) == [other]


async def test_replicas_that_were_not_expected(cluster: FakeCluster, admin: Admin) -> None:
    (outcome,) = await admin.alter_partition_reassignments({TP: [3, 2]}, expected={TP: [2, 1]})
    assert isinstance(outcome.error, InvalidUpdateVersionError)
    outcomes = await admin.alter_partition_reassignments({TP: [3, 2]}, expected={TP: [1, 2]})
    assert outcomes.errors == []


async def test_the_replication_factor_changes_only_when_it_may(
    cluster: FakeCluster, admin: Admin
) -> None:
    (outcome,) = await admin.alter_partition_reassignments({TP: [1, 2, 3]})
    assert isinstance(outcome.error, InvalidReplicationFactorError)
    outcomes = await admin.alter_partition_reassignments(
        {TP: [1, 2, 3]}, allow_replication_factor_change=True
    )
    assert (outcomes.errors, cluster.moves.replicas(TP)) == ([], [1, 2, 3])


async def test_a_check_changes_nothing(cluster: FakeCluster, admin: Admin) -> None:
    outcomes = await admin.alter_partition_reassignments({TP: [3, 2]}, validate_only=True)
    assert (outcomes.errors, outcomes.plan_id, cluster.moves.open) == ([], "", {})


async def test_a_move_is_cancelled(cluster: FakeCluster, admin: Admin) -> None:
    (outcome,) = await admin.alter_partition_reassignments({TP: None})
    assert isinstance(outcome.error, NoReassignmentInProgressError)
    (await admin.alter_partition_reassignments({TP: [3, 2]})).raise_for_errors()
    (await admin.alter_partition_reassignments({TP: None}, now=True)).raise_for_errors()
    _, request = cluster.requests[-1]
    assert (request.items[0].target, request.now) == (None, True)
    (move,) = (await admin.list_partition_reassignments(["t", "t"])).partitions
    assert (move.phase, move.adding, move.removing) == (TURNING_BACK, (), (3,))
    assert (await admin.list_partition_reassignments(["u"])).partitions == ()


async def test_a_controller_that_has_moved_is_found(cluster: FakeCluster, admin: Admin) -> None:
    await admin.list_partition_reassignments()
    cluster.controller_id = 2
    (await admin.alter_partition_reassignments({TP: [3, 2]})).raise_for_errors()
    cluster.controller_id = 3
    assert len((await admin.list_partition_reassignments()).partitions) == 1


async def test_a_denial_says_what_is_missing(cluster: FakeCluster, admin: Admin) -> None:
    for api in (ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS):
        cluster.rule(api, Action.ERROR, error=ClusterAuthorizationFailedError)
    with pytest.raises(ClusterAuthorizationFailedError, match="DESCRIBE"):
        await admin.list_partition_reassignments()
    with pytest.raises(ClusterAuthorizationFailedError, match="ALTER"):
        await admin.alter_partition_reassignments({TP: [3, 2]})


def test_what_only_waits_or_only_leaves_adds_and_removes_nothing() -> None:
    waits = PartitionReassignment(TP, "p", QUEUED, (1, 2), (1, 2), (3, 2))
    leaves = PartitionReassignment(TP, "p", LEAVING, (3, 2), leaving=(1,))
    for move in (waits, leaves):
        assert (move.adding, move.removing, move.is_open) == ((), (), False)
