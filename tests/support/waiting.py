"""Waiting for a condition with a deadline: what tests do instead of sleeping for luck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["eventually"]


async def eventually(
    condition: Callable[[], object], *, timeout_s: float = 5.0, what: str = ""
) -> None:
    """Return as soon as the condition holds; fail the test after ``timeout_s`` seconds.

    An exception of the condition is not caught. The first rounds only yield to the loop, so that
    what needs no real time costs none.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    pause_s = 0.0
    while not condition():
        if loop.time() >= deadline:
            name = what or getattr(condition, "__name__", "condition")
            raise AssertionError(f"{name} did not hold within {timeout_s} s")
        await asyncio.sleep(pause_s)
        pause_s = min(0.02, pause_s + 0.001)
