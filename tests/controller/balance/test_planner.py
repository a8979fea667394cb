"""Plans over random clusters: they are legal, small, needed, repeatable, and they settle."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_controller.balance.planner import measure, plan
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceSnapshot,
    DiskFigures,
    Goal,
    PlannedBroker,
    PlannedPartition,
    Purpose,
    Standing,
    Wish,
)
from oncelog_controller.balance.turns import finish

BALANCE = Wish(Purpose.BALANCE)
COUNTS = frozenset({Goal.TOPICS, Goal.REPLICAS})


def planned(snapshot: BalanceSnapshot, wish: Wish = BALANCE) -> BalancePlan:
    return finish(plan(snapshot, wish))


def after(
    snapshot: BalanceSnapshot, made: BalancePlan, *, without: int | None = None
) -> BalanceSnapshot:
    """Return the cluster when the steps of a plan are done, one of them left out."""
    steps = [step for number, step in enumerate(made.steps) if number != without]
    moved = {(step.topic, step.index): step for step in steps}
    disks = {broker.broker_id: list(broker.disks) for broker in snapshot.brokers}
    partitions: list[PlannedPartition] = []
    for view in snapshot.partitions:
        step = moved.get((view.topic, view.index))
        if step is None:
            partitions.append(view)
            continue
        for broker_id, kept in disks.items():
            more = (broker_id in step.after) - (broker_id in step.before)
            if kept:
                disk = kept[0]
                kept[0] = replace(disk, free=disk.free - more * view.bytes)
        isr = tuple(b for b in view.isr if b in step.after) or step.after
        partitions.append(replace(view, replicas=step.after, leader=isr[0], isr=isr))
    brokers = [replace(b, disks=tuple(disks[b.broker_id])) for b in snapshot.brokers]
    return replace(snapshot, brokers=brokers, partitions=partitions)


def random_cluster(chance: random.Random) -> BalanceSnapshot:
    """Return a small cluster of any kind: racks or not, disks known or not, brokers that come and
    go, partitions that move or have no leader."""
    racked, sized = chance.random() < 0.5, chance.random() < 0.5
    ordinary = [Standing.ACTIVE] * chance.choice([4, 20])
    brokers = [
        PlannedBroker(
            broker_id=broker_id,
            standing=chance.choice([*ordinary, *Standing]),
            rack=chance.choice("abc") if racked else None,
            disks=(DiskFigures(4000, chance.randint(0, 4000)),) if sized else (),
        )
        for broker_id in chance.sample(range(30), chance.randint(1, 8))
    ]
    ids = [broker.broker_id for broker in brokers]
    partitions: list[PlannedPartition] = []
    for topic in range(chance.randint(0, 5)):
        factor = chance.randint(1, min(3, len(ids)))
        homes = chance.sample(ids, chance.randint(factor, len(ids)))
        for index in range(chance.randint(1, 12)):
            replicas = tuple(chance.sample(homes, factor))
            moves = chance.random() < 0.05
            partitions.append(
                PlannedPartition(
                    topic=f"t{topic}",
                    index=index,
                    replicas=replicas,
                    leader=-1 if chance.random() < 0.05 else replicas[0],
                    isr=replicas[: chance.randint(1, factor)],
                    bytes=chance.choice([0, 1, 10, 100, chance.randint(0, 1000)]),
                    bytes_per_s=chance.randint(0, 50),
                    target=tuple(chance.sample(ids, factor)) if moves else (),
                    factor=chance.choice([0, 0, 0, factor]),
                )
            )
    chance.shuffle(partitions)
    return BalanceSnapshot(brokers, partitions, disk_high_percent=80, tolerance_percent=10)


def random_wish(chance: random.Random, snapshot: BalanceSnapshot) -> Wish:
    topics = sorted({view.topic for view in snapshot.partitions})
    some = frozenset(chance.sample(topics, chance.randint(0, len(topics))))
    purpose = chance.choice([Purpose.BALANCE, Purpose.BALANCE, *Purpose])
    if purpose is Purpose.REPLICATION_FACTOR:
        return Wish(purpose, some, factor=chance.randint(1, 4))
    goals = frozenset(chance.sample(list(Goal), chance.randint(1, len(Goal))))
    return Wish(
        purpose, chance.choice([None, None, some]), goals=chance.choice([None, None, goals])
    )


def check(snapshot: BalanceSnapshot, wish: Wish) -> None:
    """Assert what holds for every plan."""
    made = planned(snapshot, wish)
    assert_legal(snapshot, wish, made)
    before, reached = finish(measure(snapshot, wish)), finish(measure(after(snapshot, made), wish))
    assert tuple(reached.values()) <= tuple(before.values())
    assert [goal for goal in Goal if made.before[goal]] == [goal for goal in Goal if before[goal]]
    assert [goal for goal in Goal if made.after[goal]] == [goal for goal in Goal if reached[goal]]
    for number, step in enumerate(made.steps):
        idle = finish(measure(after(snapshot, made, without=number), wish))
        assert any(idle[goal] > reached[goal] for goal in Goal), f"needless: {step}"
    assert planned(after(snapshot, made), wish).steps == ()


def assert_legal(snapshot: BalanceSnapshot, wish: Wish, made: BalancePlan) -> None:
    views = {(view.topic, view.index): view for view in snapshot.partitions}
    brokers = {broker.broker_id: broker for broker in snapshot.brokers}
    got: set[int] = set()
    for step in made.steps:
        view = views[step.topic, step.index]
        added = set(step.after) - set(view.replicas)
        assert step.before == view.replicas != step.after
        assert len(set(step.after)) == len(step.after) > 0
        assert view.leader >= 0
        assert not view.target
        assert wish.topics is None or step.topic in wish.topics
        assert all(brokers[b].standing is Standing.ACTIVE for b in added)
        assert step.goal in wish.worked_for
        assert step.bytes == len(added) * view.bytes
        assert step.copies == len(added)
        if Goal.WHOLE not in wish.worked_for:
            assert len(step.after) == len(step.before)
        got.update(b for b in added if view.bytes)
    if any(view.target for view in snapshot.partitions):
        return  # what their copies will take is not on the disks yet
    for broker in after(snapshot, made).brokers:
        if broker.broker_id in got:
            for disk in broker.disks:
                assert (disk.total - disk.free) * 100 <= disk.total * snapshot.disk_high_percent


@given(seed=st.integers(0, 2**32))
def test_random_clusters(seed: int) -> None:
    chance = random.Random(seed)
    snapshot = random_cluster(chance)
    check(snapshot, random_wish(chance, snapshot))


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 10)
@given(seed=st.integers(0, 2**32))
def test_many_random_clusters(seed: int) -> None:
    chance = random.Random(seed)
    snapshot = random_cluster(chance)
    check(snapshot, random_wish(chance, snapshot))


@given(seed=st.integers(0, 2**32))
def test_the_order_of_a_snapshot_means_nothing(seed: int) -> None:
    chance = random.Random(seed)
    snapshot = random_cluster(chance)
    made = planned(snapshot)
    brokers, partitions = list(snapshot.brokers), list(snapshot.partitions)
    chance.shuffle(brokers)
    chance.shuffle(partitions)
    assert planned(replace(snapshot, brokers=brokers, partitions=partitions)) == made


@given(seed=st.integers(0, 2**32))
def test_counts_alone_cost_the_fewest_copies_that_can_be(seed: int) -> None:
    chance = random.Random(seed)
    ids, factor = range(chance.randint(1, 9)), chance.randint(1, 3)
    factor = min(factor, len(ids))
    homes = chance.sample(ids, chance.randint(factor, len(ids)))
    partitions = [
        view_of("t", index, tuple(chance.sample(homes, factor)), size=1)
        for index in range(chance.randint(1, 40))
    ]
    snapshot = BalanceSnapshot([PlannedBroker(b, Standing.ACTIVE) for b in ids], partitions, 80, 10)
    made = planned(snapshot, Wish(Purpose.BALANCE, goals=COUNTS))
    have = {b: sum(b in view.replicas for view in partitions) for b in ids}
    floor, rest = divmod(sum(have.values()), len(have))
    ceiling = floor + bool(rest)
    over = sum(max(0, count - ceiling) for count in have.values())
    under = sum(max(0, floor - count) for count in have.values())
    assert made.copies == max(over, under)
    assert made.after[Goal.TOPICS] == made.after[Goal.REPLICAS] == 0


@given(seed=st.integers(0, 2**32), moves=st.integers(0, 5), size=st.integers(0, 300))
def test_a_plan_stays_in_its_bounds(seed: int, moves: int, size: int) -> None:
    snapshot = random_cluster(random.Random(seed))
    made = planned(snapshot, Wish(Purpose.BALANCE, max_moves=moves, max_bytes=size))
    assert made.copies <= moves
    assert made.bytes <= size


def view_of(topic: str, index: int, replicas: tuple[int, ...], size: int = 0) -> PlannedPartition:
    return PlannedPartition(topic, index, replicas, replicas[0], replicas, bytes=size)


@pytest.mark.parametrize("partitions", [4, 60])
def test_a_broker_that_joins_is_used(partitions: int) -> None:
    views = [
        view_of("t", n, (n % 3, (n + 1) % 3, (n + 2) % 3), size=100) for n in range(partitions)
    ]
    snapshot = BalanceSnapshot([PlannedBroker(b, Standing.ACTIVE) for b in range(4)], views, 80, 10)
    made = planned(snapshot)
    got = sum(3 in step.after for step in made.steps)
    assert got == partitions * 3 // 4
    assert made.copies == got
    assert made.bytes == got * 100
    assert made.after[Goal.LEADERS] == made.after[Goal.BYTES] == 0


def test_it_yields_while_it_works() -> None:
    views = [view_of("t", n, (n % 3, (n + 1) % 3)) for n in range(300)]
    snapshot = BalanceSnapshot([PlannedBroker(b, Standing.ACTIVE) for b in range(5)], views, 80, 10)
    turns = sum(1 for _ in plan(snapshot, BALANCE))
    assert turns > 10
