"""Delayed operations wait here until an offset is reached or a deadline passes.

There are two structures, both cheap per request and exact in their order:

* ``OffsetPurgatory`` (pure) keeps callbacks in the order of the offset they wait for. Reaching an
  offset costs O(those it wakes). There is one for the high watermark, and one for the leader's own
  synced offset.
* ``Deadlines`` keeps all deadlines of a broker in buckets of 10 ms with *one* timer of the event
  loop. Adding and cancelling are dictionary operations: nearly every delayed one is completed
  long before its deadline, so a heap of timers would mostly hold dead entries for half a minute
  each.

Callbacks run synchronously, once, and must not raise; they may add and cancel others.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

TICK_S = 0.01
"""Deadlines are kept to this precision, rounded up: never early."""

OffsetCallback = Callable[[int], None]
"""It is called with an error code, 0 when the offset was reached."""


@dataclass(slots=True, eq=False)
class DelayedOperation:
    """It is one callback that is to come. ``cancel`` makes sure that it is not called any more."""

    offset: int
    callback: OffsetCallback | None

    def cancel(self) -> None:
        """Forget the callback; it is harmless when it has been called."""
        self.callback = None

    def finish(self, error_code: int) -> None:
        """Call it, unless it has been called or cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(error_code)


class OffsetPurgatory:
    """It keeps operations that wait for an offset to be reached."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[DelayedOperation] | None = None
        """It is None while nobody waits: a deque has room for 64 entries from the beginning, and a
        broker has thousands of partitions that are at rest."""

    def __len__(self) -> int:
        return len(self._queue) if self._queue is not None else 0

    def watch(self, offset: int, callback: OffsetCallback) -> DelayedOperation:
        """Call back when ``reach`` is called with ``offset`` or more."""
        operation = DelayedOperation(offset, callback)
        queue = self._queue
        if queue is None:
            self._queue = deque((operation,))
        elif queue and queue[-1].offset > offset:
            # Appends come in order, so this is rare: a caller asks about an older offset.
            self._queue = deque(sorted([*queue, operation], key=lambda each: each.offset))
        else:
            queue.append(operation)
        return operation

    def reach(self, offset: int) -> None:
        """Call all callbacks that wait for ``offset`` or less: everything below it is there."""
        while self._queue and self._queue[0].offset <= offset:
            self._queue.popleft().finish(0)
        if not self._queue:
            self._queue = None

    def fail(self, error_code: int) -> None:
        """Tell ``error_code`` to all that wait; nobody waits any longer."""
        operations, self._queue = self._queue, None
        for operation in operations or ():
            operation.finish(error_code)


@dataclass(slots=True, eq=False)
class Deadline:
    """It is a moment in loop time, with the callback that is called then."""

    _owner: Deadlines
    _slot: int
    _callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Forget the callback; it is harmless when the moment has passed."""
        if self._callback is not None:
            self._callback = None
            self._owner.discard(self._slot, self)

    def fire(self) -> None:
        """Call the callback, as the moment has come."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Deadlines:
    """It keeps all deadlines of one broker behind one loop timer."""

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Deadline, None]] = {}
        self._slots: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_slot = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, at_s: float, callback: Callable[[], None]) -> Deadline:
        """Call back once loop time has reached ``at_s``."""
        slot = int(at_s / TICK_S) + 1
        deadline = Deadline(self, slot, callback)
        bucket = self._buckets.get(slot)
        if bucket is None:
            self._buckets[slot] = {deadline: None}
            heapq.heappush(self._slots, slot)
            if self._timer is None or slot < self._timer_slot:
                self._arm()
        else:
            bucket[deadline] = None
        self._count += 1
        return deadline

    def discard(self, slot: int, deadline: Deadline) -> None:
        """Drop a cancelled deadline. An emptied bucket stays until its time: it costs nothing."""
        bucket = self._buckets.get(slot)
        if bucket is not None and bucket.pop(deadline, deadline) is None:
            self._count -= 1

    def close(self) -> None:
        """Stop the timer; nothing is called any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._slots.clear()
        self._count = 0

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Buckets whose requests were all answered in time need no wake-up.
        while self._slots and not self._buckets[self._slots[0]]:
            del self._buckets[heapq.heappop(self._slots)]
        if self._slots:
            self._timer_slot = self._slots[0]
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._timer_slot * TICK_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        # The loop may call a hair before the time; what is due is what the timer was set for.
        now = max(asyncio.get_running_loop().time(), self._timer_slot * TICK_S)
        while self._slots and self._slots[0] * TICK_S <= now:
            bucket = self._buckets.pop(heapq.heappop(self._slots))
            self._count -= len(bucket)
            for deadline in list(bucket):
                deadline.fire()
        if self._timer is None:
            self._arm()
