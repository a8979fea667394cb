"""The planner does its duties to single partitions here: where replicas go, and how many.

They are the goals up to the disks. What is left to choose is chosen for the goals after them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from oncelog_controller.balance.layout import PlacementChange, Shelf
from oncelog_controller.balance.search import PlanSearch
from oncelog_controller.balance.snapshot import Goal, HeldUp, Reason, Standing
from oncelog_controller.balance.turns import Work
from oncelog_protocol.types import NO_LEADER


def evacuate(search: PlanSearch) -> Work[None]:
    """Replace the replicas on brokers that leave."""
    yield from _replace(search, Standing.LEAVING, Goal.EVACUATE)
    yield from _choose_again(search, Goal.EVACUATE)


def make_whole(search: PlanSearch) -> Work[None]:
    """Drop replicas that are too many, replace those on dead brokers, and add those that are
    missing."""
    layout = search.layout
    wrong: list[int] = []
    for rank, replicas in enumerate(layout.replicas):
        if len(replicas) != layout.factor(rank) and layout.may_move(rank):
            wrong.append(rank)
        if search.turns.over():
            yield
    wrong = yield from search.smallest_first(wrong)
    for rank in wrong:
        while len(layout.replicas[rank]) > max(1, layout.factor(rank)):
            search.take(_dropped(search, rank), Goal.WHOLE)
            if search.turns.over(5):
                yield
    yield from _replace(search, Standing.DEAD, Goal.WHOLE)
    for rank in wrong:
        while len(layout.replicas[rank]) < layout.factor(rank):
            changes = [layout.grown(rank, new) for new in search.takers(rank)]
            change = yield from search.best(changes)
            if change is None:
                break
            search.take(change, Goal.WHOLE)
    yield from _choose_again(search, Goal.WHOLE)


def spread_over_racks(search: PlanSearch) -> Work[None]:
    """Put partitions on more racks."""
    layout, racks = search.layout, search.measures.racks
    if not racks.counted:
        return
    wrong: list[int] = []
    for rank, replicas in enumerate(layout.replicas):
        if racks.missing(replicas) and layout.may_move(rank):
            wrong.append(rank)
        if search.turns.over():
            yield
    for rank in (yield from search.smallest_first(wrong)):
        while True:
            change = yield from search.best(_exchanges(search, rank))
            if change is None:
                break
            search.take(change, Goal.RACKS)


def clear_disks(search: PlanSearch) -> Work[None]:
    """Take replicas off brokers whose disks are above the mark."""
    disks = search.measures.disks
    for broker_id in sorted(disks.marks, key=lambda b: (-disks.above(b), b)):
        while disks.above(broker_id):
            change = yield from _relief(search, broker_id)
            if change is None:
                break
            search.take(change, Goal.DISKS)


def held_up(search: PlanSearch, goal: Goal) -> Work[tuple[HeldUp, ...]]:
    """Return the partitions for which one of the first two goals is not reached, each with the
    reason."""
    layout, found = search.layout, list[HeldUp]()
    standing = Standing.LEAVING if goal is Goal.EVACUATE else Standing.DEAD
    for rank, replicas in enumerate(layout.replicas):
        misplaced = [b for b in replicas if layout.standing(b) is standing]
        fewer = goal is Goal.WHOLE and len(replicas) < layout.factor(rank)
        if (misplaced or fewer) and layout.is_wanted(rank):
            view = layout.views[rank]
            reason = _reason(search, rank, misplaced)
            found.append(HeldUp(view.topic, view.index, goal, reason))
        if search.turns.over():
            yield
    return tuple(found)


def around(shelf: Shelf, weight: int) -> Iterator[tuple[int, int]]:
    """Yield what is at least that heavy, the lightest first; then what is lighter, the heaviest
    first."""
    middle = bisect_left(shelf, (weight, -1))
    for place in range(middle, len(shelf)):
        yield shelf[place]
    for place in range(middle - 1, -1, -1):
        yield shelf[place]


def _replace(search: PlanSearch, standing: Standing, goal: Goal) -> Work[None]:
    layout = search.layout
    wrong: list[int] = []
    for rank, replicas in enumerate(layout.replicas):
        if any(layout.standing(b) is standing for b in replicas) and layout.may_move(rank):
            wrong.append(rank)
        if search.turns.over():
            yield
    for rank in (yield from search.smallest_first(wrong)):
        for old in layout.replicas[rank]:
            if layout.standing(old) is standing:
                changes = [layout.replaced(rank, old, new) for new in search.takers(rank)]
                change = yield from search.best(changes)
                if change is not None:
                    search.take(change, goal)


def _choose_again(search: PlanSearch, goal: Goal) -> Work[None]:
    """Send the copies that were chosen one after the other elsewhere, as long as that spreads
    replicas better: the last ones had no choice left."""
    layout, measures = search.layout, search.measures
    ranks = search.changed_for(goal)
    better = True
    while better:
        better = False
        for rank in ranks:
            settled = layout.views[rank].settled
            for old in layout.replicas[rank]:
                if old in settled or not measures.unspread:
                    continue
                changes = [layout.replaced(rank, old, new) for new in search.takers(rank)]
                change = yield from search.best(changes)
                if change is not None and measures.spreads(change):
                    search.take(change, goal)
                    better = True


def _dropped(search: PlanSearch, rank: int) -> PlacementChange:
    """Return how a partition loses the replica that is missed least."""
    layout, measures = search.layout, search.measures
    view = layout.views[rank]

    def worth(broker_id: int) -> tuple[bool, bool, bool, bool, tuple[int, ...], int, int]:
        standing = layout.standing(broker_id)
        return (
            standing not in (Standing.DEAD, Standing.LEAVING),
            broker_id in view.isr,
            standing is Standing.ACTIVE,
            broker_id == view.leader,
            measures.deltas(layout.shrunk(rank, broker_id)),
            -measures.replicas.spread.loads.get(broker_id, 0),
            -broker_id,
        )

    return layout.shrunk(rank, min(layout.replicas[rank], key=worth))


def _exchanges(search: PlanSearch, rank: int) -> Iterator[PlacementChange]:
    layout = search.layout
    replicas = layout.replicas[rank]
    used = [layout.racks.get(b) for b in replicas]
    takers = [b for b in search.takers(rank) if layout.racks[b] not in used]
    for old in replicas:
        if layout.standing(old) is Standing.ACTIVE and used.count(layout.racks[old]) > 1:
            for new in takers:
                yield layout.replaced(rank, old, new)


def _relief(search: PlanSearch, old: int) -> Work[PlacementChange | None]:
    """Return the change that takes enough bytes off a broker with the fewest that are copied."""
    layout, disks = search.layout, search.measures.disks
    takers = sorted(layout.active, key=lambda b: (disks.used.get(b, 0), b))
    for size, rank in around(layout.between(old, old).by_bytes[old], disks.above(old)):
        if not size:
            break
        for new in takers:
            if search.turns.over():
                yield
            if new not in layout.replicas[rank]:
                change = layout.replaced(rank, old, new)
                if search.helps(Goal.DISKS, change):
                    return change
    return None


def _reason(search: PlanSearch, rank: int, misplaced: list[int]) -> Reason:
    layout = search.layout
    view, takers = layout.views[rank], search.takers(rank)
    if view.target:
        return Reason.MOVING
    if view.leader == NO_LEADER:
        return Reason.NO_LEADER
    if not takers:
        return Reason.NO_BROKER
    if misplaced:
        changes = [layout.replaced(rank, misplaced[0], new) for new in takers]
    else:
        changes = [layout.grown(rank, new) for new in takers]
    full = all(search.hindrance(change) is Reason.NO_ROOM for change in changes)
    return Reason.NO_ROOM if full else Reason.PLAN_FULL
