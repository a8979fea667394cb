"""Rates are differences of two looks at high watermarks and sizes. Pure.

Retention makes sizes smaller, so bytes are a lower bound where it cut something off meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from oncelog import TopicPartition
from oncelog.admin.results import LogDirDescription, TopicDescription
from oncelog_console.snapshot import Rate

POINTS = 30
"""So many looks are remembered for the trend of a topic."""

Sums = dict[str, tuple[int, int]]
"""Topic to records and bytes, over the leaders of its partitions."""


class TopicRates:
    """It compares each look at the log directories with the one before."""

    def __init__(self) -> None:
        self._before: tuple[float, Sums] | None = None
        self._trends: dict[str, deque[float]] = {}
        self._known: dict[str, Rate] = {}

    def look(
        self,
        now_s: float,
        log_dirs: Sequence[LogDirDescription],
        topics: Sequence[TopicDescription] | None,
    ) -> None:
        """Take a look into account.

        :param topics: they say who leads; without them nothing can be said.
        """
        if topics is None:
            return
        sums = sums_of(log_dirs, topics)
        if self._before is not None and now_s > self._before[0]:
            self._compare(now_s - self._before[0], self._before[1], sums)
        self._before = (now_s, sums)

    def known(self) -> Mapping[str, Rate]:
        """Return what comes in, by topic."""
        return dict(self._known)

    def _compare(self, seconds: float, before: Sums, now: Sums) -> None:
        self._trends = {name: trend for name, trend in self._trends.items() if name in now}
        known: dict[str, Rate] = {}
        for name, (records, held) in now.items():
            if name not in before:
                continue
            rate = max(0, records - before[name][0]) / seconds
            trend = self._trends.setdefault(name, deque(maxlen=POINTS))
            trend.append(rate)
            known[name] = Rate(rate, max(0, held - before[name][1]) / seconds, tuple(trend))
        self._known = known


def last_committed(
    before: Mapping[TopicPartition, int],
    log_dirs: Sequence[LogDirDescription],
    topics: Sequence[TopicDescription],
) -> dict[TopicPartition, int]:
    """Return the high watermark of each partition, as its leader has told it last.

    :param before: what was known at the look before; it holds where no leader tells anything now.
    """
    told = {
        (item.broker_id, replica.partition): replica.high_watermark
        for item in log_dirs
        for replica in item.replicas
    }
    found = {}
    for topic in topics:
        for item in topic.partitions:
            tp = TopicPartition(topic.topic, item.partition)
            mark = told.get((item.leader, tp), before.get(tp))
            if mark is not None:
                found[tp] = mark
    return found


def sums_of(log_dirs: Sequence[LogDirDescription], topics: Sequence[TopicDescription]) -> Sums:
    """Return records and bytes by topic; a topic of which a leader is not known has no sum."""
    leaders = {
        topic.topic: {item.partition: item.leader for item in topic.partitions} for topic in topics
    }
    found: dict[str, list[int]] = {}
    for item in log_dirs:
        broker = item.broker_id
        for replica in item.replicas:
            name, partition = replica.partition
            if leaders.get(name, {}).get(partition) == broker:
                sums = found.setdefault(name, [0, 0, 0])
                sums[0] += 1
                sums[1] += replica.high_watermark
                sums[2] += replica.size_bytes
    return {
        name: (records, size)
        for name, (count, records, size) in found.items()
        if count == len(leaders[name])
    }


def summed(trends: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the sum of trends at each look; those that began later were 0 before.

    It is as long as the longest of them.
    """
    length = max((len(trend) for trend in trends), default=0)
    sums = [0.0] * length
    for trend in trends:
        for number, rate in enumerate(trend, start=length - len(trend)):
            sums[number] += rate
    return tuple(sums)
