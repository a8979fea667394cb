"""The demo's job over a real cluster: what it counts is what happened."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from oncelog_cli.demo.flights import flights_path
from oncelog_cli.demo.job import DemoJob
from oncelog_cli.demo.view import PlainView
from oncelog_cli.local.cluster import LocalCluster


@pytest.mark.integration
async def test_the_story_is_told_in_order_and_the_killed_broker_comes_back(
    tmp_path: Path,
) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=3)
    cluster.start()
    try:
        out = io.StringIO()
        job = DemoJob(flights_path(), limit=4000, rate=4000)
        verdict = await job.run(cluster, PlainView(out))
        states = {broker.state for broker in cluster.brokers.values()}
    finally:
        cluster.stop()
    assert verdict.ok
    assert verdict.sent == 4000
    assert states == {"running"}
    story = out.getvalue()
    steps = ["Topic flights", "Sending", "kill -9", "Starting broker", "three in-sync", "Reading"]
    positions = [story.find(step) for step in steps]
    assert -1 not in positions
    assert positions == sorted(positions)
