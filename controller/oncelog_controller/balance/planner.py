"""It plans which replicas move, so that a cluster reaches its goals with as little as possible.

A pure function: the same snapshot gives the same plan, whatever the order of what it lists. It
begins with the replicas as they are and takes, goal by goal, steps that make this goal better and
no earlier one worse; of those that help alike the one that copies the fewest bytes, then the first
by name. It goes through the goals until none gets better, and takes back what turned out to be
needless. A plan on its own result is empty.

It yields often, as it runs on the loop of a broker: whoever calls it lets others in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from oncelog_controller.balance import duties, spreading
from oncelog_controller.balance.search import PlanSearch
from oncelog_controller.balance.snapshot import BalancePlan, BalanceSnapshot, Goal, HeldUp, Wish
from oncelog_controller.balance.turns import Work

_WAYS: Mapping[Goal, Callable[[PlanSearch], Work[None]]] = MappingProxyType(
    {
        Goal.EVACUATE: duties.evacuate,
        Goal.WHOLE: duties.make_whole,
        Goal.RACKS: duties.spread_over_racks,
        Goal.DISKS: duties.clear_disks,
        Goal.TOPICS: spreading.spread_topics,
        Goal.REPLICAS: spreading.spread_replicas,
        Goal.LEADERS: spreading.spread_leaders,
        Goal.BYTES: spreading.spread_bytes,
        Goal.WRITES: spreading.spread_writes,
    }
)
_DUTIES = (Goal.EVACUATE, Goal.WHOLE)
"""They alone change how many replicas active brokers have, and with that the means."""


def plan(snapshot: BalanceSnapshot, wish: Wish) -> Work[BalancePlan]:
    """Return a plan for a cluster."""
    search = PlanSearch(snapshot, wish)
    yield from search.fill()
    before = search.measures.distances()
    idle: dict[Goal, int] = {}
    while True:
        taken = search.taken
        yield from _one_round(search, wish, idle)
        yield from search.prune()
        if search.taken == taken:
            break
    steps = yield from search.steps()
    held_up: tuple[HeldUp, ...] = ()
    for goal in _DUTIES:
        if goal in wish.worked_for and search.measures.of[goal].value:
            held_up += yield from duties.held_up(search, goal)
    yield from search.layout.empty(search.turns)
    return BalancePlan(steps, before, search.measures.distances(), held_up)


def measure(snapshot: BalanceSnapshot, wish: Wish) -> Work[dict[Goal, int]]:
    """Return the measure of each goal: a plan makes them smaller, read in the order of goals."""
    search = PlanSearch(snapshot, wish)
    yield from search.fill()
    return search.measures.values()


def distances(snapshot: BalanceSnapshot, wish: Wish) -> Work[dict[Goal, int]]:
    """Return how far a cluster is from each goal, in the units of :attr:`BalancePlan.before`."""
    search = PlanSearch(snapshot, wish)
    yield from search.fill()
    found = search.measures.distances()
    yield from search.layout.empty(search.turns)
    return found


def _one_round(search: PlanSearch, wish: Wish, idle: dict[Goal, int]) -> Work[None]:
    """Work for each goal once.

    :param idle: how many changes had been taken when a goal found none: it is asked again only
        when there are more.
    """
    for goal in sorted(wish.worked_for):
        taken = search.taken
        if not search.measures.of[goal].value or idle.get(goal) == taken:
            continue
        yield from _WAYS[goal](search)
        if search.taken == taken:
            idle[goal] = taken
        elif goal in _DUTIES:
            yield from search.measure_again()
