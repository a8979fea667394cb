"""A leader decides whether a follower keeps up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.replication.progress import (
    NEVER_S,
    UNKNOWN_OFFSET,
    Contact,
    FollowerProgress,
)
from unsafe.replication import UnforgettingProgress

LAG_S = 10.0


def progress(*, in_sync: bool = True, leader_end: int = 100, now: float = 0.0) -> FollowerProgress:
    return FollowerProgress(2, in_sync=in_sync, leader_end=leader_end, now=now)


def fetch(follower: FollowerProgress, offset: int, *, end: int, now: float, epoch: int = 7) -> None:
    follower.fetched(
        offset,
        broker_epoch=epoch,
        log_start_offset=0,
        leader_end=end,
        contact=Contact(now),
        now=now,
    )


def test_nothing_is_known_before_the_first_fetch() -> None:
    follower = progress()
    assert follower.durable_offset == UNKNOWN_OFFSET
    assert follower.broker_epoch == -1


def test_a_member_has_the_whole_lag_time_to_find_its_leader() -> None:
    follower = progress(now=5.0)
    assert not follower.lags(100, 15.0, LAG_S)
    assert follower.lags(100, 15.1, LAG_S)


def test_another_replica_has_never_been_caught_up() -> None:
    follower = progress(in_sync=False)
    assert follower.caught_up_s == NEVER_S
    assert follower.lags(100, 0.1, LAG_S)


def test_a_fetch_records_what_the_follower_says() -> None:
    follower = progress()
    fetch(follower, 40, end=100, now=1.0)
    assert (follower.durable_offset, follower.broker_epoch) == (40, 7)


def test_at_the_end_it_never_lags_however_long_nothing_happens() -> None:
    follower = progress()
    fetch(follower, 100, end=100, now=1.0)
    assert not follower.lags(100, 1_000_000.0, LAG_S)


def test_leaving_the_end_counts_from_the_last_sign_of_life() -> None:
    follower = progress()
    contact = Contact(1.0)
    follower.fetched(
        100, broker_epoch=7, log_start_offset=0, leader_end=100, contact=contact, now=1.0
    )
    contact.at_s = 500.0  # other partitions of the connection were fetched
    follower.left_behind(101, 500.4)
    assert follower.caught_up_s == 500.0
    assert not follower.lags(101, 509.9, LAG_S)
    assert follower.lags(101, 510.1, LAG_S)


def test_always_a_little_behind_is_not_lagging() -> None:
    """KAFKA-2988: a fast producer's leader is ahead at every fetch."""
    follower = progress(leader_end=0)
    for second in range(100):
        end = second * 1000 + 1000
        fetch(follower, max(end - 1500, 0), end=end, now=float(second))
        assert not follower.lags(end, float(second), LAG_S)


def test_falling_further_and_further_behind_is_lagging() -> None:
    follower = progress(leader_end=0)
    for second in range(100):
        fetch(follower, second * 100, end=second * 1000 + 1000, now=float(second))
    assert follower.lags(100_000, 100.0, LAG_S)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 3.0), st.integers(0, 50), st.integers(0, 60), st.booleans()),
        max_size=60,
    )
)
def test_caught_up_time_is_never_later_than_the_truth(
    steps: list[tuple[float, int, int, bool]],
) -> None:
    """A model remembers the leader's end at every moment: the follower really had, at
    ``caught_up_s`` or later, all that the leader had at that time."""
    follower = progress(leader_end=0)
    now, end, durable = 0.0, 0, 0
    at_end = False
    ends: list[tuple[float, int]] = [(0.0, 0)]  # the leader's end from each time on
    for pause, appended, fetched, fetches in steps:
        now += pause
        if appended:
            end += appended
            ends.append((now, end))
            if at_end:
                follower.left_behind(end, now)
                at_end = False
        if fetches:
            now += 0.001
            durable = min(end, durable + fetched)
            fetch(follower, durable, end=end, now=now)
            at_end = durable >= end
        held = max(e for t, e in ends if t <= follower.caught_up_s)
        assert durable >= held


def test_without_the_safeguard_older_epochs_are_remembered() -> None:
    """And nothing else changes: within the epoch it is a follower like any other."""
    fresh = FollowerProgress(2, in_sync=True, leader_end=0, now=0.0)
    for floor, expected in ((UNKNOWN_OFFSET, [1, 7, 2]), (5, [5, 7, 5])):
        follower = UnforgettingProgress(fresh, floor)
        for offset, durable in zip((1, 7, 2), expected, strict=True):
            fetch(follower, offset, end=10, now=1.0)
            assert follower.durable_offset == durable


def test_a_follower_held_what_it_holds_to_the_end_or_has_caught_up_with_since() -> None:
    follower = progress()
    fetch(follower, 50, end=100, now=1.0)
    assert not follower.held(100, 1.0)
    fetch(follower, 100, end=120, now=2.0)  # the end as it was when this one was marked, at 0.0
    assert follower.held(120, 0.0)
    assert not follower.held(120, 1.0)
    fetch(follower, 130, end=130, now=3.0)
    assert follower.held(130, 99.0)
