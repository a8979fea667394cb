"""Work of a log directory that is too much for one turn of the loop is done a piece a turn.

Rules: one piece of all that is in line is done in a turn, of one work after the other, so that many
logs that have much to do hold nobody up. A piece takes some milliseconds at most. Work ends when it
says so; a caller that has no loop does all of it at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from oncelog_runtime.structured_logging import get_logger

__all__ = ["Slices", "Work"]

logger = get_logger(__name__)

Work = Callable[[], bool]
"""It does one piece, and returns whether there is more to do. It raises nothing."""


class Slices:
    """It keeps the works of one directory."""

    def __init__(self) -> None:
        self._works: deque[Work] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        """Return how many works have not ended."""
        return len(self._works)

    def add(self, work: Work) -> bool:
        """Have ``work`` done in later turns; return False where there is none, without a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        self._works.append(work)
        self._schedule(loop)
        return True

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled = False
        work = self._works.popleft()
        try:
            if work():
                self._works.append(work)
        except Exception:
            logger.exception("slice_failed")
        if self._works:
            self._schedule(loop)
