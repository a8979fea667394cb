"""``oncelog pipeline demo``: flights through Spark, a driver and a broker killed, a verdict."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from oncelog_cli.demo.delays import PipelineVerdict
from oncelog_cli.demo.driver import PipelineError
from oncelog_cli.demo.flights import FLIGHT_COUNT, FlightsMissingError, flights_path
from oncelog_cli.demo.pipeline_job import PipelineJob
from oncelog_cli.demo.view import PlainView
from oncelog_cli.exits import EXIT_FAILED, EXIT_USAGE
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.render import JSON_VERSION

EXIT_WRONG = EXIT_FAILED
EXIT_CANNOT = EXIT_USAGE
"""Nothing was done, as with a command line that is wrong: a verdict can be told from none."""


def demo(
    limit: Annotated[
        int, typer.Option(min=1_000, max=FLIGHT_COUNT, help="How many flights.")
    ] = FLIGHT_COUNT,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep the cluster's and the job's files here.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="End with one line of JSON on stdout.")
    ] = False,
) -> None:
    """Run a pipeline with state on real data, kill its driver and a broker, and judge its totals.

    Starts three brokers and a ZooKeeper, takes in the flights that left New York in 2013, and has
    Spark make delays by carrier and by airport, a day at a time. Compares every total with what
    the file says. Exits non-zero when one is missing, doubled or wrong. Takes some minutes.
    """
    view = PlainView(sys.stderr)
    home = directory or Path(tempfile.mkdtemp(prefix="oncelog-pipeline-"))
    try:
        path = flights_path()
        verdict = _run(home, PipelineJob(path, home, limit=limit), view)
    except (FlightsMissingError, LocalClusterError, PipelineError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_CANNOT) from None
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    _print(verdict, as_json)
    if not verdict.ok:
        raise typer.Exit(EXIT_WRONG)


def _run(home: Path, job: PipelineJob, view: PlainView) -> PipelineVerdict:
    cluster = LocalCluster(home / "cluster", brokers=3)
    view.say("Starting a ZooKeeper and three brokers ...")
    cluster.start()
    try:
        view.say(f"They serve at {cluster.bootstrap}.")
        return asyncio.run(job.run(cluster, view))
    finally:
        cluster.stop()


def _print(verdict: PipelineVerdict, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps({"_command": "pipeline demo", "_version": JSON_VERSION, **verdict.as_dict()})
        )
        return
    print()
    for name, value in verdict.as_dict().items():
        shown = f"{value:,}" if type(value) is int else value
        print(f"  {name:<18} {shown}")
    print()
    if verdict.ok:
        print("Every total came once, and is what the file says.")
    else:
        print("FAILED: totals are missing, doubled or wrong.")
