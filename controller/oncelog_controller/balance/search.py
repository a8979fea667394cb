"""A plan is under way here: it knows which changes it may make, and which it can do without.

Rules
-----
* A change is legal when nobody gets a second replica, only active brokers get one, and none gets
  more bytes than the mark of its disks allows. Others do not exist for the planner.
* Each change makes one goal better and no earlier one worse, so that the measures, read in the
  order of goals, only become smaller: the search ends.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable

from oncelog_controller.balance.layout import PlacementChange, ReplicaLayout
from oncelog_controller.balance.measures import Measures
from oncelog_controller.balance.snapshot import (
    BalanceSnapshot,
    BalanceStep,
    Goal,
    Reason,
    Wish,
    copies,
)
from oncelog_controller.balance.turns import FULL_LOOK, Turns, Work


class PlanSearch:
    """It holds the layout that a plan has come to."""

    def __init__(self, snapshot: BalanceSnapshot, wish: Wish) -> None:
        self.turns = Turns()
        self.layout = ReplicaLayout(snapshot, wish)
        self.measures = Measures(self.layout, snapshot)
        self.taken = 0
        """So many changes were made, counting those that were taken back."""
        self._snapshot, self._wish = snapshot, wish
        self._goals: dict[int, Goal] = {}
        """By rank the first goal that the partition was changed for."""
        self._copies = self._bytes = 0

    def fill(self) -> Work[None]:
        """Take in the snapshot."""
        yield from self.layout.fill(self._snapshot, self.turns)
        yield from self.measures.fill(self.layout, self.turns)

    def measure_again(self) -> Work[None]:
        """Find the bounds again: active brokers have got replicas from others."""
        self.measures = Measures(self.layout, self._snapshot)
        yield from self.measures.fill(self.layout, self.turns)

    def hindrance(self, change: PlacementChange) -> Reason | None:
        """Return what forbids a change between brokers that may have the partition."""
        size = self.layout.views[change.rank].bytes
        if not all(self.measures.disks.fits(b, size) for b in change.added):
            return Reason.NO_ROOM
        return None if self.affordable((change,)) else Reason.PLAN_FULL

    def affordable(self, changes: Iterable[PlacementChange]) -> bool:
        """Return whether the plan may become so large."""
        wish = self._wish
        if wish.max_moves is None and wish.max_bytes is None:
            return True
        more = size = 0
        for change in changes:
            view = self.layout.views[change.rank]
            before, after = copies(view.settled, change.before), copies(view.settled, change.after)
            more += after - before
            size += (after - before) * view.bytes
        if wish.max_moves is not None and more > 0 and self._copies + more > wish.max_moves:
            return False
        return wish.max_bytes is None or size <= 0 or self._bytes + size <= wish.max_bytes

    def helps(self, goal: Goal, change: PlacementChange) -> bool:
        """Return whether a change may be made, makes a goal better and no earlier one worse."""
        return self.measures.helps(goal, change) and self.hindrance(change) is None

    def take(self, change: PlacementChange, goal: Goal) -> None:
        """Make a change for a goal."""
        rank, view = change.rank, self.layout.views[change.rank]
        more = copies(view.settled, change.after) - copies(view.settled, change.before)
        self._copies += more
        self._bytes += more * view.bytes
        self.measures.apply(change)
        self.layout.apply(change)
        self.taken += 1
        if change.after == view.settled:
            self._goals.pop(rank, None)
        else:
            self._goals[rank] = min(goal, self._goals.get(rank, goal))

    def best(self, changes: Iterable[PlacementChange]) -> Work[PlacementChange | None]:
        """Return the legal change that is best for all goals, the first ones first; among equals
        the one that gives to whom has least."""
        found: PlacementChange | None = None
        least: tuple[int, ...] | None = None
        for change in changes:
            if self.turns.over(FULL_LOOK):
                yield
            if self.hindrance(change) is not None:
                continue
            key = self._key_below(least, change)
            if key is not None:
                found, least = change, key
        return found

    def _key_below(
        self, least: tuple[int, ...] | None, change: PlacementChange
    ) -> tuple[int, ...] | None:
        """Return by what a change is compared, the smaller the better; None when that is not below
        ``least``. Most candidates are worse for an early goal: the later ones are not asked then.
        """
        deltas: list[int] = []
        for number, measure in enumerate(self.measures.in_order):
            delta = measure.delta(change)
            if least is not None and delta != least[number]:
                if delta > least[number]:
                    return None
                least = None
            deltas.append(delta)
        key = (*deltas, *self._fullness(change))
        return key if least is None or key < least else None

    def _fullness(self, change: PlacementChange) -> tuple[int, ...]:
        measures, topic = self.measures, self.layout.views[change.rank].topic
        of_topic = measures.topics.topics[topic].loads
        added, removed = change.added, change.removed
        return (
            sum(of_topic[b] for b in added) - sum(of_topic.get(b, 0) for b in removed),
            sum(measures.replicas.spread.loads[b] for b in added)
            - sum(measures.replicas.spread.loads.get(b, 0) for b in removed),
            sum(measures.bytes.spread.loads[b] for b in added)
            - sum(measures.bytes.spread.loads.get(b, 0) for b in removed),
            *added,
            *removed,
        )

    def takers(self, rank: int) -> list[int]:
        """Return the brokers that may get a replica of a partition, room aside."""
        replicas = self.layout.replicas[rank]
        return [b for b in self.layout.active if b not in replicas]

    def smallest_first(self, ranks: Iterable[int]) -> Work[list[int]]:
        """Return ranks by the bytes of their partitions, then by name."""
        views = self.layout.views
        return (yield from self._sorted(ranks, lambda rank: (views[rank].bytes, rank)))

    def _sorted(
        self, ranks: Iterable[int], key: Callable[[int], tuple[int, ...]]
    ) -> Work[list[int]]:
        """Sort, in more than one turn."""
        keys: list[tuple[int, ...]] = []
        for rank in ranks:
            insort(keys, key(rank))
            if self.turns.over(2):
                yield
        return [found[-1] for found in keys]

    def prune(self) -> Work[None]:
        """Take back what no goal needs, until everything that is left is needed.

        A later change can make an earlier one idle.
        """
        while True:
            taken = self.taken
            for rank in (yield from self._sorted(self._goals, self._dearest)):
                change = self.layout.restored(rank)
                if not self.measures.harms(change):
                    self.take(change, self._goals[rank])
                if self.turns.over(FULL_LOOK):
                    yield
            if self.taken == taken:
                return

    def _dearest(self, rank: int) -> tuple[int, int, int]:
        """Order by what is worth least and costs most."""
        return (-self._goals[rank], -self._copied(rank), rank)

    def _copied(self, rank: int) -> int:
        view = self.layout.views[rank]
        return copies(view.settled, self.layout.replicas[rank]) * view.bytes

    def changed_for(self, goal: Goal) -> list[int]:
        """Return the partitions that were first changed for a goal."""
        return sorted(rank for rank, first in self._goals.items() if first is goal)

    def steps(self) -> Work[tuple[BalanceStep, ...]]:
        """Return the changes that are left, one for each partition."""
        steps: list[BalanceStep] = []
        for rank in sorted(self._goals):
            view, after = self.layout.views[rank], self.layout.replicas[rank]
            goal = self._goals[rank]
            size = self._copied(rank)
            steps.append(BalanceStep(view.topic, view.index, view.settled, after, size, goal))
            if self.turns.over(FULL_LOOK):
                yield
        return tuple(steps)
