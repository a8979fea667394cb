"""It has what commands with ``--watch`` share: their options, and the loop of looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

from oncelog_cli import clients, typed
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.options import parsed

if TYPE_CHECKING:
    from oncelog import Admin

T = TypeVar("T")

WatchOption = Annotated[bool, typed.Option("--watch", "-w", help="Look again and again.")]
IntervalOption = Annotated[
    str, typed.Option("--interval", metavar="DURATION", help="With --watch: between two looks.")
]
INTERVAL = "2s"


def seconds_of(option: str, text: str) -> float:
    """Return the seconds of an option that is a duration; 0.001 at least.

    :raises UsageError: it is none.
    """
    return max(parsed(option, duration_ms, text), 1) / 1000


def moment() -> str:
    """Return the time that a line of a watching command begins with, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def look_again(
    servers: str,
    look: Callable[[Admin], Awaitable[T]],
    seen: Callable[[T | Exception], bool],
    pause_s: float,
    limit_s: float | None = None,
) -> None:
    """Look until ``seen`` has seen enough, or time is up.

    :param seen: gets what a look has found, or why there is nothing: a cluster that does not answer
        may yet come. It returns whether that is enough.
    """
    import asyncio

    from oncelog import OncelogError

    loop = asyncio.get_running_loop()
    ends_s = None if limit_s is None else loop.time() + limit_s
    while True:
        found: T | Exception
        try:
            async with clients.admin(servers) as admin:
                found = await look(admin)
        except (OncelogError, OSError) as error:
            found = error
        if seen(found) or (ends_s is not None and loop.time() + pause_s > ends_s):
            return
        await asyncio.sleep(pause_s)
