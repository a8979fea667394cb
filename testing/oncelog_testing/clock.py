"""A cluster for tests has a wall clock: the machine's, and what ``advance`` added."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_runtime.clock import SystemWallClock

__all__ = ["ClusterClock"]


class ClusterClock:
    """It is a ``WallClock`` that goes with a cluster's loop. Give it to clients whose records
    should be stamped by it: ``Producer(..., clock=cluster.clock)``. May be read from any thread."""

    def __init__(self, ahead_s: Callable[[], float]) -> None:
        self._machine = SystemWallClock()
        self._ahead_s = ahead_s

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return self._machine.now_ms() + int(self._ahead_s() * 1000)
