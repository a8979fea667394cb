"""A client knows whether any broker answers; ``health()`` and log lines say so.

Rules
-----
* A client is *silent* from the moment on at which it has no connection to any broker left: the last
  one broke, a request on it was not answered in time, or none could be opened.
* A broker that answers ends the silence, whichever it is and whatever it says.
* The log hears of a silence after a second, long before calls end by ``max_block_ms``, then ever
  more rarely, and once when it is over.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from oncelog.config import Address

logger = logging.getLogger(__name__)

SPEAK_S = 1.0
"""A silence is first logged when it has lasted this long."""

SPEAK_GROWTH = 4
SPEAK_MAX_S = 60.0
"""The next line comes when it has lasted four times as long, at most this many seconds later."""


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """A client knows this about its brokers at this moment, without asking anybody.

    What takes connections and does not answer is noticed when the client's own requests run out of
    time (``request_timeout_ms``), and what breaks connections at once.
    """

    silent_since_ms: int | None
    """No broker has answered since then (ms since 1970, wall clock); None while brokers answer."""
    silent_s: float
    """No broker has answered for so long, by a clock that is never set; 0.0 while they answer."""
    reasons: tuple[tuple[str, str], ...]
    """Each address ("host:port") that was tried since has a reason why it did not serve, sorted."""

    @property
    def ok(self) -> bool:
        """Return whether brokers answer."""
        return self.silent_since_ms is None


class Silence:
    """One client notes here since when no broker has answered."""

    def __init__(self, client_id: str) -> None:
        self.since: float | None = None
        """It is in the loop's time; None while brokers answer."""
        self._client_id = client_id
        self._reasons: dict[str, str] = {}
        self._speak_after_s = SPEAK_S

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """Return the addresses and their errors; see ``ClientHealth.reasons``."""
        return tuple(sorted(self._reasons.items()))

    def failed(self, address: Address, reason: str, *, none_left: bool) -> None:
        """Note that a broker did not answer. With ``none_left`` no other connection is open."""
        if self.since is None and none_left:
            self.since = asyncio.get_running_loop().time()
        if self.since is not None:
            self._reasons[str(address)] = reason

    def ended(self) -> None:
        """Note that a broker has answered."""
        if self.since is None:
            return
        if self._speak_after_s > SPEAK_S:
            lasted_s = asyncio.get_running_loop().time() - self.since
            logger.info("%s: brokers answer again, after %.1f s", self._client_id, lasted_s)
        self.forget()

    def forget(self) -> None:
        """Forget the silence, as the client was closed."""
        self.since = None
        self._reasons.clear()
        self._speak_after_s = SPEAK_S

    def speak(self) -> None:
        """Log a silence that has lasted long enough. Each attempt that found nobody calls this."""
        if self.since is None:
            return
        silent_s = asyncio.get_running_loop().time() - self.since
        if silent_s < self._speak_after_s:
            return
        self._speak_after_s = min(silent_s * SPEAK_GROWTH, silent_s + SPEAK_MAX_S)
        logger.warning(
            "%s: no broker has answered for %.1f s: %s",
            self._client_id,
            silent_s,
            "; ".join(f"{address}: {reason}" for address, reason in self.reasons),
        )

    def health(self, now_ms: int) -> ClientHealth:
        """Return the health as of now, which is ``now_ms`` by the wall clock."""
        if self.since is None:
            return ClientHealth(None, 0.0, ())
        silent_s = asyncio.get_running_loop().time() - self.since
        return ClientHealth(now_ms - round(silent_s * 1000), silent_s, self.reasons)
