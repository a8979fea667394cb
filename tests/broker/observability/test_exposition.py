"""The page is complete, true to the catalogue, written one at a time, and not lost to one part."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from oncelog_broker.observability.catalogue import CATALOGUE
from oncelog_broker.observability.page import MetricsPage
from support.http_get import get
from support.observed import observed

ONLY_WHEN_THERE_IS_SOMETHING = {
    "oncelog_follower_lag_records",
    "oncelog_request_errors_total",
    "oncelog_authentications_total",
    "oncelog_denials_total",
    "oncelog_consumergroup_members",
    "oncelog_consumergroup_generation",
    "oncelog_consumergroup_lag_sum",
    "oncelog_consumergroup_lag_seconds_max",
    "oncelog_consumergroup_current_offset",
    "oncelog_consumergroup_lag",
    "oncelog_consumergroup_lag_seconds",
}


async def test_every_metric_of_the_catalogue_is_shown(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        await seen.cluster.create_topic("t")
        samples = await seen.metrics()
        names = {metric.name for metrics in CATALOGUE.values() for metric in metrics}
        shown = {name.removesuffix("_bucket") for name in samples}
        assert names - shown == ONLY_WHEN_THERE_IS_SOMETHING


async def test_a_part_that_fails_loses_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: MetricsPage) -> None:
        raise ValueError("nobody expected this")

    async with observed(tmp_path) as seen:
        exposition = seen.endpoints[1].exposition
        exposition.collectors["controller"] = broken
        with caplog.at_level(logging.ERROR):
            samples = await seen.metrics()
        assert "nobody expected this" in caplog.text
        assert samples["oncelog_scrape_errors_total"]["controller",] == 1
        assert samples["oncelog_scrape_errors_total"]["disks",] == 0
        assert "oncelog_active_controller" not in samples
        assert "oncelog_log_dir_online" in samples


async def test_a_crowd_gets_one_page(tmp_path: Path) -> None:
    made = 0
    gate = asyncio.Event()

    async def counted(_: MetricsPage) -> None:
        nonlocal made
        made += 1
        await gate.wait()

    async with observed(tmp_path) as seen:
        exposition = seen.endpoints[1].exposition
        exposition.collectors["counted"] = counted
        address = seen.endpoints[1].address
        crowd = [asyncio.ensure_future(get(address, "/metrics")) for _ in range(20)]
        async with asyncio.timeout(10):
            while made < 1:
                await asyncio.sleep(0.01)
            first, *_ = crowd
            first.cancel()  # who made it begin goes away: the others get it all the same
            await asyncio.sleep(0.05)
            gate.set()
            answers = await asyncio.gather(*crowd, return_exceptions=True)
        assert made == 1
        assert sum(getattr(answer, "status", 0) == 200 for answer in answers) == 19
        assert (await get(address, "/metrics")).status == 200
        assert made == 2
