"""A client belongs to one event loop of one process.

Rules: a client is used where it was started. Its tasks and connections belong to that loop; a call
from another loop, another thread or a forked process would wait for what nobody there will do. It
is refused at once, and the error names the cause. Synchronous calls while the loop stands still
harm nothing and are taken. On the path of single records, where a batch is open, the thread's id
stands for the check: another thread could add to a batch that is being closed. Another loop of the
same thread cannot, and ``get_running_loop()`` would take half as long as all else of a record: what
slips by there, or after a fork, is refused at the next batch and where the delivery is awaited.
"""

from __future__ import annotations

import asyncio
import os
from threading import get_ident as thread_id

from oncelog.errors import WrongLoopError

__all__ = ["Home", "forked", "running_loop", "thread_id"]

BLOCKING_HINT = "oncelog.blocking has clients for threads"


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop; None where none runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def forked(process: int) -> WrongLoopError:
    """Make the error for a client made in ``process`` (its id) and used in another one."""
    return WrongLoopError(
        f"the client was started in process {process} and is used in process {os.getpid()}, after"
        " a fork: make a client in each process"
    )


class Home:
    """A client belongs to one loop of one process. Until ``settle`` it belongs to none."""

    __slots__ = ("_loop", "_process")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def settle(self) -> None:
        """Live on the running loop from now on."""
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()

    def leave(self) -> None:
        """Live nowhere: what is closed may be closed again from anywhere."""
        self._loop = None

    def check(self) -> None:
        """Raise WrongLoopError on another loop, in another thread, or in a forked process."""
        if self._loop is None:
            return
        here = running_loop()
        if here is self._loop:
            return
        if os.getpid() != self._process:
            raise forked(self._process)
        if self._loop.is_closed():
            raise WrongLoopError(
                "the event loop that the client was started on is closed: start and close a client"
                " within one asyncio.run()"
            )
        if here is not None:
            raise WrongLoopError(
                "the client was started on another event loop: use it there, or make one for each"
                f" loop ({BLOCKING_HINT})"
            )
        if self._loop.is_running():
            raise WrongLoopError(
                "the client is used from another thread than that of its event loop: use"
                f" asyncio.run_coroutine_threadsafe ({BLOCKING_HINT})"
            )
