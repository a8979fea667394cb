"""Work that may use up any machine runs in programs of its own, started and ended here.

Rules: at most so many run at a time. A program gets its orders by standard input, which stays open
as long as somebody wants its answer; leaving the block ends the program, whatever it does. Since
Python takes most of a second to load, a program may be had ready before its orders are known.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from oncelog_runtime.tasks import Tasks

LINE_BYTES_MAX = 4 << 20
ERROR_BYTES_MAX = 4096
READY_S = 60.0
"""A program that is ready waits so long for orders after it was last asked for."""


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
        self._ready: _Ready | None = None
        self._tasks = Tasks(what)

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

    def prepare(self, module: str) -> None:
        """Have a program ready whose orders may come soon: one for all.

        None is started while as many run as may: it could not be given orders.
        """
        now_s = asyncio.get_running_loop().time()
        if self._ready is not None:
            self._ready.until_s = now_s + READY_S
        elif self._taken < self._most:
            self._ready = _Ready(module, now_s + READY_S)
            self._tasks.spawn("ready", self._keep(self._ready))

    async def start(self, module: str) -> asyncio.subprocess.Process:
        """Return a program that waits for orders: the one that is ready, or a new one."""
        ready = self._ready
        if ready is not None and ready.module == module:
            self._ready = None
            ready.wanted.set()
            try:
                await ready.over.wait()
            except asyncio.CancelledError:
                if ready.process is not None:
                    _kill(ready.process)
                raise
            if ready.process is not None and ready.process.returncode is None:
                return ready.process
        return await _started(module)

    async def close(self) -> None:
        """End the program that is ready."""
        await self._tasks.close()

    async def _keep(self, ready: _Ready) -> None:
        """Start a program, and end it when nobody takes it."""
        try:
            ready.process = await _started(ready.module)
            loop = asyncio.get_running_loop()
            while not ready.wanted.is_set() and loop.time() < ready.until_s:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(ready.until_s):
                        await ready.wanted.wait()
        finally:
            if self._ready is ready:
                self._ready = None
                if ready.process is not None:
                    _kill(ready.process)
                    await _gone(ready.process)
            ready.over.set()


class _Ready:
    """One program is started, and waits for orders."""

    def __init__(self, module: str, until_s: float) -> None:
        self.module = module
        self.until_s = until_s
        """Loop time at which nobody is expected to take it any more."""
        self.process: asyncio.subprocess.Process | None = None
        """None: it is not there yet."""
        self.wanted = asyncio.Event()
        """Somebody takes it, or will as soon as it is there."""
        self.over = asyncio.Event()
        """It waits no more: whoever takes it owns it."""


async def _started(module: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing is imported from where the console was started
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()


class Worker:
    """It is one place for one program."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def running(self, module: str, orders: bytes) -> AsyncIterator[asyncio.StreamReader]:
        """Run ``python -m module`` with these orders; what it says comes from the reader."""
        try:
            process = self._process = await self._workers.start(module)
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
        if self._process is not None:
            _kill(self._process)

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
