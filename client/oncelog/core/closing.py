"""A client is closed once, and everybody who asks for it waits until it is done.

Rules
-----
* Who asks while the end is under way waits for it, and hears of its failure. Who came back at once
  would end the program, and with it what the first one was about to send.
* The end goes on as long as one waits for it. When the last one is cancelled, it is cancelled too.
* Who is called by the end itself (a listener) does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from oncelog_runtime.tasks import Tasks


class Closing:
    """One client is closed through this object, by a task that is called after ``owner``."""

    def __init__(self, owner: str) -> None:
        self.waiting: list[asyncio.Task[Any] | None] = []
        """Who waits for the end, in the order in which they came."""
        self._owner = owner
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._noticed: list[Callable[[], None]] = []

    def notice(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever one more waits for the end."""
        self._noticed.append(callback)

    async def once(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do ``work`` once; who comes later waits, and hears of its failure."""
        task = self._task
        if task is None:
            tasks = Tasks(self._owner)
            task = self._task = tasks.spawn("close", self._do(work))
        current = asyncio.current_task()
        if task.done() or task is current:
            return
        self.waiting.append(current)
        for callback in self._noticed:
            callback()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if self.waiting == [current] and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            self.waiting.remove(current)
        if self._error is not None:
            raise self._error

    async def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._error = error
