"""Rooms count here what they do, at the price of nanoseconds, for whoever asks later.

A counter is a plain ``int`` attribute of whoever counts. A histogram is a list of ints with bounds
that are powers of two of a microsecond: the bucket of a value is its number of bits. Nothing here
knows a clock, a name or a format; metrics are made of it elsewhere, when somebody looks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

__all__ = ["Histogram", "Stopwatch", "precise_time"]

Stopwatch = Callable[[], float]
"""Seconds from an arbitrary moment on, never backwards. Measures only: nothing may be decided by
it, for two runs of the same seed differ in what it says."""

FIRST_BIT = 6
"""The first bucket ends at 2**6 = 64 microseconds ..."""

LAST_BIT = 26
"""... the last but one at 2**26, some 67 seconds; the last one has no end."""

precise_time: Stopwatch = time.perf_counter
"""The machine's own stopwatch; uvloop's time counts whole milliseconds."""


class Histogram:
    """It counts how often a time, in seconds, lay between two bounds, and keeps the sum of all."""

    __slots__ = ("counts", "sum_s")

    BOUNDS_S: Sequence[float] = tuple(2**bit / 1e6 for bit in range(FIRST_BIT, LAST_BIT + 1))
    """Upper bounds of the buckets in seconds; the last bucket, which has none, is not named."""

    def __init__(self) -> None:
        self.counts = [0] * (LAST_BIT - FIRST_BIT + 2)
        """Of each bucket by itself, in the order of bounds."""
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one; a negative time counts as none."""
        if seconds < 0.0:
            seconds = 0.0
        self.sum_s += seconds
        bits = int(seconds * 1e6).bit_length()
        if bits <= FIRST_BIT:
            self.counts[0] += 1
        elif bits <= LAST_BIT:
            self.counts[bits - FIRST_BIT] += 1
        else:
            self.counts[-1] += 1

    @property
    def count(self) -> int:
        """Return how many were counted."""
        return sum(self.counts)

    def cumulative(self) -> list[int]:
        """Return how many were at most each bound, in order, and at last all."""
        total, sums = 0, []
        for count in self.counts:
            total += count
            sums.append(total)
        return sums

    def __repr__(self) -> str:
        return f"<Histogram {self.count} values, {self.sum_s:.6f} s>"
