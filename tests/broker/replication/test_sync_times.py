"""Syncs are slow that take several times as long as before replicas were copied, and no others."""

from __future__ import annotations

from oncelog_broker.replication.sync_times import ROUNDS_MIN, SLOW_S, USUAL_S, SyncTimes


def used(seconds: float, *, rounds: int = ROUNDS_MIN, now: float = 100.0) -> SyncTimes:
    """Return the times of a disk whose rounds took so long until copying began ``now``."""
    times = SyncTimes()
    for _ in range(rounds):
        times.note(seconds, 100.0)
    times.copying_began(now)
    return times


def slow(times: SyncTimes, *seconds: float) -> bool:
    for each in seconds:
        times.note(each, 101.0)
    return times.take_slow()


def test_three_times_the_usual_is_slow() -> None:
    times = used(0.005)
    assert not slow(times, 0.014, 0.014, 0.014)
    assert slow(times, 0.016, 0.016, 0.016)
    assert not slow(times), "there was no round since"
    assert not slow(times, 0.005)


def test_one_slow_round_among_others_says_nothing() -> None:
    assert not slow(used(0.005), 0.005, 0.5, 0.006)
    assert slow(used(0.005), 0.5)


def test_what_nobody_notices_is_not_slow() -> None:
    times = used(0.0001)
    assert not slow(times, 0.9 * SLOW_S)
    assert slow(times, 1.1 * SLOW_S)


def test_a_disk_that_was_hardly_used_is_not_judged() -> None:
    assert not slow(used(0.005, rounds=ROUNDS_MIN - 1), 1.0)
    assert not slow(used(0.005, now=100 + 2 * USUAL_S), 1.0), "that is long ago"


def test_rounds_of_a_copy_do_not_become_the_usual_ones() -> None:
    times = used(0.005)
    for _ in range(100):
        assert slow(times, 0.05, 0.05)
    times.copying_ended(101.0)
    times.copying_began(102.0)
    assert slow(times, 0.05)
    times.copying_ended(102.0)
    for _ in range(10 * ROUNDS_MIN):
        times.note(0.05, 102.0)
    times.copying_began(103.0)
    assert not slow(times, 0.05), "it is like that without copies"


def test_copies_that_follow_each_other_go_by_what_was_usual_before_the_first() -> None:
    times = used(0.005)
    for ended in range(110, 500, 10):
        times.copying_ended(float(ended))
        times.copying_began(ended + 1.0)
        assert slow(times, 0.05)
        assert not slow(times, 0.005)
    times.copying_ended(500.0)
    times.copying_began(501.0 + USUAL_S)
    assert not slow(times, 0.05), "nobody has used the disk since"
