"""Spark drivers are processes of their own: start, look, kill with all that belongs to it.

A driver is a Python program, its Java, Spark's Python daemons and workers, and the executors if the
master is ``local-cluster``. To kill one is to kill the program and its Java with SIGKILL; the rest
must find its end by itself, and what is still there after a while is ended here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from oncelog_cli.local.process import (
    ManagedProcess,
    ProcessIdentity,
    start_mark,
    start_process,
)
from pipeline.chaos_driver import STATUS, STOP, DriverOptions
from pipeline.gates import Gates

LIBRARIES = Path(__file__).parents[1]
POLL_S = 0.05
GONE_WITHIN_S = 20.0


class SparkDriver:
    """It is one life of a driver; another life is another object with the same ``state``."""

    def __init__(self, options: DriverOptions) -> None:
        self._options = options
        self._directory = Path(options.directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(LIBRARIES), *filter(None, sys.path)])
        self._process = start_process(
            [sys.executable, "-m", "pipeline.chaos_driver", options.to_json()],
            log_path=self._directory / "driver.log",
            environment={
                **os.environ,
                "PYTHONPATH": path,
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
            },
        )

    @property
    def gates(self) -> Gates:
        """Return the gates that its queries pass."""
        return Gates(Path(self._options.state) / "gates")

    @property
    def log(self) -> str:
        """Return what it wrote, to the last lines."""
        return self._process.log_tail(60)

    def status(self) -> dict[str, Any]:
        """Return what it told last, or nothing before it has begun."""
        try:
            told: dict[str, Any] = json.loads((self._directory / STATUS).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return told

    def failures(self, query: str) -> list[str]:
        """Return why the query had to be started again, in this life."""
        found: list[str] = self.status().get("queries", {}).get(query, {}).get("failures", [])
        return found

    def batch(self, query: str) -> int:
        """Return the last micro-batch that the query has ended in this life, or -1."""
        return int(self.status().get("queries", {}).get(query, {}).get("batch", -1))

    def check_alive(self) -> None:
        """:raises AssertionError: it has ended by itself."""
        assert self._process.is_alive(), f"the driver ended: {self.log}"

    async def began(self, within_s: float = 200.0) -> None:
        """Wait until its queries were started."""
        deadline = time.monotonic() + within_s
        while not self.status():
            self.check_alive()
            assert time.monotonic() < deadline, f"no session yet: {self.log}"
            await asyncio.sleep(POLL_S)

    def family(self) -> list[ManagedProcess]:
        """Return all processes that it has started, and they, itself first."""
        return [self._process, *descendants(self._process.pid, self._process.log_path)]

    async def kill(self, spare: Iterable[int] = ()) -> None:
        """Send SIGKILL to the program and its Java; return when the others have gone.

        :param spare: ids of processes that stay as they are: they are stopped, and wake up later.
        """
        family = self.family()
        jvm = int(self.status().get("jvm", 0))
        kept = set(spare)
        for process in family:
            if process.pid in (self._process.pid, jvm):
                process.kill()
        rest = [process for process in family if process.pid not in kept]
        deadline = time.monotonic() + GONE_WITHIN_S
        while any(process.is_alive() for process in rest) and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        for process in rest:
            if process.is_alive():
                process.kill()

    async def stop(self, within_s: float = 40.0) -> None:
        """End it in peace, or else by force."""
        family = self.family()
        (self._directory / STOP).touch()
        await asyncio.to_thread(self._process.wait, within_s)
        for process in family:
            if process.is_alive():
                process.kill()


def next_life(options: DriverOptions, number: int) -> DriverOptions:
    """Return the same driver again, with the state of the one before and a folder of its own."""
    return replace(options, directory=str(Path(options.state) / f"life-{number}"))


def of_pid(pid: int, log_path: Path = Path(os.devnull)) -> ManagedProcess:
    """Return the process that has this id now."""
    return ManagedProcess(
        ProcessIdentity(pid, start_mark(pid, even_zombie=True) or "gone"), log_path
    )


def descendants(pid: int, log_path: Path) -> list[ManagedProcess]:
    """Return children, their children and so on, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit():
            children.setdefault(parent_of(int(entry.name)), []).append(int(entry.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        born = children.get(todo.pop(), [])
        found += born
        todo += born
    return [of_pid(each, log_path) for each in found]


def parent_of(pid: int) -> int:
    """Return the id of the parent, or 0 where there is none any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])
