"""Growing, jittered pauses between attempts. Pure, but for the chance that is handed in.

The pauses grow by 1.3 each: whatever one waits for, it is noticed at most about a third later than
it happened, counted from the first attempt. Kafka doubles, and so notices up to twice as late; a
third more requests in the first second are cheap, a failover that ends and is not seen is not.
"""

from __future__ import annotations

from oncelog_runtime.entropy import Entropy

GROWTH = 1.3
JITTER = 0.2
"""Each pause is taken from 1 - JITTER to 1 + JITTER times its nominal length (KIP-580)."""


class Backoff:
    """A back-off is one series of pauses; call ``reset`` after a success."""

    __slots__ = ("_entropy", "_first_s", "_max_s", "_next_s")

    def __init__(self, first_s: float, max_s: float, entropy: Entropy) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s
        self._entropy = entropy

    def next_s(self) -> float:
        """Return the pause before the next attempt, in seconds."""
        nominal = self._next_s
        self._next_s = min(nominal * GROWTH, self._max_s)
        return nominal * (1 - JITTER + 2 * JITTER * self._entropy.random())

    def reset(self) -> None:
        """Begin the series again with its first pause."""
        self._next_s = self._first_s
