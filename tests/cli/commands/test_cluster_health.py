"""``oncelog cluster health`` runs against real brokers, and exits with 0, 10 or 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.shell import oncelog
from support.waiting import eventually

HEALTH = ("cluster", "health", "--disk-warning", "0", "--disk-critical", "0")
"""Whatever the disk of the machine that runs tests."""


async def test_a_broker_that_dies(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=3)
        servers = cluster.bootstrap
        shown = await oncelog(*HEALTH, bootstrap=servers)
        assert shown.code == 0, shown.out
        assert shown.out.splitlines()[0] == "healthy"
        shown = await oncelog(*HEALTH, "--brokers", "4", "--json", bootstrap=servers)
        assert shown.code == 10
        assert (shown.document["healthy"], shown.document["status"]) == (False, "critical")
        shown = await oncelog(*HEALTH, "--style", "nagios", bootstrap=servers)
        assert (shown.code, shown.out.split()[0]) == (0, "OK")

        dead = cluster.leader("t") % 3 + 1
        await cluster.crash_broker(dead)
        await eventually(
            lambda: (
                sorted(cluster.brokers) == sorted(cluster.controller.image.brokers)
                and dead not in cluster.state("t").isr
            ),
            timeout_s=15,
            what="its death being known",
        )
        servers = cluster.bootstrap
        shown = await oncelog(*HEALTH, "--json", bootstrap=servers)
        assert (shown.code, shown.err) == (10, "")
        found = {row["check"]: row for row in shown.document["checks"] if row["status"] != "ok"}
        assert found["brokers"]["items"] == [f"broker {dead}"]
        assert found["under_min_isr"]["items"] == ["t-0"]
        assert found["under_replicated"]["count"] == 1
        shown = await oncelog(*HEALTH, "--style", "nagios", bootstrap=servers)
        assert (shown.code, shown.out.split()[0]) == (2, "CRITICAL")
        shown = await oncelog(*HEALTH, "--style", "prometheus", bootstrap=servers)
        assert shown.code == 10
        assert 'oncelog_health_status{check="brokers"} 1' in shown.out

        watch = (*HEALTH, "--watch", "-e", "--interval", "50ms")
        shown = await oncelog(*watch, "--timeout", "10ms", bootstrap=servers)
        assert shown.code == 10
        assert "unhealthy (critical)" in shown.out
        await cluster.start_broker(dead)
        shown = await oncelog(*watch, "--timeout", "60s", "--json", bootstrap=servers)
        assert shown.code == 0
        assert json.loads(shown.stdout)["healthy"] is True


async def test_a_cluster_that_cannot_be_looked_at() -> None:
    nobody = "127.0.0.1:1"
    shown = await oncelog(*HEALTH, "--json", bootstrap=nobody)
    assert shown.code == 1
    assert shown.document["errors"]
    shown = await oncelog(*HEALTH, "--style", "nagios", bootstrap=nobody)
    assert (shown.code, shown.out.split()[0]) == (3, "UNKNOWN")
    shown = await oncelog(*HEALTH, "-w", "-e", "--timeout", "1ms", bootstrap=nobody)
    assert shown.code == 10
    assert "answer" in shown.out


@pytest.mark.parametrize(
    "options",
    [
        ["-e"],
        ["--timeout", "5s"],
        ["-w", "--json"],
        ["--style", "nagios", "--json"],
        ["--watch", "--interval", "soon"],
    ],
)
async def test_contradictions(options: list[str]) -> None:
    shown = await oncelog("cluster", "health", *options, bootstrap="127.0.0.1:1")
    assert shown.code == 2
