"""A shell calls the ``oncelog`` command beside brokers that run in the test's loop.

    shown = await oncelog("topics", "list", "--json", bootstrap=cluster.bootstrap)
    assert shown.code == 0
    assert shown.document["topics"] == []

The command runs in a thread, with standard streams of its own, so that the brokers in the test's
loop can answer it. One at a time; what must run beside it is a process: ``start``.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from oncelog_cli.main import run_command

__all__ = ["COMMAND", "Shown", "as_process", "environment", "oncelog", "start"]

COMMAND = [sys.executable, "-m", "oncelog_cli.main"]
"""The command as a process of its own; give it ``environment()``."""


STREAMS = threading.Lock()


@dataclass(frozen=True, slots=True)
class Shown:
    """It is what a command left behind."""

    code: int
    stdout: bytes
    err: str

    @property
    def out(self) -> str:
        """Return standard output as text."""
        return self.stdout.decode()

    @property
    def document(self) -> Any:
        """Return standard output as one JSON document."""
        return json.loads(self.stdout)

    @property
    def json_lines(self) -> list[Any]:
        """Return standard output as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def environment(**variables: str) -> dict[str, str]:
    """Return ours, and a path on which a child process finds what this one finds."""
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, **variables}


def as_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process, since it may become another program."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@asynccontextmanager
async def start(*arguments: str, bootstrap: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the command as a process with pipes, which does not outlive the block."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        *("--bootstrap", bootstrap),
        env=environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def oncelog(*arguments: str, stdin: bytes = b"", bootstrap: str = "") -> Shown:
    """Run one command line; ``stdin`` comes through a pipe and then ends."""
    named = ["--bootstrap", bootstrap] if bootstrap else []
    if not STREAMS.acquire(blocking=False):
        raise RuntimeError("the standard streams are taken: start() a process")
    try:
        return await asyncio.to_thread(_run, [*arguments, *named], stdin)
    finally:
        STREAMS.release()


def _run(arguments: list[str], stdin: bytes) -> Shown:
    stdout, stderr = io.BytesIO(), io.BytesIO()
    before = sys.stdin, sys.stdout, sys.stderr
    read_end, write_end = os.pipe()
    feeder = os.fdopen(write_end, "wb", buffering=0)
    try:
        with os.fdopen(read_end, encoding="utf-8") as reader:
            if len(stdin) <= 32_768:  # fits a pipe's buffer: nobody needs to read meanwhile
                feeder.write(stdin)
                feeder.close()
            else:
                raise ValueError("longer input goes through a file")
            sys.stdin = reader
            sys.stdout = io.TextIOWrapper(stdout, encoding="utf-8", write_through=True)
            sys.stderr = io.TextIOWrapper(stderr, encoding="utf-8", write_through=True)
            code = run_command(arguments)
            sys.stdout.flush()
            # The wrappers would close what the caller is about to read.
            sys.stdout.detach()
            sys.stderr.detach()
    finally:
        feeder.close()
        sys.stdin, sys.stdout, sys.stderr = before
    return Shown(code, stdout.getvalue(), stderr.getvalue().decode())
