"""Brokers become alike in replicas, leaders, bytes and writes, each by as little as it takes."""

from __future__ import annotations

from oncelog_controller.balance.planner import plan
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceSnapshot,
    Goal,
    PlannedBroker,
    PlannedPartition,
    Purpose,
    Standing,
    Wish,
)
from oncelog_controller.balance.turns import finish


def view(
    index: int, *replicas: int, size: int = 0, rate: int = 0, topic: str = "t"
) -> PlannedPartition:
    return PlannedPartition(
        topic, index, replicas, replicas[0], replicas, bytes=size, bytes_per_s=rate
    )


def planned(
    *partitions: PlannedPartition, brokers: int = 2, racks: str = "", goals: set[Goal] | None = None
) -> BalancePlan:
    views = [PlannedBroker(b, Standing.ACTIVE, racks[b] if racks else None) for b in range(brokers)]
    snapshot = BalanceSnapshot(views, partitions, disk_high_percent=80, tolerance_percent=10)
    wanted = None if goals is None else frozenset(goals)
    return finish(plan(snapshot, Wish(Purpose.BALANCE, goals=wanted)))


def test_each_topic_is_spread_and_then_all_of_them() -> None:
    views = [view(0, 0, topic=f"t{n}") for n in range(6)]
    made = planned(*views, brokers=3)
    assert made.before[Goal.TOPICS] == 0, "one replica cannot be spread"
    assert {step.goal for step in made.steps} == {Goal.REPLICAS}
    assert made.copies == 4
    skewed = [view(n, n // 2, topic="t") for n in range(4)]
    skewed += [view(n, 1 - n // 2, topic="u") for n in range(4)]
    assert planned(*skewed).copies == 0
    skewed = [view(n, 0, topic="t") for n in range(4)] + [view(n, 1, topic="u") for n in range(4)]
    assert planned(*skewed).copies == 4, "replicas are alike, those of each topic are not"


def test_the_smallest_replicas_move() -> None:
    sizes = [5, 1, 7, 3]
    made = planned(*[view(n, 0, size=size) for n, size in enumerate(sizes)], goals={Goal.REPLICAS})
    assert sorted(step.index for step in made.steps) == [1, 3]
    assert made.bytes == 4


def test_brokers_of_a_small_rack_are_off_alike() -> None:
    views = [view(n, 0, 2 + n % 2) for n in range(8)]
    made = planned(*views, brokers=4, racks="aabb")
    after = {step.index: step.after for step in made.steps}
    placed = [after.get(partition.index, partition.replicas) for partition in views]
    assert [sum(b in replicas for replicas in placed) for b in range(4)] == [4, 4, 4, 4]
    views = [view(n, 0, 2) for n in range(9)]
    made = planned(*views, brokers=4, racks="aabc", goals={Goal.REPLICAS})
    assert made.after[Goal.RACKS] == 0


def test_leaders_are_spread_without_a_copy() -> None:
    made = planned(*[view(n, 0, 1) for n in range(4)])
    assert made.copies == 0
    assert [step.after for step in made.steps] == [(1, 0), (1, 0)]
    assert made.after[Goal.LEADERS] == 0


def test_leaderships_go_from_broker_to_broker() -> None:
    views = [view(0, 0, 1), view(1, 0, 1), view(2, 0, 1), view(3, 1, 2), view(4, 1, 2)]
    made = planned(*views, brokers=3, goals={Goal.LEADERS})
    assert {step.index: step.after for step in made.steps} == {0: (1, 0), 3: (2, 1)}, (
        "broker 0 has nothing that broker 2 has"
    )
    assert made.after[Goal.LEADERS] == 0


def test_bytes_become_alike_by_a_replica_where_numbers_allow_it() -> None:
    made = planned(view(0, 0, size=50), view(1, 0, size=50), view(2, 1, size=20))
    assert {step.index: step.after for step in made.steps} == {0: (1,)}
    assert made.after[Goal.BYTES] < made.before[Goal.BYTES]


# ---- exchanges.py: two brokers exchange replicas


def test_bytes_become_alike_by_an_exchange() -> None:
    views = [view(0, 0, size=100), view(1, 0, size=100), view(2, 1, size=10), view(3, 1, size=10)]
    made = planned(*views)
    assert {step.goal for step in made.steps} == {Goal.BYTES}
    assert made.copies == 2
    assert made.bytes == 110
    assert made.after[Goal.BYTES] == made.after[Goal.REPLICAS] == made.after[Goal.LEADERS] == 0


def test_writes_become_alike_by_an_exchange_that_leaves_the_bytes_alone() -> None:
    views = [view(0, 0, size=50, rate=90), view(1, 0, size=50, rate=90)]
    views += [view(2, 1, size=50, rate=10), view(3, 1, size=50, rate=10)]
    made = planned(*views)
    assert {step.goal for step in made.steps} == {Goal.WRITES}
    assert made.after[Goal.BYTES] == made.after[Goal.WRITES] == 0


def test_no_exchange_breaks_up_a_topic() -> None:
    views = [view(0, 0, size=100), view(1, 1, size=100)]
    views += [view(0, 0, size=10, topic="u"), view(1, 1, size=10, topic="u")]
    assert planned(*views).steps == ()
    views = [view(0, 0, size=100), view(1, 1, size=10)]
    views += [view(0, 0, size=100, topic="u"), view(1, 1, size=10, topic="u")]
    made = planned(*views)
    assert made.copies == 2
    assert made.after[Goal.TOPICS] == made.after[Goal.BYTES] == 0


def test_an_exchange_leaves_every_partition_on_its_racks() -> None:
    views = [view(0, 0, 2, size=100), view(1, 0, 2, size=100)]
    views += [view(2, 1, 3, size=10), view(3, 1, 3, size=10)]
    made = planned(*views, brokers=4, racks="aabb")
    assert made.after[Goal.RACKS] == made.after[Goal.BYTES] == 0
    assert made.copies == 4
