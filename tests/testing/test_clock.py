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
