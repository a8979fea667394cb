"""The planner's parts keep shelves of replicas, measures of goals, and a plan under way."""

from __future__ import annotations

import pytest

from oncelog_controller.balance.layout import PlacementChange, ReplicaLayout
from oncelog_controller.balance.measures import Measures
from oncelog_controller.balance.search import PlanSearch
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceSnapshot,
    BalanceStep,
    DiskFigures,
    Goal,
    PlannedBroker,
    PlannedPartition,
    Purpose,
    Reason,
    Standing,
    Wish,
    copies,
)
from oncelog_controller.balance.turns import UNITS_A_TURN, Turns, Work, finish

BALANCE = Wish(Purpose.BALANCE)


def view(
    index: int, *replicas: int, size: int = 0, rate: int = 0, topic: str = "t"
) -> PlannedPartition:
    return PlannedPartition(
        topic, index, replicas, replicas[0], replicas, bytes=size, bytes_per_s=rate
    )


def cluster(*partitions: PlannedPartition, brokers: int = 3, racks: str = "") -> BalanceSnapshot:
    views = [PlannedBroker(b, Standing.ACTIVE, racks[b] if racks else None) for b in range(brokers)]
    return BalanceSnapshot(views, partitions, disk_high_percent=80, tolerance_percent=10)


def filled(snapshot: BalanceSnapshot, wish: Wish = BALANCE) -> PlanSearch:
    search = PlanSearch(snapshot, wish)
    finish(search.fill())
    return search


# ---- snapshot.py: what a purpose works for, and what a plan costs


def test_a_purpose_has_its_goals() -> None:
    assert Purpose.BALANCE.goals == frozenset(Goal)
    assert Wish(Purpose.EVACUATE).worked_for == {Goal.EVACUATE}
    assert Wish(Purpose.REPAIR, goals=frozenset({Goal.BYTES})).worked_for == frozenset()


def test_what_is_in_a_plan_is_added_up() -> None:
    steps = (
        BalanceStep("t", 0, (1, 2), (3, 4), bytes=20, goal=Goal.REPLICAS),
        BalanceStep("t", 1, (1, 2), (2, 1), bytes=0, goal=Goal.LEADERS),
    )
    plan = BalancePlan(steps, {}, {}, ())
    assert (plan.copies, plan.bytes) == (2, 20)
    assert copies((1, 2, 3), (2, 1, 4)) == 1


# ---- turns.py: work is counted


def test_a_turn_is_over_after_its_units() -> None:
    turns = Turns()
    assert not turns.over(UNITS_A_TURN - 1)
    assert turns.over()
    assert not turns.over(), "the next one begins"


def test_work_is_done_to_its_end() -> None:
    def work() -> Work[str]:
        yield
        yield
        return "done"

    assert finish(work()) == "done"


# ---- layout.py: where replicas are


def test_replicas_are_found_by_weight() -> None:
    layout = ReplicaLayout(cluster(), BALANCE)
    partitions = [view(0, 0, 1, size=9, rate=1), view(1, 0, 2, size=3, rate=7)]
    finish(layout.fill(cluster(*partitions), Turns()))
    shelves = layout.between(0, 1)
    assert shelves.by_bytes[0] == [(3, 1), (9, 0)]
    assert shelves.by_writes[0] == [(1, 0), (7, 1)]
    layout.apply(layout.replaced(0, 0, 2))
    assert layout.replicas[0] == (2, 1)
    assert shelves.by_bytes[0] == [(3, 1)]
    assert shelves.of_topic("t", 2) == [(3, 1), (9, 0)]
    assert shelves.of_topic("t", 9) == []


def test_between_racks_only_those_are_found_that_may_go() -> None:
    snapshot = cluster(view(0, 0, 1), view(1, 0), brokers=3, racks="aab")
    layout = filled(snapshot).layout
    assert layout.between(0, 1).by_bytes[0] == [(0, 0), (0, 1)]
    assert layout.between(0, 2).by_bytes[0] == [(0, 1)], "two replicas on two racks stay there"
    layout.apply(layout.grown(1, 2))
    assert layout.between(0, 2).by_bytes[0] == []
    layout.apply(layout.shrunk(0, 0))
    assert layout.between(1, 2).by_bytes[1] == [(0, 0)]


def test_changes_name_what_is_copied() -> None:
    layout = filled(cluster(view(0, 0, 1))).layout
    assert layout.replaced(0, 0, 2) == PlacementChange(0, (0, 1), (2, 1), (0,), (2,))
    assert layout.grown(0, 2) == PlacementChange(0, (0, 1), (0, 1, 2), (), (2,))
    assert layout.shrunk(0, 1) == PlacementChange(0, (0, 1), (0,), (1,), ())
    assert layout.led_by(0, 1) == PlacementChange(0, (0, 1), (1, 0), (), ())
    layout.apply(layout.replaced(0, 0, 2))
    assert layout.restored(0) == PlacementChange(0, (2, 1), (0, 1), (2,), (0,))


def test_what_moves_or_has_no_leader_is_left_alone() -> None:
    moving = PlannedPartition("t", 0, (0, 1), 0, (0,), target=(1, 2))
    lost = PlannedPartition("t", 1, (0, 1), -1, ())
    layout = filled(cluster(moving, lost, view(2, 0, 1))).layout
    assert [layout.may_move(rank) for rank in range(3)] == [False, False, True]
    assert layout.replicas[0] == (1, 2)
    other = Wish(Purpose.BALANCE, frozenset({"u"}))
    assert not filled(cluster(view(0, 0)), other).layout.may_move(0)


def test_factors_come_from_the_wish_or_the_snapshot() -> None:
    wanted = PlannedPartition("u", 0, (0,), 0, (0,), factor=3)
    snapshot = cluster(view(0, 0, 1), wanted)
    assert [filled(snapshot).layout.factor(rank) for rank in range(2)] == [2, 3]
    wish = Wish(Purpose.REPLICATION_FACTOR, frozenset({"t"}), factor=1)
    assert [filled(snapshot, wish).layout.factor(rank) for rank in range(2)] == [1, 3]


def test_shelves_are_emptied() -> None:
    search = filled(cluster(view(0, 0, 1)))
    finish(search.layout.empty(Turns()))
    assert search.layout.between(0, 1).by_bytes[0] == []


# ---- measures.py: how far a layout is from its goals


def measures(snapshot: BalanceSnapshot, wish: Wish = BALANCE) -> Measures:
    return filled(snapshot, wish).measures


def test_replicas_are_measured_from_floor_and_ceiling() -> None:
    views = [view(n, 0) for n in range(5)]
    found = measures(cluster(*views))
    assert found.replicas.spread.loads == {0: 5, 1: 0, 2: 0}
    assert (found.replicas.spread.low, found.replicas.spread.high) == (1, 2)
    assert found.values()[Goal.REPLICAS] == 3**2 + 1 + 1
    assert found.values()[Goal.TOPICS] == 3**2 + 1 + 1
    assert found.values()[Goal.LEADERS] == 3**2 + 1 + 1


def test_bytes_have_a_tolerance() -> None:
    even = [view(0, 0, size=105), view(1, 1, size=100), view(2, 2, size=95)]
    assert measures(cluster(*even)).values()[Goal.BYTES] == 0
    odd = [view(0, 0, size=115), view(1, 1, size=100), view(2, 2, size=85)]
    assert measures(cluster(*odd)).values()[Goal.BYTES] == 5**2 + 5**2


def test_writes_are_measured_alike() -> None:
    odd = [view(0, 0, rate=115), view(1, 1, rate=100), view(2, 2, rate=85)]
    assert measures(cluster(*odd)).values()[Goal.WRITES] == 5**2 + 5**2


@pytest.mark.parametrize(
    ("racks", "missing"),
    [("aab", 1), ("abc", 0), ("aaa", 0), ("", 0)],
)
def test_racks_that_a_partition_could_be_on(racks: str, missing: int) -> None:
    assert measures(cluster(view(0, 0, 1), racks=racks)).values()[Goal.RACKS] == missing


def test_the_fast_question_about_racks_is_the_slow_one() -> None:
    found = measures(cluster(view(0, 0, 1, 2), view(1, 0, 3), brokers=5, racks="aabbc"))
    layout = filled(cluster(view(0, 0, 1, 2), view(1, 0, 3), brokers=5, racks="aabbc")).layout
    for rank, replicas in enumerate(layout.replicas):
        for old in replicas:
            for new in set(range(5)) - set(replicas):
                worse = found.racks.delta(layout.replaced(rank, old, new)) > 0
                assert found.racks.lost(replicas, old, new) is worse


def test_brokers_that_leave_or_are_dead_are_counted() -> None:
    standings = [Standing.ACTIVE, Standing.LEAVING, Standing.DEAD, Standing.HELD]
    brokers = [PlannedBroker(b, standing) for b, standing in enumerate(standings)]
    wanted = PlannedPartition("t", 1, (0,), 0, (0,), factor=2)
    snapshot = BalanceSnapshot(brokers, [view(0, 1, 2, 3), wanted], 80, 10)
    found = measures(snapshot).values()
    assert found[Goal.EVACUATE] == 1
    assert found[Goal.WHOLE] == 1 + 1, "one on a dead broker, one that is missing"


def test_disks_are_measured_from_their_mark() -> None:
    brokers = [
        PlannedBroker(0, Standing.ACTIVE, disks=(DiskFigures(50, 0), DiskFigures(50, 10))),
        PlannedBroker(1, Standing.ACTIVE, disks=(DiskFigures(100, 90),)),
        PlannedBroker(2, Standing.ACTIVE),
    ]
    moving = PlannedPartition("t", 0, (0,), 0, (0,), bytes=30, target=(1,))
    disks = measures(BalanceSnapshot(brokers, [moving], 80, 10)).disks
    assert disks.value == disks.above(0) == 10
    assert disks.used[1] == 10 + 30, "a copy that is under way has its room"
    assert disks.fits(1, 40)
    assert not disks.fits(1, 41)
    assert disks.fits(2, 10**15), "nothing is known"


def test_a_change_and_its_reverse_leave_every_measure_as_it_was() -> None:
    snapshot = cluster(view(0, 0, 1, size=5, rate=2), view(1, 0, 2), view(2, 0, size=3))
    search = filled(snapshot)
    before = search.measures.values()
    for change in (
        search.layout.replaced(0, 0, 2),
        search.layout.grown(2, 1),
        search.layout.shrunk(1, 0),
        search.layout.led_by(0, 1),
    ):
        told = search.measures.deltas(change)
        search.measures.apply(change)
        now = search.measures.values()
        assert tuple(now[goal] - before[goal] for goal in Goal) == told
        search.measures.apply(change.reverse)
        assert search.measures.values() == before


# ---- search.py: a plan under way


def test_no_change_goes_beyond_the_bounds() -> None:
    wish = Wish(Purpose.BALANCE, max_moves=1, max_bytes=10)
    search = filled(cluster(view(0, 0, size=10), view(1, 0, size=11), view(2, 0, size=1)), wish)
    assert search.hindrance(search.layout.replaced(1, 0, 2)) is Reason.PLAN_FULL
    first = search.layout.replaced(0, 0, 1)
    assert search.hindrance(first) is None
    search.take(first, Goal.REPLICAS)
    assert search.hindrance(search.layout.replaced(2, 0, 1)) is Reason.PLAN_FULL
    assert search.hindrance(search.layout.replaced(0, 1, 2)) is None, "still one copy"


def test_no_change_fills_a_disk() -> None:
    brokers = [PlannedBroker(b, Standing.ACTIVE, disks=(DiskFigures(100, 25),)) for b in range(2)]
    search = filled(BalanceSnapshot(brokers, [view(0, 0, size=6)], 80, 10))
    assert search.hindrance(search.layout.replaced(0, 0, 1)) is Reason.NO_ROOM


def test_what_no_goal_needs_is_taken_back() -> None:
    search = filled(cluster(view(0, 0), view(1, 0), view(2, 2), view(3, 0)))
    search.take(search.layout.replaced(0, 0, 1), Goal.REPLICAS)
    search.take(search.layout.replaced(2, 2, 1), Goal.REPLICAS)
    finish(search.prune())
    (step,) = finish(search.steps())
    assert (step.index, step.after) == (0, (1,))


def test_a_step_names_the_first_goal_that_it_serves() -> None:
    search = filled(cluster(view(0, 0, 1, size=4)))
    search.take(search.layout.led_by(0, 1), Goal.LEADERS)
    search.take(search.layout.replaced(0, 0, 2), Goal.REPLICAS)
    assert finish(search.steps()) == (
        BalanceStep("t", 0, (0, 1), (1, 2), bytes=4, goal=Goal.REPLICAS),
    )


def test_the_best_change_gives_to_whom_has_least() -> None:
    search = filled(cluster(view(0, 0), view(1, 1), view(2, 1), view(3, 3), brokers=4))
    changes = [search.layout.grown(0, new) for new in search.takers(0)]
    best = finish(search.best(changes))
    assert best is not None
    assert best.added == (2,)
    assert finish(search.smallest_first([2, 0, 1])) == [0, 1, 2]
