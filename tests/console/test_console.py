"""A console starts and ends with all of its parts."""

from __future__ import annotations

import pytest

from oncelog import Admin, TopicPartition
from oncelog.errors import NoBrokersAvailableError
from oncelog.testing import AsyncCluster
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.settings import ConsoleSettings
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.console import Browser, console_of


async def test_without_a_broker_it_does_not_start() -> None:
    clients = ClusterClients("127.0.0.1:1")
    console = Console(clients, ConsoleSettings(), SystemWallClock(), SeededEntropy(1))
    with pytest.raises(NoBrokersAvailableError):
        await console.__aenter__()


async def test_the_history_of_groups_is_kept_without_anybody_looking(
    cluster: Cluster, browser: Browser, admin: Admin
) -> None:
    await cluster.create_topic("orders")
    await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    history = browser.console.history
    await browser.until(lambda seen: history.of("billing") is not None)
    known = history.of("billing")
    assert known is not None
    assert known.lag.latest == 0


@pytest.mark.slow
async def test_a_group_that_is_not_described_any_more_has_a_gap() -> None:
    async with AsyncCluster() as cluster:
        await cluster.create_topic("orders")
        async with Admin(cluster.bootstrap) as admin:
            await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
        async with console_of(cluster.bootstrap) as browser:
            history = browser.console.history
            await browser.until(lambda seen: history.of("billing") is not None)
            known = history.of("billing")
            assert known is not None
            with cluster.fail_next("describe_groups", "COORDINATOR_LOAD_IN_PROGRESS", None):
                await browser.until(lambda seen: known.lag.latest is None, timeout_s=60)
            assert list(known.lag)
