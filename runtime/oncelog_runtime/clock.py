"""The wall clock as a port: what records are stamped with. Never used for waiting or for order.

Rules: time-outs, leases and back-off use ``asyncio.get_running_loop().time()``, which the simulator
replaces; the wall clock may jump either way and differs from machine to machine, so nothing may
depend on it being right.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["SystemWallClock", "WallClock", "monotonic_s"]


class WallClock(Protocol):
    """What a component needs to know of the date."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. May go backwards."""
        ...


class SystemWallClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds of the clock that event loops go by, for a thread that has no loop. Processes only:
    in the core, time is the running loop's."""
    return time.monotonic()
