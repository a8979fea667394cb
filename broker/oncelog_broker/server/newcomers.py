"""The number of peers that are not known yet is bounded, and so is how many come in a second.

Rules
-----
* A newcomer has been accepted and not yet been greeted; where peers must authenticate, it has not
  done that. While there are too many, of one address or of all, the oldest goes: who speaks at
  once is known long before it is the oldest.
* Nobody goes within ``GRACE_S``: of many who come in one round of the loop, all may have spoken
  and none been heard yet. What comes in that time is bounded by the rates.
* Rates are token buckets: after a rest ``BURST_S`` seconds' worth may come at once (KIP-612).
* Loopback addresses have no bounds of their own. Behind a proxy on the same machine everybody has
  the same one, and who can connect from there can do worse to the broker. What is bounded for the
  whole listener is bounded for them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

GRACE_S = 0.1
"""A newcomer is left so long in any case."""

BURST_S = 4.0
"""As many connections as the rate allows in this time may come at once."""

ADDRESSES_MAX = 4096
"""The rates of so many addresses are remembered; beyond it the one that was quiet longest is
forgotten. Whoever has more addresses is bounded by the rate of the listener."""

PER_IP_MAX = 32
"""One address may have so many newcomers at a time."""


@dataclass(slots=True, kw_only=True)
class NewcomerLimits:
    """These are the bounds of one listener for peers that are not known yet. They may change while
    the broker runs."""

    newcomers_max: int
    newcomers_per_ip_max: int
    rate_max: int
    """So many connections may come in a second, in the long run."""
    rate_per_ip_max: int
    """So many of them may come from one address."""


def between_brokers() -> NewcomerLimits:
    """Return the bounds of the listener between brokers. They are not those of the settings: what
    holds clients back must not keep brokers from each other when a whole cluster starts."""
    return NewcomerLimits(
        newcomers_max=2000, newcomers_per_ip_max=500, rate_max=3000, rate_per_ip_max=500
    )


def is_loopback(host: str) -> bool:
    """Return whether an address is one that only this machine can reach."""
    return host.removeprefix("::ffff:").startswith("127.") or host == "::1"


class Newcomer(Protocol):
    """A connection is seen by this here."""

    peer_host: str


M = TypeVar("M", bound=Newcomer)


class ArrivalRates:
    """It says whether one more may come, by a token bucket for each key."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        # The bucket of a key would be full again then; those that were asked about last are last.
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, rate_max: int, now: float) -> bool:
        """Return whether one more may come at ``now``, in seconds of the loop's time; if so it is
        counted."""
        full_at = max(self._full_at.pop(key, now), now)
        step = 1 / rate_max
        allowed = full_at - now < BURST_S - step / 2
        self._full_at[key] = full_at + step if allowed else full_at
        if len(self._full_at) > self._keys_max:
            del self._full_at[next(iter(self._full_at))]
        return allowed


class Newcomers(Generic[M]):
    """It keeps the newcomers of one listener, the oldest first, and the rates at which they
    come."""

    def __init__(self, limits: NewcomerLimits) -> None:
        self._limits = limits
        # The values are when they came, in seconds of the loop's time.
        self._members: dict[M, float] = {}
        self._by_host: dict[str, dict[M, float]] = {}
        self._rate = ArrivalRates(1)
        self._rates = ArrivalRates(ADDRESSES_MAX)

    def __len__(self) -> int:
        return len(self._members)

    def over_rate(self, host: str, now: float) -> str:
        """Return why one more connection of this address may not come at ``now``; "" if it may, and
        then it is counted."""
        limits = self._limits
        if not is_loopback(host) and not self._rates.take(host, limits.rate_per_ip_max, now):
            return f"more than {limits.rate_per_ip_max} connections a second of this host"
        if not self._rate.take("", limits.rate_max, now):
            return f"more than {limits.rate_max} connections a second"
        return ""

    def add(self, member: M, now: float) -> list[tuple[M, str]]:
        """Take in a newcomer at ``now``; return those that have to go for it, and why."""
        host = member.peer_host
        self._by_host.setdefault(host, {})[member] = now
        self._members[member] = now
        return self._crowded_out((host,), now)

    def crowded_out(self, now: float) -> list[tuple[M, str]]:
        """Return those that have to go at ``now``, and why; they are forgotten here."""
        return self._crowded_out(list(self._by_host), now)

    def _crowded_out(self, hosts: Iterable[str], now: float) -> list[tuple[M, str]]:
        limits = self._limits
        gone: list[tuple[M, str]] = []
        for host in hosts:
            if not is_loopback(host):
                whose = f"{limits.newcomers_per_ip_max} connections of this host have"
                gone += self._oldest(self._by_host[host], limits.newcomers_per_ip_max, whose, now)
        whose = f"{limits.newcomers_max} connections have"
        return gone + self._oldest(self._members, limits.newcomers_max, whose, now)

    def _oldest(
        self, members: Mapping[M, float], count_max: int, whose: str, now: float
    ) -> list[tuple[M, str]]:
        gone: list[tuple[M, str]] = []
        while len(members) > count_max:
            member, since = next(iter(members.items()))
            if now - since < GRACE_S:
                break
            self.remove(member)
            gone.append((member, f"{whose} not said hello, and this was the oldest"))
        return gone

    def remove(self, member: M) -> None:
        """Forget a newcomer, which is known now, or gone."""
        if member not in self._members:
            return
        del self._members[member]
        of_host = self._by_host[member.peer_host]
        del of_host[member]
        if not of_host:
            del self._by_host[member.peer_host]
