"""Two brokers exchange replicas here, so that their bytes come nearer and their numbers stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from oncelog_controller.balance.duties import around
from oncelog_controller.balance.layout import PlacementChange, Shelf, Shelves
from oncelog_controller.balance.measures import Loads
from oncelog_controller.balance.search import PlanSearch
from oncelog_controller.balance.snapshot import Goal
from oncelog_controller.balance.turns import FULL_LOOK, Work

GIVEN_TRIED = 32
"""So many replicas are tried of the broker that has more,"""
PARTNERS_TRIED = 4
"""each for so many others of the same topic, and so many of any topic."""


Kind = Callable[[Shelves], Mapping[int, Shelf]]
"""It chooses the order of what is spread."""


class Exchanges:
    """It finds exchanges that bring two brokers nearer, for a goal after that of the replicas."""

    def __init__(self, search: PlanSearch, spread: Loads, kind: Kind) -> None:
        self._search = search
        self._spread = spread
        self._kind = kind

    def find(self, goal: Goal, pair: tuple[int, int], need: int) -> Work[Sequence[PlacementChange]]:
        """Return two changes after which the second broker has about ``need`` more of what is
        spread; none when nothing helps."""
        search, layout, (old, new) = self._search, self._search.layout, pair
        racks = search.measures.racks
        shelf = self._kind(layout.between(old, new))[old]
        for weight, rank in islice(around(shelf, need), GIVEN_TRIED):
            replicas = layout.replicas[rank]
            if weight <= 0 or new in replicas or racks.lost(replicas, old, new):
                continue
            change = layout.replaced(rank, old, new)
            for other in self._partners(change, weight - need):
                if search.turns.over():
                    yield
                replicas = layout.replicas[other]
                if old in replicas or racks.lost(replicas, new, old):
                    continue
                back = layout.replaced(other, new, old)
                if search.turns.over(FULL_LOOK):
                    yield
                if self._helps(goal, change, back):
                    return change, back
        return ()

    def _partners(self, change: PlacementChange, weight: int) -> Iterator[int]:
        """Yield the replicas that are about so heavy and may come back for one."""
        layout, measures = self._search.layout, self._search.measures
        (old,), (new,) = change.removed, change.added
        topic = layout.views[change.rank].topic
        shelves = layout.between(old, new)
        for shelf in (shelves.of_topic(topic, new), self._kind(shelves)[new]):
            for _, rank in islice(around(shelf, weight), PARTNERS_TRIED):
                yield rank
            if measures.topics.topics[topic].shift((old,), (new,), 1) > 0:
                return  # only the same topic makes up for it

    def _helps(self, goal: Goal, change: PlacementChange, back: PlacementChange) -> bool:
        """Return whether the exchange may be made, helps, and makes no earlier goal worse.

        The number of replicas stays; so does what a topic has, or a broker leads, when both are of
        one topic, or lead.
        """
        search, measures = self._search, self._search.measures
        views, old, new = search.layout.views, change.removed, change.added
        one, other = views[change.rank], views[back.rank]
        size, rate = one.bytes - other.bytes, one.bytes_per_s - other.bytes_per_s
        if self._spread.shift(old, new, size if goal is Goal.BYTES else rate) >= 0:
            return False
        if goal is Goal.WRITES and measures.bytes.spread.shift(old, new, size) > 0:
            return False
        leads, led = change.before[:1] == old, back.before[:1] == new
        if leads != led and measures.leaders.delta(change if leads else back) > 0:
            return False
        if one.topic != other.topic:
            topics = measures.topics
            if topics.delta(change) + topics.delta(back) > 0:
                return False
        if measures.racks.delta(change) + measures.racks.delta(back) > 0:
            return False
        fits = measures.disks.fits
        fitting = fits(new[0], size) and fits(old[0], -size)
        return fitting and search.affordable((change, back))
