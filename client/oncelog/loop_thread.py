"""Synchronous code calls the asynchronous clients on an event loop in a thread of its own.

Rules: a call waits for its result; an interrupt (Ctrl+C) of who waits cancels what was asked. The
loop's own thread is never waited for from within. Tasks that are left when the loop ends (a client
that was dropped without ``close``, a call that was given up) are cancelled and waited for, or they
would be "destroyed but pending" at some later time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from oncelog.core.home import forked
from oncelog.errors import ClosedError, WrongLoopError

T = TypeVar("T")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return cast(asyncio.AbstractEventLoop, uvloop.new_event_loop())


TASKS_END_S = 5.0
"""How long tasks that are left over may take to end once they are cancelled."""


async def _end_tasks() -> None:
    current = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not current]
    for task in left:
        task.cancel()
    try:
        async with asyncio.timeout(TASKS_END_S):
            await asyncio.gather(*left, return_exceptions=True)
    except TimeoutError:
        pass  # asyncio will name them


class LoopThread:
    """A thread runs an event loop; ``call`` runs a coroutine there and waits for its result."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._stopping = False
        self._process = os.getpid()
        self._order = threading.RLock()
        """Nothing is submitted behind the end, where nobody would do it. A signal's handler may
        interrupt a submission with one of its own: hence RLock."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(_end_tasks())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @property
    def running(self) -> bool:
        """Return whether calls are possible."""
        return not self._stopping and self._thread.is_alive()

    @property
    def forked(self) -> bool:
        """Return whether this process was forked from the one that has the thread."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise WrongLoopError in a forked process, which does not have the thread."""
        if self.forked:
            raise forked(self._process)

    def call(self, coro: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Return what ``coro`` does on the loop; after ``timeout_s`` cancel it: TimeoutError."""
        future = self.submit(coro)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``coro`` on the loop without waiting; coroutines start in the order of submission.

        :raises WrongLoopError: this is a forked process, in which the thread does not exist.
        """
        try:
            self.check_process()
        except WrongLoopError:
            coro.close()
            raise
        if threading.current_thread() is self._thread:
            coro.close()
            raise RuntimeError(
                "a blocking call inside of the client's own loop would wait for ever"
            )
        with self._order:
            if self.running:
                return asyncio.run_coroutine_threadsafe(coro, self._loop)
        coro.close()
        raise ClosedError("the client is closed")

    async def visit(self, work: Callable[[], T]) -> T:
        """Run ``work`` on this loop, and wait for it on the caller's loop."""

        async def run() -> T:
            return work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))

    def tell(self, work: Callable[[], object]) -> None:
        """Run ``work`` on this loop soon, without waiting for it."""
        self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        """End the loop and its thread. When another thread does so already, wait for that.

        After a fork there is nothing to end. The locks here may be held by threads that no longer
        exist.
        """
        if self.forked:
            return
        with self._order:
            first, self._stopping = not self._stopping, True
            if first and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()
