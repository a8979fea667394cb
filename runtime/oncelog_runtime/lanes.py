"""A lane has the threads for blocking calls of one device, which may hang without harming others.

Rules: a lane belongs to one device (a log directory), so calls that never return take no thread
from anybody else. Its threads are daemons: a call that hangs keeps neither ``close`` nor the end of
the process waiting. Nothing of the loop's is touched from a thread; a call only gets its arguments
and gives back what it returned or raised. A lane is passed to ``loop.run_in_executor``, which a
simulated loop answers without any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

__all__ = ["Lane"]

P = ParamSpec("P")
T = TypeVar("T")

IDLE_S = 5.0
"""A thread without work ends after so long. A burst of syncs starts 32 of them, 20 KB each."""

_Call = tuple[Future[Any], Callable[[], Any]]


class Lane(Executor):
    """A lane starts at most ``threads`` threads, each when it is needed. A thread that has had no
    call for ``idle_s`` seconds ends."""

    def __init__(self, name: str, threads: int = 1, *, idle_s: float = IDLE_S) -> None:
        """Make a lane that bears the name of its device, such as the path of a directory."""
        self.name = name
        self._threads_max = threads
        self._idle_s = idle_s
        self._threads = 0
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """So many threads wait for a call that is not in line yet; below 0, so many calls in line
        have no thread yet. A plain number under the lock costs a tenth of a semaphore."""
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn`` called in a thread of the lane.

        :raises RuntimeError: the lane is closed.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the lane of {self.name} is closed")
            self._calls.put((future, lambda: fn(*args, **kwargs)))
            if self._idle > 0 or self._threads == self._threads_max:
                self._idle -= 1
            else:
                self._threads += 1
                name = f"{self.name}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Take no more calls. Those in line are cancelled, and those that have begun go on alone;
        neither is ever waited for."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = []
            while not self._calls.empty():
                waiting.append(self._calls.get())
            for _ in range(self._threads):
                self._calls.put(None)
        for call in waiting:
            if call is not None:
                call[0].cancel()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            future, function = call
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del call, future, function
            with self._lock:
                self._idle += 1

    def _next(self) -> _Call | None:
        """Wait for a call; None when the thread is to end."""
        while True:
            try:
                return self._calls.get(timeout=self._idle_s)
            except Empty:
                with self._lock:
                    # Without an idle thread each that waits is the one for a call that is in line.
                    if self._idle > 0:
                        self._idle -= 1
                        self._threads -= 1
                        return None
