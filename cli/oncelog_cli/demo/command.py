"""``oncelog demo`` sends 336,776 flights to three brokers, kills a leader, and gives a verdict."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from oncelog_cli import typed
from oncelog_cli.demo.flights import FLIGHT_COUNT, FlightsMissingError, flights_path
from oncelog_cli.demo.job import Job
from oncelog_cli.demo.staging import run_on_cluster, show
from oncelog_cli.demo.view import PlainView, View, make_view
from oncelog_cli.exits import EXIT_FAILED, EXIT_USAGE
from oncelog_cli.local.process import LocalClusterError

EXIT_LOST = EXIT_FAILED
EXIT_CANNOT = EXIT_USAGE
"""Nothing was done, as with a command line that is wrong: a verdict can be told from none."""


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
    as_json: Annotated[
        bool, typed.Option("--json", help="End with one line of JSON on stdout.")
    ] = False,
) -> None:
    """Run the main job on real data, and judge it.

    Starts three brokers and a ZooKeeper, takes in the flights that left New York in 2013, kills
    the leader of a partition with SIGKILL half-way, brings it back, and reads everything again.
    Exits non-zero when anything acknowledged was lost or misordered.
    """
    view: View = PlainView(sys.stderr) if as_json else make_view(sys.stderr)
    home = directory or Path(tempfile.mkdtemp(prefix="oncelog-demo-"))
    try:
        path = flights_path()
        verdict = run_on_cluster(home, Job(path, limit=limit, rate=rate), view)
    except (FlightsMissingError, LocalClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise typed.Exit(EXIT_CANNOT) from None
    finally:
        view.close()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    show(
        "demo",
        verdict,
        as_json=as_json,
        kept="Every acknowledged record came back, once and in order.",
        broken="acknowledged records were lost, doubled or misordered.",
    )
    if not verdict.ok:
        raise typed.Exit(EXIT_LOST)
