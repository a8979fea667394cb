"""``oncelog pipeline demo`` runs flights through Spark and kills a driver and a broker."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.demo.driver import PipelineError
from oncelog_cli.demo.flights import FLIGHT_COUNT, FlightsMissingError, flights_path
from oncelog_cli.demo.pipeline_job import PipelineJob
from oncelog_cli.demo.staging import run_on_cluster, show
from oncelog_cli.demo.view import PlainView
from oncelog_cli.exits import EXIT_FAILED, EXIT_USAGE
from oncelog_cli.local.process import LocalClusterError

EXIT_WRONG = EXIT_FAILED
EXIT_CANNOT = EXIT_USAGE
"""Nothing was done, as with a command line that is wrong: a verdict can be told from none."""


def demo(
    limit: Annotated[
        int, typed.Option(min=1_000, max=FLIGHT_COUNT, help="How many flights.")
    ] = FLIGHT_COUNT,
    directory: Annotated[
        Path | None, typed.Option("--dir", help="Keep the cluster's and the job's files here.")
    ] = None,
    as_json: Annotated[
        bool, typed.Option("--json", help="End with one line of JSON on stdout.")
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
        verdict = run_on_cluster(home, PipelineJob(path, home, limit=limit), view)
    except (FlightsMissingError, LocalClusterError, PipelineError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typed.Exit(EXIT_CANNOT) from None
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    show(
        "pipeline demo",
        verdict,
        as_json=as_json,
        kept="Every total came once, and is what the file says.",
        broken="totals are missing, doubled or wrong.",
    )
    if not verdict.ok:
        raise typed.Exit(EXIT_WRONG)
