"""The planner makes brokers alike here: in replicas, preferred leaders, bytes and writes.

Only active brokers give and take. Whoever has most gives first, and whoever has least takes first,
so that a copy helps both where it can: with replicas this is as few copies as can be.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from oncelog_controller.balance.duties import around
from oncelog_controller.balance.exchanges import Exchanges, Kind
from oncelog_controller.balance.layout import PlacementChange
from oncelog_controller.balance.measures import Loads
from oncelog_controller.balance.search import PlanSearch
from oncelog_controller.balance.snapshot import Goal
from oncelog_controller.balance.turns import FULL_LOOK, Work

REPLICAS_TRIED = 64
"""Between two brokers so many replicas are tried that would bring their bytes nearer."""

PAIRS_LOOK = 60
"""So many units are what it costs to order the pairs of some twenty brokers."""

Pair = tuple[int, int]
"""(who gives, who takes)."""


def spread_topics(search: PlanSearch) -> Work[None]:
    """Spread the replicas of each topic."""
    topics = search.measures.topics.topics
    for topic in sorted(topics):
        loads = topics[topic]
        if loads.value:
            find = _first_that_helps(search, loads, topic)
            yield from _even_out(search, Goal.TOPICS, loads, find)
        if search.turns.over():
            yield


def spread_replicas(search: PlanSearch) -> Work[None]:
    """Spread the replicas of all topics."""
    spread = search.measures.replicas.spread
    find = _first_that_helps(search, spread)
    yield from _even_out(search, Goal.REPLICAS, spread, find)


def spread_bytes(search: PlanSearch) -> Work[None]:
    """Spread what is on the disks, by copies and by exchanges that no other goal minds."""
    spread = search.measures.bytes.spread
    find = _nearer(search, spread, lambda shelves: shelves.by_bytes)
    yield from _even_out(search, Goal.BYTES, spread, find)


def spread_writes(search: PlanSearch) -> Work[None]:
    """Spread what is written each second."""
    spread = search.measures.writes.spread
    find = _nearer(search, spread, lambda shelves: shelves.by_writes)
    yield from _even_out(search, Goal.WRITES, spread, find)


Finder = Callable[[Goal, Pair], Work[Sequence[PlacementChange]]]
"""It returns the changes of a step between two brokers; none when no step helps."""


def _even_out(search: PlanSearch, goal: Goal, loads: Loads, find: Finder) -> Work[None]:
    """Take steps between two brokers until none helps."""
    idle: set[Pair] = set()
    """They had no step, and nothing about them has changed since."""
    while loads.value:
        if search.turns.over(PAIRS_LOOK):
            yield
        for pair in _pairs(search, loads):
            if search.turns.over():
                yield
            if pair in idle:
                continue
            changes = yield from find(goal, pair)
            if changes:
                for change in changes:
                    search.take(change, goal)
                idle = {other for other in idle if not set(other) & set(pair)}
                break
            idle.add(pair)
        else:
            return


def _pairs(search: PlanSearch, loads: Loads) -> Iterator[Pair]:
    """Yield who may give to whom: first those of whom both are off, to different sides, then those
    of whom one is, then those who are off to the same side."""
    all_replicas = search.measures.replicas.spread.loads
    weights = search.measures.bytes.spread.loads

    def least(broker_id: int) -> tuple[int, int, int, int]:
        return loads.loads[broker_id], all_replicas[broker_id], weights[broker_id], broker_id

    takers = sorted(loads.loads, key=least)
    over = [b for b in reversed(takers) if loads.loads[b] > loads.high]
    under = [b for b in takers if loads.loads[b] < loads.low]
    within = [b for b in takers if loads.low <= loads.loads[b] <= loads.high]
    sides = [(over, under), (over, within), (within[::-1], under), (over, over[::-1])]
    for givers, getters in (*sides, (under[::-1], under)):
        for old in givers:
            have = loads.loads[old]
            for new in getters:
                if loads.loads[new] + 1 < have or (
                    givers is not getters and loads.loads[new] < have
                ):
                    yield old, new


def _first_that_helps(search: PlanSearch, loads: Loads, topic: str | None = None) -> Finder:
    """Return a finder of the smallest replica, of one topic or of any, that may go from one broker
    to another."""
    layout = search.layout

    def find(goal: Goal, pair: Pair) -> Work[Sequence[PlacementChange]]:
        old, new = pair
        if loads.shift((old,), (new,), 1) >= 0:
            return ()
        racks, shelves = search.measures.racks, layout.between(old, new)
        shelf = shelves.by_bytes[old] if topic is None else shelves.of_topic(topic, old)
        for _, rank in shelf:
            if search.turns.over():
                yield
            replicas = layout.replicas[rank]
            if new in replicas or racks.lost(replicas, old, new):
                continue
            change = layout.replaced(rank, old, new)
            if search.turns.over(FULL_LOOK):
                yield
            if search.helps(goal, change):
                return (change,)
        return ()

    return find


def _nearer(search: PlanSearch, spread: Loads, kind: Kind) -> Finder:
    """Return a finder of what brings two brokers nearer to the mean: a replica, or an exchange of
    two. It tries those that are just heavy enough."""
    exchanges = Exchanges(search, spread, kind)

    def find(goal: Goal, pair: Pair) -> Work[Sequence[PlacementChange]]:
        old, new = pair
        gap = spread.loads[old] - spread.loads[new]
        off = max(spread.loads[old] - spread.high, spread.low - spread.loads[new])
        need = min(off, gap // 2) if off > 0 else 1
        measures, layout = search.measures, search.layout
        shelf = kind(layout.between(old, new))[old]
        if measures.replicas.spread.shift((old,), (new,), 1) <= 0:
            for weight, rank in islice(around(shelf, need), REPLICAS_TRIED):
                if search.turns.over():
                    yield
                replicas = layout.replicas[rank]
                if not 0 < weight < gap or new in replicas:
                    continue
                if measures.racks.lost(replicas, old, new):
                    continue
                change = layout.replaced(rank, old, new)
                if search.turns.over(FULL_LOOK):
                    yield
                if search.helps(goal, change):
                    return (change,)
        return (yield from exchanges.find(goal, pair, need))

    return find


def spread_leaders(search: PlanSearch) -> Work[None]:
    """Give preferred leaderships away, from broker to broker where the first has nobody to give
    to."""
    loads, layout = search.measures.leaders.spread, search.layout
    offers = _Offers()
    for rank, replicas in enumerate(layout.replicas):
        if layout.may_move(rank):
            offers.add(rank, [b for b in replicas if b in loads.loads], replicas[0])
        if search.turns.over():
            yield
    while loads.value:
        path = yield from _path(search, loads, offers)
        if not path:
            return
        for old, new in path:
            rank = offers.first(old, new)
            followers = [b for b in layout.replicas[rank] if b in loads.loads]
            offers.remove(rank, followers, old)
            offers.add(rank, followers, new)
            search.take(layout.led_by(rank, new), Goal.LEADERS)


class _Offers:
    """It knows which partitions one broker could give another one to lead."""

    def __init__(self) -> None:
        self.takers: dict[int, dict[int, list[int]]] = defaultdict(dict)
        """By broker that leads, by broker that follows: ranks."""

    def add(self, rank: int, brokers: Sequence[int], leader: int) -> None:
        """Note that a broker is preferred for a partition, and which others have it."""
        if leader in brokers:
            for broker_id in brokers:
                if broker_id != leader:
                    insort(self.takers[leader].setdefault(broker_id, []), rank)

    def remove(self, rank: int, brokers: Sequence[int], leader: int) -> None:
        """Forget it."""
        for broker_id in brokers:
            if broker_id != leader:
                ranks = self.takers[leader][broker_id]
                del ranks[bisect_left(ranks, rank)]
                if not ranks:
                    del self.takers[leader][broker_id]

    def first(self, old: int, new: int) -> int:
        """Return the first partition that one broker can give another one."""
        return self.takers[old][new][0]


def _path(search: PlanSearch, loads: Loads, offers: _Offers) -> Work[Sequence[Pair]]:
    """Return the shortest way from a broker that leads more to one that leads less."""
    for old, new in _ends(loads):
        origin: dict[int, int] = {old: old}
        queue = [old]
        for broker_id in queue:
            for taker in sorted(offers.takers[broker_id]):
                if taker not in origin:
                    origin[taker] = broker_id
                    queue.append(taker)
            if search.turns.over(4):
                yield
        ends = [broker_id for broker_id in queue if broker_id in new]
        if ends:
            return _way(origin, old, ends[0])
    return ()


def _ends(loads: Loads) -> Iterator[tuple[int, set[int]]]:
    """Yield who should give, and to which brokers: first those of whom both are off."""
    by_load = sorted(loads.loads, key=lambda b: (-loads.loads[b], b))
    over = [b for b in by_load if loads.loads[b] > loads.high]
    under = {b for b in by_load if loads.loads[b] < loads.low}
    for old in over:
        yield old, under
    for old in over:
        yield old, {b for b in by_load if loads.loads[b] < loads.high}
    if under:
        for old in by_load:
            if loads.low < loads.loads[old] <= loads.high:
                yield old, under


def _way(origin: Mapping[int, int], first: int, last: int) -> Sequence[Pair]:
    way: list[Pair] = []
    while last != first:
        way.append((origin[last], last))
        last = origin[last]
    return way[::-1]
