"""Followers that are far behind are fetching apart, and members are never held back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from oncelog_broker.replication.catch_up import (
    BURST_S,
    ENOUGH_BYTES,
    GROWTH_BYTES_PER_SECOND,
    LATE_S,
    LOOK_AGAIN_S,
    PIECE_BYTES_BESIDE_OTHERS,
    START_BYTES_PER_SECOND,
    TICK_S,
    Pace,
    bytes_left,
)
from oncelog_broker.replication.sync_times import SyncTimes
from oncelog_protocol.messages.fetch import FetchPartitionResponse
from oncelog_protocol.schema import Span
from oncelog_protocol.types import Acks, FetchLane, TopicPartition
from support.replication_cluster import FAST, Cluster
from support.room_settings import replica_settings
from support.waiting import eventually
from unsafe.replication import without

TP, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
MIB = 2**20
HELD = replace(FAST, replica_catch_up_max_bytes_per_second=1, replica_fetch_max_bytes=4096)
"""Who is far behind gets one batch at most in the time of a test."""


@pytest.mark.parametrize(
    ("left", "records", "size_bytes", "told", "expected"),
    [
        (0, 1, MIB, -1, 0),
        (-5, 1, MIB, -1, 0),
        (15, 1, MIB, -1, 15 * MIB),
        (1_000_000, 10, 100, -1, 10_000_000),
        (1_000_000, 10, 100, 5_000, 5_000),
        (0, 0, 0, 5_000, 5_000),
        (1_000_000, 10, 100, 0, 0),
    ],
)
def test_a_leader_is_believed_that_says_what_is_left(
    left: int, records: int, size_bytes: int, told: int, expected: int
) -> None:
    answer = FetchPartitionResponse(0, records=Span(0, size_bytes), bytes_left=told)
    assert bytes_left(answer, left, records) == expected


# ------------------------------------------------------------------------------ the pace


class Clock:
    """It has the two methods of a loop that a pace uses; timers are run by the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timer: tuple[float, Callable[..., None], tuple[Any, ...]] | None = None
        self.cancelled = False

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[..., None], *args: Any) -> Clock:
        self.timer = (when, callback, args)
        return self

    def cancel(self) -> None:
        self.cancelled = True

    def run(self, *, late_s: float = 0.0) -> None:
        """Run the timer, too late."""
        assert self.timer is not None
        (when, callback, args), self.timer = self.timer, None
        self.now = when + late_s
        callback(*args)

    def run_if_set(self) -> None:
        """Run the timer in time, if there is one."""
        if self.timer is not None:
            self.run()


def make(clock: Clock, **settings: int) -> Pace:
    pace = Pace(replica_settings(**settings))
    pace.start(clock)  # type: ignore[arg-type]
    return pace


def test_a_pace_that_is_set_is_kept() -> None:
    clock = Clock()
    pace = make(clock, replica_catch_up_max_bytes_per_second=10 * MIB)
    fetched = 0
    for _ in range(1_000):
        clock.now += 0.01
        room = pace.room_bytes(clock.now)
        pace.spend(room)
        fetched += room
    assert 0.9 * 100 * MIB <= fetched <= 1.1 * 100 * MIB


def test_what_came_beyond_it_is_waited_for() -> None:
    clock = Clock()
    pace = make(clock, replica_catch_up_max_bytes_per_second=MIB)
    clock.now += 10
    assert pace.room_bytes(clock.now) == BURST_S * MIB, "what was not fetched is not made up for"
    pace.spend(2 * MIB)  # one batch comes whole
    assert pace.room_bytes(clock.now) == 0
    ready_at = pace.ready_at(clock.now)
    assert ready_at - clock.now == LOOK_AGAIN_S, "the settings may allow more by then"
    ready_at += LOOK_AGAIN_S
    assert pace.room_bytes(ready_at - 0.1) == 0
    assert pace.room_bytes(ready_at) >= BURST_S * MIB - 1


@pytest.mark.parametrize("rate", [1, 2, 3, 5])
def test_the_slowest_pace_is_slow_and_does_not_stand_still(rate: int) -> None:
    clock = Clock()
    pace = make(clock, replica_catch_up_max_bytes_per_second=rate)
    fetched = 0
    for _ in range(20_000):
        if room := pace.room_bytes(clock.now):
            fetched += room + 99  # a batch comes whole
            pace.spend(room + 99)
        clock.now = pace.ready_at(clock.now)
    passed_s = clock.now - 100
    assert 0.9 * rate * passed_s <= fetched <= 1.1 * rate * passed_s + 100


def test_a_fetch_waits_until_it_may_ask_for_enough() -> None:
    clock = Clock()
    pace = make(clock, replica_catch_up_max_bytes_per_second=100 * MIB)
    clock.now += 0.9 * ENOUGH_BYTES / pace.bytes_per_second
    assert pace.room_bytes(clock.now) == 0


def test_the_pace_is_found() -> None:
    clock = Clock()
    pace = make(clock)
    clock.now += 1
    pace.room_bytes(clock.now)
    for _ in range(6):
        clock.run()
    assert pace.bytes_per_second == START_BYTES_PER_SECOND + GROWTH_BYTES_PER_SECOND
    pace.room_bytes(clock.now)
    clock.run(late_s=2 * LATE_S)
    for _ in range(6):
        clock.run()
    assert pace.bytes_per_second < START_BYTES_PER_SECOND
    for _ in range(200):
        pace.room_bytes(clock.now)
        clock.run(late_s=2 * LATE_S)
    assert pace.bytes_per_second == 4 * MIB, "it never goes below"


def test_a_pace_shrinks_while_syncs_are_slower_than_before() -> None:
    clock = Clock()
    pace = make(clock)
    noted = [pace.watch_disk() for _ in range(2)]
    for note in noted:
        for _ in range(100):
            note(0.005, clock.now)

    def judged(*seconds: float) -> float:
        """Return how the pace changes when rounds of the second disk take so long."""
        before = pace.bytes_per_second
        pace.room_bytes(clock.now)
        for each in seconds:
            noted[1](each, clock.now)
        for _ in range(6):
            clock.run()
        return pace.bytes_per_second - before

    judged()
    assert judged(0.006, 0.006) > 0
    assert judged(0.05, 0.05) < 0
    assert judged(0.006, 0.006) > 0, "it recovers"


def test_little_is_carried_at_once_where_others_use_a_disk() -> None:
    clock = Clock()
    quiet, used = make(clock), make(clock)
    note = used.watch_disk()
    for _ in range(100):
        note(0.001, clock.now)
    clock.now += BURST_S
    assert quiet.room_bytes(clock.now) == BURST_S * START_BYTES_PER_SECOND
    for _ in range(int(BURST_S * START_BYTES_PER_SECOND / PIECE_BYTES_BESIDE_OTHERS)):
        room = used.room_bytes(clock.now)
        assert room == PIECE_BYTES_BESIDE_OTHERS
        used.spend(room)
    assert used.room_bytes(clock.now) == 0, "the pace is the same"


def test_settings_hold_at_once() -> None:
    clock = Clock()
    settings = replica_settings()
    pace = Pace(settings)
    pace.start(clock)  # type: ignore[arg-type]
    settings.replica_catch_up_max_bytes_per_second = 2 * MIB
    pace.room_bytes(clock.now)
    assert pace.bytes_per_second == 2 * MIB, "the most wins over the least"
    settings.replica_catch_up_max_bytes_per_second = 0
    settings.replica_catch_up_min_bytes_per_second = 8 * MIB
    pace.room_bytes(clock.now)
    assert pace.bytes_per_second == 8 * MIB


def test_nobody_looks_at_the_loop_while_nobody_is_behind() -> None:
    clock = Clock()
    pace = make(clock)
    assert clock.timer is None
    pace.room_bytes(clock.now)
    for _ in range(20):
        clock.run_if_set()
    assert clock.timer is None
    assert clock.now < 100 + 20 * TICK_S
    pace.room_bytes(clock.now)
    pace.close()
    assert clock.cancelled


# ------------------------------------------------------------------------------ the lanes


async def fill(cluster: Cluster, batches: int = 40) -> None:
    """Write what broker 1, which leads alone, has and broker 2 lacks."""
    for _ in range(batches):
        assert (await cluster.produced(TP, b"x" * 1_000, acks=Acks.LEADER)).error_code == 0


def lanes(cluster: Cluster, where: TopicPartition = TP) -> list[FetchLane]:
    return [lane for (_, lane), loop in cluster[2].replicas._loops.items() if where in loop]


async def test_an_empty_replica_catches_up_apart_and_comes_over() -> None:
    config = replace(FAST, replica_fetch_max_bytes=4096, replica_near_bytes=10_000)
    async with Cluster(brokers=2, config=config) as cluster:
        cluster.lead(TP, 1, isr=[1], to=[1])
        await fill(cluster)
        cluster.send_orders(2, [cluster.orders[TP]])
        assert lanes(cluster) == [FetchLane.CATCH_UP]
        await cluster.isr_is(TP, 1, 2)
        await eventually(lambda: lanes(cluster) == [FetchLane.MAIN])
        leader, follower = (cluster[broker].partition(TP).log for broker in (1, 2))
        await eventually(lambda: follower.log_end_offset == leader.log_end_offset)
        assert (await cluster.produced(TP, b"y")).error_code == 0


async def test_paces_hear_of_the_syncs_of_every_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    monkeypatch.setattr(SyncTimes, "note", lambda _, seconds, now: heard.append(seconds))
    async with Cluster(brokers=2, config=FAST) as cluster:
        cluster.lead(TP, 1)
        assert (await cluster.produced(TP, b"x")).error_code == 0
        await eventually(lambda: len(heard) >= 4)
        assert min(heard) >= 0


async def test_who_is_far_does_not_hold_back_who_is_near() -> None:
    config = replace(HELD, replica_near_bytes=10_000)
    async with Cluster(brokers=2, config=config) as cluster:
        cluster.lead(TP, 1, isr=[1], to=[1])
        cluster.lead(TP1, 1)
        await fill(cluster)
        cluster.send_orders(2, [cluster.orders[TP]])
        assert (await cluster.produced(TP1, b"x")).error_code == 0
        assert lanes(cluster, TP1) == [FetchLane.MAIN]
        assert lanes(cluster) == [FetchLane.CATCH_UP]
        assert cluster[2].partition(TP).log.log_end_offset <= 1
        config.replica_catch_up_max_bytes_per_second = 0
        await cluster.isr_is(TP, 1, 2)


async def test_who_turns_out_to_be_far_goes_over() -> None:
    async with Cluster(brokers=2, config=replace(HELD, replica_near_bytes=10_000)) as cluster:
        cluster.lead(TP, 1)
        assert (await cluster.produced(TP, b"both have it")).error_code == 0
        cluster.lead(TP, 1, isr=[1], to=[1])
        await fill(cluster)
        cluster.send_orders(2, [cluster.orders[TP]])
        assert lanes(cluster) == [FetchLane.MAIN], "its end is not known to be far"
        await eventually(lambda: lanes(cluster) == [FetchLane.CATCH_UP])
        cluster.lead(TP, 1, isr=[1])
        assert lanes(cluster) == [FetchLane.CATCH_UP], "in the next epoch it is as far"


async def test_members_are_never_held_back() -> None:
    async with Cluster(brokers=2, config=replace(HELD, replica_near_bytes=10_000)) as cluster:
        cluster.lead(TP, 1, to=[1])
        await fill(cluster)
        cluster.send_orders(2, [cluster.orders[TP]])
        assert lanes(cluster) == [FetchLane.MAIN]
        leader, follower = (cluster[broker].partition(TP).log for broker in (1, 2))
        await eventually(lambda: follower.log_end_offset == leader.log_end_offset)
        assert lanes(cluster) == [FetchLane.MAIN]
        assert sorted(cluster.orders[TP].isr) == [1, 2]


async def test_an_isr_shrinks_if_members_are_held_back() -> None:
    unsafe = without("throttle_spares_in_sync")
    async with Cluster(
        brokers=2, config=replace(HELD, replica_near_bytes=10_000), safeguards=unsafe
    ) as cluster:
        cluster.lead(TP, 1, to=[1])
        await fill(cluster)
        cluster.send_orders(2, [cluster.orders[TP]])
        await cluster.isr_is(TP, 1)


async def test_a_replica_that_lacks_nothing_comes_over_without_records() -> None:
    config = replace(FAST, replica_catch_up_max_bytes_per_second=1_000)
    async with Cluster(brokers=2, config=config) as cluster:
        cluster.lead(TP, 1, isr=[1], to=[1])
        cluster.send_orders(2, [cluster.orders[TP]])
        assert lanes(cluster) == [FetchLane.CATCH_UP]
        await cluster.isr_is(TP, 1, 2)
        await eventually(lambda: lanes(cluster) == [FetchLane.MAIN])
        assert (await cluster.produced(TP, b"x" * 5_000)).error_code == 0


def test_near_is_more_than_a_fetch() -> None:
    """A replica that has just come near is nearer after the next answer, not farther."""
    settings = replica_settings()
    assert 4 * settings.replica_fetch_max_bytes <= settings.replica_near_bytes
