"""``spark-pipelines`` runs the example of Spark Declarative Pipelines as a user runs it.

It needs ``pyspark[pipelines]``, and starts a Spark Connect server of its own at every run.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from integration.processes import Processes
from oncelog import Admin, Consumer, NewTopic, Producer
from support.house import ROOMS, ROOT

EXAMPLE = ROOT / "examples" / "spark-pipeline"
CARRIERS = ("UA", "AA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.timeout(600),
]


def spark_pipelines(directory: Path, *arguments: str) -> str:
    """Run the command in the example's directory; what it printed."""
    from pyspark.find_spark_home import _find_spark_home

    path = [str(ROOT / room) for room in sorted(ROOMS)]
    done = subprocess.run(
        [str(Path(_find_spark_home()) / "bin" / "spark-pipelines"), *arguments],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)]),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "Run is COMPLETED" in told
    return told


def flights(*days: int) -> list[bytes]:
    """Return two flights of each carrier at noon of each day."""
    return [
        json.dumps(
            {"carrier": carrier, "dep_delay": day, "time_hour": f"2013-01-{day:02}T12:00:00Z"}
        ).encode()
        for day in days
        for carrier in CARRIERS
        for _ in range(2)
    ]


async def send(bootstrap: str, values: list[bytes]) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send_many("flights", values)


async def totals(bootstrap: str) -> list[tuple[str, str, int, int]]:
    """Return what is committed to the sink, sorted: carrier, day, flights, departure delay."""
    found = []
    async with Consumer(
        "delays", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        while any((await consumer.lag()).values()):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    total = json.loads(record.value or b"")
                    assert (record.key or b"").decode() == total["carrier"]
                    found.append(tuple(total.values()))
    return sorted(found)


def expected(*days: int) -> list[tuple[str, str, int, int]]:
    return sorted(
        (carrier, f"2013-01-{day:02}", 2, 2 * day) for day in days for carrier in CARRIERS
    )


def test_each_run_goes_on_where_the_last_one_ended(processes: Processes, tmp_path: Path) -> None:
    directory = tmp_path / "example"
    shutil.copytree(EXAMPLE, directory)
    spec = directory / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:9092", processes.bootstrap)
    text = text.replace("/tmp/oncelog-pipeline-storage", str(tmp_path / "storage"))
    spec.write_text(text, encoding="utf-8")

    async def prepare() -> None:
        async with Admin(processes.bootstrap) as admin:
            topics = [NewTopic("flights", 2, 3, {}), NewTopic("delays", 2, 3, {})]
            (await admin.create_topics(topics)).raise_for_errors()
        await send(processes.bootstrap, flights(1, 2, 3, 4))

    asyncio.run(prepare())
    spark_pipelines(directory, "run")
    # The newest flight is of the fourth, at noon, and one day may be late: the second is over.
    assert asyncio.run(totals(processes.bootstrap)) == expected(1, 2)

    asyncio.run(send(processes.bootstrap, flights(6)))
    spark_pipelines(directory, "run")
    assert asyncio.run(totals(processes.bootstrap)) == expected(1, 2, 3, 4)
