"""These settings of the console come from its command line and from the profile."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_cli.local.console import HOST, PORT

HISTORY_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The console is started with them; they do not change."""

    host: str = HOST
    port: int = PORT
    """0 takes a free one."""
    allow_changes: bool = False
    """Without it the routes that change something do not exist."""
    token: str | None = None
    """Whoever signs in without a user of the cluster shows this."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which browsers may call this server, beside those of the loopback address."""
    history_ms: int = HISTORY_MS
    """Figures of so long are kept for charts."""
    label: str = ""
    colour: str = ""
    """They make a band across every page, so that nobody takes one cluster for another."""
    profile: str = ""
    """Commands that pages name have it as ``--profile``; "" is the one in use."""
