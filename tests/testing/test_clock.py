"""The wall clock goes with a cluster's loop."""

from __future__ import annotations

from oncelog_runtime.clock import SystemWallClock
from oncelog_testing.clock import ClusterClock


def test_it_is_the_machines_and_what_was_added() -> None:
    ahead_s = 0.0
    clock, machine = ClusterClock(lambda: ahead_s), SystemWallClock()
    assert abs(clock.now_ms() - machine.now_ms()) < 60_000
    ahead_s = 86_400.5
    assert abs(clock.now_ms() - machine.now_ms() - 86_400_500) < 60_000


def test_an_hour_that_passes_shows_as_an_hour() -> None:
    """Some of it passes on the machine, and the rest is added."""
    for began_us in range(0, 2_000, 100):
        for ahead_us in range(0, 2_000, 100):
            for passed_us in range(0, 2_000, 300):
                wall_us, ahead_s = began_us, ahead_us / 1e6
                clock = ClusterClock(lambda: ahead_s, lambda: wall_us * 1000)  # noqa: B023
                before = clock.now_ms()
                wall_us += passed_us
                ahead_s += 3600 - passed_us / 1e6
                assert clock.now_ms() == before + 3_600_000
