"""The rules of security without which somebody does what it may not are methods here.

Each is the safe decision, and the only one that the product has: it returns what it is told, as it
stands. Tests hand in others, to see that the harm is noticed: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Callable


class SecuritySafeguards:
    """It decides for what a broker serves."""

    __slots__ = ()

    def believes(self, proven: bool) -> bool:
        """Return whether a peer is taken for the broker that it names: only if it has proved to be
        that one [S20]."""
        return proven

    def asked_again(self, allowed: Callable[[str], bool]) -> Callable[[str], bool]:
        """Return what says to a fetch that waits whether it may read a topic: it is asked each time
        that the fetch looks, since the right may be gone by then [S21]."""
        return allowed

    def ends(self, changed: frozenset[str]) -> frozenset[str]:
        """Return the users whose connections end: all that have changed, as they have authenticated
        by what may be gone [S22]."""
        return changed

    def refuses_clients(self, stale: bool) -> bool:
        """Return whether clients are refused: while a broker cannot know what was revoked [S23]."""
        return stale

    def leaves_out(self, older: bool) -> bool:
        """Return whether what the controller tells is left out: all that is not newer than what is
        known, since what was revoked later would be back [S24]."""
        return older


SAFE = SecuritySafeguards()
"""A broker serves with these."""
