"""A lag history has the times of a partition's end at its offsets, where they were seen. Pure.

It keeps points of (time, end), in the order of both; between two points the end is taken to have
moved evenly. While the end stands still one point is kept for when that began and one for how long
it lasted, so that the first record after a quiet night is not taken for old. Old points are thinned
out: the latest past is known best, and the memory of a partition is bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

POINTS_MAX = 120
"""They take some 4 KB a partition; at 5 s a point they hold ten minutes without thinning, many
hours with it."""

POINTS_FEW = 4
"""A partition gets so few when there are too many partitions: they tell minutes from hours."""


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
            half = len(times) // 2
            self._times = times[:half:2] + times[half:]
            self._ends = ends[:half:2] + ends[half:]

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
