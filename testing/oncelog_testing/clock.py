"""A cluster for tests has a wall clock: the machine's, and what ``advance`` added."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["ClusterClock"]


class ClusterClock:
    """It is a ``WallClock`` that goes with a cluster's loop. Give it to clients whose records
    should be stamped by it: ``Producer(..., clock=cluster.clock)``. May be read from any thread.

    :param ahead_s: the seconds that were added.
    :param wall_ns: the machine's clock, in nanoseconds since 1970-01-01 UTC.
    """

    def __init__(
        self, ahead_s: Callable[[], float], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._ahead_s = ahead_s
        self._wall_ns = wall_ns

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        # Added before it is cut: an hour that passes shows as an hour, and not as one less 1 ms.
        return (self._wall_ns() + round(self._ahead_s() * 1e9)) // 1_000_000
