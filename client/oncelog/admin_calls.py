"""What the parts of the admin client share: connections, coordinators, deadlines, the date."""

from __future__ import annotations

import asyncio

from oncelog.coordinators import Coordinators
from oncelog.errors import ClosedError
from oncelog.router import Router
from oncelog_runtime.clock import WallClock


class AdminCalls:
    """Base of the parts; ``Admin`` sets the attributes."""

    _router: Router
    _coordinators: Coordinators
    """Of groups."""
    _txn_coordinators: Coordinators
    """Of transactional ids."""
    _clock: WallClock

    def _deadline(self, timeout_ms: int) -> float:
        """In the loop's time.

        :raises ClosedError: the client is closed, or was not started.
        """
        if self._router.closed:
            raise ClosedError("the admin client is closed, or was not started")
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    def _left_ms(self, deadline: float) -> int:
        """What is left of it, at least 1 ms: a call that is due gets one attempt."""
        left_s = deadline - asyncio.get_running_loop().time()
        return max(round(left_s * 1000), 1)
