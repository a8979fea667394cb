"""Tests wait for a condition with a deadline, instead of sleeping for luck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from oncelog_testing.machines import NotRunningError

__all__ = ["at_once", "eventually", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


async def eventually(
    condition: Callable[[], object], *, timeout_s: float = 15.0, what: str = ""
) -> None:
    """Return as soon as the condition holds; fail the test after ``timeout_s`` seconds.

    A condition that asks a cluster while nobody is its controller does not hold yet. Any other
    exception of the condition is not caught. The first rounds only yield to the loop, so that what
    needs no real time costs none.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    pause_s = 0.0
    while not _holds(condition):
        if loop.time() >= deadline:
            name = what or getattr(condition, "__name__", "condition")
            raise AssertionError(f"{name} did not hold within {timeout_s} s")
        await asyncio.sleep(pause_s)
        pause_s = min(0.02, pause_s + 0.001)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except NotRunningError:
        return False


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that has nothing to wait for, without a loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise AssertionError(f"{work} waits")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function in a thread; who is cancelled meanwhile leaves when it has ended.

    With ``asyncio.to_thread`` it would go on unseen: a broker that a cancelled task was stopping
    would end under the hands of whoever repairs the cluster next.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise
