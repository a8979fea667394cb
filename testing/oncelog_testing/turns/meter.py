"""This loop knows how long its turns are: what its thread's CPU clock says between two waits.

CPU time, for a machine that has more to do than it can makes every turn long on the wall's clock.
The loop is the standard one; a broker's loop in C has shorter turns, with the same calls in them.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["BOUND_MS", "TurnMeter", "measured"]

BOUND_MS = 50.0
"""No operation's turn may be longer than this."""


class TurnMeter(selectors.DefaultSelector):
    """The selector of a loop: a turn is what happens between two of its waits."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = time.thread_time()
        self._longest_s = self._total_s = 0.0
        self.longest_ms: dict[str, float] = {}
        """Of each operation so far."""
        self.total_s: dict[str, float] = {}
        """The CPU seconds that each operation took the last time."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, between two turns."""
        self._turn_ends()
        try:
            return super().select(timeout)
        finally:
            self._began_s = time.thread_time()

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Count what happens on the loop meanwhile as this operation, the turns that begin and end
        it as far as they are part of it. Nothing else may run."""
        gc.collect()
        self._longest_s = self._total_s = 0.0
        self._began_s = time.thread_time()
        yield
        self._turn_ends()
        longest_ms = round(self._longest_s * 1000, 1)
        self.longest_ms[name] = max(longest_ms, self.longest_ms.get(name, 0.0))
        self.total_s[name] = round(self._total_s, 3)

    def _turn_ends(self) -> None:
        turn_s = time.thread_time() - self._began_s
        self._longest_s = max(self._longest_s, turn_s)
        self._total_s += turn_s


def measured(meter: TurnMeter, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` on a loop of its own that ``meter`` measures."""
    # As a broker does: see its ``__main__``.
    gc.set_threshold(20_000, 125, 100)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(meter)) as runner:
        runner.run(work)
