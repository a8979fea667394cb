"""The wall clock counts milliseconds since 1970."""

from __future__ import annotations

import time

from oncelog_runtime.clock import SystemWallClock, WallClock
from support.clock import ManualClock


def test_system_clock_is_the_date_in_milliseconds() -> None:
    before = int(time.time() * 1000) - 1
    now_ms = SystemWallClock().now_ms()
    assert before <= now_ms <= int(time.time() * 1000) + 1


def test_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(1000)
    port: WallClock = clock
    assert port.now_ms() == 1000
    clock.advance(250)
    assert port.now_ms() == 1250
    clock.set(10)
    assert port.now_ms() == 10
