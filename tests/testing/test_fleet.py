"""The machines of a cluster are tried on a test's own loop, without the faces of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing import NotRunningError
from oncelog_testing.core import SETTINGS
from oncelog_testing.faults import FaultPlan
from oncelog_testing.fleet import Fleet
from support.cluster import Cluster
from support.waiting import eventually


@pytest_asyncio.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Yield two machines whose brokers do not run."""
    fleet = Fleet(
        2,
        clock=SystemWallClock(),
        entropy=SeededEntropy(1),
        plan=FaultPlan(lambda work: work()),
        settings=SETTINGS,
        directory=tmp_path,
    )
    yield fleet
    await fleet.close()


async def test_brokers_agree_with_each_other(fleet: Fleet) -> None:
    await asyncio.gather(*(machine.start() for machine in fleet.machines.values()))
    await fleet.converged()
    assert [broker.broker_id for broker in fleet.running()] == [1, 2]
    assert fleet.controller in fleet.running()
    assert fleet.bootstrap.count(":") == 2
    with pytest.raises(UnknownTopicOrPartitionError, match="t-0 does not exist"):
        fleet.state("t")
    with pytest.raises(TimeoutError, match=r"leaders of t\. brokers up: \[1, 2\]"):
        await fleet.wait_for_leader("t", timeout_s=0)
    await fleet.machine(2).stop()
    await fleet.converged()
    assert fleet.bootstrap.count(":") == 1


async def test_nobody_runs(fleet: Fleet) -> None:
    assert fleet.running() == []
    with pytest.raises(NotRunningError, match="no broker of the cluster runs"):
        _ = fleet.bootstrap
    with pytest.raises(NotRunningError, match="no broker is controller"):
        _ = fleet.controller
    with pytest.raises(ValueError, match=r"no broker 3; brokers are \[1, 2\]"):
        fleet.machine(3)


async def test_nobody_comes_back_to_a_broker_while_it_dies(tmp_path: Path) -> None:
    """The other one connects again as soon as it is cut off; a dead port refuses that."""
    async with Cluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        await eventually(lambda: len(cluster.state("t").isr) == 2)
        listeners = list(cluster.brokers[1].listeners.values())
        before = [listener.counters.accepted for listener in listeners]
        await cluster.crash_broker(1)
        assert [listener.counters.accepted for listener in listeners] == before
        assert not any(listener.connections for listener in listeners)
