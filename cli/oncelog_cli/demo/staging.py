"""The demos start a cluster around their jobs, and show the verdict."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from oncelog_cli import typed
from oncelog_cli.demo.driver import PipelineError
from oncelog_cli.demo.flights import flights_path
from oncelog_cli.demo.view import DemoView
from oncelog_cli.exits import EXIT_FAILED, UsageError
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.render import JSON_VERSION


class AnyVerdict(Protocol):
    """A demo's verdict has this."""

    @property
    def ok(self) -> bool:
        """Return whether all is as it was promised."""

    def as_dict(self) -> Mapping[str, Any]:
        """Name to value, in the order of showing."""


V = TypeVar("V", bound=AnyVerdict, covariant=True)


class AnyJob(Protocol[V]):
    """A demo's job has this."""

    async def run(self, cluster: LocalCluster, view: DemoView) -> V:
        """Do it all, and judge it."""


def play(
    command: str,
    make_job: Callable[[Path, Path], AnyJob[AnyVerdict]],
    view: DemoView,
    directory: Path | None,
    *,
    as_json: bool,
    kept: str,
    broken: str,
) -> None:
    """Run a job on a cluster of its own, and show the verdict.

    :param make_job: makes it of the file with the flights, and of the directory for its files.
    :param directory: where files are kept; with None they go.
    :raises UsageError: nothing was done: that can be told from a verdict.
    """
    home = directory or Path(tempfile.mkdtemp(prefix="oncelog-demo-"))
    try:
        verdict = run_on_cluster(home, make_job(flights_path(), home), view)
    except (LocalClusterError, PipelineError) as error:
        raise UsageError(str(error)) from None
    finally:
        view.close()
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    show(command, verdict, as_json=as_json, kept=kept, broken=broken)
    if not verdict.ok:
        raise typed.Exit(EXIT_FAILED)


def run_on_cluster(home: Path, job: AnyJob[V], view: DemoView) -> V:
    """Make a cluster of three below ``home`` for as long as the job takes.

    :raises LocalClusterError: it does not start.
    """
    cluster = LocalCluster(home / "cluster", brokers=3)
    view.say("Starting a ZooKeeper and three brokers ...")
    cluster.start()
    try:
        view.say(f"They serve at {cluster.bootstrap}.")
        return asyncio.run(job.run(cluster, view))
    finally:
        cluster.stop()


def show(command: str, verdict: AnyVerdict, *, as_json: bool, kept: str, broken: str) -> None:
    """Print a table and what it means, ``kept`` or ``broken``; or one line of JSON."""
    values = verdict.as_dict()
    if as_json:
        print(json.dumps({"_command": command, "_version": JSON_VERSION, **values}))
        return
    print()
    for name, value in values.items():
        shown = f"{value:,}" if type(value) is int else value
        print(f"  {name:<18} {shown}")
    print()
    print(kept if verdict.ok else f"FAILED: {broken}")
