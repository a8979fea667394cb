"""Work that may use up any machine runs in programs of its own, started and ended here.

Rules: at most so many run at a time. A program gets its orders by standard input, which stays open
as long as somebody wants its answer; leaving the block ends the program, whatever it does.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

LINE_BYTES_MAX = 4 << 20
ERROR_BYTES_MAX = 4096


class TooManyWorkersError(Exception):
    """So many programs run already; the text says what to do."""


class Workers:
    """They are the programs that one console runs.

    :param most: so many at a time.
    :param what: what they do, for errors: ``searches``.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken = 0

    @property
    def running(self) -> int:
        """Return how many run, or are about to."""
        return self._taken

    def take(self) -> Worker:
        """Take a place for a program that is started next.

        :raises TooManyWorkersError: there is none.
        """
        if self._taken >= self._most:
            raise TooManyWorkersError(
                f"{self._taken} {self._what} are running, and more would slow down who serves;"
                " stop one, or wait for its end"
            )
        self._taken += 1
        return Worker(self)

    def give_back(self) -> None:
        """Note that a program has ended."""
        self._taken -= 1


class Worker:
    """It is one place for one program."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def running(self, module: str, orders: bytes) -> AsyncIterator[asyncio.StreamReader]:
        """Run ``python -m module`` with these orders; what it says comes from the reader."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing is imported from where the console was started
                "-m",
                module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
            )
            self._process = process
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(orders)
                yield process.stdout
            finally:
                self.kill()
                await _gone(process)
        finally:
            self._workers.give_back()

    def kill(self) -> None:
        """End the program now, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def result(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit code, and the last that it complained.

        To be called when it has said everything.
        """
        process = self._process
        assert process is not None
        assert process.stderr is not None
        kept = b""
        while part := await process.stderr.read(ERROR_BYTES_MAX):
            kept = (kept + part)[-ERROR_BYTES_MAX:]
        return await process.wait(), kept.decode(errors="replace").strip()


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Wait until a program that was killed is gone with its pipes, also when that is cancelled."""
    waiting = asyncio.ensure_future(process.communicate())
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await waiting
        raise
