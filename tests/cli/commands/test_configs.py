"""``oncelog configs`` runs against real brokers here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from support.cluster import Cluster
from support.shell import oncelog


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker with two topics."""
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("orders", retention_ms=60000)
        await cluster.create_topic("other")
        yield cluster


async def test_topics(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    shown = await oncelog("configs", "describe", "-t", "orders", "--json", bootstrap=servers)
    assert shown.code == 0
    (row,) = shown.document["configs"]
    assert (row["resource"], row["key"], row["value"]) == ("topic orders", "retention_ms", "60000")
    change = ("configs", "alter", "-r", "-t", "o.*", "--set", "retention.ms=5000")
    shown = await oncelog(*change, "--dry-run", bootstrap=servers)
    assert shown.out.splitlines() == ["would alter topic orders", "would alter topic other"]
    shown = await oncelog(*change, bootstrap=servers)
    assert shown.code == 0, shown.err
    key = ("configs", "describe", "-t", "other", "-k", "retention.ms", "--json")

    async def value() -> tuple[str, str]:
        (row,) = (await oncelog(*key, bootstrap=servers)).document["configs"]
        return row["value"], row["source"]

    assert await value() == ("5000", "topic")
    shown = await oncelog(
        "configs", "alter", "-t", "other", "--delete", "retention_ms", bootstrap=servers
    )
    assert shown.code == 0
    assert (await value())[1] == "default"
    shown = await oncelog("configs", "describe", "-t", "other", "--all", bootstrap=servers)
    assert len(shown.out.splitlines()) > 10


async def test_brokers(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    shown = await oncelog(
        *("configs", "alter", "--default", "--set", "replica_lag_time_max_ms=7000"),
        bootstrap=servers,
    )
    assert (shown.code, shown.out) == (0, "altered all brokers\n"), shown.err
    describe = ("configs", "describe", "--broker", "1", "-k", "replica_lag_time_max_ms", "--json")

    async def value() -> tuple[str, str]:
        (row,) = (await oncelog(*describe, bootstrap=servers)).document["configs"]
        return row["value"], row["source"]

    async with asyncio.timeout(10):
        while await value() != ("7000", "dynamic_default"):
            pass
    shown = await oncelog("configs", "describe", "--default", "--json", bootstrap=servers)
    assert [row["resource"] for row in shown.document["configs"]] == ["all brokers"]
    shown = await oncelog(
        *("configs", "alter", "--broker", "1", "--set", "broker_id=9", "--json"), bootstrap=servers
    )
    assert shown.code == 1
    (error,) = shown.document["errors"]
    assert error["error"] == "INVALID_CONFIG"
    assert "restart" in error["message"]


async def test_what_is_not_there(cluster: Cluster) -> None:
    servers = cluster.bootstrap
    shown = await oncelog("configs", "describe", "-t", "none", "--json", bootstrap=servers)
    assert shown.code == 1
    assert shown.document["errors"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    shown = await oncelog("configs", "describe", "-t", "orders", "-k", "nope", bootstrap=servers)
    assert shown.code == 1
    assert "nope" in shown.err
    for wrong in (
        ["describe"],
        ["alter", "-t", "orders"],
        ["alter", "--set", "a=1"],
        ["alter", "-t", "orders", "--set", "a=1", "--delete", "a"],
    ):
        shown = await oncelog("configs", *wrong, bootstrap=servers)
        assert (shown.code, shown.out) == (2, ""), wrong
