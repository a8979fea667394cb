"""The outbox decides in which order results of handlers go to the log. Pure.

Rules
-----
* What the handler of one record returned goes out as a whole, in the transaction that also moves
  the position behind the record: never without it, never twice.
* Of each partition that is read, results go out in the order of its records, whatever the order in
  which handlers ended: a record is *ready* when it and all before it are handled.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from oncelog.consumer.lanes import HandlerJob


class Outbox:
    """The outbox holds the records of one partition that are taken and not committed, in order."""

    __slots__ = ("_ready", "_waiting")

    def __init__(self) -> None:
        self._ready: deque[HandlerJob] = deque()
        self._waiting: deque[HandlerJob] = deque()
        """From the first one on that is not handled; some behind it may be."""

    def __len__(self) -> int:
        return len(self._ready) + len(self._waiting)

    @property
    def ready(self) -> tuple[int, int]:
        """Return how many records may be committed now, and their bytes."""
        return len(self._ready), sum(job.size for job in self._ready)

    def add(self, job: HandlerJob) -> None:
        """Note that a record is taken, behind all others."""
        self._waiting.append(job)

    def handled(self) -> tuple[int, int]:
        """Note that a record was handled; return how many became ready by that, and their bytes."""
        count = size = 0
        waiting = self._waiting
        while waiting and waiting[0].results is not None:
            job = waiting.popleft()
            self._ready.append(job)
            count += 1
            size += job.size
        return count, size

    def first(self, count: int) -> list[HandlerJob]:
        """Return the first records that are ready, at most ``count``."""
        return list(islice(self._ready, count))

    def offset_after(self, count: int) -> int | None:
        """Return the offset of the record behind the first ``count`` ready ones, or None."""
        if count < len(self._ready):
            return self._ready[count].record.offset
        return self._waiting[0].record.offset if self._waiting else None

    def committed(self, count: int) -> None:
        """Remove the first ``count`` records, which are committed."""
        for _ in range(count):
            self._ready.popleft()

    def clear(self) -> list[HandlerJob]:
        """Forget all records, and return those that were handled."""
        jobs = [*self._ready, *(job for job in self._waiting if job.results is not None)]
        self._ready.clear()
        self._waiting.clear()
        return jobs
