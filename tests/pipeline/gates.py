"""Gates are points in the processes of a pipeline at which a test decides what happens.

Spark's driver, its runners and its Python workers have no common ground but a folder, so a gate is
a few files there. A test *arms* a point; the first process that comes to it takes it (a rename, so
only one does) and tells who it is; then it waits until the test *releases* it, fails, or dies.
What waits at a gate is a real process in the middle of its real work, and may be killed there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Action = Literal["wait", "stay", "fail", "die"]
"""``stay``: wait, in a session of its own, so that the process outlives those that started it: its
daemon and the kernel would else hang it up (SIGHUP), even stopped. So would a machine that is cut
off from the driver's."""
POLL_S = 0.02
WAIT_MAX_S = 600.0
"""Then a gate lets go by itself: no process is to be left behind by a test that has died."""


class GateError(Exception):
    """A process raises it at a gate that is armed to fail."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """It is who came to a gate."""

    pid: int
    parent: int
    batch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class _Armed:
    action: Action
    batch: int
    once: bool


class Gates:
    """Both sides use the gates of one folder."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    # ---- the test's side

    def arm(
        self, point: str, action: Action = "wait", *, batch: int = 0, once: bool = True
    ) -> None:
        """The next to come here in ``batch`` or a later one does this; each, if not ``once``."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for ending in ("taken", "reached", "released"):
            self._path(point, ending).unlink(missing_ok=True)
        self._write(point, "armed", json.dumps(asdict(_Armed(action, batch, once))))

    def disarm(self, point: str) -> None:
        """Whoever comes from now on passes; who waits goes on waiting."""
        self._path(point, "armed").unlink(missing_ok=True)

    def release(self, point: str) -> None:
        """Let whoever waits there go on."""
        self._write(point, "released", "")

    def visitor(self, point: str) -> Visitor | None:
        """Return who has come to an armed point last, if anybody has."""
        try:
            text = self._path(point, "reached").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return Visitor(**json.loads(text))

    async def reached(self, point: str, within_s: float, mind: Callable[[], None]) -> Visitor:
        """Wait until somebody has come there.

        :param mind: called now and then meanwhile.
        :raises AssertionError: nobody came in time.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            mind()
            visitor = self.visitor(point)
            if visitor is not None:
                return visitor
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"nobody came to {point} within {within_s:g} s")

    def told(self, point: str) -> list[str]:
        """Return what came of the visitors of a point, as far as they told."""
        found = sorted(self._directory.glob(f"{point}.told.*"))
        return [path.read_text(encoding="utf-8") for path in found]

    # ---- the side of Spark's processes

    def tell(self, point: str, text: str) -> None:
        """Leave a word about what came of this process, for the test."""
        if self._directory.exists():
            self._write(point, f"told.{os.getpid()}", text)

    def pass_through(self, point: str, *, batch: int, attempt: int = 0) -> None:
        """Stop here if the point is armed.

        :raises GateError: it is armed to fail.
        """
        armed = self._take(point, batch)
        if armed is None:
            return
        visitor = Visitor(os.getpid(), os.getppid(), batch, attempt)
        if armed.action == "stay":
            os.setsid()
        self._write(point, "reached", json.dumps(asdict(visitor)))
        if armed.action == "fail":
            raise GateError(f"{point}, batch {batch}, attempt {attempt}: as told")
        if armed.action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + WAIT_MAX_S
        while not self._path(point, "released").exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _take(self, point: str, batch: int) -> _Armed | None:
        path = self._path(point, "armed")
        try:
            armed = _Armed(**json.loads(path.read_text(encoding="utf-8")))
            if batch < armed.batch:
                return None
            if armed.once:
                path.rename(self._path(point, "taken"))
        except FileNotFoundError:
            return None  # not armed, or somebody else was quicker
        return armed

    def _path(self, point: str, ending: str) -> Path:
        return self._directory / f"{point}.{ending}"

    def _write(self, point: str, ending: str, text: str) -> None:
        path = self._path(point, ending)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
