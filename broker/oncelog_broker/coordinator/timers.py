"""Keyed timers of one shard behind one timer of the event loop.

Rules
-----
* A key has one timer; setting it again replaces it. A timer that is only put off (a session that
  lives on) costs a dictionary operation: the heap learns of it when the old time comes.
* What is due is handed over one by one, in order of time and then of setting, so that what one
  operation cancels does not run. So many in one go, then others have their turn.
* Held until ``start``: what is set while a shard is loaded may not run before the load is complete.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from oncelog_broker.coordinator.result import Result

TimerOperation = Callable[[], Result[None]]

DUE_COUNT_MAX = 128
"""So many run in one turn of the loop: 10,000 sessions may end at once."""

HEAP_SLACK_COUNT = 64
"""Stale heap entries beyond twice the timers are swept out, above this number."""


class _Timer:
    __slots__ = ("at_s", "operation", "queued_s")

    def __init__(self, at_s: float, operation: TimerOperation) -> None:
        self.at_s = at_s
        self.operation = operation
        self.queued_s = -1.0
        """Under which time the heap has it."""


class ShardTimers:
    """The timers of one shard; fulfils ``ports.Timers``. ``run`` gets what is due."""

    def __init__(self, run: Callable[[TimerOperation], None]) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, _Timer] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._sequence = 0
        self._handle: asyncio.TimerHandle | None = None
        self._armed_s = 0.0
        self._started = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: str) -> bool:
        return key in self._timers

    def now_s(self) -> float:
        """Loop time in seconds."""
        return self._loop.time()

    def set(self, key: str, delay_s: float, operation: TimerOperation) -> None:
        """Run ``operation`` after ``delay_s``; replaces the timer of the same key."""
        if self._closed:
            return
        at_s = self._loop.time() + max(delay_s, 0.0)
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer(at_s, operation)
        else:
            timer.at_s, timer.operation = at_s, operation
            if timer.queued_s <= at_s:
                return
        self._queue(key, timer)
        self._arm()

    def cancel(self, key: str) -> None:
        """Forget it; harmless when there is none."""
        self._timers.pop(key, None)
        if len(self._heap) > 2 * len(self._timers) + HEAP_SLACK_COUNT:
            self._sweep()

    def start(self) -> None:
        """From now on what is due runs."""
        self._started = True
        self._arm()

    def close(self) -> None:
        """Nothing runs any more, and nothing can be set."""
        self._closed = True
        self._timers.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

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
            operation = self._next_due(now_s)
            if operation is None:
                break
            self._run(operation)
        self._arm()

    def _next_due(self, now_s: float) -> TimerOperation | None:
        while self._heap and self._heap[0][0] <= now_s:
            queued_s, _, key = heapq.heappop(self._heap)
            timer = self._timers.get(key)
            if timer is None or timer.queued_s != queued_s:
                continue
            if timer.at_s > now_s:
                self._queue(key, timer)
                continue
            del self._timers[key]
            return timer.operation
        return None
