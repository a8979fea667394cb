"""Each goal of the planner is measured here: how far a layout is from it, and would be. Pure.

A measure is 0 when its goal is reached. ``delta`` says what a change would make of it, in some
microseconds; all figures are whole numbers, so that no order of sums makes a difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from typing import Protocol

from oncelog_controller.balance.layout import PlacementChange, ReplicaLayout
from oncelog_controller.balance.snapshot import BalanceSnapshot, Goal, Standing
from oncelog_controller.balance.turns import Turns, Work


class Measure(Protocol):
    """It is the distance of a layout from a goal."""

    @property
    def value(self) -> int:
        """Return what has to become smaller."""

    @property
    def distance(self) -> int:
        """Return how far it is from the goal, in a unit that people know."""

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition of the layout, before the first question."""

    def settle(self) -> None:
        """All partitions were counted: the bounds can be known."""

    def delta(self, change: PlacementChange) -> int:
        """Return by how much a change makes the measure larger."""

    def apply(self, change: PlacementChange) -> None:
        """Note that a change was made."""


class Evacuated:
    """It counts replicas on brokers that leave."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._leaving = {
            b for b, view in layout.brokers.items() if view.standing is Standing.LEAVING
        }
        self.value = 0

    @property
    def distance(self) -> int:
        """Return the measure."""
        return self.value

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        self.value += sum(b in self._leaving for b in replicas)

    def settle(self) -> None:
        """There are no bounds to know."""

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        leaving = self._leaving
        if not leaving:
            return 0
        return sum(b in leaving for b in change.added) - sum(b in leaving for b in change.removed)

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        self.value += self.delta(change)


class Wholeness:
    """It counts replicas that are missing, too many, or on dead brokers."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._layout = layout
        self._dead = {b for b, view in layout.brokers.items() if view.standing is Standing.DEAD}
        self.value = 0

    @property
    def distance(self) -> int:
        """Return the measure."""
        return self.value

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        self.value += self._off(rank, replicas)

    def settle(self) -> None:
        """There are no bounds to know."""

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        if not self._dead and len(change.added) == len(change.removed):
            return 0
        return self._off(change.rank, change.after) - self._off(change.rank, change.before)

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        self.value += self.delta(change)

    def _off(self, rank: int, replicas: Sequence[int]) -> int:
        missing = abs(self._layout.factor(rank) - len(replicas))
        return missing + sum(b in self._dead for b in replicas)


class Racks:
    """It counts the racks that partitions could be on and are not, if every broker has one."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._racks, self._count = layout.racks, layout.rack_count
        self.value = 0

    @property
    def counted(self) -> bool:
        """Return whether there is a choice of racks."""
        return self._count > 1

    @property
    def distance(self) -> int:
        """Return the measure."""
        return self.value

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        if self._count > 1:
            self.value += self.missing(replicas)

    def settle(self) -> None:
        """There are no bounds to know."""

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        if self._count < 2 or not (change.removed or change.added):
            return 0
        return self.missing(change.after) - self.missing(change.before)

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        self.value += self.delta(change)

    def lost(self, replicas: Sequence[int], old: int, new: int) -> bool:
        """Return whether replicas are on fewer racks than they could be, and than before, when
        one of them goes from a broker to another one. As ``delta``, and faster."""
        racks = self._racks
        if self._count < 2 or racks[old] == racks[new]:
            return False
        leaves, comes = racks[old], racks[new]
        others = [racks[b] for b in replicas if b != old and b in racks]
        if leaves in others or comes not in others:
            return False
        return len(set(others)) < min(len(replicas), self._count)

    def missing(self, replicas: Sequence[int]) -> int:
        """Return how many racks more these replicas could be on."""
        used = {self._racks[b] for b in replicas if b in self._racks}
        return max(0, min(len(replicas), self._count) - len(used))


class Disks:
    """It counts the bytes on each broker above the mark, where its disks are known."""

    def __init__(self, layout: ReplicaLayout, percent: int) -> None:
        self._layout = layout
        self.marks: dict[int, int] = {}
        """Bytes that a broker may have, by id."""
        self.used: dict[int, int] = {}
        for broker_id, view in layout.brokers.items():
            total = sum(disk.total for disk in view.disks)
            if total > 0 and view.standing is Standing.ACTIVE:
                self.marks[broker_id] = total * percent // 100
                self.used[broker_id] = total - sum(disk.free for disk in view.disks)
        self.value = 0

    @property
    def distance(self) -> int:
        """Return the measure."""
        return self.value

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count what is not on a disk yet: copies of moves that are open, and of the plan so
        far."""
        view = self._layout.views[rank]
        for broker_id in replicas:
            if broker_id in self.used and broker_id not in view.replicas:
                self.used[broker_id] += view.bytes
        if not view.target:
            for broker_id in view.replicas:
                if broker_id in self.used and broker_id not in replicas:
                    self.used[broker_id] -= view.bytes

    def settle(self) -> None:
        """Sum what is above the marks."""
        self.value = sum(self.above(broker_id) for broker_id in self.marks)

    def above(self, broker_id: int) -> int:
        """Return how many bytes a broker has above its mark."""
        return max(0, self.used[broker_id] - self.marks[broker_id])

    def fits(self, broker_id: int, size: int) -> bool:
        """Return whether a broker may get so many bytes."""
        mark = self.marks.get(broker_id)
        return mark is None or self.used[broker_id] + size <= mark

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        if not self.marks:
            return 0
        size, total = self._layout.views[change.rank].bytes, 0
        for brokers, more in ((change.removed, -size), (change.added, size)):
            for b in brokers:
                if b in self.marks:
                    after = max(0, self.used[b] + more - self.marks[b])
                    total += after - self.above(b)
        return total

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        self.value += self.delta(change)
        size = self._layout.views[change.rank].bytes
        for brokers, more in ((change.removed, -size), (change.added, size)):
            for b in brokers:
                if b in self.used:
                    self.used[b] += more


class Loads:
    """It adds up what each active broker has of something, and measures how far from the mean.

    Loads of other brokers are not counted, nor in the mean: what they have stays where it is, or
    is placed before anything is spread.
    """

    def __init__(self, active: Sequence[int], tolerance_percent: int = 0) -> None:
        self._tolerance = tolerance_percent
        self.loads = dict.fromkeys(active, 0)
        """By broker."""
        self.low = self.high = 0
        """Between those, both included, a load is as it should be."""
        self.value = 0

    def settle(self) -> None:
        """Find the bounds from the loads as they are, and sum what is outside of them."""
        count, total = len(self.loads) * 100, sum(self.loads.values())
        self.low = total * (100 - self._tolerance) // count if count else 0
        self.high = -(-total * (100 + self._tolerance) // count) if count else 0
        self.value = sum(self.outside(load) for load in self.loads.values())

    @property
    def distance(self) -> int:
        """Return the sum of what is outside of the bounds, not of its squares."""
        return sum(isqrt(self.outside(load)) for load in self.loads.values())

    def outside(self, load: int) -> int:
        """Return the square of how far a load is from where it should be.

        A square, as some brokers may have to stay off, such as those of a rack that has fewer than
        others: they should at least be off alike.
        """
        if load > self.high:
            return (load - self.high) ** 2
        return (self.low - load) ** 2 if load < self.low else 0

    def add(self, broker_id: int, more: int) -> None:
        """Add to the load of a broker, if it is active."""
        if broker_id in self.loads:
            self.loads[broker_id] += more

    def shift(self, removed: Sequence[int], added: Sequence[int], weight: int) -> int:
        """Return by how much the measure grows when a weight goes from brokers to others."""
        loads, total, low, high = self.loads, 0, self.low, self.high
        for brokers, more in ((removed, -weight), (added, weight)):
            for b in brokers:
                load = loads.get(b)
                if load is not None:  # as outside(), which is too slow for the innermost loop
                    after = load + more
                    off = after - high if after > high else low - after if after < low else 0
                    was = load - high if load > high else low - load if load < low else 0
                    total += off * off - was * was
        return total

    def take(self, removed: Sequence[int], added: Sequence[int], weight: int) -> None:
        """Note that a weight went from brokers to others."""
        self.value += self.shift(removed, added, weight)
        for b in removed:
            self.add(b, -weight)
        for b in added:
            self.add(b, weight)


class TopicSpread:
    """It measures how the replicas of each topic are spread."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self._layout = layout
        self.topics: dict[str, Loads] = defaultdict(lambda: Loads(layout.active))
        self.value = 0

    @property
    def distance(self) -> int:
        """Return the sum of all distances."""
        return sum(loads.distance for loads in self.topics.values())

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        loads = self.topics[self._layout.views[rank].topic]
        for broker_id in replicas:
            loads.add(broker_id, 1)

    def settle(self) -> None:
        """Find the bounds of each topic."""
        for loads in self.topics.values():
            loads.settle()
        self.value = sum(loads.value for loads in self.topics.values())

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        loads = self.topics[self._layout.views[change.rank].topic]
        return loads.shift(change.removed, change.added, 1)

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        loads = self.topics[self._layout.views[change.rank].topic]
        self.value -= loads.value
        loads.take(change.removed, change.added, 1)
        self.value += loads.value


class Weights:
    """It measures how replicas, or what they weigh, are spread."""

    def __init__(
        self, layout: ReplicaLayout, weigh: Callable[[int], int], tolerance_percent: int = 0
    ) -> None:
        self._weigh = weigh
        self.spread = Loads(layout.active, tolerance_percent)

    @property
    def value(self) -> int:
        """Return the measure."""
        return self.spread.value

    @property
    def distance(self) -> int:
        """Return the sum of all distances."""
        return self.spread.distance

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        weight = self._weigh(rank)
        for broker_id in replicas:
            self.spread.add(broker_id, weight)

    def settle(self) -> None:
        """Find the bounds."""
        self.spread.settle()

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        return self.spread.shift(change.removed, change.added, self._weigh(change.rank))

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        self.spread.take(change.removed, change.added, self._weigh(change.rank))


class Leaders:
    """It measures how preferred leaders are spread."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self.spread = Loads(layout.active)

    @property
    def value(self) -> int:
        """Return the measure."""
        return self.spread.value

    @property
    def distance(self) -> int:
        """Return the sum of all distances."""
        return self.spread.distance

    def place(self, rank: int, replicas: Sequence[int]) -> None:
        """Count a partition."""
        self.spread.add(replicas[0], 1)

    def settle(self) -> None:
        """Find the bounds."""
        self.spread.settle()

    def delta(self, change: PlacementChange) -> int:
        """See :class:`Measure`."""
        old, new = change.before[0], change.after[0]
        return 0 if old == new else self.spread.shift((old,), (new,), 1)

    def apply(self, change: PlacementChange) -> None:
        """See :class:`Measure`."""
        old, new = change.before[0], change.after[0]
        if old != new:
            self.spread.take((old,), (new,), 1)


_SPREADING = (Goal.RACKS, Goal.DISKS, Goal.TOPICS, Goal.REPLICAS)


class Measures:
    """It has the measure of each goal, for one layout."""

    def __init__(self, layout: ReplicaLayout, snapshot: BalanceSnapshot) -> None:
        views, tolerance = layout.views, snapshot.tolerance_percent
        self.racks = Racks(layout)
        self.disks = Disks(layout, snapshot.disk_high_percent)
        self.topics = TopicSpread(layout)
        self.replicas = Weights(layout, lambda rank: 1)
        self.leaders = Leaders(layout)
        self.bytes = Weights(layout, lambda rank: views[rank].bytes, tolerance)
        self.writes = Weights(layout, lambda rank: views[rank].bytes_per_s, tolerance)
        self.of: Mapping[Goal, Measure] = {
            Goal.EVACUATE: Evacuated(layout),
            Goal.WHOLE: Wholeness(layout),
            Goal.RACKS: self.racks,
            Goal.DISKS: self.disks,
            Goal.TOPICS: self.topics,
            Goal.REPLICAS: self.replicas,
            Goal.LEADERS: self.leaders,
            Goal.BYTES: self.bytes,
            Goal.WRITES: self.writes,
        }
        self.in_order = tuple(self.of.values())
        """The measures in the order of goals."""

    def fill(self, layout: ReplicaLayout, turns: Turns) -> Work[None]:
        """Count every partition of the layout."""
        for rank, replicas in enumerate(layout.replicas):
            for measure in self.in_order:
                measure.place(rank, replicas)
            if turns.over(12):
                yield
        for measure in self.in_order:
            measure.settle()

    def values(self) -> dict[Goal, int]:
        """Return the measure of each goal."""
        return {goal: measure.value for goal, measure in self.of.items()}

    def distances(self) -> dict[Goal, int]:
        """Return how far the layout is from each goal, in units that people know."""
        return {goal: measure.distance for goal, measure in self.of.items()}

    def deltas(self, change: PlacementChange) -> tuple[int, ...]:
        """Return what a change does to every measure, in the order of goals."""
        return tuple(measure.delta(change) for measure in self.in_order)

    def harms(self, change: PlacementChange) -> bool:
        """Return whether a change makes any goal worse."""
        return any(measure.delta(change) > 0 for measure in self.in_order)

    def helps(self, goal: Goal, change: PlacementChange) -> bool:
        """Return whether a change makes a goal better and no earlier one worse."""
        if self.in_order[goal - 1].delta(change) >= 0:
            return False
        return all(measure.delta(change) <= 0 for measure in self.in_order[: goal - 1])

    @property
    def unspread(self) -> bool:
        """Return whether replicas could be spread better, over racks and brokers."""
        return any(self.of[goal].value for goal in _SPREADING)

    def spreads(self, change: PlacementChange) -> bool:
        """Return whether a change spreads replicas better, over racks before brokers."""
        deltas = [self.of[goal].delta(change) for goal in _SPREADING]
        return deltas < [0] * len(deltas)

    def apply(self, change: PlacementChange) -> None:
        """Note that a change was made."""
        for measure in self.in_order:
            measure.apply(change)
