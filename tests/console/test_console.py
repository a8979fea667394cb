"""A console starts and ends with all of its parts."""

from __future__ import annotations

import pytest

from oncelog import Admin, TopicPartition
from oncelog.errors import ConfigurationError
from oncelog.testing import AsyncCluster
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.settings import ConsoleSettings
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.console import Browser, console_of
from support.console_pages import EXAMPLES
from support.tcp_proxy import TcpProxy


async def test_it_starts_without_a_broker_and_fills_in_when_one_comes(cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    proxy = TcpProxy(*cluster.brokers[1].addresses["external"])
    await proxy.start()
    proxy.cut()  # Nobody can reach the cluster yet.
    settings = ConsoleSettings(allow_changes=True)
    clients = ClusterClients(f"127.0.0.1:{proxy.port}")
    async with Console(clients, settings, SystemWallClock(), SeededEntropy(1)) as console:
        browser = Browser(console)
        for path in sorted({example.path for example in EXAMPLES}):
            answered = await browser.get(path)
            assert answered.status in (200, 400, 404, 503), path
            assert "no broker answered since <time" in answered.text, path
            assert f"127.0.0.1:{proxy.port}" in answered.text, path
        assert (await browser.get("/")).status == 200
        assert (await browser.get("/topics/orders")).status == 503
        refused = await browser.get("/", accept="application/json")
        assert refused.status == 503, "no document calls a cluster healthy that nobody has seen"
        assert refused.document["errors"][0]["error"] == "UnreachedError"
        proxy.mend()
        await browser.until(lambda seen: seen.topic("orders") and seen.status is not None)
        page = (await browser.get("/topics/orders")).text
        assert "no broker answered" not in page
        assert (await browser.document("/"))["healthy"] is True
    await proxy.close()


async def test_an_option_that_cannot_work_ends_it() -> None:
    clients = ClusterClients("127.0.0.1:1", options={"connect_timeout_ms": -1})
    with pytest.raises(ConfigurationError):
        async with Console(clients, ConsoleSettings(), SystemWallClock(), SeededEntropy(1)):
            pass


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
