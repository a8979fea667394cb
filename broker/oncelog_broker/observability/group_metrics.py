"""These metrics tell of the groups and transactions that a broker coordinates, and of lag.

Lag needs to know where partitions end that other brokers lead. They are asked at an interval, not
while a page is made: a silent leader must not hold up a scrape. So a lag is as old as that at most.
For each partition ``lag_history`` remembers when it ended where, which turns a lag in records into
one in time without reading a record.

``metrics_groups_max`` groups have series of their own, those that have been known here the longest.
The others are shown as group "(other)": members and lag summed, lag in time as the largest. There
may be very many: nothing here walks over all of them in one go.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.led_shard import ShardState
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.lag_history import POINTS_FEW, POINTS_MAX, LagHistory
from oncelog_broker.observability.page import MetricsPage, label_values
from oncelog_broker.phases import BrokerPhase
from oncelog_broker.replication.traffic import OTHERS
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

AGES_S = tuple(5.0 * 2**power for power in range(17, -1, -1))
"""The past of a partition that is new here is asked at these ages, the oldest first: 7 days to 5
s."""

LOOK_BACK_AT_ONCE = 10
"""One such question names so many partitions: its leader looks up every age of each, in one go."""

GROUPS_PER_TURN = 100
"""So many groups are looked at before others have their turn."""


class GroupMetrics:
    """It gathers the metrics of one broker's groups and transactions.

    :param now_s: loop time, for lag in time.
    """

    def __init__(self, broker: Broker, now_s: Callable[[], float]) -> None:
        self._broker = broker
        self._now_s = now_s
        self._histories: dict[TopicPartition, LagHistory] = {}

    # ---- where partitions end

    async def watch_ends(self) -> None:
        """Ask at every interval, for ever."""
        while True:
            await asyncio.sleep(self._broker.config.metrics_lag_interval_ms / 1000)
            if self._broker.phase is BrokerPhase.SERVING:
                try:
                    await self.ask_ends()
                except (OSError, TimeoutError, OncelogError) as error:
                    logger.warning("lag_not_known", error=error)

    async def ask_ends(self) -> None:
        """Ask once, for all partitions that groups here have committed offsets of; partitions that
        are new are asked for their past too."""
        wanted: dict[TopicPartition, None] = {}
        for groups in self._shards():
            for number, group in enumerate(groups):
                wanted.update(dict.fromkeys(group.offsets))
                if number % GROUPS_PER_TURN == 0:
                    await asyncio.sleep(0)
        for gone in [tp for tp in self._histories if tp not in wanted]:
            del self._histories[gone]
        if not wanted:
            return
        ends = await self._broker.coordination.end_offsets.fetch(wanted)
        new = {tp: end for tp, end in ends.items() if tp not in self._histories}
        await self._look_back({tp: known[1] for tp, known in new.items() if known is not None})
        now_s = self._now_s()
        for tp, known in ends.items():
            if known is not None:
                self._history(tp).saw(now_s, known[1])

    async def _look_back(self, ends: dict[TopicPartition, int]) -> None:
        """Begin histories with what the records' own timestamps say of the past, so that a lag is
        not taken for new because its coordinator is."""
        now_ms, now_s = self._broker.clock.now_ms(), self._now_s()
        times_ms = [now_ms - round(age_s * 1000) for age_s in AGES_S]
        partitions = list(ends)
        for first in range(0, len(partitions), LOOK_BACK_AT_ONCE):
            some = partitions[first : first + LOOK_BACK_AT_ONCE]
            found = await self._broker.coordination.end_offsets.at_times(some, times_ms)
            for tp, offsets in found.items():
                if offsets is not None:
                    # Where no record is so new, the end was where it is now.
                    then = [ends[tp] if offset < 0 else offset for offset in offsets]
                    self._history(tp).look_back(now_s, AGES_S, then)
            await asyncio.sleep(0)

    def _history(self, tp: TopicPartition) -> LagHistory:
        """Return the history of a partition; it is short when there are more than have series of
        their own."""
        history = self._histories.get(tp)
        if history is None:
            few = len(self._histories) >= self._broker.config.metrics_partitions_max
            history = LagHistory(POINTS_FEW if few else POINTS_MAX)
            self._histories[tp] = history
        return history

    def _shards(self) -> list[list[Group]]:
        """Return all groups that are coordinated here now, the oldest of each shard first."""
        engine = self._broker.coordination.engine
        return engine.all_shards(lambda shard: list(shard.groups.values()))

    # ---- the page

    async def collect(self, page: MetricsPage) -> None:
        """Add the samples of both coordinators, of single groups and of the other groups' sums to
        ``page``."""
        _coordinator(page, "groups", self._broker.coordination.engine)
        groups_room = self._broker.config.metrics_groups_max
        room = self._broker.config.metrics_partitions_max
        states: Counter[GroupState] = Counter()
        others: _Lags | None = None
        for groups in self._shards():
            for group in groups:
                states[group.state] += 1
                if groups_room > 0:
                    groups_room -= 1
                    lags = _Lags()
                    room = await self._partitions(page, group, lags, room)
                    page.add(c.GROUP_GENERATION, group.generation, group.group_id)
                    lags.members = len(group.members)
                    lags.show(page, group.group_id)
                else:
                    others = others or _Lags()
                    await self._partitions(page, group, others, 0)
                    others.members += len(group.members)
                await page.turn()
        if others is not None:
            others.show(page, OTHERS)
        for state in GroupState:
            if state is not GroupState.DEAD:
                page.add(c.GROUPS, states[state], state.value)
        await self._transactions(page)

    async def _partitions(self, page: MetricsPage, group: Group, lags: _Lags, room: int) -> int:
        """Add the series of a group's partitions while there is ``room``; return what is left of
        it."""
        now_s = self._now_s()
        for tp in sorted(group.offsets):
            # Between turns the group may have changed.
            committed = group.offsets.get(tp)
            if committed is None:
                continue
            history = self._histories.get(tp)
            lag = age_s = None
            if history is not None:
                lag = max(history.end - committed.offset, 0)
                age_s = history.age_s(now_s, committed.offset)
                lags.add(lag, age_s)
            if room > 0:
                room -= 1
                labels = label_values(group.group_id, *tp)
                page.add_at(c.GROUP_OFFSET, labels, committed.offset)
                if lag is not None and age_s is not None:
                    page.add_at(c.GROUP_LAG, labels, lag)
                    page.add_at(c.GROUP_LAG_SECONDS, labels, round(age_s, 3))
            await page.turn()
        return room

    async def _transactions(self, page: MetricsPage) -> None:
        engine = self._broker.transactions.engine
        _coordinator(page, "transactions", engine)
        counts: Counter[TxnState] = Counter()
        oldest_ms = now_ms = self._broker.clock.now_ms()
        decided_s = now_s = self._now_s()
        for transactions in engine.all_shards(lambda shard: shard.transactions):
            for txn in list(transactions.values()):
                saved = txn.saved
                if saved is None:
                    continue
                counts[saved.state] += 1
                if saved.state is TxnState.ONGOING and saved.start_ms >= 0:
                    oldest_ms = min(oldest_ms, saved.start_ms)
                elif saved.state.is_prepared:
                    decided_s = min(decided_s, txn.decided_s)
                await page.turn()
        for state in TxnState:
            if state is not TxnState.DEAD:
                page.add(c.TRANSACTIONS, counts[state], state.label)
        page.add(c.TRANSACTION_AGE, (now_ms - oldest_ms) / 1000)
        page.add(c.TRANSACTION_ENDING, round(now_s - decided_s, 3))


class _Lags:
    """It sums the lag of one group, or of all that have no series of their own."""

    def __init__(self) -> None:
        self.members = 0
        self.lag = 0
        self.age_s = 0.0
        self.is_known = False

    def add(self, lag: int, age_s: float) -> None:
        """Count one partition more; ``lag`` is in records and ``age_s`` in seconds."""
        self.is_known = True
        self.lag += lag
        self.age_s = max(self.age_s, age_s)

    def show(self, page: MetricsPage, name: str) -> None:
        """Add the members to ``page``, and the lag where it is known."""
        page.add(c.GROUP_MEMBERS, self.members, name)
        if self.is_known:
            page.add(c.GROUP_LAG_SUM, self.lag, name)
            page.add(c.GROUP_LAG_SECONDS_MAX, round(self.age_s, 3), name)


def _coordinator(page: MetricsPage, name: str, engine: CoordinatorEngine[Any]) -> None:
    """Add the samples that every coordinator has."""
    states = Counter(led.state for led in engine.led)
    for state in (ShardState.LOADING, ShardState.ACTIVE, ShardState.FAILED):
        page.add(c.COORDINATOR_PARTITIONS, states[state], name, state.value)
    page.add(c.COORDINATOR_PENDING, sum(led.pending_count for led in engine.led), name)
