"""It is decided here when the controller balances the cluster by itself. Pure.

Rules
-----
* ``balance_mode=on_join`` plans once for a broker that has been in service for
  ``balance_settle_ms`` and has less than half of the mean then: a broker that was added is used,
  and nothing else moves that nobody has asked for. ``continuous`` looks every
  ``balance_interval_ms``, and plans when a goal is off by more than the tolerance for two looks in
  a row. ``off`` does neither [M25].
* Nothing is planned while a plan is under way, a broker that has replicas has been gone for less
  than ``balance_settle_ms``, or a partition has no leader.
* Replicas on brokers that have been gone for ``balance_dead_after_ms`` are placed elsewhere, and
  the cluster's own topics get the replicas that they should have, when there are brokers for them.
* Times are those of the loop's clock. A new controller begins to count anew, so that it may be
  later than the settings say, never sooner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from oncelog_controller.balance.snapshot import Goal
from oncelog_controller.config import ControllerConfig

AGAIN_S = 10.0
"""How soon it is looked again when something is in the way."""

ON_JOIN, CONTINUOUS, OFF = "on_join", "continuous", "off"

_LESS_THAN_TOLERANCE = {Goal.TOPICS, Goal.REPLICAS, Goal.LEADERS}
"""Small distances from these goals do not matter. The others are off as soon as they are not
reached: for bytes and writes the tolerance is in the goal."""


class Occasion(Enum):
    """The controller has a reason to plan."""

    REPAIR = "replicas are missing"
    JOINED = "a broker was added"
    LOOK = "it is time to look how even the cluster is"


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """It is what has to be known of a cluster to decide."""

    replicas: Mapping[int, int]
    """They are those that each broker in service will have when nothing moves any more."""
    missing: frozenset[int]
    """These brokers have replicas, and are not registered."""
    leaderless: bool
    """A partition has no leader."""
    under_way: bool
    """A plan, or a move, is not over."""
    short: bool
    """A topic of the cluster's own could have more replicas, and should."""


class BalanceWatch:
    """It remembers since when brokers are in service, or gone."""

    def __init__(self) -> None:
        self._lives: dict[int, int] = {}
        """Brokers that are registered: their epochs."""
        self._serving: set[int] = set()
        """Those that are in service."""
        self._fresh: dict[int, float] = {}
        """Since when those are that were not considered yet."""
        self._gone: dict[int, float] = {}
        """Since when brokers are not registered."""
        self._replaced: frozenset[int] = frozenset()
        """A plan was made for those that are dead."""
        self._grown = False
        """A plan was made for the cluster's own topics since brokers have changed."""
        self._look_at = 0.0
        self._off: frozenset[Goal] = frozenset()
        """What was off at the last look."""
        self._not_before = 0.0

    def brokers_changed(
        self, lives: Mapping[int, int], serving: Collection[int], now: float
    ) -> None:
        """Note which brokers are registered, under which epochs, and which are in service."""
        for broker_id in serving:
            if broker_id not in self._serving or self._lives.get(broker_id) != lives[broker_id]:
                self._fresh[broker_id] = now
        self._fresh = {b: since for b, since in self._fresh.items() if b in serving}
        for broker_id in self._lives.keys() - lives.keys():
            self._gone[broker_id] = now
        self._gone = {b: since for b, since in self._gone.items() if b not in lives}
        self._replaced &= self._gone.keys()
        self._lives, self._serving, self._grown = dict(lives), set(serving), False

    def due(self, config: ControllerConfig) -> float | None:
        """Return when it is to be looked whether there is an occasion; None: something has to
        happen first."""
        if config.balance_mode == OFF:
            return None
        times = [since + config.balance_settle_ms / 1000 for since in self._fresh.values()]
        if dead_after_ms := config.balance_dead_after_ms:
            waiting = self._gone.keys() - self._replaced
            times += [self._gone[b] + dead_after_ms / 1000 for b in waiting]
        if config.balance_mode == CONTINUOUS:
            times.append(self._look_at)
        return max(min(times), self._not_before) if times else None

    def dead(self, config: ControllerConfig, now: float) -> frozenset[int]:
        """Return the brokers whose replicas are placed elsewhere."""
        after_s = config.balance_dead_after_ms / 1000
        if not after_s:
            return frozenset()
        return frozenset(b for b, since in self._gone.items() if since + after_s <= now)

    def decide(self, look: ClusterLook, config: ControllerConfig, now: float) -> Occasion | None:
        """Return the occasion to plan, None when there is none. Ask when it is due."""
        for broker_id in look.missing:
            self._gone.setdefault(broker_id, now)
        settle_s = config.balance_settle_ms / 1000
        unsettled = any(now - self._gone[b] < settle_s for b in look.missing)
        if look.under_way or look.leaderless or unsettled:
            self._not_before = now + AGAIN_S
            return None
        dead = self.dead(config, now)
        to_replace = (dead - self._replaced) & look.missing
        self._replaced |= dead
        # In the words of ``due``: by rounding, ``now - since`` may be less when ``now`` is due, and
        # nothing would move on.
        settled = [b for b, since in self._fresh.items() if since + settle_s <= now]
        looks = config.balance_mode == CONTINUOUS and self._look_at <= now
        grows = look.short and not self._grown and bool(settled or looks)
        if to_replace or grows:
            self._grown |= grows
            return Occasion.REPAIR
        for broker_id in settled:
            del self._fresh[broker_id]
        if any(_is_low(look.replicas, b) for b in settled):
            return Occasion.JOINED
        if not looks:
            return None
        self._look_at = now + config.balance_interval_ms / 1000
        return Occasion.LOOK

    def measured(
        self, distances: Mapping[Goal, int], partitions: int, replicas: int, tolerance_percent: int
    ) -> bool:
        """Take in how far the cluster is from its goals; return whether it is to be balanced.

        :param partitions: of the whole cluster; so are ``replicas``.
        """
        off = set()
        for goal, distance in distances.items():
            whole = partitions if goal is Goal.LEADERS else replicas
            spared = whole * tolerance_percent if goal in _LESS_THAN_TOLERANCE else 0
            if distance * 100 > spared:
                off.add(goal)
        again = bool(off & self._off)
        self._off = frozenset() if again else frozenset(off)
        return again


def _is_low(replicas: Mapping[int, int], broker_id: int) -> bool:
    """Return whether a broker has less than half of the mean."""
    return 2 * replicas.get(broker_id, 0) * len(replicas) < sum(replicas.values())
