"""Offsets in open transactions of one shard are guarded, indexed and ended by markers here. Pure.

Rules
-----
* They are ordinary facts, not a transaction in the log of offsets: the marker of a transaction is
  an operation. It writes the offsets and takes the pending facts back, so whoever is told that it
  is done can read them (KAFKA-17507).
* The first offset of a transaction in a shard needs a *guard*: taken before the transaction
  coordinator is asked to add the partition, unique, and void once a marker of that producer comes
  meanwhile. Otherwise a late offset would be pending for ever, or in the next transaction
  (KIP-890). Where an offset of the transaction is pending already, its marker is still to come.
* A marker ends offsets with an older epoch than its own; where there are only newer ones, it is
  late. One with a number ends those of its own epoch, too, whose number is not above: each offset
  has the number that the transaction's coordinator told when it was asked [N110].
* The latest commit counts: an offset supersedes those of that partition that became pending before
  it. Their transactions then have no say in it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.records import (
    OffsetRecord,
    PendingOffset,
    offset_record,
    pending_record,
)
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord
from oncelog_protocol.errors import InvalidProducerEpochError
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition

MARKER_BYTES_MAX = 256 * 1024
"""A marker writes so many bytes in one go; one batch must hold it. The rest follows."""


@dataclass(slots=True, eq=False)
class TxnOffsetsGuard:
    """Its holder may add offsets to the transaction for which it was taken, while it is valid."""

    partition: int
    """This partition of the internal topic is to be added to the transaction."""
    _release: Callable[[TxnOffsetsGuard], None]
    valid: bool = True

    def release(self) -> None:
        """Give it back, as it is not needed any more."""
        self.valid = False
        self._release(self)


class PendingOffsets:
    """It finds by producer what the groups hold as ``pending_offsets``, and keeps the guards."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._by_producer: dict[int, dict[tuple[str, TopicPartition], PendingOffset]] = {}
        self._newest: dict[int, int] = {}
        """It maps those producers to their newest epoch."""
        self._guards: dict[int, list[TxnOffsetsGuard]] = {}
        self._ending: dict[int, int] = {}
        """It holds the epochs of markers of which some pieces are written and some are not."""

    # ---- replay

    def put(self, group: Group, tp: TopicPartition, producer_id: int, item: PendingOffset) -> None:
        """Add a pending offset, or replace the one that the producer had there."""
        by_producer = group.pending_offsets.setdefault(tp, {})
        by_producer.pop(producer_id, None)  # It counts from now on, not from when it first came.
        by_producer[producer_id] = item
        self._by_producer.setdefault(producer_id, {})[group.group_id, tp] = item
        newest = self._newest.get(producer_id, -1)
        self._newest[producer_id] = max(newest, item.producer_epoch)

    def take(self, group: Group, tp: TopicPartition, producer_id: int) -> None:
        """Remove an offset that is pending no more; it is harmless when it was not."""
        by_producer = group.pending_offsets.get(tp, {})
        if by_producer.pop(producer_id, None) is None:
            return
        if not by_producer:
            del group.pending_offsets[tp]
        items = self._by_producer[producer_id]
        del items[group.group_id, tp]
        if not items:
            del self._by_producer[producer_id], self._newest[producer_id]

    # ---- guards

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Refuse an epoch that is older than one that is known here.

        :raises InvalidProducerEpochError: the transaction has ended, or a newer one is open.
        """
        newest = self._newest.get(producer_id, -1)
        if producer_epoch < newest or producer_epoch < self._ending.get(producer_id, -1):
            raise InvalidProducerEpochError(f"epoch {producer_epoch} of producer {producer_id}")

    def needs_guard(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether nothing of this transaction is pending here."""
        return self._newest.get(producer_id) != producer_epoch

    def number(self, producer_id: int, producer_epoch: int) -> int:
        """Return the number of the transaction of which something is pending here; 0: it has
        none."""
        items = self._by_producer.get(producer_id, {}).values()
        return max(
            (item.number for item in items if item.producer_epoch == producer_epoch), default=0
        )

    def take_guard(self, producer_id: int) -> TxnOffsetsGuard:
        """Return a new guard, which is to be released."""

        def release(guard: TxnOffsetsGuard) -> None:
            guards = self._guards.get(producer_id, [])
            if guard in guards:
                guards.remove(guard)
                if not guards:
                    del self._guards[producer_id]

        guard = TxnOffsetsGuard(self._partition, release)
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def void_guards(self) -> None:
        """Make all guards void, as nothing of this shard is coordinated here any more."""
        for producer_id in list(self._guards):
            self._void(producer_id)

    def _void(self, producer_id: int) -> None:
        for guard in self._guards.pop(producer_id, ()):
            guard.valid = False

    # ---- markers

    def end(
        self,
        groups: Mapping[str, Group],
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        now_ms: int,
        number: int = NO_TXN_NUMBER,
    ) -> tuple[list[CoordinatorRecord], bool]:
        """Return the records of a marker, and whether that is all; if not, it is to be asked again.

        When nothing is pending, a record that says nothing is written: only if it is committed is
        this broker known to be the coordinator. Otherwise the offsets might be pending elsewhere
        for ever.

        :raises InvalidProducerEpochError: only a newer transaction is open here.
        """
        self._void(producer_id)
        items = self._by_producer.get(producer_id, {})
        older = [
            key
            for key, item in items.items()
            if item.producer_epoch < producer_epoch
            or (item.producer_epoch == producer_epoch and 0 < item.number <= number)
        ]
        if items and not older:
            raise InvalidProducerEpochError(f"epoch {producer_epoch} of producer {producer_id}")
        records: list[CoordinatorRecord] = []
        size = done = 0
        for group_id, tp in older:
            added = list(_ended(groups[group_id], tp, producer_id, commit, now_ms))
            records += added
            size += sum(len(record.key) + len(record.value or b"") for record in added)
            done += 1
            if size > MARKER_BYTES_MAX:
                break
        complete = done == len(older)
        if complete:
            self._ending.pop(producer_id, None)
        else:
            # What ends by number has the epoch of its marker.
            self._ending[producer_id] = producer_epoch + (number >= 0)
        return records or [BARRIER], complete

    # ---- looking

    def open_transactions(self) -> list[tuple[int, int, int]]:
        """Return producer id, epoch and time of the last offset (ms since 1970) of each, by id."""
        return [
            (pid, self._newest[pid], max(item.timestamp_ms for item in items.values()))
            for pid, items in sorted(self._by_producer.items())
        ]


def _ended(
    group: Group, tp: TopicPartition, producer_id: int, commit: bool, now_ms: int
) -> Iterator[CoordinatorRecord]:
    item = group.pending_offsets[tp][producer_id]
    if commit:
        committed = OffsetRecord(
            item.offset, item.leader_epoch, item.metadata, now_ms, item.topic_id
        )
        yield offset_record(group.group_id, tp, committed)
        yield from superseded(group, tp, before=producer_id)
    yield pending_record(group.group_id, tp, producer_id, None)


def superseded(
    group: Group | None, tp: TopicPartition, before: int | None = None
) -> Iterator[CoordinatorRecord]:
    """Yield the records that take back what is pending for ``tp``: all, or what came before that of
    the producer ``before``."""
    if group is None:
        return
    for producer_id in group.pending_offsets.get(tp, ()):
        if producer_id == before:
            break
        yield pending_record(group.group_id, tp, producer_id, None)
