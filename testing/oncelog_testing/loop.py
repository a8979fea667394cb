"""A cluster for tests has this event loop: real sockets, and a clock that can be set forward.

Rules
-----
* ``time()`` is the machine's monotonic clock and what was added by ``advance``; it never goes back.
* ``advance`` lets time pass from timer to timer, and between two of them lets everything happen
  that needs no time: answers travel, records are replicated. So what hangs on the order of
  time-outs sees the order that it would have seen. It takes at most ``STEPS_MAX`` such steps, and
  no step is longer than the caller allows: what is measured in silence (a follower that has not
  fetched, a member that has not answered) must not be suspected for our leaps.
* With ``inline_jobs`` what goes to the executor runs on the loop, soon: over files in memory it
  takes microseconds, and nothing depends on how threads are scheduled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

from oncelog_runtime.lanes import Lane

__all__ = ["ClusterLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEPS_MAX = 1_000
"""The most steps of one ``advance``, unless steps must be shorter."""

QUIET_ROUNDS = 3
"""Rounds of the loop without anything to do after which nothing is under way any more."""

SETTLE_ROUNDS_MAX = 2_000
"""A cluster that clients keep busy is never quiet: time goes on after so many rounds."""


class ClusterLoop(asyncio.SelectorEventLoop):
    """It belongs to one thread; ``ahead_s`` may be read from any."""

    def __init__(self, *, inline_jobs: bool) -> None:
        self.ahead_s = 0.0
        """Seconds that were added to the machine's clock."""
        self._job_delay: Callable[[], float] = lambda: 0.0
        """How long the job that has just run would have taken, in seconds."""
        self._inline_jobs = inline_jobs
        self._leap_s = 0.0
        self._slow: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []
        super().__init__()

    def time(self) -> float:
        """Return seconds; see the rules."""
        return super().time() + self.ahead_s

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """See the rules."""
        in_threads = not (executor is None or isinstance(executor, Lane))
        if in_threads or not self._inline_jobs:
            return super().run_in_executor(executor, func, *args)
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result, error = func(*args), None
            except Exception as raised:
                result, error = None, raised
            delay_s = self._job_delay()
            if delay_s > 0:
                end = partial(_settle, future, result, error)
                self._slow = [job for job in self._slow if job[0].when() > self.time()]
                self._slow.append((self.call_later(delay_s, end), end))
            else:
                _settle(future, result, error)

        self.call_soon(run)
        return future

    def delay_jobs_by(self, job_delay: Callable[[], float]) -> None:
        """Ask ``job_delay`` after each job how many seconds it took beyond the usual."""
        self._job_delay = job_delay

    def end_jobs(self) -> None:
        """Let jobs that would take longer end now."""
        slow, self._slow = self._slow, []
        for timer, end in slow:
            timer.cancel()
            end()

    async def advance(self, seconds: float, *, step_s_max: float = float("inf")) -> None:
        """Let so many seconds pass."""
        target = self.time() + seconds
        shortest = min(seconds / STEPS_MAX, step_s_max)
        while True:
            await self.settled()
            now = self.time()
            left = target - now
            if left <= 0:
                return
            due = self._next_due()
            wanted = left if due is None else max(due - now, shortest)
            self._leap_s = min(left, wanted, step_s_max)

    def _run_once(self) -> None:
        # Between two callbacks: asyncio's debug mode would call one slow in which time leaps.
        self.ahead_s += self._leap_s
        self._leap_s = 0.0
        super()._run_once()  # type: ignore[misc]

    async def settled(self) -> None:
        """Return when nothing can happen without time passing, or after a bounded while."""
        quiet = 0
        for _ in range(SETTLE_ROUNDS_MAX):
            await asyncio.sleep(0)  # a round: what is ready runs, what has arrived is read
            due = self._next_due()
            ready = len(self._ready)  # type: ignore[attr-defined]
            busy = ready or (due is not None and due <= self.time())
            quiet = 0 if busy else quiet + 1
            if quiet >= QUIET_ROUNDS:
                return

    def _next_due(self) -> float | None:
        """Return when the next timer falls due; it may be one that was cancelled."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return timers[0].when() if timers else None


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
