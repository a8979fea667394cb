"""Functions that block get threads here: so many, for one owner, and gone with it.

Rules: nothing of the owner's is touched from a thread; it only gets a call's arguments and gives
back what the call returned or raised. A call that has begun cannot be stopped: whoever waits for it
may stop waiting, and ``close`` leaves it behind. A simulated loop has no threads and refuses these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")


class Threads:
    """It has at most ``count`` threads; each is started when it is first needed."""

    __slots__ = ("_pool",)

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, name)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return what ``function(*args)`` returns, run in a thread; it waits for a free one.

        :raises RuntimeError: the function raised StopIteration, which a coroutine cannot.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _guarded, function, args)

    def close(self) -> None:
        """Take no more calls. Those that have begun go on; those in line are forgotten."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _guarded(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    try:
        return function(*args)
    except StopIteration as error:
        # A future refuses it (before CPython 3.12 without a word): its waiter would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error
