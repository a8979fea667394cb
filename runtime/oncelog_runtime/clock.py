"""The wall clock is a port, and it stamps records. Never used for waiting or for order.

Rules: time-outs, leases and back-off use ``asyncio.get_running_loop().time()``, which the simulator
replaces; the wall clock may jump either way and differs from machine to machine, so nothing may
depend on it being right.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["NOT_YET_MS", "CautiousClock", "SystemWallClock", "WallClock", "monotonic_s"]


class WallClock(Protocol):
    """This port tells a component the date."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC. May go backwards."""
        ...


NOT_YET_MS = 2**62
"""It is later than all times: that of something of which the time is not known yet."""


class CautiousClock(WallClock, Protocol):
    """This port is a wall clock that knows how far it may be wrong; see ``checked_clock``."""

    def expiry_ms(self) -> int:
        """Return the time that it surely is: what is too old by it may be deleted. 0: nobody
        knows."""
        ...

    def latest_ms(self) -> int:
        """Return the time that it may be already: what lies beyond it comes from the future."""
        ...

    def stamp_of(self, latest_ms: int) -> int:
        """Return the time to note for something that happens or is found now, at ``latest_ms``.

        It is ``NOT_YET_MS`` while nobody knows the time: who has noted that notes the time when it
        is known.
        """
        ...


class SystemWallClock:
    """It reads the machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Return the seconds of the clock that event loops go by, for a thread that has no loop.
    Processes only: in the core, time is the running loop's."""
    return time.monotonic()
