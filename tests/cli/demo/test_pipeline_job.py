"""The pipeline demo tells its whole story with few flights: Spark and brokers are real, and
killed."""

from __future__ import annotations

import asyncio
import io
import tomllib
from pathlib import Path

import pytest

from oncelog_cli.demo.flights import flights_path
from oncelog_cli.demo.pipeline_job import BATCH_ROWS, GROUP, JOB_FILE, TOTALS, PipelineJob
from oncelog_cli.demo.view import PlainView
from oncelog_cli.local.cluster import LocalCluster

FLIGHTS = 12_000


def test_the_story_knows_its_job() -> None:
    text = JOB_FILE.read_text(encoding="utf-8")
    job = tomllib.loads(text)
    assert job["name"] == GROUP
    assert job["sink"]["topic"] == TOTALS
    assert job["sources"]["flights"]["maxOffsetsPerTrigger"] == BATCH_ROWS
    assert f"{BATCH_ROWS:_}" in text


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.integration
@pytest.mark.zookeeper
@pytest.mark.timeout(900)
def test_every_total_is_right_though_driver_and_broker_are_killed(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=3)
    cluster.start()
    out = io.StringIO()
    try:
        job = PipelineJob(flights_path(), tmp_path, limit=FLIGHTS)
        verdict = asyncio.run(job.run(cluster, PlainView(out)))
    finally:
        cluster.stop()
    story = out.getvalue()
    assert verdict.ok, f"{verdict}\n{story}"
    assert verdict.counted_by_carrier == verdict.counted_by_airport == FLIGHTS
    assert (verdict.drivers_killed, verdict.brokers_killed, verdict.lag) == (1, 1, 0)
    assert "kill -9 of the Spark driver" in story
    assert "kill -9 of broker" in story
