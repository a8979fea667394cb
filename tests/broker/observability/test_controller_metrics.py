"""Metrics of the cluster: one broker tells them, and after a failover another one"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from support.observed import observed
from support.waiting import eventually

CLUSTER = ("cluster_brokers", "cluster_topics", "cluster_partitions", "offline_partitions")


async def test_the_controller_and_nobody_else(tmp_path: Path) -> None:
    async with observed(tmp_path, 2) as seen:
        cluster = seen.cluster
        await cluster.create_topic("t", partitions=4)
        first = cluster.controller.broker_id
        other = 3 - first
        at_controller, elsewhere = await seen.metrics(first), await seen.metrics(other)
        values = [at_controller[f"oncelog_{name}"][()] for name in CLUSTER]
        assert values == [2, 1, 4, 0]
        assert [elsewhere[f"oncelog_{name}"][()] for name in CLUSTER] == [0, 0, 0, 0]
        pages = (at_controller, elsewhere)
        assert [page["oncelog_active_controller"][()] for page in pages] == [1, 0]
        await cluster.crash_broker(first)
        await eventually(lambda: cluster.brokers[other].runner.is_active, timeout_s=15)

        def all_known() -> bool:
            term = cluster.brokers[other].runner.term
            return term is not None and len(term.machine.cluster.brokers) == 1

        await eventually(all_known, timeout_s=15)
        page = await seen.metrics(other)
        assert page["oncelog_active_controller"][()] == 1
        assert page["oncelog_controller_terms_total"][()] == 1
        assert page["oncelog_missing_brokers"][()] == 1
        assert page["oncelog_offline_partitions"][()] == 2
        session = cluster.machine(other).session_id
        cluster.zookeeper.disconnect(session)
        page = await seen.metrics(other)
        assert page["oncelog_active_controller"][()] == 0, "it does not act now"
        assert page["oncelog_zookeeper_connected"][()] == 0
        cluster.zookeeper.reconnect(session)


async def test_moves_are_counted_that_are_open_queued_or_held_up(tmp_path: Path) -> None:
    """The broker that is to get the replicas has died, and its session lasts."""
    settings: dict[str, Any] = {
        "zookeeper_session_timeout_ms": 60_000,
        "move_stall_timeout_ms": 1000,
        "move_concurrent_max": 1,
    }
    async with observed(tmp_path, 4, **settings) as seen:
        cluster = seen.cluster
        await cluster.create_topic("t", partitions=2)
        controller = cluster.controller.broker_id
        leaders = {cluster.leader("t", index) for index in (0, 1)}
        away = min({1, 2, 3, 4} - {controller, *leaders})
        await cluster.crash_broker(away)
        items = [ReassignedPartition("t", index, [away]) for index in (0, 1)]
        answer = await cluster.call(controller, AlterPartitionReassignmentsRequest(items))
        assert [result.error_code for result in answer.items] == [0, 0]

        async def counts() -> list[float]:
            page = await seen.metrics(controller)
            names = ("reassigning_partitions", "moves_queued", "moves_stalled")
            return [page[f"oncelog_{name}"][()] for name in names]

        assert (await counts())[:2] in ([0, 2], [1, 1])
        async with asyncio.timeout(20):
            while (await counts())[2] != 1:
                await asyncio.sleep(0.1)
