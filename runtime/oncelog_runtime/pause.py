"""Loops rest between two rounds in a sleep that ends early when something has changed."""

from __future__ import annotations

import asyncio


class Pause:
    """A pause belongs to one loop. ``end`` may be called at any time: what is called while nobody
    sleeps ends the next sleep at once, so that no change is slept through."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def sleep(self, seconds: float | None) -> None:
        """Wait until ``end`` is called, or for so long; None is for ever."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            pass
        self._ended.clear()

    def end(self) -> None:
        """Wake the loop."""
        self._ended.set()
