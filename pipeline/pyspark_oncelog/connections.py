"""All clients of this process live on one event loop in one thread, made when it is needed.

Rules
-----
* Spark calls from several short-lived objects in a process that lives on; what is worth keeping
  (connections, metadata) is kept here, by key, and found again by the next object.
* A process that was forked keeps nothing of its parent's: its threads are not there. Nothing is
  closed when a process ends: Spark kills them, and the brokers see the connections go.
* Every call has a deadline, and says what it waited for when it is over.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from oncelog import Admin
from oncelog.errors import DeadlineExceededError
from oncelog.loop_thread import LoopThread

if TYPE_CHECKING:
    from oncelog import Security
    from pyspark_oncelog.security_options import SecurityOptions

T = TypeVar("T")

GRACE_S = 15.0
"""This time comes on top of the clients' own deadlines, for these name better what is wrong."""

SAID_MAX = 1000
"""Texts that are remembered: names of fields may come from anybody, as parts of paths."""

DEADLINE_S = 60.0
"""The deadline of calls that are told no other; the clients' own deadlines are shorter or equal."""


class ProcessConnections:
    """One process has this loop, and these objects live on it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._thread = LoopThread("oncelog-spark")
        self._kept: dict[Any, asyncio.Future[Any]] = {}
        self._said: set[str] = set()

    def once(self, text: str) -> bool:
        """Return whether nobody has asked for this text before: for what is to be logged once."""
        new = text not in self._said and len(self._said) < SAID_MAX
        if new:
            self._said.add(text)
        return new

    def stop(self) -> None:
        """Close what is kept, and end the loop. Spark never asks for it; tests do."""

        async def close_all() -> None:
            made = await asyncio.gather(*self._kept.values(), return_exceptions=True)
            self._kept.clear()
            for each in made:
                if hasattr(each, "close"):
                    await each.close()

        self._thread.call(close_all(), DEADLINE_S)
        self._thread.stop()


_here: list[ProcessConnections] = []


def here() -> ProcessConnections:
    """Return the connections of this process."""
    if not _here or _here[0].pid != os.getpid():
        _here[:] = [ProcessConnections()]
    return _here[0]


def call(
    function: Callable[..., Coroutine[Any, Any, T]], *args: Any, timeout_s: float = DEADLINE_S
) -> T:
    """Run the coroutine ``function(*args)`` on the process's loop and wait for its result.

    :raises DeadlineExceededError: no result within ``timeout_s`` seconds.
    """
    try:
        return here()._thread.call(function(*args), timeout_s)
    except TimeoutError as error:
        if isinstance(error, DeadlineExceededError):
            raise
        name = getattr(function, "__qualname__", repr(function))
        raise DeadlineExceededError(
            f"{name}: no answer within {timeout_s:g} s", definite=False
        ) from error


def submit(coro: Coroutine[Any, Any, T]) -> Future[T]:
    """Run ``coro`` on the process's loop without waiting; what was submitted first runs first."""
    return here()._thread.submit(coro)


async def keep(key: Any, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the object that this process keeps by ``key``; call it on the loop.

    If there is none, ``make`` makes it, once however many ask.
    """
    kept = here()._kept
    making = kept.get(key)
    if making is None:
        making = kept[key] = asyncio.ensure_future(make())

        def made(making: asyncio.Future[Any]) -> None:
            failed = making.cancelled() or making.exception() is not None
            if failed and kept.get(key) is making:
                del kept[key]

        making.add_done_callback(made)
    return cast(T, await asyncio.shield(making))


def forget(key: Any) -> Any:
    """Keep ``key`` no more; return what was kept, or None if nothing was, or it is not made yet."""
    making = here()._kept.pop(key, None)
    if making is None or not making.done() or making.cancelled() or making.exception():
        return None
    return making.result()


class ClusterOptions(Protocol):
    """It names a cluster, and holds what secures the connections to it."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the brokers' addresses."""
        ...

    @property
    def security(self) -> SecurityOptions | None:
        """Return how connections are secured, without secrets."""
        ...


def security_of(options: ClusterOptions) -> Security | None:
    """Return how a client of this process connects.

    :raises OptionError: a file or a variable is missing here.
    """
    return None if options.security is None else options.security.here()


async def started_admin(options: ClusterOptions) -> Admin:
    """Return the admin client of a cluster; call it on the loop.

    :raises NoBrokersAvailableError: nobody answers; the next call tries again.
    :raises OptionError: a file or a variable of security is missing here.
    """

    async def make() -> Admin:
        security = security_of(options)
        admin = Admin(options.bootstrap_servers, client_id="oncelog-spark", security=security)
        await admin.start()
        return admin

    return await keep(("admin", options.bootstrap_servers, options.security), make)
