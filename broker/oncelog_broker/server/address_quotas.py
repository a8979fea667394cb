"""Connections are counted here by their address, for all listeners of clients.

Rules
-----
* Both quotas hold before anybody is known, so they are of addresses, whoever speaks from there. The
  listener between brokers is not counted: brokers and the controller have no quotas.
* A quota that names the address counts, else the default. The default is not of loopback
  addresses, so that nobody can lock out whoever sits at the machine.
* A rate is a token bucket with what may come in one second. ``connections`` is compared with what
  is open: a lower quota closes nothing, and lets nothing new in.
* There are ``BUCKETS_MAX`` buckets at most; beyond, the one that was idle for longest goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from oncelog_broker.server.client_quotas import BUCKETS_MAX, TokenBucket
from oncelog_broker.server.newcomers import is_loopback
from oncelog_protocol.acls import peer_address
from oncelog_protocol.quotas import (
    ADDRESS_QUOTA_KEYS,
    CONNECTION_CREATION_RATE,
    CONNECTIONS,
    DEFAULT_ENTITY,
    QuotaEntity,
)


class AddressQuotas:
    """It counts the connections of addresses."""

    def __init__(self) -> None:
        self._quotas: dict[tuple[str, str], float] = {}
        """The values by key and address."""
        self._open: dict[str, int] = {}
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    @property
    def bucket_count(self) -> int:
        """Return how many addresses have a bucket."""
        return len(self._buckets)

    def take(self, changes: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Count from now on by all quotas of each of these entities, and for others as before;
        those of no address are left out."""
        for entity, values in changes.items():
            if entity.address is None:
                continue
            for key in ADDRESS_QUOTA_KEYS:
                if key in values:
                    self._quotas[key, entity.address] = values[key]
                else:
                    self._quotas.pop((key, entity.address), None)

    def over_count(self, host: str) -> str:
        """Return why the peer at ``host`` may have no further connection; "" if it may."""
        count_max = self._quota(CONNECTIONS, host)
        if count_max is None or self._open.get(_spelled(host), 0) + 1 <= count_max:
            return ""
        return f"the quota connections of this address is {count_max:g}"

    def over_rate(self, host: str, now: float) -> str:
        """Return why the peer at ``host`` may not connect at ``now``, in seconds of the loop; "" if
        it may, and then it is counted."""
        rate = self._quota(CONNECTION_CREATION_RATE, host)
        if rate is None:
            return ""
        bucket = self._bucket(_spelled(host), rate, now)
        if not rate or bucket.fill(now) < min(1, rate):
            return f"the quota connection_creation_rate of this address is {rate:g} a second"
        bucket.take(1, now)
        return ""

    def opened(self, host: str) -> None:
        """Note that a connection of the peer at ``host`` is open."""
        address = _spelled(host)
        self._open[address] = self._open.get(address, 0) + 1

    def closed(self, host: str) -> None:
        """Note that one of them is gone."""
        address = _spelled(host)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def _quota(self, key: str, host: str) -> float | None:
        if not self._quotas:
            return None
        named = self._quotas.get((key, _spelled(host)))
        if named is not None or is_loopback(host):
            return named
        return self._quotas.get((key, DEFAULT_ENTITY))

    def _bucket(self, address: str, rate: float, now: float) -> TokenBucket:
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = TokenBucket(rate, now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(address)
        if bucket.rate != rate:
            bucket.change(rate, now)
        return bucket


def _spelled(host: str) -> str:
    """Return an address as quotas spell it; an IPv4 address is the same within IPv6."""
    address = peer_address(host)
    return host if address is None else str(address)
