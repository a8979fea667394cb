"""The history keeps how figures of the cluster moved over time, in bounded memory. Pure.

Rules: time is given, in ms since 1970. A series has at most 120 points, closer together the newer
they are; of points that are thinned out the highest stays, for a peak is what people look for.
What was not known is a gap, which thinning never closes. Groups have histories for as many as there
is room for, those that people looked at first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log1p
from typing import Any, Literal, NamedTuple

from oncelog import TopicPartition

POINTS_MAX = 120
THINNED_SHARE = 0.75
"""A full series is thinned to such a share of its points, so that it is seldom done."""
POINTS_SPREAD = 24
"""Series differ by so much in how many points they may have: not all are full at the same time."""
GROUPS_MAX = 200
PARTITIONS_MAX = 5_000
"""With two series of 120 points each, so many partitions take 20 MB."""
SLICE_PARTITIONS = 250
"""So many partitions of a group are noted before others may have the loop."""
REBALANCES_MAX = 120

NEAR_MS = 600_000
"""Points of the last ten minutes are about equally far apart; before that their distance grows with
their age."""

TREND_OVER_MS = 600_000
TREND_AT_LEAST_MS = 60_000
"""A trend is that of the last ten minutes, and is not known before one minute was seen."""
TREND_SAMPLES = 32
TREND_SHARE = 0.05
"""A lag that changes by less than this share of itself is steady."""

Trend = Literal["growing", "steady", "shrinking"]


class Point(NamedTuple):
    """A figure had this value at a time."""

    at_ms: int
    value: float
    joined: bool = True
    """False: between the point before and this one something is not known."""
    from_commits: bool = False
    """True: nobody saw it then; it was worked out from what the log says of that time."""


class Past(NamedTuple):
    """A partition was so at a time before anybody looked: ``end`` is None where it is not known."""

    at_ms: int
    committed: int
    end: int | None


class SeenRebalance(NamedTuple):
    """A group began a generation at about this time."""

    at_ms: int
    generation_id: int
    member_count: int


class Behind(NamedTuple):
    """The end of a partition passed a group's position so long ago."""

    ms: int
    at_least: bool
    """True: it was before anything is known of the partition."""


class Series:
    """It is one figure over time, in at most ``points_max`` points.

    :param keep_ms: older points are dropped.
    """

    __slots__ = ("_apart", "_broken", "_commits", "_keep_ms", "_points_max", "_times", "_values")

    def __init__(self, keep_ms: int, points_max: int = POINTS_MAX) -> None:
        self._keep_ms = keep_ms
        self._points_max = points_max
        self._times = array("q")
        self._values = array("d")
        self._apart = bytearray()  # 1: not joined with the point before
        self._commits = 0  # so many points in front are from commits
        self._broken = False  # the next point is not joined

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[Point]:
        columns = zip(self._times, self._values, self._apart, strict=True)
        for number, (at_ms, value, apart) in enumerate(columns):
            yield Point(at_ms, value, not apart, number < self._commits)

    @property
    def latest(self) -> float | None:
        """Return the value that was seen last; None: there is none, or it is not known now."""
        return None if self._broken or not self._values else self._values[-1]

    def saw(self, at_ms: int, value: float | None) -> None:
        """Note the value at a time that is not before the last one; None: it is not known."""
        if value is None:
            self._broken = bool(self._times)
            return
        times, values = self._times, self._values
        while times and times[-1] >= at_ms:  # The clock was put back.
            self._broken = self._broken or bool(self._apart[-1])
            self._cut(len(times) - 1, len(times))
        still = len(values) >= 2 and values[-1] == values[-2] == value
        if still and not self._broken and not self._apart[-1] and len(times) > self._commits + 1:
            times[-1] = at_ms
        else:
            times.append(at_ms)
            values.append(value)
            self._apart.append(self._broken or len(times) == 1)
            self._broken = False
        if times[0] < at_ms - self._keep_ms:
            self._drop_before(at_ms - self._keep_ms)
        if len(times) > self._points_max:
            self._thin(at_ms)

    def look_back(self, past: Iterable[tuple[int, float | None]]) -> None:
        """Put what is worked out of the past in front of what was seen, in the order of time.

        Points at or after the first one that was seen are left out, and all but half of the room.
        """
        first_ms = self._times[0] if self._times else None
        before = Series(self._keep_ms, self._points_max // 2)
        for at_ms, value in past:
            if first_ms is None or at_ms < first_ms:
                before.saw(at_ms, value)
        self._times = before._times + self._times
        self._values = before._values + self._values
        if self._apart and len(before):
            self._apart[0] = before._broken
        self._apart = before._apart + self._apart
        self._commits += len(before)
        if first_ms is None:
            self._broken = before._broken
        if len(self._times) > self._points_max:
            self._thin(self._times[-1])

    def _drop_before(self, oldest_ms: int) -> None:
        old = 0
        while old < len(self._times) - 1 and self._times[old] < oldest_ms:
            old += 1
        if old:
            self._cut(0, old)
            self._apart[0] = 1

    def _cut(self, first: int, end: int) -> None:
        del self._times[first:end], self._values[first:end], self._apart[first:end]
        self._commits -= max(min(self._commits, end) - first, 0)

    def _thin(self, now_ms: int) -> None:
        """Keep the highest point of each stretch; stretches are longer the older they are.

        Thousands of series may do this at about the same time: it is written for speed.
        """
        times, values, apart, commits = self._times, self._values, self._apart, self._commits
        per_age = self._points_max * THINNED_SHARE / log1p((now_ms - times[0] + 1) / NEAR_MS)
        best, gap = 0, apart[0]
        kept: list[int] = []
        gaps = bytearray()
        stretch = int(per_age * log1p((now_ms - times[0]) / NEAR_MS))
        for number in range(1, len(times)):
            here = int(per_age * log1p((now_ms - times[number]) / NEAR_MS))
            if here != stretch or number == commits:
                kept.append(best)
                gaps.append(gap)
                best, gap, stretch = number, apart[number], here
            else:
                gap |= apart[number]
                if values[number] >= values[best]:
                    best = number
        kept.append(best)
        gaps.append(gap)
        self._commits = bisect_left(kept, commits)
        self._times = array("q", [times[number] for number in kept])
        self._values = array("d", [values[number] for number in kept])
        self._apart = gaps


class PartitionHistory:
    """It is how the lag of a group and the end of the log moved in one partition."""

    __slots__ = ("_ends", "_keep_ms", "_lag", "_points_max")

    def __init__(self, keep_ms: int, points_max: int = POINTS_MAX) -> None:
        self._keep_ms = keep_ms
        self._points_max = points_max
        self._lag = Series(keep_ms, points_max)
        self._ends = Series(keep_ms, points_max)

    @property
    def lag(self) -> Sequence[Point]:
        """Return how many records the group was behind."""
        return tuple(self._lag)

    def saw(self, at_ms: int, lag: int | None, end: int | None) -> None:
        """Note the lag and the end of the log; None: not known."""
        self._lag.saw(at_ms, lag)
        last = self._ends.latest
        if end is not None and last is not None and end < last:
            # Cut after an unclean election, or made anew: what was known is of another log.
            self._ends = Series(self._keep_ms, self._points_max)
        self._ends.saw(at_ms, end)

    def look_back(self, past: Sequence[Past]) -> None:
        """Put the past in front, in the order of time."""
        self._lag.look_back(
            (at_ms, None if end is None else max(end - committed, 0))
            for at_ms, committed, end in past
        )
        highest = 0
        ends: list[tuple[int, float | None]] = []
        for item in past:
            # Records may be older than those before them, by their timestamps.
            highest = highest if item.end is None else max(item.end, highest)
            ends.append((item.at_ms, None if item.end is None else highest))
        self._ends.look_back(ends)

    def behind(self, now_ms: int, committed: int) -> Behind | None:
        """Return how long ago the end passed ``committed``; None: nothing is known of the end."""
        return _passed(tuple(self._ends), now_ms, committed)

    def seconds_behind(self) -> tuple[Point, ...]:
        """Return the lag in time, in seconds, at the times at which the lag in records is known.

        It is left out where the end passed the position before anything is known of it.
        """
        ends = tuple(self._ends)
        if len(ends) < 2:
            return ()
        found: list[Point] = []
        joined = False
        inside = [point for point in self._lag if ends[0].at_ms <= point.at_ms <= ends[-1].at_ms]
        then = _sampled(ends, [point.at_ms for point in inside])
        for point, end in zip(inside, then, strict=True):
            before = [each for each in ends if each.at_ms <= point.at_ms]
            reached = Point(point.at_ms, end)
            behind = Behind(0, at_least=False)
            if point.value > 0:
                behind = _passed((*before, reached), point.at_ms, end - point.value) or behind
            if behind.at_least:
                joined = False
                continue
            found.append(point._replace(value=behind.ms / 1000, joined=joined and point.joined))
            joined = True
        return tuple(found)


def _passed(ends: Sequence[Point], now_ms: int, committed: float) -> Behind | None:
    """Return how long ago the end passed an offset; between points it is taken to move evenly."""
    before: Point | None = None
    for point in ends:
        if point.value > committed:
            if before is None:
                return Behind(max(now_ms - point.at_ms, 0), at_least=True)
            share = min((committed + 1 - before.value) / (point.value - before.value), 1.0)
            passed_ms = before.at_ms + share * (point.at_ms - before.at_ms)
            return Behind(max(now_ms - round(passed_ms), 0), at_least=False)
        before = point
    return None if before is None else Behind(0, at_least=False)


@dataclass(slots=True)
class GroupHistory:
    """It is how one group did over time. Only :class:`FigureHistory` changes it."""

    lag: Series
    """The sum of all partitions; a gap where one of them is not known."""
    looked_at_ms: int = 0
    seen_ms: int = 0
    generation_id: int | None = None
    past_known: bool = False
    """True: the past before the first look was read from the log."""
    partitions: dict[TopicPartition, PartitionHistory] = field(default_factory=dict)
    rebalances: deque[SeenRebalance] = field(default_factory=lambda: deque(maxlen=REBALANCES_MAX))

    def began(self, at_ms: int, generation_id: int, member_count: int) -> None:
        """Note the generation that a group is in; another than before is a rebalance."""
        if self.generation_id not in (None, generation_id):
            self.rebalances.append(SeenRebalance(at_ms, generation_id, member_count))
        self.generation_id = generation_id


class FigureHistory:
    """It has the histories of groups, for at most ``groups_max`` with ``partitions_max`` partitions
    together.

    :param keep_ms: so long is the past that is kept.
    """

    def __init__(
        self,
        keep_ms: int,
        *,
        groups_max: int = GROUPS_MAX,
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        self.keep_ms = keep_ms
        self._groups_max = groups_max
        self._partitions_max = partitions_max
        self._groups: dict[str, GroupHistory] = {}
        self._looked_at: dict[str, int] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def partition_count(self) -> int:
        """Return how many partitions have a history."""
        return sum(len(group.partitions) for group in self._groups.values())

    def of(self, group: str) -> GroupHistory | None:
        """Return the history of a group; None: there is none."""
        return self._groups.get(group)

    def look_at(self, group: str, now_ms: int) -> None:
        """Note that somebody looks at a group: it is among the first to be asked about."""
        self._looked_at.pop(group, None)
        self._looked_at[group] = now_ms
        if len(self._looked_at) > self._groups_max:
            del self._looked_at[next(iter(self._looked_at))]
        if group in self._groups:
            self._groups[group].looked_at_ms = now_ms

    def wanted(self, listed: Collection[str], now_ms: int) -> list[str]:
        """Return the groups to ask about next: of those that exist, the last looked at first.

        Groups of which nothing was seen for as long as the past is kept are forgotten.
        """
        for name in [
            name
            for name, group in self._groups.items()
            if max(group.seen_ms, group.looked_at_ms) < now_ms - self.keep_ms
        ]:
            del self._groups[name]
        present = set(listed)
        first = [name for name in reversed(self._looked_at) if name in present]
        room = self.partition_count < self._partitions_max
        others = [name for name in listed if name in self._groups or room]
        return list(dict.fromkeys([*first, *others]))[: self._groups_max]

    def saw(self, row: Mapping[str, Any], now_ms: int) -> None:
        """Note a row of the document of ``groups describe``."""
        for _ in self.seeing(row, now_ms):
            pass

    def seeing(self, row: Mapping[str, Any], now_ms: int) -> Iterator[int]:
        """Note a row of the document of ``groups describe`` in slices, and yield after each how
        many partitions it had.

        When something newer was seen of the group between two slices, the rest is left out.
        """
        offsets = {
            TopicPartition(item["topic"], item["partition"]): item for item in row["offsets"]
        }
        group = self._group(row["group"], len(offsets), now_ms)
        if group is None:
            return
        group.seen_ms = now_ms
        group.began(now_ms, row["generation_id"], row["member_count"])
        group.lag.saw(now_ms, row["lag"])
        for tp in [tp for tp in group.partitions if tp not in offsets]:
            del group.partitions[tp]
        for number, tp in enumerate(list(offsets)[: self._partitions_max]):
            if number and number % SLICE_PARTITIONS == 0:
                yield SLICE_PARTITIONS
                if self._groups.get(row["group"]) is not group or group.seen_ms != now_ms:
                    return
            history = group.partitions.get(tp)
            if history is None:
                self._made += 1
                points_max = POINTS_MAX - self._made % POINTS_SPREAD
                history = group.partitions[tp] = PartitionHistory(self.keep_ms, points_max)
            history.saw(now_ms, offsets[tp]["lag"], offsets[tp]["end_offset"])
        yield min(len(offsets), SLICE_PARTITIONS)

    def missed_all(self, now_ms: int) -> None:
        """Note that nobody answers: from here on nothing is known."""
        for name in self._groups:
            self.missed(name, now_ms)

    def missed(self, name: str, now_ms: int) -> None:
        """Note that a group could not be described: from here on nothing is known of it."""
        group = self._groups.get(name)
        if group is not None:
            group.lag.saw(now_ms, None)
            for history in group.partitions.values():
                history.saw(now_ms, None, None)

    def look_back(
        self,
        name: str,
        past: Mapping[TopicPartition, Sequence[Past]],
        rebalances: Sequence[SeenRebalance] = (),
    ) -> None:
        """Put the past of a group in front of what was seen; it is done once a history."""
        group = self._groups.get(name)
        if group is None or group.past_known:
            return
        group.past_known = True
        for tp, items in past.items():
            if tp in group.partitions:
                group.partitions[tp].look_back(items)
        group.lag.look_back(_summed(past, set(group.partitions)))
        first_ms = group.rebalances[0].at_ms if group.rebalances else None
        for item in reversed(rebalances):
            room = len(group.rebalances) < REBALANCES_MAX
            if room and (first_ms is None or item.at_ms < first_ms):
                group.rebalances.appendleft(item)

    def _group(self, name: str, partition_count: int, now_ms: int) -> GroupHistory | None:
        """Return a group's history, with room for its partitions; None: there is no room.

        Groups that were looked at longer ago make room, those that nobody looked at first.
        """
        looked_at_ms = self._looked_at.get(name, 0)
        known = self._groups.get(name)
        if known is not None and partition_count <= len(known.partitions):
            return known
        others = sorted(
            (each for each in self._groups if each != name),
            key=lambda each: self._groups[each].looked_at_ms,
        )
        used = sum(len(self._groups[each].partitions) for each in others)
        going: list[str] = []
        while others and (
            used + min(partition_count, self._partitions_max) > self._partitions_max
            or len(others) + 1 > self._groups_max
        ):
            oldest = others.pop(0)
            if self._groups[oldest].looked_at_ms >= looked_at_ms:
                self._groups.pop(name, None)
                return None
            used -= len(self._groups[oldest].partitions)
            going.append(oldest)
        for each in going:
            del self._groups[each]
        if known is None:
            known = GroupHistory(Series(self.keep_ms), looked_at_ms)
            self._groups[name] = known
        return known


def _summed(
    past: Mapping[TopicPartition, Sequence[Past]], partitions: Collection[TopicPartition]
) -> list[tuple[int, float | None]]:
    """Return the sum of the lags of all partitions, where all were known at the same time."""
    lags: dict[int, list[int | None]] = {}
    for tp, items in past.items():
        if tp in partitions:
            for at_ms, committed, end in items:
                lag = None if end is None else max(end - committed, 0)
                lags.setdefault(at_ms, []).append(lag)
    summed: list[tuple[int, float | None]] = []
    for at_ms in sorted(lags):
        known = [lag for lag in lags[at_ms] if lag is not None]
        summed.append((at_ms, sum(known) if len(known) == len(partitions) else None))
    return summed


def trend_of(points: Sequence[Point], now_ms: int) -> Trend | None:
    """Return where a lag goes, by its last ten minutes; None: too little was seen of them.

    The later half is compared with the earlier one. What is less than the swings within the halves
    is no trend.
    """
    if len(points) < 2 or points[-1].from_commits:
        return None
    first_ms = max(points[0].at_ms, now_ms - TREND_OVER_MS)
    span_ms = points[-1].at_ms - first_ms
    if span_ms < TREND_AT_LEAST_MS:
        return None
    step_ms = span_ms / (TREND_SAMPLES - 1)
    samples = _sampled(points, [first_ms + number * step_ms for number in range(TREND_SAMPLES)])
    earlier, later = samples[: TREND_SAMPLES // 2], samples[TREND_SAMPLES // 2 :]
    means = [sum(half) / len(half) for half in (earlier, later)]
    swings = [
        sum(abs(value - mean) for value in half) / len(half)
        for half, mean in zip((earlier, later), means, strict=True)
    ]
    change = means[1] - means[0]
    if abs(change) <= max(TREND_SHARE * max(means), *swings):
        return "steady"
    return "growing" if change > 0 else "shrinking"


def _sampled(points: Sequence[Point], times_ms: Sequence[float]) -> list[float]:
    """Return the values at times that lie between the first point and the last."""
    found: list[float] = []
    number = 1
    for at_ms in times_ms:
        while number < len(points) - 1 and points[number].at_ms < at_ms:
            number += 1
        before, after = points[number - 1], points[number]
        share = min(max((at_ms - before.at_ms) / (after.at_ms - before.at_ms), 0.0), 1.0)
        found.append(before.value + share * (after.value - before.value))
    return found
