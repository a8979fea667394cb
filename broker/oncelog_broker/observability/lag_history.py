"""A lag history has the times of a partition's end at its offsets, where they were seen. Pure.

It keeps points of (time, end), in the order of both; between two points the end is taken to have
moved evenly. While the end stands still one point is kept for when that began and one for how long
it lasted, so that the first record after a quiet night is not taken for old. When there are too
many points, the newer half stays; of the older half one stays for each stretch of time, and
stretches are longer the older they are. So the latest past is known best, the first point is never
lost, and the memory of a partition is bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import log1p

POINTS_MAX = 120
"""They take some 4 KB a partition. At 5 s a point the last five minutes have all of theirs. Older
ones are apart by at most a quarter of their age after six hours, and by half of it after ten
days."""

POINTS_FEW = 4
"""A partition gets so few when there are too many partitions: they tell minutes from hours."""

THINNED_SHARE = 0.75
"""The older half is thinned to such a share of its points, so that it is seldom done."""
NEAR_S = 300.0
"""Stretches are about equally long for so long a time, and grow with their age before that."""


class LagHistory:
    """It is the history of one partition, in at most ``points_max`` points, of which four are the
    fewest."""

    __slots__ = ("_ends", "_points_max", "_times")

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points_max = points_max
        self._times: list[float] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._times)

    @property
    def end(self) -> int:
        """Return the end as seen last; it is -1 before."""
        return self._ends[-1] if self._ends else -1

    def saw(self, now_s: float, end: int) -> None:
        """Note that the partition ends at ``end`` now."""
        times, ends = self._times, self._ends
        if ends and end < ends[-1]:
            # Cut after an unclean election, or made anew: what was known is of another log.
            times.clear()
            ends.clear()
        if len(ends) >= 2 and ends[-1] == ends[-2] == end:
            times[-1] = now_s
            return
        times.append(now_s)
        ends.append(end)
        if len(times) > self._points_max:
            self._thin()

    def _thin(self) -> None:
        """Keep the first point of each stretch of the older half, and the newer half."""
        times, ends = self._times, self._ends
        half = len(times) // 2
        newest_s = times[half - 1]
        stretches = max(int(half * THINNED_SHARE), 1)
        per_age = stretches / log1p((newest_s - times[0] + 1) / NEAR_S)
        kept: list[int] = []
        stretch = -1
        for number in range(half):
            here = int(per_age * log1p((newest_s - times[number]) / NEAR_S))
            if here != stretch:
                kept.append(number)
                stretch = here
        self._times = [times[number] for number in kept] + times[half:]
        self._ends = [ends[number] for number in kept] + ends[half:]

    def look_back(self, now_s: float, ages_s: Sequence[float], offsets: Sequence[int]) -> None:
        """Begin with the past: so long ago the partition ended at these offsets, oldest first."""
        for age_s, offset in zip(ages_s, offsets, strict=True):
            # Records may be older than those before them, by their timestamps.
            self.saw(now_s - age_s, max(offset, self.end))

    def age_s(self, now_s: float, offset: int) -> float:
        """Return how many seconds ago the end passed ``offset``; 0 if it has not. For an offset
        before the first point it is the age of that point."""
        ends, times = self._ends, self._times
        if not ends or offset >= ends[-1]:
            return 0.0
        after = bisect_right(ends, offset)
        if after == 0:
            return max(now_s - times[0], 0.0)
        before = after - 1
        share = (offset + 1 - ends[before]) / (ends[after] - ends[before])
        passed_s = times[before] + share * (times[after] - times[before])
        return max(now_s - passed_s, 0.0)
