"""Lanes keep order within, none between, and take turns when they are ready."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.consumer.lanes import HandlerJob, HandlerLane, Lanes, LaneState, Order, PartitionWork
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import TopicPartitionState
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy


def work_on(number: int = 0) -> PartitionWork:
    return PartitionWork(TopicPartitionState(TopicPartition("t", number)))


def job(work: PartitionWork, offset: int, key: bytes | None = None) -> HandlerJob:
    return HandlerJob(Record(*work.tp, offset, 0, key, b""), work, 1)


def lanes_with(order: Order, *jobs: HandlerJob) -> Lanes:
    lanes = Lanes(order)
    for item in jobs:
        lanes.add(item)
    return lanes


def take(lanes: Lanes) -> HandlerLane:
    lane = lanes.take()
    assert lane is not None
    return lane


def take_all(lanes: Lanes) -> list[int]:
    """Return the offsets that could be handled at this moment."""
    found = []
    while (lane := lanes.take()) is not None:
        found.append(lane.jobs[0].record.offset)
    return found


@pytest.mark.parametrize(
    ("order", "together"), [("key", [0, 1, 3, 4, 5]), ("partition", [0, 5]), ("none", range(6))]
)
def test_what_may_be_handled_at_a_time(order: Order, together: Sequence[int]) -> None:
    p, q = work_on(0), work_on(1)
    lanes = lanes_with(
        order,
        *(job(p, offset, key) for offset, key in enumerate([b"a", b"b", b"a", None, None])),
        job(q, 5, b"a"),
    )
    assert lanes.ready_count == len(together)
    assert take_all(lanes) == list(together)


def test_the_next_one_when_the_first_is_over_and_lanes_take_turns() -> None:
    p = work_on()
    lanes = lanes_with("key", *(job(p, n, b"ab"[n % 2 : n % 2 + 1]) for n in range(6)))
    seen = []
    while (lane := lanes.take()) is not None:
        seen.append(lane.jobs[0].record.offset)
        lanes.over(lane)
    assert seen == [0, 1, 2, 3, 4, 5]
    assert lane is None
    assert lanes.ready_count == 0


def test_a_parked_lane_holds_up_its_own_only() -> None:
    p = work_on()
    lanes = lanes_with("key", job(p, 0, b"a"), job(p, 1, b"a"), job(p, 2, b"b"))
    first = take(lanes)
    lanes.park(first)
    assert take_all(lanes) == [2]
    lanes.unpark(first)
    lanes.unpark(first)
    again = take(lanes)
    assert again is first
    assert again.jobs[0].record.offset == 0
    assert lanes.take() is None


def test_dropping_leaves_what_runs() -> None:
    p, q = work_on(0), work_on(1)
    lanes = lanes_with(
        "partition", job(p, 0), job(p, 1), job(q, 2), job(q, 3), *(job(work_on(2), 4),)
    )
    running, parked = take(lanes), take(lanes)
    lanes.park(parked)
    dropped = lanes.drop([p, q])
    assert [item.record.offset for item in dropped] == [1, 2, 3]
    lanes.unpark(parked)
    assert parked.state is LaneState.OVER
    assert take_all(lanes) == [4]
    lanes.over(running)
    assert running.state is LaneState.OVER
    assert lanes.drop() == []


def test_dropping_everything() -> None:
    p = work_on()
    lanes = lanes_with("key", job(p, 0, b"a"), job(p, 1, b"a"), job(p, 2))
    take(lanes)
    assert [item.record.offset for item in lanes.drop()] == [1, 2]
    assert lanes.take() is None
    lanes.add(job(p, 3, b"a"))
    assert lanes.take() is None, "behind the one that runs"


def test_a_newer_assignment_of_a_parked_lane_gets_its_turn() -> None:
    old, new = work_on(), work_on()
    lanes = lanes_with("key", job(old, 0, b"a"), job(new, 0, b"a"))
    lanes.park(take(lanes))
    assert [item.work for item in lanes.drop([old])] == [old]
    assert take(lanes).jobs[0].work is new


@given(st.integers(0, 2**32), st.sampled_from(["key", "partition", "none"]))
def test_order_holds_whatever_happens(seed: int, order: Order) -> None:
    chance = SeededEntropy(seed)
    works = [work_on(0), work_on(1)]
    lanes, parked, running = Lanes(order), list[HandlerLane](), list[HandlerLane]()
    finished: list[HandlerJob] = []
    waiting = [
        job(works[chance.randint(0, 1)], offset, chance.choice([b"a", b"b"]))
        for offset in range(12)
    ]
    while len(finished) < 12:
        step = chance.choice(["add", "take", "over", "park", "unpark"])
        if step == "add" and waiting:
            lanes.add(waiting.pop(0))
        elif step == "take" and (lane := lanes.take()) is not None:
            running.append(lane)
        elif step == "unpark" and parked:
            lanes.unpark(parked.pop(chance.randint(0, len(parked) - 1)))
        elif running and step in ("over", "park"):
            lane = running.pop(chance.randint(0, len(running) - 1))
            if step == "park":
                lanes.park(lane)
                parked.append(lane)
            else:
                finished.append(lane.jobs[0])
                lanes.over(lane)
        assert waiting or running or parked or lanes.ready_count or len(finished) == 12
    groups: dict[object, list[int]] = {}
    for item in finished:
        record = item.record
        lane_of: object = None
        if order == "key":
            lane_of = (record.partition, record.key)
        elif order == "partition":
            lane_of = record.partition
        else:
            lane_of = record.offset
        groups.setdefault(lane_of, []).append(record.offset)
    for offsets in groups.values():
        assert offsets == sorted(offsets)
