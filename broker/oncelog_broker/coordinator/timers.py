"""The keyed timers of one shard are kept behind one timer of the event loop.

Rules
-----
* A key has one timer; setting it again replaces it. A timer that is only put off (a session that
  lives on) costs a dictionary operation: the heap learns of it when the old time comes.
* Due timers are handed over one by one, in order of time and then of setting, so that a timer that
  an operation cancels does not run. So many run in one go, then others have their turn.
* Timers are held until ``start``: what is set while a shard is loaded may not run before the load
  is complete.
* An operation that is to run soon needs no heap: a queue, and the next turn of the loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from oncelog_broker.coordinator.result import Result

TimerOperation = Callable[[], Result[Any]]

DUE_COUNT_MAX = 128
"""So many run in one turn of the loop: 10,000 sessions may end at once."""

HEAP_SLACK_COUNT = 64
"""When there are more stale heap entries than twice the timers and this number, they are swept
out."""


@dataclass(slots=True, eq=False)
class _Timer:
    at_s: float
    operation: TimerOperation
    retry_s: float | None
    queued_s: float = -1.0
    """The heap has the timer under this time."""


class ShardTimers:
    """It keeps the timers of one shard, and fulfils ``ports.Timers``.

    :param run: gets what is due, and what to call when it could not be carried out.
    """

    def __init__(self, run: Callable[[TimerOperation, Callable[[], None] | None], None]) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, _Timer] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._sequence = 0
        self._soon: deque[tuple[TimerOperation, float | None]] = deque()
        self._soon_handle: asyncio.Handle | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._armed_s = 0.0
        self._started = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: str) -> bool:
        return key in self._timers

    def now_s(self) -> float:
        """Return the loop time in seconds."""
        return self._loop.time()

    def set(
        self,
        key: str,
        delay_s: float,
        operation: TimerOperation,
        *,
        retry_s: float | None = None,
    ) -> None:
        """Run ``operation`` after ``delay_s``; this replaces the timer of the same key."""
        if self._closed:
            return
        at_s = self._loop.time() + max(delay_s, 0.0)
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer(at_s, operation, retry_s)
        else:
            timer.at_s, timer.operation, timer.retry_s = at_s, operation, retry_s
            if timer.queued_s <= at_s:
                return
        self._queue(key, timer)
        self._arm()

    def soon(self, operation: TimerOperation, *, retry_s: float | None = None) -> None:
        """Run ``operation`` when others have had their turn."""
        if not self._closed:
            self._soon.append((operation, retry_s))
            self._arm_soon()

    def cancel(self, key: str) -> None:
        """Forget the timer; it is harmless when there is none."""
        self._timers.pop(key, None)
        if len(self._heap) > 2 * len(self._timers) + HEAP_SLACK_COUNT:
            self._sweep()

    def start(self) -> None:
        """Begin to run what is due."""
        self._started = True
        self._arm_soon()
        self._arm()

    def close(self) -> None:
        """Stop for good: nothing runs any more, and nothing can be set."""
        self._closed = True
        self._timers.clear()
        self._heap.clear()
        self._soon.clear()
        for handle in (self._handle, self._soon_handle):
            if handle is not None:
                handle.cancel()
        self._handle = self._soon_handle = None

    def _queue(self, key: str, timer: _Timer) -> None:
        timer.queued_s = timer.at_s
        self._sequence += 1
        heapq.heappush(self._heap, (timer.at_s, self._sequence, key))

    def _sweep(self) -> None:
        # An entry holds if its key still has a timer that knows itself under this time.
        self._heap = [
            entry
            for entry in self._heap
            if (timer := self._timers.get(entry[2])) is not None and timer.queued_s == entry[0]
        ]
        heapq.heapify(self._heap)

    def _arm(self) -> None:
        if not self._started or not self._heap:
            return
        at_s = self._heap[0][0]
        if self._handle is not None:
            if self._armed_s <= at_s:
                return
            self._handle.cancel()
        self._armed_s = at_s
        self._handle = self._loop.call_at(at_s, self._due)

    def _due(self) -> None:
        self._handle = None
        # The loop may call a hair before the time; what is due is what the timer was set for.
        now_s = max(self._loop.time(), self._armed_s)
        for _ in range(DUE_COUNT_MAX):
            key = self._next_due(now_s)
            if key is None:
                break
            self._hand_over(key, self._timers.pop(key))
        self._arm()

    def _next_due(self, now_s: float) -> str | None:
        while self._heap and self._heap[0][0] <= now_s:
            queued_s, _, key = heapq.heappop(self._heap)
            timer = self._timers.get(key)
            if timer is None or timer.queued_s != queued_s:
                continue
            if timer.at_s > now_s:
                self._queue(key, timer)
                continue
            return key
        return None

    def _hand_over(self, key: str, timer: _Timer) -> None:
        again = None if timer.retry_s is None else partial(self._retry, key, timer)
        self._run(timer.operation, again)

    def _retry(self, key: str, timer: _Timer) -> None:
        if key not in self._timers and timer.retry_s is not None:
            self.set(key, timer.retry_s, timer.operation, retry_s=timer.retry_s)

    # ---- soon

    def _arm_soon(self) -> None:
        if self._started and self._soon and self._soon_handle is None:
            self._soon_handle = self._loop.call_soon(self._run_soon)

    def _run_soon(self) -> None:
        self._soon_handle = None
        due = [self._soon.popleft() for _ in range(min(len(self._soon), DUE_COUNT_MAX))]
        for operation, retry_s in due:
            self._sequence += 1
            self._hand_over(f"soon {self._sequence}", _Timer(0.0, operation, retry_s))
        self._arm_soon()
