"""Large requests wait here while the keys of their records are looked at.

Rules
-----
* One turn of the loop does :data:`WORK_A_TURN`, for all requests together, and others get their
  turns in between.
* Each request that waits gets every n-th turn: one that has much to be looked at keeps no other one
  back.
* A request whose connection has gone is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from oncelog_broker.log.key_check import KeyCheck
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

WORK_A_TURN: Final = 2048
"""So many records are looked at in one turn of the loop, or 512 KiB decompressed: a few
milliseconds."""


def step_all(checks: Iterable[KeyCheck]) -> bool:
    """Go on with checks for one turn, one after the other; return whether all are done."""
    work = WORK_A_TURN
    for check in checks:
        if not check.done:
            work = check.step(work)
            if not check.done:
                return False
    return True


@dataclass(slots=True, eq=False)
class WaitingRequest:
    """It is called back once: ``then`` when its checks are done, or ``failed`` after a bug; never
    when it ``is_gone``."""

    checks: list[KeyCheck]
    is_gone: Callable[[], bool]
    then: Callable[[], None]
    failed: Callable[[], None]


class KeyCheckQueue:
    """It goes on with the checks of a broker, a little in each turn of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingRequest] = deque()

    def add(self, request: WaitingRequest) -> None:
        """Go on with one more request from the next turn on."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append(request)

    def _turn(self) -> None:
        request = self._waiting[0]
        try:
            done = request.is_gone() or step_all(request.checks)
            if done and not request.is_gone():
                request.then()
        except Exception:
            logger.exception("key_check_failed")
            done = True
            request.failed()
        self._waiting.popleft()
        if not done:
            self._waiting.append(request)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
