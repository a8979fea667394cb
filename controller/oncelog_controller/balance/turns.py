"""Work is counted here, so that whoever runs the planner on a loop can let others in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

UNITS_A_TURN = 600
"""A unit is a glance at a candidate, of half a microsecond to two. A turn takes about a
millisecond."""
FULL_LOOK = 8
"""So many units are what it costs to ask all measures about a change."""

T = TypeVar("T")
Work = Generator[None, None, T]
"""It yields after each turn, and returns a T when it is done."""


class Turns:
    """It counts units of work."""

    def __init__(self) -> None:
        self._units = 0

    def over(self, units: int = 1) -> bool:
        """Count some work, and return whether it is time to yield."""
        self._units += units
        if self._units < UNITS_A_TURN:
            return False
        self._units = 0
        return True


def finish(work: Work[T]) -> T:
    """Do all of the work at once, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: T = stop.value
            return result
