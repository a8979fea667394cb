"""The planner tries placements here: where every replica is so far, and what could change. Pure.

Partitions are named by their rank, the place in the order of topics and numbers, so that equal
candidates are taken in the same order whatever order the snapshot was in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oncelog_controller.balance.snapshot import (
    BalanceSnapshot,
    PlannedBroker,
    PlannedPartition,
    Standing,
    Wish,
)
from oncelog_controller.balance.turns import Turns, Work
from oncelog_controller.placement import racks_of
from oncelog_protocol.types import NO_LEADER

Shelf = list[tuple[int, int]]
"""(weight, rank), in that order."""


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """A partition gets other replicas, or another order of them."""

    rank: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    removed: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def reverse(self) -> PlacementChange:
        """Return what takes it back."""
        return PlacementChange(self.rank, self.after, self.before, self.added, self.removed)


class Shelves:
    """It keeps the replicas of each active broker in the order of what they weigh."""

    def __init__(self, active: Sequence[int]) -> None:
        self.by_bytes: dict[int, Shelf] = {b: [] for b in active}
        self.by_writes: dict[int, Shelf] = {b: [] for b in active}
        self._of_topic: dict[tuple[str, int], Shelf] = defaultdict(list)

    def of_topic(self, topic: str, broker_id: int) -> Shelf:
        """Return the replicas of a topic that a broker has, by bytes."""
        return self._of_topic.get((topic, broker_id), [])

    def all(self) -> Iterator[Shelf]:
        """Yield every shelf."""
        yield from self.by_bytes.values()
        yield from self.by_writes.values()
        yield from self._of_topic.values()

    def add(self, rank: int, view: PlannedPartition, broker_id: int) -> None:
        """Put a replica where it belongs."""
        insort(self.by_bytes[broker_id], (view.bytes, rank))
        insort(self.by_writes[broker_id], (view.bytes_per_s, rank))
        insort(self._of_topic[view.topic, broker_id], (view.bytes, rank))

    def remove(self, rank: int, view: PlannedPartition, broker_id: int) -> None:
        """Take a replica out."""
        _take_out(self.by_bytes[broker_id], (view.bytes, rank))
        _take_out(self.by_writes[broker_id], (view.bytes_per_s, rank))
        _take_out(self._of_topic[view.topic, broker_id], (view.bytes, rank))


class ReplicaLayout:
    """It holds where every replica is, and finds the replicas of a broker by their weight."""

    def __init__(self, snapshot: BalanceSnapshot, wish: Wish) -> None:
        self._wish = wish
        self.brokers: dict[int, PlannedBroker] = {
            broker.broker_id: broker
            for broker in sorted(snapshot.brokers, key=lambda broker: broker.broker_id)
        }
        self.active = [b for b, v in self.brokers.items() if v.standing is Standing.ACTIVE]
        """The ids of those that may take replicas."""
        self.views: list[PlannedPartition] = []
        """The partitions by rank."""
        self.replicas: list[tuple[int, ...]] = []
        """Their replicas so far."""
        counted = racks_of([(b, self.brokers[b].rack) for b in self.active])
        self.rack_count = len(set(counted.values()))
        """So many racks have an active broker; 0 when racks do not count, as one has none."""
        self.racks = {
            b: view.rack for b, view in self.brokers.items() if counted and view.rack is not None
        }
        """By broker; those of others than active ones may not be known."""
        self._shelves = Shelves(self.active)
        """All replicas of active brokers that may move."""
        self._roaming = Shelves(self.active) if self.rack_count > 1 else self._shelves
        """Those of them that may go to another rack. Where a partition has one replica on every
        rack none may, and that is so for most partitions of many clusters."""

    def fill(self, partitions: BalanceSnapshot, turns: Turns) -> Work[None]:
        """Take in the partitions of a snapshot."""
        by_topic: dict[str, list[PlannedPartition]] = defaultdict(list)
        for view in partitions.partitions:
            by_topic[view.topic].append(view)
            if turns.over():
                yield
        for topic in sorted(by_topic):
            for view in sorted(by_topic[topic], key=_index):
                rank = len(self.views)
                self.views.append(view)
                self.replicas.append(view.settled)
                if self.may_move(rank):
                    self.apply(PlacementChange(rank, (), view.settled, (), view.settled))
                if turns.over(16):
                    yield

    def standing(self, broker_id: int) -> Standing:
        """Return the standing of a broker; one that is not in the snapshot keeps what it has."""
        broker = self.brokers.get(broker_id)
        return Standing.HELD if broker is None else broker.standing

    def may_move(self, rank: int) -> bool:
        """Return whether the plan may touch a partition."""
        view = self.views[rank]
        return self.is_wanted(rank) and not view.target and view.leader != NO_LEADER

    def is_wanted(self, rank: int) -> bool:
        """Return whether the plan is about a partition."""
        topics = self._wish.topics
        return topics is None or self.views[rank].topic in topics

    def factor(self, rank: int) -> int:
        """Return how many replicas a partition should have."""
        view, wish = self.views[rank], self._wish
        if wish.factor and self.is_wanted(rank):
            return wish.factor
        return view.factor or len(view.settled)

    def replaced(self, rank: int, old: int, new: int) -> PlacementChange:
        """Return the change that puts one broker in the place of another one."""
        before = self.replicas[rank]
        after = tuple(new if broker_id == old else broker_id for broker_id in before)
        return PlacementChange(rank, before, after, (old,), (new,))

    def grown(self, rank: int, new: int) -> PlacementChange:
        """Return the change that adds a replica."""
        before = self.replicas[rank]
        return PlacementChange(rank, before, (*before, new), (), (new,))

    def shrunk(self, rank: int, old: int) -> PlacementChange:
        """Return the change that drops a replica."""
        before = self.replicas[rank]
        return PlacementChange(rank, before, tuple(b for b in before if b != old), (old,), ())

    def led_by(self, rank: int, first: int) -> PlacementChange:
        """Return the change that makes a replica the preferred leader."""
        before = self.replicas[rank]
        after = (first, *(b for b in before if b != first))
        return PlacementChange(rank, before, after, (), ())

    def restored(self, rank: int) -> PlacementChange:
        """Return the change to the placement in the snapshot."""
        before, after = self.replicas[rank], self.views[rank].settled
        removed = tuple(b for b in before if b not in after)
        added = tuple(b for b in after if b not in before)
        return PlacementChange(rank, before, after, removed, added)

    def apply(self, change: PlacementChange) -> None:
        """Make a change of a partition that may move."""
        rank, before, after = change.rank, change.before, change.after
        self.replicas[rank] = after
        self._move(self._shelves, rank, change.removed, change.added)
        if self._roaming is not self._shelves:
            if len(before) == len(after):
                gone, come = change.removed, change.added
            else:
                gone, come = before, after
            self._move(
                self._roaming,
                rank,
                gone if self._roams(before) else (),
                come if self._roams(after) else (),
            )

    def between(self, old: int, new: int) -> Shelves:
        """Return the replicas among which are all that may go from one active broker to another,
        or back."""
        racks = self.racks
        return self._shelves if not racks or racks[old] == racks[new] else self._roaming

    def empty(self, turns: Turns) -> Work[None]:
        """Let go of what was kept, in turns: to free all of it at once would take too long."""
        for shelves in (self._shelves, self._roaming):
            for shelf in shelves.all():
                cost = len(shelf) // 4
                shelf.clear()
                if turns.over(cost):
                    yield

    def _roams(self, replicas: tuple[int, ...]) -> bool:
        return len(replicas) != self.rack_count

    def _move(
        self, shelves: Shelves, rank: int, gone: tuple[int, ...], come: tuple[int, ...]
    ) -> None:
        view = self.views[rank]
        for broker_id in gone:
            if broker_id in shelves.by_bytes:
                shelves.remove(rank, view, broker_id)
        for broker_id in come:
            if broker_id in shelves.by_bytes:
                shelves.add(rank, view, broker_id)


def _take_out(shelf: Shelf, key: tuple[int, int]) -> None:
    del shelf[bisect_left(shelf, key)]


def _index(view: PlannedPartition) -> int:
    return view.index
