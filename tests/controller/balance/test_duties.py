"""Replicas go where they must, as many as there should be; what cannot be done is named."""

from __future__ import annotations

import pytest

from oncelog_controller.balance.duties import around
from oncelog_controller.balance.planner import plan
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceSnapshot,
    DiskFigures,
    Goal,
    HeldUp,
    PlannedBroker,
    PlannedPartition,
    Purpose,
    Reason,
    Standing,
    Wish,
)
from oncelog_controller.balance.turns import finish

ACTIVE, LEAVING, DEAD, HELD = Standing.ACTIVE, Standing.LEAVING, Standing.DEAD, Standing.HELD


def view(index: int, *replicas: int, size: int = 0, isr: tuple[int, ...] = ()) -> PlannedPartition:
    return PlannedPartition("t", index, replicas, replicas[0], isr or replicas, bytes=size)


def cluster(
    *partitions: PlannedPartition, standings: list[Standing], racks: str = ""
) -> BalanceSnapshot:
    brokers = [
        PlannedBroker(b, standing, racks[b] if racks else None)
        for b, standing in enumerate(standings)
    ]
    return BalanceSnapshot(brokers, partitions, disk_high_percent=80, tolerance_percent=10)


def planned(snapshot: BalanceSnapshot, purpose: Purpose, factor: int = 0) -> BalancePlan:
    return finish(plan(snapshot, Wish(purpose, factor=factor)))


def placed(made: BalancePlan) -> dict[int, tuple[int, ...]]:
    return {step.index: step.after for step in made.steps}


def test_replicas_leave_a_broker_that_is_decommissioned() -> None:
    standings = [LEAVING, ACTIVE, ACTIVE, HELD]
    made = planned(cluster(view(0, 0), view(1, 0, 1), standings=standings), Purpose.EVACUATE)
    assert placed(made) == {0: (2,), 1: (2, 1)}
    assert [step.goal for step in made.steps] == [Goal.EVACUATE] * 2
    assert (made.before[Goal.EVACUATE], made.after[Goal.EVACUATE]) == (2, 0)
    assert made.held_up == ()


def test_what_leaves_is_spread() -> None:
    views = [view(n, 0) for n in range(9)]
    made = planned(cluster(*views, standings=[LEAVING, ACTIVE, ACTIVE, ACTIVE]), Purpose.EVACUATE)
    taken = sorted(step.after for step in made.steps)
    assert taken == [(1,)] * 3 + [(2,)] * 3 + [(3,)] * 3


def test_who_cannot_leave_is_named_with_the_reason() -> None:
    brokers = [
        PlannedBroker(0, LEAVING),
        PlannedBroker(1, ACTIVE, disks=(DiskFigures(100, 100),)),
        PlannedBroker(2, HELD),
    ]
    lost = PlannedPartition("t", 2, (0, 2), -1, ())
    moving = PlannedPartition("t", 3, (0,), 0, (0,), target=(0, 2))
    views = [view(0, 0, 1), view(1, 0, size=90), lost, moving, view(4, 0, size=1)]
    made = planned(BalanceSnapshot(brokers, views, 80, 10), Purpose.EVACUATE)
    assert placed(made) == {4: (1,)}
    assert made.held_up == (
        HeldUp("t", 0, Goal.EVACUATE, Reason.NO_BROKER),
        HeldUp("t", 1, Goal.EVACUATE, Reason.NO_ROOM),
        HeldUp("t", 2, Goal.EVACUATE, Reason.NO_LEADER),
        HeldUp("t", 3, Goal.EVACUATE, Reason.MOVING),
    )


def test_a_plan_that_is_full_says_so() -> None:
    snapshot = cluster(view(0, 0, size=5), view(1, 0, size=4), standings=[LEAVING, ACTIVE])
    made = finish(plan(snapshot, Wish(Purpose.EVACUATE, max_moves=1)))
    assert placed(made) == {1: (1,)}, "the smallest one first"
    assert made.held_up == (HeldUp("t", 0, Goal.EVACUATE, Reason.PLAN_FULL),)


def test_replicas_of_dead_brokers_are_placed_elsewhere() -> None:
    snapshot = cluster(view(0, 1, 0), view(1, 1, 2), standings=[DEAD, ACTIVE, ACTIVE])
    made = planned(snapshot, Purpose.REPAIR)
    assert placed(made) == {0: (1, 2)}
    assert made.steps[0].goal is Goal.WHOLE


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_factors_grow_and_shrink(factor: int) -> None:
    views = [view(n, *[(n + k) % 4 for k in range(2)]) for n in range(8)]
    made = planned(cluster(*views, standings=[ACTIVE] * 4), Purpose.REPLICATION_FACTOR, factor)
    assert all(len(step.after) == factor for step in made.steps)
    assert len(made.steps) == (0 if factor == 2 else 8)
    assert made.after[Goal.WHOLE] == made.after[Goal.REPLICAS] == 0
    for step in made.steps:
        assert step.after[: min(2, factor)] == step.before[:factor], "leaders stay, order stays"


def test_a_factor_that_is_too_large_is_held_up() -> None:
    made = planned(cluster(view(0, 0), standings=[ACTIVE, ACTIVE]), Purpose.REPLICATION_FACTOR, 3)
    assert placed(made) == {0: (0, 1)}
    assert made.held_up == (HeldUp("t", 0, Goal.WHOLE, Reason.NO_BROKER),)


@pytest.mark.parametrize(
    ("standings", "isr", "kept"),
    [
        ([ACTIVE, ACTIVE, ACTIVE], (0, 1, 2), 0),
        ([ACTIVE, ACTIVE, ACTIVE], (2,), 2),
        ([LEAVING, ACTIVE, DEAD], (0, 1, 2), 1),
        ([HELD, ACTIVE, HELD], (0, 1, 2), 1),
    ],
)
def test_whoever_is_missed_least_is_dropped(
    standings: list[Standing], isr: tuple[int, ...], kept: int
) -> None:
    partition = PlannedPartition("t", 0, (0, 1, 2), isr[0], isr)
    made = planned(cluster(partition, standings=standings), Purpose.REPLICATION_FACTOR, 1)
    assert placed(made) == {0: (kept,)}


def test_partitions_are_put_on_more_racks() -> None:
    snapshot = cluster(view(0, 0, 1), view(1, 0, 2), standings=[ACTIVE] * 3, racks="aab")
    made = finish(plan(snapshot, Wish(Purpose.BALANCE, goals=frozenset({Goal.RACKS}))))
    assert len(made.steps) == 1
    assert 2 in made.steps[0].after
    assert made.after[Goal.RACKS] == 0


def test_no_later_goal_takes_a_rack_away() -> None:
    views = [view(n, n % 2, 2) for n in range(8)]
    snapshot = cluster(*views, standings=[ACTIVE] * 3, racks="aab")
    assert planned(snapshot, Purpose.BALANCE).copies == 0, "the rack b has one broker"


def test_disks_above_the_mark_are_relieved_by_one_replica_that_is_large_enough() -> None:
    brokers = [
        PlannedBroker(0, ACTIVE, disks=(DiskFigures(100, 10),)),
        PlannedBroker(1, ACTIVE, disks=(DiskFigures(100, 60),)),
        PlannedBroker(2, ACTIVE, disks=(DiskFigures(100, 90),)),
    ]
    views = [view(0, 0, size=40), view(1, 0, size=12), view(2, 0, size=8), view(3, 0, size=30)]
    snapshot = BalanceSnapshot(brokers, views, 80, 10)
    made = finish(plan(snapshot, Wish(Purpose.BALANCE, goals=frozenset({Goal.DISKS}))))
    assert placed(made) == {1: (2,)}
    assert (made.before[Goal.DISKS], made.after[Goal.DISKS]) == (10, 0)


def test_what_is_heavy_enough_comes_first() -> None:
    shelf = [(1, 0), (4, 1), (4, 2), (9, 3)]
    assert list(around(shelf, 4)) == [(4, 1), (4, 2), (9, 3), (1, 0)]
    assert list(around(shelf, 10)) == [(9, 3), (4, 2), (4, 1), (1, 0)]


def test_racks_count_when_only_that_of_a_dead_broker_is_not_known() -> None:
    brokers = [PlannedBroker(b, ACTIVE, "ab"[b % 2]) for b in range(4)]
    brokers.append(PlannedBroker(9, DEAD))
    snapshot = BalanceSnapshot(brokers, [view(0, 0, 9)], 80, 10)
    made = planned(snapshot, Purpose.REPAIR)
    assert placed(made)[0] in {(0, 1), (0, 3)}, "the other rack"
