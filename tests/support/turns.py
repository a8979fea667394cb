"""Others get turns while something large is done on the loop."""

from __future__ import annotations

import asyncio
from collections import Counter


class Turns:
    """It counts the turns of the loop while it is open."""

    def __init__(self) -> None:
        self.count = 0
        self._noted: Counter[int] = Counter()

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(0)  # so that it counts the very next one
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    def note(self, count: int = 1) -> None:
        """So much was done in this turn."""
        self._noted[self.count] += count

    @property
    def noted(self) -> int:
        """Return what was done in all turns."""
        return self._noted.total()

    @property
    def most_in_one(self) -> int:
        """Return what was done in the turn in which most was."""
        return max(self._noted.values(), default=0)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1
