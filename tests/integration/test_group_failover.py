"""A group and the brokers under it: coordinators stop, move and die, and members hardly notice.

After kafkatest's consumer_test: a rolling restart of brokers causes no rebalance at all. How many
there were is told by the group's generation and by what the members noted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.groups import Group, moves_of
from integration.processes import Processes
from integration.test_consumer_bounces import ends_of, settle
from integration.workload import Workload

pytestmark = pytest.mark.integration

TOPIC = "bounced"
PARTITIONS = 6
SESSION_MS = 30_000
"""No session ends while a broker restarts."""
RATE = 150
"""Records a second: many processes share few cores here."""
RECORDS = 40
OFFSETS = "__consumer_offsets"
"""Its leaders coordinate the groups. A broker that is back gets its leaderships back."""


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a fresh topic."""
    await processes.create_topic(TOPIC, PARTITIONS)
    yield processes
    await processes.heal()
    await processes.delete_topic(TOPIC)


async def test_a_rolling_restart_of_brokers_causes_no_rebalance(
    cluster: Processes, tmp_path: Path
) -> None:
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        Group(
            tmp_path, cluster.bootstrap, TOPIC, PARTITIONS, session_timeout_ms=SESSION_MS
        ) as group,
    ):
        await group.start_all(2)
        static = group.start("static.1", "instance")
        await group.wait_shared()
        generation = await cluster.generation(group.id)
        had = {member.name: member.owned() for member in group.living}
        moves = len(moves_of(group.events()))
        for broker in cluster.broker_ids:
            await cluster.stop_cleanly(broker)
            await group.wait_polled(RECORDS)
            await cluster.restart(broker)
            await cluster.wait_isr(TOPIC, 3)
        await cluster.wait_preferred(OFFSETS)
        await group.wait_polled(RECORDS)
        assert await cluster.generation(group.id) == generation
        assert len(moves_of(group.events())) == moves
        assert {member.name: member.owned() for member in group.living} == had
        assert static.owned()
        await load.stop()
        assert not load.failed
        await settle(cluster, group, load, once=True)


async def test_the_coordinator_is_killed(cluster: Processes, tmp_path: Path) -> None:
    """Another broker loads the group and goes on with the same generation."""
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        Group(
            tmp_path, cluster.bootstrap, TOPIC, PARTITIONS, session_timeout_ms=SESSION_MS
        ) as group,
    ):
        await group.start_all(2)
        generation = await cluster.generation(group.id)
        coordinator = await cluster.coordinator(group.id)
        await group.wait_polled(RECORDS)
        cluster.kill(coordinator)
        await group.wait_polled(RECORDS)
        assert await cluster.coordinator(group.id) != coordinator
        await cluster.restart(coordinator)
        await cluster.wait_preferred(OFFSETS)
        await group.wait_polled(RECORDS)
        assert await cluster.generation(group.id) == generation
        await load.stop()
        await settle(cluster, group, load, once=True)


async def test_members_and_coordinator_die_together(cluster: Processes, tmp_path: Path) -> None:
    async with (
        Workload(cluster.bootstrap, TOPIC, PARTITIONS, rate=RATE) as load,
        Group(tmp_path, cluster.bootstrap, TOPIC, PARTITIONS, session_timeout_ms=3_000) as group,
    ):
        members = await group.start_all(2)
        await group.wait_polled(RECORDS)
        coordinator = await cluster.coordinator(group.id)
        members[0].kill()
        cluster.kill(coordinator)
        group.start("heir.1")
        await group.wait_shared()
        await cluster.restart(coordinator)
        await group.wait_polled(RECORDS)
        await load.stop()
        ends = await ends_of(cluster)
        await group.wait_all_polled(ends)
        group.judge(load.events, once=False)
