"""Documents of plans have rows that can be begun, and sums of what is known."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from oncelog import Admin
from oncelog.admin.balancing import REPLICATION_FACTOR
from oncelog_cli.documents.balancing import (
    begun_balance,
    planned_balance,
    planned_factor,
    seen_balance,
)
from oncelog_protocol.messages import balance as wire
from support.fake_cluster import FakeCluster
from support.golden import tp


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Start two brokers; both partitions of topic t are at broker 1."""
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        for number in range(2):
            cluster.moves.settled[tp("t", number)] = [1]
        yield cluster


def answer(cluster: FakeCluster, *sizes: int) -> None:
    cluster.moves.balance = wire.BalanceResponse(
        steps=[
            wire.PlannedReplicas("t", number, [1], [1, 2], size, "whole")
            for number, size in enumerate(sizes)
        ],
        measures=[wire.GoalMeasure("whole", 2, 0)],
    )


@pytest.mark.parametrize(("sizes", "total"), [((3, 4), 7), ((3, -1), None), ((), 0)])
async def test_bytes_are_summed_as_far_as_they_are_known(
    cluster: FakeCluster, sizes: tuple[int, ...], total: int | None
) -> None:
    answer(cluster, *sizes)
    async with Admin(cluster.bootstrap) as admin:
        document = await planned_balance(admin, "balance")
    assert (document["copies"], document["bytes_to_copy"]) == (len(sizes), total)
    assert document["goals"] == [{"goal": "whole", "before": 2, "after": 0}]


async def test_a_plan_for_more_replicas_is_begun(cluster: FakeCluster) -> None:
    answer(cluster, 3, 4)
    async with Admin(cluster.bootstrap) as admin:
        planned = await planned_balance(
            admin, REPLICATION_FACTOR, topics=["t"], replication_factor=2
        )
        begun = await begun_balance(admin, planned, reason="more")
        seen = await seen_balance(admin)
    assert [row["result"] for row in begun.document["partitions"]] == ["planned"] * 2
    assert begun.document["plan_id"]
    assert begun.document["goals"] == planned["goals"]
    assert not begun.failures
    assert (seen["moving"], seen["plans"]) == (2, 1)


async def test_the_factor_of_topics_is_planned_by_pattern(cluster: FakeCluster) -> None:
    answer(cluster, 3)
    cluster.create_topic("u")
    async with Admin(cluster.bootstrap) as admin:
        planned = await planned_factor(admin, ["t.*"], 2, regex=True)
    assert planned["topics"] == ["t"]
    (asked,) = cluster.moves.asked_for
    assert (asked.purpose, asked.topics, asked.factor) == (REPLICATION_FACTOR, ["t"], 2)
