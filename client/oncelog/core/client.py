"""Producer, consumer and admin have this in common as clients of the cluster."""

from __future__ import annotations

from oncelog.core.health import ClientHealth
from oncelog.core.router import Router
from oncelog.errors import ClosedError
from oncelog_runtime.clock import SystemWallClock, WallClock


class ClusterClient:
    """A client sees the cluster through a router, and stamps by a wall clock."""

    def __init__(self, router: Router, clock: WallClock | None) -> None:
        self._router = router
        self._clock = clock or SystemWallClock()

    def health(self) -> ClientHealth:
        """Return whether brokers answer, and if not, since when none does: at once, without asking.

        :raises ClosedError: the client is not started, closed, or has failed in the background.
        """
        router = self._router
        router.raise_if_failed()
        if router.closed:
            raise ClosedError("the client is not started, or it is closed")
        return router.connections.silence.health(self._clock.now_ms())
