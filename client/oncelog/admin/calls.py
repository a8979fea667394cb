"""Connections, coordinators, deadlines and the date are shared by the admin client's parts."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog.core.client import ClusterClient
from oncelog.core.coordinators import Coordinators, attempt_deadline
from oncelog.core.router import Failure, Router
from oncelog.errors import BrokerUnreachableError, ClientError, ClosedError
from oncelog_protocol.errors import ApiError, CoordinatorLoadInProgressError, error_for
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION
from oncelog_runtime.clock import WallClock

LOADING_S = 5.0
"""A broker that still loads what it coordinates is asked again for this long.

After that a list does without its answer.
"""


class AdminCalls(ClusterClient):
    """The admin client's parts share these ways to ask brokers and coordinators."""

    def __init__(self, router: Router, clock: WallClock | None) -> None:
        super().__init__(router, clock)
        self._coordinators = Coordinators(router)
        self._txn_coordinators = Coordinators(router, key_type=COORDINATOR_TRANSACTION)

    def _deadline(self, timeout_ms: int) -> float:
        """Return the loop's time at which a call with this ``timeout_ms`` ends.

        :raises ClosedError: the client is closed, or was not started.
        :raises WrongLoopError: it lives elsewhere.
        """
        self._router.home.check()
        if self._router.closed:
            raise ClosedError("the admin client is closed, or was not started")
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    def _left_ms(self, deadline: float) -> int:
        """Return the milliseconds until ``deadline``, at least 1: a late call gets one attempt."""
        left_s = deadline - asyncio.get_running_loop().time()
        return max(round(left_s * 1000), 1)

    async def _listed_by(
        self, broker_id: int, request: Request, deadline: float
    ) -> tuple[Any, ApiError | ClientError | None]:
        """Ask one broker what it coordinates, again while it loads.

        It returns the broker's answer (None without one), and the error that makes it incomplete.
        """
        loop = asyncio.get_running_loop()
        patience = min(deadline, loop.time() + LOADING_S)
        pace = self._router.new_backoff("loading")
        while True:
            try:
                response = await self._router.call_broker(
                    broker_id, request, attempt_deadline(deadline)
                )
            except Failure as error:
                if isinstance(error, ApiError | ClientError):
                    return None, error
                reason = str(error) or "did not answer in time"
                return None, BrokerUnreachableError(broker_id, "?", reason)
            error_code = response.error_code
            pause_s = pace.next_s()
            loading = error_code == CoordinatorLoadInProgressError.code
            if not loading or loop.time() + pause_s >= patience:
                return response, error_about(
                    error_code, f"broker {broker_id}"
                ) if error_code else None
            await asyncio.sleep(pause_s)


def error_about(code: int, name: str) -> ApiError:
    """Make the error of a code. Its text begins with ``name``, which the error is about."""
    error = error_for(code)
    return type(error)(f"{name}: {error}")


def txn_coordinators(admin: AdminCalls) -> Coordinators:
    """Return what finds coordinators of transactional ids over an admin client's connections."""
    return admin._txn_coordinators
