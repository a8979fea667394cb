"""Quotas of users and client ids are counted here, and who exceeds one is told to wait.

Rules
-----
* Each broker counts for itself, as in Kafka (KIP-13).
* Of all quotas that name a principal and its client id the most special one counts: both named, the
  user with any client id, the user; then the same for any user; then the client id, then any. What
  a quota shares is one bucket: one of a user is shared by all its client ids.
* A bucket holds what may be had in one second, and fills over the loop's time. What was taken
  beyond that is a debt. It is paid by waiting.
* There are ``BUCKETS_MAX`` buckets at most; beyond, the one that was idle for longest goes.
* Brokers and super users have no quotas.
* Without quotas nothing is counted. Quotas of addresses are not counted here (``address_quotas``).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.request_prices import price
from oncelog_protocol.limits import THROTTLE_MS_MAX
from oncelog_protocol.quotas import REQUEST_RATE, KeyQuotas, QuotaEntity

BUCKETS_MAX = 10_000

HOLD_S_MAX = THROTTLE_MS_MAX / 1000
"""A connection is held for so long at most; the rest of a debt is paid after the next request."""

Owner = tuple[str | None, str | None]
"""(principal, client id) whose requests share a bucket; None: of all."""


class TokenBucket:
    """It holds what one owner may have of one thing; ``rate`` a second flows in."""

    __slots__ = ("_filled_at", "_tokens", "rate")

    def __init__(self, rate: float, now: float) -> None:
        self.rate = rate
        self._tokens = rate
        self._filled_at = now

    def change(self, rate: float, now: float) -> None:
        """Fill at another rate from now on; a debt stays."""
        self.fill(now)
        self.rate = rate
        self._tokens = min(self._tokens, rate)

    def fill(self, now: float) -> float:
        """Return what it holds at ``now``, in seconds of the loop; below 0 it is a debt."""
        if now > self._filled_at:
            self._tokens = min(self.rate, self._tokens + (now - self._filled_at) * self.rate)
            self._filled_at = now
        return self._tokens

    def take(self, amount: float, now: float) -> float:
        """Take ``amount`` out, whether it is there or not.

        Return in how many seconds the debt will be paid: 0.0 without one, infinity at a rate of 0.
        """
        if not self.rate:
            return math.inf
        self._tokens = left = self.fill(now) - amount
        return -left / self.rate if left < 0 else 0.0


class Quotas(Protocol):
    """Handlers see the quotas of clients by this."""

    def left(self, context: RequestContext, key: str) -> float | None:
        """Return how much the asker may have at once; None if nothing bounds it."""
        ...

    def is_stopped(self, context: RequestContext, key: str) -> bool:
        """Return whether the asker may have nothing at all."""
        ...

    def admit(self, context: RequestContext, key: str, amount: float) -> bool:
        """Return whether the asker had anything left; if so, ``amount`` is counted."""
        ...

    def charge(self, context: RequestContext, key: str, amount: float) -> None:
        """Count ``amount``, whether it is left or not."""
        ...

    def charge_request(self, context: RequestContext, api_key: int, payload_bytes: int) -> None:
        """Count the work of a request."""
        ...


class NoQuotas:
    """It bounds nobody."""

    def left(self, context: RequestContext, key: str) -> float | None:
        """Return None, always."""
        return None

    def is_stopped(self, context: RequestContext, key: str) -> bool:
        """Return false, always."""
        return False

    def admit(self, context: RequestContext, key: str, amount: float) -> bool:
        """Return true, always."""
        return True

    def charge(self, context: RequestContext, key: str, amount: float) -> None:
        """Count nothing."""

    def charge_request(self, context: RequestContext, api_key: int, payload_bytes: int) -> None:
        """Count nothing."""


NO_QUOTAS = NoQuotas()


class ClientQuotas:
    """It counts for all clients of a broker.

    :param now: the loop's time, in seconds.
    :param super_users: principals, ``User:name``, that have no quotas.
    """

    def __init__(self, now: Callable[[], float], super_users: Collection[str] = ()) -> None:
        self._now = now
        self._super_users = frozenset(super_users)
        self._of: dict[str, KeyQuotas] = {}
        self._buckets: OrderedDict[tuple[str, Owner], TokenBucket] = OrderedDict()

    @property
    def bucket_count(self) -> int:
        """Return how many buckets there are."""
        return len(self._buckets)

    def take(self, changes: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Count from now on by all quotas of each of these entities, and for others as before;
        those of addresses are left out. Debts stay."""
        for entity, values in changes.items():
            if entity.address is not None:
                continue
            for key, quotas in self._of.items():
                if key not in values:
                    quotas.drop(entity)
            for key, value in values.items():
                if key not in self._of:
                    self._of[key] = KeyQuotas()
                self._of[key].put(entity, value)
        self._of = {key: quotas for key, quotas in self._of.items() if quotas}

    def left(self, context: RequestContext, key: str) -> float | None:
        """Return how much the asker may have at once: at most 0 in debt or if it is stopped; None
        if nothing bounds it."""
        bucket = self._bucket(context, key) if key in self._of else None
        return None if bucket is None else bucket.fill(self._now())

    def is_stopped(self, context: RequestContext, key: str) -> bool:
        """Return whether the asker may have nothing at all: its quota is 0."""
        bucket = self._bucket(context, key) if key in self._of else None
        return bucket is not None and not bucket.rate

    def charge(self, context: RequestContext, key: str, amount: float) -> None:
        """Count ``amount``; if that is a debt, hold the connection until it is paid, or for
        ``HOLD_S_MAX``."""
        bucket = self._bucket(context, key) if key in self._of else None
        if bucket is None:
            return
        now = self._now()
        debt_s = bucket.take(amount, now)
        if debt_s > 0:
            context.connection.hold(now + min(debt_s, HOLD_S_MAX))

    def admit(self, context: RequestContext, key: str, amount: float) -> bool:
        """Return whether the asker had anything left; if so, ``amount`` is counted. In debt the
        connection is held, as by ``charge``."""
        left = self.left(context, key)
        admitted = left is None or left > 0
        self.charge(context, key, amount if admitted else 0)
        return admitted

    def charge_request(self, context: RequestContext, api_key: int, payload_bytes: int) -> None:
        """Count the work of a request, by the table of prices."""
        if REQUEST_RATE in self._of and (units := price(api_key, payload_bytes)):
            self.charge(context, REQUEST_RATE, units)

    def _bucket(self, context: RequestContext, key: str) -> TokenBucket | None:
        """Return what bounds the asker, and note that it is not idle."""
        if context.is_broker or context.principal in self._super_users:
            return None
        quota = self._of[key].find(context.principal, context.client_id)
        if quota is None:
            return None
        entity, rate = quota
        owner = (
            None if entity.user is None else context.principal,
            None if entity.client_id is None else context.client_id,
        )
        bucket = self._buckets.get((key, owner))
        if bucket is None:
            bucket = self._buckets[key, owner] = TokenBucket(rate, self._now())
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
            return bucket
        self._buckets.move_to_end((key, owner))
        if bucket.rate != rate:
            bucket.change(rate, self._now())
        return bucket
