"""The past of a group is read from the tail of its ``__consumer_offsets``.

Commits carry their times, and the leaders say where logs ended at a time: so the lag of the past is
worked out, at some times of it. The log also has the generations of the group, and the offsets that
open transactions will commit. Rules: a read is under way once a group, and two reads at most; the
first one takes the last 20,000 records of the partition, later ones what came since.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack

from oncelog import Admin, TopicPartition
from oncelog.admin.offset_listing import OffsetSpec
from oncelog.errors import OncelogError
from oncelog_cli.internal_records import OFFSETS_TOPIC, fact_of
from oncelog_console.clients import ClusterClients
from oncelog_console.history import GROUPS_MAX, FigureHistory, Past, SeenRebalance
from oncelog_protocol.coordinators import coordinator_partition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.tasks import Tasks

RECORDS_MAX = 20_000
RECORDS_AT_ONCE = 2_000
SAMPLES = 24
"""At so many times of the past leaders are asked where the logs ended."""
PARTITIONS_MAX = 200
"""The past of so many partitions of a group is worked out."""
PENDING_MAX = 1_000
READS_AT_ONCE = 2
AGAIN_MS = 5_000
TIMEOUT_MS = 10_000


class Pending(NamedTuple):
    """An open transaction of a producer will commit this offset of a group."""

    partition: TopicPartition
    producer_id: int
    offset: int
    at_ms: int


class GroupFacts:
    """It gathers what the records of one group say. Pure."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._name = msgpack.packb(group)
        self.commits: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Time and offset of each commit, by partition, as they stand in the log."""
        self.rebalances: list[SeenRebalance] = []
        self._pending: dict[tuple[TopicPartition, int], Pending] = {}

    @property
    def pending(self) -> tuple[Pending, ...]:
        """Return what open transactions will commit, by partition and producer."""
        return tuple(self._pending[key] for key in sorted(self._pending))

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take one record into account; those of other groups say nothing here."""
        if key is None or self._name not in key:
            return
        fact = fact_of(OFFSETS_TOPIC, key, value)
        if fact is None or fact[0]["group"] != self._group:
            return
        about, said = fact
        if about["type"] == "group":
            if said is not None:
                self._began(said["state_timestamp"], said["generation_id"], len(said["members"]))
            return
        if about["type"] == "departed_member":
            return  # the next generation tells how many are left
        tp = TopicPartition(about["topic"], about["partition"])
        if about["type"] == "pending_offset":
            where = (tp, about["producer_id"])
            self._pending.pop(where, None)
            if said is not None and len(self._pending) < PENDING_MAX:
                self._pending[where] = Pending(*where, said["offset"], said["timestamp"])
        elif said is None:
            self.commits.pop(tp, None)
        else:
            self.commits.setdefault(tp, []).append((said["commit_timestamp"], said["offset"]))

    def _began(self, at_ms: int, generation_id: int, member_count: int) -> None:
        if not self.rebalances or self.rebalances[-1].generation_id != generation_id:
            self.rebalances.append(SeenRebalance(at_ms, generation_id, member_count))

    def forget_past(self) -> None:
        """Forget what is part of the history by now, and need not be kept twice."""
        self.commits.clear()
        self.rebalances.clear()


@dataclass(slots=True)
class KnownLog:
    """So much is known of a group's log. Only :class:`GroupLogs` changes it."""

    facts: GroupFacts
    next_offset: int | None = None
    """Records before it were read."""
    read_ms: int | None = None
    """None: not read yet."""
    error: str = ""
    """Why it could not be read the last time."""
    reading: bool = field(default=False)


class GroupLogs:
    """It reads for the groups that are looked at. ``close`` ends that.

    :param admin: it asks as the console's own user, as all of this does.
    :param history: the past is put there.
    """

    def __init__(
        self, admin: Admin, clients: ClusterClients, clock: WallClock, history: FigureHistory
    ) -> None:
        self._admin = admin
        self._clients = clients
        self._clock = clock
        self._history = history
        self._tasks = Tasks("group-logs")
        self._turns = asyncio.Semaphore(READS_AT_ONCE)
        self._known: dict[str, KnownLog] = {}

    def look(self, group: str) -> KnownLog:
        """Return what is known of a group, and read on in the background."""
        known = self._known.pop(group, None) or KnownLog(GroupFacts(group))
        self._known[group] = known
        if len(self._known) > GROUPS_MAX:
            del self._known[next(iter(self._known))]
        now_ms = self._clock.now_ms()
        if not known.reading and (known.read_ms is None or now_ms - known.read_ms >= AGAIN_MS):
            known.reading = True
            self._tasks.spawn(f"read {group}", self._read(group, known))
        return known

    async def close(self) -> None:
        """End what is being read."""
        await self._tasks.close()

    async def _read(self, group: str, known: KnownLog) -> None:
        try:
            async with self._turns:
                await self._read_on(group, known)
            known.error = ""
        except OncelogError as error:
            known.error = str(error) or type(error).__name__
        finally:
            known.reading = False
            known.read_ms = self._clock.now_ms()

    async def _read_on(self, group: str, known: KnownLog) -> None:
        (topic,) = await self._admin.describe_topics([OFFSETS_TOPIC], timeout_ms=TIMEOUT_MS)
        if topic.error is not None:
            raise topic.error
        tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(group, len(topic.partitions)))
        ends = await self._admin.list_offsets([tp], timeout_ms=TIMEOUT_MS)
        end = ends.raise_for_errors()[0].offset or 0
        first = known.next_offset
        if first is None:
            first = max(end - RECORDS_MAX, 0)
        if first < end:
            await self._take(tp, known.facts, first, end)
            known.next_offset = end
        history = self._history.of(group)
        if history is not None and not history.past_known:
            await self._look_back(group, known.facts)
        if history is not None:
            known.facts.forget_past()

    async def _take(self, tp: TopicPartition, facts: GroupFacts, first: int, end: int) -> None:
        consumer = self._clients.consumer(
            isolation_level="read_uncommitted", auto_offset_reset="earliest"
        )
        async with consumer:
            consumer.assign([tp])
            consumer.seek(tp, first)
            while batches := await consumer.getbatches(
                tp, end, max_records=RECORDS_AT_ONCE, timeout_ms=TIMEOUT_MS
            ):
                for batch in batches:
                    for key, value in zip(batch.keys or (), batch.values, strict=False):
                        facts.take(key, value)

    async def _look_back(self, group: str, facts: GroupFacts) -> None:
        """Put what the log said of the past into the history."""
        now_ms = self._clock.now_ms()
        commits = dict(sorted(facts.commits.items())[:PARTITIONS_MAX])
        times = sample_times(commits, now_ms, self._history.keep_ms)
        partitions = list(commits)
        ends: dict[int, dict[TopicPartition, int | None]] = {}
        if times:
            latest = await self._ends(partitions, None)
            for at_ms in times:
                ends[at_ms] = await self._ends(partitions, at_ms, latest)
        rebalances = [
            each for each in facts.rebalances if each.at_ms >= now_ms - self._history.keep_ms
        ]
        self._history.look_back(group, past_of(commits, ends), rebalances)

    async def _ends(
        self,
        partitions: Sequence[TopicPartition],
        at_ms: int | None,
        latest: Mapping[TopicPartition, int | None] | None = None,
    ) -> dict[TopicPartition, int | None]:
        """Return where logs ended at a time; where no record is so new, it is where they end."""
        at: OffsetSpec = "latest" if at_ms is None else at_ms
        found = await self._admin.list_offsets(partitions, at, timeout_ms=TIMEOUT_MS)
        ends: dict[TopicPartition, int | None] = {}
        for item in found:
            end = item.offset
            if end is None and item.error is None and latest is not None:
                end = latest.get(item.partition)
            ends[item.partition] = None if item.error is not None else end
        return ends


def sample_times(
    commits: Mapping[TopicPartition, Sequence[tuple[int, int]]], now_ms: int, keep_ms: int
) -> list[int]:
    """Return times between the first commit and now at which the lag is worked out."""
    first_ms = min((items[0][0] for items in commits.values()), default=now_ms)
    first_ms = max(first_ms, now_ms - keep_ms)
    step_ms = (now_ms - first_ms) // SAMPLES
    return [first_ms + number * step_ms for number in range(SAMPLES)] if step_ms > 0 else []


def past_of(
    commits: Mapping[TopicPartition, Sequence[tuple[int, int]]],
    ends: Mapping[int, Mapping[TopicPartition, int | None]],
) -> dict[TopicPartition, list[Past]]:
    """Return the past of each partition, at the times at which ends are known.

    Before its first commit nothing is known of a partition.
    """
    past: dict[TopicPartition, list[Past]] = {}
    for tp, items in commits.items():
        ordered = sorted(items)
        times = [at_ms for at_ms, _ in ordered]
        for at_ms in sorted(ends):
            number = bisect_right(times, at_ms)
            if number:
                committed = ordered[number - 1][1]
                past.setdefault(tp, []).append(Past(at_ms, committed, ends[at_ms].get(tp)))
    return past
