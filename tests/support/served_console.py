"""Consoles serve on a port of this machine, for browsers that are real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from oncelog_cli.local.console import HOST
from oncelog_console.app import ConsoleApp
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.settings import ConsoleSettings
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SystemEntropy
from oncelog_runtime.http_port import HttpPort

__all__ = ["Served", "served_console"]


@dataclass(frozen=True)
class Served:
    """A console is there for browsers."""

    console: Console
    origin: str


@asynccontextmanager
async def served_console(
    servers: str, *, changes: bool = True, settings: ConsoleSettings | None = None
) -> AsyncIterator[Served]:
    """Start a console of the cluster at these addresses, which has looked at its topics once.

    :param changes: whether it may change the cluster.
    """
    chosen = replace(settings or ConsoleSettings(), port=0, allow_changes=changes)
    clock, entropy = SystemWallClock(), SystemEntropy()
    async with Console(ClusterClients(servers), chosen, clock, entropy) as console:
        http = HttpPort(ConsoleApp(console, lambda: http.address[1]), headers=())
        await http.start(HOST, 0)
        try:
            known = console.poller
            assert await known.until(lambda seen: seen.status is not None, 15.0), known.seen
            yield Served(console, "http://{}:{}".format(*http.address))
        finally:
            await http.close()
