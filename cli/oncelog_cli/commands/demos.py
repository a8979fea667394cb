"""A demo runs a job on real data with faults, and judges it; another one does so on Spark.

What they are made of is imported when they run, and only where their extras are installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from oncelog_cli import extras, typed
from oncelog_cli.demo import FLIGHT_COUNT

JsonOption = Annotated[bool, typed.Option("--json", help="End with one line of JSON on stdout.")]


def demo(
    rate: Annotated[
        int, typed.Option(min=100, help="Records a second, so that there is something to see.")
    ] = 12_000,
    limit: Annotated[
        int, typed.Option(min=100, max=FLIGHT_COUNT, help="How many flights.")
    ] = FLIGHT_COUNT,
    directory: Annotated[
        Path | None, typed.Option("--dir", help="Keep the cluster's files here afterwards.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the main job on real data, and judge it.

    Starts three brokers and a ZooKeeper, takes in the flights that left New York in 2013, kills
    the leader of a partition with SIGKILL half-way, brings it back, and reads everything again.
    Exits non-zero when anything acknowledged was lost or misordered.
    """
    extras.need("demo", extras.DEMO, "the demo")
    from oncelog_cli.demo.job import DemoJob
    from oncelog_cli.demo.staging import play
    from oncelog_cli.demo.view import PlainView, make_view

    play(
        "demo",
        lambda flights, _: DemoJob(flights, limit=limit, rate=rate),
        PlainView(sys.stderr) if as_json else make_view(sys.stderr),
        directory,
        as_json=as_json,
        kept="Every acknowledged record came back, once and in order.",
        broken="acknowledged records were lost, doubled or misordered.",
    )


def pipeline_demo(
    limit: Annotated[
        int, typed.Option(min=1_000, max=FLIGHT_COUNT, help="How many flights.")
    ] = FLIGHT_COUNT,
    directory: Annotated[
        Path | None, typed.Option("--dir", help="Keep the cluster's and the job's files here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline with state on real data, kill its driver and a broker, and judge its totals.

    Starts three brokers and a ZooKeeper, takes in the flights that left New York in 2013, and has
    Spark make delays by carrier and by airport, a day at a time. Compares every total with what
    the file says. Exits non-zero when one is missing, doubled or wrong. Takes some minutes.
    """
    extras.need("demo,spark", (*extras.DEMO, "pyspark"), "the demo")
    from oncelog_cli.demo.pipeline_job import PipelineJob
    from oncelog_cli.demo.staging import play
    from oncelog_cli.demo.view import PlainView

    play(
        "pipeline demo",
        lambda flights, home: PipelineJob(flights, home, limit=limit),
        PlainView(sys.stderr),
        directory,
        as_json=as_json,
        kept="Every total came once, and is what the file says.",
        broken="totals are missing, doubled or wrong.",
    )
