"""Supervised tasks: every background coroutine has an owner, a name and somebody who hears it fail.

Rules: nobody calls ``asyncio.create_task`` and forgets; a task that fails is logged once and
reported once, never silent; closing cancels all, newest first, and waits, so that nothing runs on
after its owner. Tasks are kept in the order in which they were spawned: a set would make shutdown
differ from run to run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oncelog_runtime.logs import LogEvent

__all__ = ["Tasks", "TasksClosedError"]

T = TypeVar("T")
logger = logging.getLogger(__name__)


class TasksClosedError(RuntimeError):
    """A task was spawned after its owner had closed."""


class Tasks:
    """It owns the background tasks of one owner.

    ``on_failure(name, error)`` is called on the loop when a task ends with an exception other than
    cancellation; the owner decides whether that is the end of it. Without it the failure is logged
    only.
    """

    __slots__ = ("_closed", "_on_failure", "_owner", "_tasks")

    def __init__(
        self,
        owner: str,
        on_failure: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether ``close`` has begun: nothing can be spawned any more."""
        return self._closed

    def __len__(self) -> int:
        """Return the number of tasks still running."""
        return len(self._tasks)

    def spawn(self, name: str, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task; its result may be awaited, its failure is reported in any case.

        Raises TasksClosedError when the group is closed; the coroutine is closed then, not run.
        """
        if self._closed:
            coro.close()
            raise TasksClosedError(f"{self._owner} is closed: {name} was not started")
        task = asyncio.get_running_loop().create_task(coro, name=f"{self._owner}/{name}")
        self._tasks[task] = name
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        logger.error(
            LogEvent("task_failed", owner=self._owner, task=name, error=error), exc_info=error
        )
        if self._on_failure is not None:
            self._on_failure(name, error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended. May be called twice, and by a member.

        A member that calls it is not cancelled: it ends by itself.
        """
        self._closed = True
        current = asyncio.current_task()
        tasks = [task for task in reversed(self._tasks) if task is not current]
        for task in tasks:
            task.cancel()
        # A task's failure has been reported by _ended; here it only has to be over.
        await asyncio.gather(*tasks, return_exceptions=True)

    def __repr__(self) -> str:
        return f"<Tasks {self._owner}: {sorted(self._tasks.values())}>"
