"""A child process runs a pipeline, which is started, listened to, killed and stopped here.

Its standard output is JSON lines, one an event (``started``, ``progress``, ``ended``); its standard
error goes to a file, the end of which is shown when it fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

STARTED = "started"
PROGRESS = "progress"
STOP_DEADLINE_S = 60.0
LINE_BYTES_MAX = 1 << 20
LOG_TAIL_LINES = 25


class PipelineError(Exception):
    """The pipeline was not expected to end. The text has the end of its log."""


def run_command(job: Path, bootstrap: str) -> list[str]:
    """Return the command line of ``oncelog pipeline run``, with JSON lines."""
    command = [sys.executable, "-m", "oncelog_cli", "pipeline", "run", str(job), "--json"]
    return [*command, "--bootstrap", bootstrap]


class Driver:
    """A driver is one run of a pipeline."""

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._command = list(command)
        self._log_path = log_path
        self._process: asyncio.subprocess.Process | None = None
        self._jvm_pid: int | None = None
        self._has_ended = False
        """It has closed its standard output: signals would hit a zombie, which confuses asyncio."""

    async def start(self) -> None:
        """Start the process; what it does, :meth:`events` tells."""
        path = os.pathsep.join(filter(None, sys.path))
        with self._log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
                limit=LINE_BYTES_MAX,
            )

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events that it tells, until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a library that prints
            if not isinstance(event, dict):
                continue
            if event.get("event") == STARTED:
                self._jvm_pid = event.get("jvm_pid")
            yield event
        self._has_ended = True

    async def kill(self) -> None:
        """Send SIGKILL to the driver: Spark's JVM, and the Python beside it."""
        assert self._process is not None
        if self._jvm_pid is not None:
            os.kill(self._jvm_pid, signal.SIGKILL)
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Send SIGTERM, later SIGKILL, and return the exit code.

        Events that it still has to tell are thrown away.
        """
        assert self._process is not None
        if self.running and not self._has_ended:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_DEADLINE_S):
                await self._process.communicate()
        except TimeoutError:
            await self.kill()
        return self._process.returncode or 0

    @property
    def running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process is not None and self._process.returncode is None

    def log_tail(self) -> str:
        """Return the end of what it wrote to standard error."""
        text = self._log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
