"""``oncelog api-versions`` runs against real brokers here."""

from __future__ import annotations

from pathlib import Path

from oncelog_protocol.registry import REQUESTS
from support.cluster import Cluster
from support.shell import oncelog


async def test_what_brokers_speak(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        servers = cluster.bootstrap
        shown = await oncelog("api-versions", "--json", bootstrap=servers)
        assert shown.code == 0, shown.err
        rows = shown.document["apis"]
        assert len(rows) == len(REQUESTS)
        assert all(row["brokers"] == [1, 2] for row in rows)
        assert {row["api"] for row in rows} >= {"PRODUCE", "DELETE_RECORDS"}
        shown = await oncelog(
            "api-versions", "--broker", "2", "--broker", "7", "--json", bootstrap=servers
        )
        assert shown.code == 1
        assert all(row["brokers"] == [2] for row in shown.document["apis"])
        assert shown.document["errors"][0]["item"] == "broker 7"
