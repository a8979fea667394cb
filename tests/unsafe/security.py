"""Security lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from oncelog_broker.server.safeguards import SecuritySafeguards


class NamesBelieved(SecuritySafeguards):
    """Whoever says that it is a broker is taken for that one."""

    def believes(self, proven: bool) -> bool:
        """Believe it."""
        return True


class AskedOnce(SecuritySafeguards):
    """It lets a fetch that waits read what it might when it came."""

    def asked_again(self, allowed: Callable[[str], bool]) -> Callable[[str], bool]:
        """Return what remembers the first answer."""
        return cache(allowed)


class ConnectionsStay(SecuritySafeguards):
    """Who has authenticated stays who it is, whatever became of its password."""

    def ends(self, changed: frozenset[str]) -> frozenset[str]:
        """Return nobody."""
        return frozenset()


class ServesStale(SecuritySafeguards):
    """A broker that cannot know what was revoked goes on."""

    def refuses_clients(self, stale: bool) -> bool:
        """Refuse nobody."""
        return False


class OrdersInAnyOrder(SecuritySafeguards):
    """It takes what the controller tells, whatever is known."""

    def leaves_out(self, older: bool) -> bool:
        """Leave nothing out."""
        return False


UNSAFE: dict[str, SecuritySafeguards] = {
    "bind_broker_id": NamesBelieved(),
    "recheck_parked": AskedOnce(),
    "close_revoked": ConnectionsStay(),
    "stop_when_stale": ServesStale(),
    "newer_version_only": OrdersInAnyOrder(),
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> SecuritySafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]
