"""Names of hosts are looked up one question at a time for each name, and the last answer is kept.

A loop looks names up in threads, and it has two or three of them for all names. A name server that
does not answer holds such a thread for 10 s: resolv.conf(5) asks twice, for 5 s each. Whoever asks
it again and again for the name of a dead host soon has all threads wait for that one name, and then
nobody gets a connection to a host that lives.

Rules:

- a name is asked for once at a time, however many wait for it;
- a name whose answer is known waits for a new one for ``PATIENCE_S`` at most: the known one serves
  then. A host that has moved is found as soon as the name server says so;
- an answer of the name server is believed, also that there is no such name: what was known is
  forgotten. That it cannot answer now (EAI_AGAIN) is no answer.

Another host may have got an address that is known. The handshake with a broker says who is there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

__all__ = ["KNOWN_MAX", "PATIENCE_S", "HostNames", "Lookup"]

PATIENCE_S = 0.05
"""A name server nearby answers in a few milliseconds; a failover must not wait for one that does
not."""
KNOWN_MAX = 1000
"""So many names are known at most; the one that was not used for longest is forgotten first."""

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""It returns the addresses of a host; it raises OSError as ``getaddrinfo`` does."""


class HostNames:
    """It knows the names that one party connects to.

    :param lookup: asks the name server; without it the running loop does.
    """

    def __init__(self, lookup: Lookup | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self._lookup = lookup or _ask_the_system
        self._patience_s = patience_s
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host, in the order in which to try them.

        :raises OSError: socket.gaierror: there is no such name, or nobody can say now.
        """
        if _is_address(host):
            return (host,)
        asking = self._asking.get(host)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._ask(host))
            asking.add_done_callback(_retrieve)
            self._asking[host] = asking
        known = self._known.get(host)
        if known is None:
            return await asyncio.shield(asking)
        self._known.move_to_end(host)
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.shield(asking)
        except TimeoutError:
            return known
        except socket.gaierror as error:
            if error.errno != socket.EAI_AGAIN:
                raise
            return known

    async def _ask(self, host: str) -> tuple[str, ...]:
        try:
            found = tuple(await self._lookup(host))
        except socket.gaierror as error:
            if error.errno != socket.EAI_AGAIN:
                self._known.pop(host, None)
            raise
        finally:
            del self._asking[host]
        self._known[host] = found
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found


def _retrieve(asking: asyncio.Task[tuple[str, ...]]) -> None:
    """Take the exception, or asyncio complains of it when all who waited have given up."""
    if not asking.cancelled():
        asking.exception()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _ask_the_system(host: str) -> Sequence[str]:
    found: list[Any] = await asyncio.get_running_loop().getaddrinfo(
        host, None, type=socket.SOCK_STREAM
    )
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
