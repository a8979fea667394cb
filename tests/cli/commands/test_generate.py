"""``oncelog generate`` makes the files of ``deploy/`` with one's own brokers in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from oncelog_cli.commands import generate
from oncelog_cli.exits import CommandError
from support.cluster import Cluster
from support.house import ROOT
from support.shell import oncelog


async def test_files_as_they_are() -> None:
    shown = await oncelog("generate", "grafana-dashboard")
    assert (shown.code, shown.err) == (0, "")
    assert json.loads(shown.out)["title"]
    assert shown.out == (ROOT / "deploy" / generate.DASHBOARD).read_text()
    shown = await oncelog("generate", "alert-rules")
    assert yaml.safe_load(shown.out)["groups"]


async def test_targets_that_are_named() -> None:
    shown = await oncelog(
        *("generate", "prometheus-config", "-t", "a:9644", "-t", "[::1]:9645", "-t", "a:9644")
    )
    assert shown.code == 0, shown.err
    (job,) = yaml.safe_load(shown.out)["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["a:9644", "[::1]:9645"]}]
    for wrong in ("a", "a:", ":1", "a:x", "a:0", "a:70000"):
        shown = await oncelog("generate", "prometheus-config", "-t", wrong)
        assert (shown.code, shown.out) == (2, ""), wrong


async def test_a_cluster_without_metrics(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        shown = await oncelog("generate", "prometheus-config", bootstrap=cluster.bootstrap)
        assert (shown.code, shown.out) == (1, "")
        assert "metrics_port" in shown.err


async def test_the_brokers_say_where_they_answer(tmp_path: Path) -> None:
    # Nothing listens there: the port belongs to the process around a broker, its setting is told.
    async with Cluster(tmp_path, metrics_port=19644, metrics_host="0.0.0.0") as cluster:
        shown = await oncelog("generate", "prometheus-config", bootstrap=cluster.bootstrap)
        assert shown.code == 0, shown.err
        (job,) = yaml.safe_load(shown.out)["scrape_configs"]
        assert job["static_configs"] == [{"targets": ["127.0.0.1:19644"]}]


async def test_an_installation_without_files() -> None:
    with pytest.raises(CommandError, match="lacks deploy/none"):
        generate.read_deployed("none")
