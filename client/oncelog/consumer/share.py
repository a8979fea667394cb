"""A run takes a bounded number of records in advance, and pauses partitions beyond that.

Rules
-----
* Records that are taken and not done are bounded, all together and each partition by its share of
  that; their bytes likewise, and the records between a partition's position and its last one.
* A partition above its share is paused alone. When all together reach the bound, all are.
* Paused partitions go on at half of what stopped them, so that they do not flutter.
* What the application has paused itself stays paused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.lanes import PartitionWork
from oncelog.consumer.subscription import TopicPartitionState
from oncelog_protocol.types import TopicPartition

SPAN_FACTOR = 10
"""A partition may be so many times ``records`` ahead of its first record that is not done: one that
is tried for long stops its partition in the end, for all behind it is read again after a crash."""

SHARE_RECORDS_MIN = 32
"""With thousands of partitions a fair share would be none at all."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All partitions together keep within these."""

    records: int
    bytes: int


class Share:
    """The share counts records under way, and pauses and resumes partitions."""

    def __init__(self, core: ConsumerCore, limits: Limits, poll_records_max: int) -> None:
        self._core = core
        self._limits = limits
        self._poll_records_max = poll_records_max
        self._records = 0
        self._bytes = 0
        self._all = False
        """Everything is paused."""
        self._held: dict[TopicPartition, TopicPartitionState] = {}
        """What we have paused."""
        self._frozen = False
        self._works: Mapping[TopicPartition, PartitionWork] = {}
        self._partition_records = limits.records
        self._partition_bytes = limits.bytes
        self.chunk = 1
        """Records to take with one poll."""

    def add(self, size: int) -> None:
        """Note that a record is under way."""
        self._records += 1
        self._bytes += size

    def grow(self, size: int) -> None:
        """Note that a record takes more bytes, as its handler has returned something."""
        self._bytes += size

    def remove(self, size: int, work: PartitionWork | None) -> None:
        """Note that a record is done; ``work`` is what is left of its partition."""
        self._records -= 1
        self._bytes -= size
        if self._frozen or not self._held:
            return
        if self._all:
            limits = self._limits
            if self._records > limits.records // 2 or self._bytes > limits.bytes // 2:
                return
            self._all = False
            for tp in list(self._held):
                self._release(tp)
        elif work is not None and work.tp in self._held:
            self._release(work.tp)

    def apportion(self, works: Mapping[TopicPartition, PartitionWork]) -> None:
        """Compute each partition's share before a poll, and pause those that are above it."""
        states = self._core.subscription.states
        self._works = works
        limits, count = self._limits, max(len(states), 1)
        fair = max(limits.records // count, SHARE_RECORDS_MIN)
        # Half of it by what is under way, half by what one poll may add.
        self._partition_records = max(min(fair, limits.records) // 2, 1)
        self._partition_bytes = max(limits.bytes // count // 2, 1)
        room = max(limits.records - self._records, 1)
        self.chunk = min(self._poll_records_max, self._partition_records, room)
        for tp, state in list(self._held.items()):
            if states.get(tp) is not state:
                del self._held[tp]
        if self._records >= limits.records or self._bytes >= limits.bytes:
            self._all = True
            for tp in list(states):
                self._hold(tp)
            return
        self._all = False
        for tp in list(self._held):
            self._release(tp)
        for tp, work in works.items():
            if states.get(tp) is work.state and self._is_above(work, 1):
                self._hold(tp)

    def freeze(self) -> None:
        """Keep what is paused until all is released, as the run ends."""
        self._frozen = True

    def release_all(self) -> None:
        """Resume all that was paused here."""
        states, held = self._core.subscription.states, self._held
        self._held = {}
        for tp, state in held.items():
            if states.get(tp) is state and state.paused:
                self._core.resume([tp])

    def _is_above(self, work: PartitionWork, part: int) -> bool:
        """Return whether the partition has its share, or the ``part``-th part of it."""
        return (
            work.undone >= max(self._partition_records // part, 1)
            or work.bytes >= max(self._partition_bytes // part, 1)
            or work.offsets.span >= SPAN_FACTOR * self._limits.records // part
        )

    def _hold(self, tp: TopicPartition) -> None:
        state = self._core.subscription.states[tp]
        if tp not in self._held and not state.paused:
            self._held[tp] = state
            self._core.pause([tp])

    def _release(self, tp: TopicPartition) -> None:
        state = self._held[tp]
        current = self._core.subscription.states.get(tp) is state
        work = self._works.get(tp)
        if current and work is not None and work.state is state and self._is_above(work, 2):
            return
        del self._held[tp]
        if current and state.paused and not self._core.closed:
            self._core.resume([tp])
