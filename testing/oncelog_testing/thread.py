"""A cluster for tests lives in this thread, and others call into it.

Rules: a call waits for its result; who waits and is interrupted cancels what was asked. A blocking
call from inside of an event loop is refused, because that loop's clients would stand still, and
what is waited for may need them. ``stop`` ends every task that is left before it ends the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from oncelog_testing.loop import ClusterLoop

__all__ = ["ClusterClosedError", "ClusterThread"]

T = TypeVar("T")

JOIN_S = 30.0
"""How long ``stop`` waits for the thread: tasks that are cancelled end at once."""


class ClusterClosedError(RuntimeError):
    """The cluster was not started, or was closed."""


def loop_runs_here() -> bool:
    """Say whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class ClusterThread:
    """It is one loop in one thread."""

    def __init__(self, name: str, *, inline_jobs: bool) -> None:
        self.loop = ClusterLoop(inline_jobs=inline_jobs)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopped = False
        self._thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                ends = asyncio.gather(*left, return_exceptions=True)
                self.loop.run_until_complete(ends)
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def submit(self, coro: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``coro`` there without waiting.

        :raises ClusterClosedError: the thread has ended.
        """
        if self._stopped:
            coro.close()
            raise ClusterClosedError("the cluster is closed")
        return asyncio.run_coroutine_threadsafe(coro, self.loop)

    def call(self, coro: Coroutine[Any, Any, T], name: str) -> T:
        """Run ``coro`` there and wait for what it returns or raises.

        :raises RuntimeError: this thread runs an event loop.
        """
        if loop_runs_here():
            coro.close()
            raise RuntimeError(
                f"{name}() waits, and an event loop runs in this thread: "
                f"use await cluster.aio.{name}(...)"
            )
        future = self.submit(coro)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and the thread; may be called twice."""
        if self._stopped:
            return
        self._stopped = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)
