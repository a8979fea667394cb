"""A real Prometheus scrapes three real processes under load; one is killed and comes back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.processes import Processes
from support.prometheus import PrometheusServer
from support.shipped import every_panel_has_data, hurried_rules, load, scrape_config

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

DEADLINE_S = 60.0


def tell(targets: Path, processes: Processes) -> None:
    """Say where the brokers answer now; a port that was taken is another one after a restart."""
    document = []
    for broker_id in processes.broker_ids:
        host, port = processes.http(broker_id)
        labels = {"instance": f"broker-{broker_id}"}
        document.append({"targets": [f"{host}:{port}"], "labels": labels})
    new = targets.with_suffix(".new")
    new.write_text(json.dumps(document))
    new.rename(targets)


async def fire(prometheus: PrometheusServer, *alerts: str) -> None:
    fired: set[str] = set()

    async def have_fired() -> bool:
        fired.update(await prometheus.firing())
        return fired >= set(alerts)

    await prometheus.until(have_fired, DEADLINE_S, f"{alerts} fire")


async def test_a_killed_broker_is_seen_and_so_is_its_return(
    processes: Processes, tmp_path: Path
) -> None:
    await processes.heal()
    await processes.create_topic("scraped", partitions=6)
    targets = tmp_path / "targets.json"
    tell(targets, processes)
    discovery = {"file_sd_configs": [{"files": [str(targets)]}]}
    config = scrape_config(discovery)
    async with PrometheusServer(tmp_path / "prometheus", config, hurried_rules()) as prometheus:
        async with load(processes.bootstrap, "scraped"):
            await every_panel_has_data(prometheus, DEADLINE_S)
        killed = processes.broker_ids[-1]
        processes.kill(killed)
        await fire(
            prometheus,
            *("OncelogBrokerDown", "OncelogBrokersMissing"),
            *("OncelogUnderReplicatedPartitions", "OncelogAtMinIsr"),
        )
        await processes.restart(killed)
        tell(targets, processes)
        await fire(prometheus, "OncelogBrokerRestarted")
        await processes.wait_isr("scraped", 3)

        async def healthy() -> bool:
            down = {"OncelogBrokerDown", "OncelogBrokersMissing", "OncelogControllerCount"}
            degraded = {"OncelogUnderReplicatedPartitions", "OncelogAtMinIsr"}
            return not await prometheus.firing() & (down | degraded)

        await prometheus.until(healthy, DEADLINE_S, "what was wrong is over")
    await processes.delete_topic("scraped")
