"""The coordinators' rules without which a promise breaks are methods here.

Each is the safe decision, and the only one that the product has: most return what they are told, as
it stands. Tests hand in others, to see that the promise breaks: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from oncelog_broker.coordinator.ports import MarkerSenderPort, PartitionWriter
from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord
from oncelog_broker.coordinator.transaction import ordinary
from oncelog_broker.coordinator.transaction.ordinary import Now, ProducerIdAndEpoch, Step
from oncelog_broker.coordinator.transaction.records import SavedTransaction
from oncelog_protocol.types import TopicPartition

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

AskDeleted = Callable[[TopicPartition], Awaitable[bool]]
"""It tells whether a partition that was there once is no more, for certain."""


class CoordinatorSafeguards:
    """It decides for the coordinators of a broker."""

    __slots__ = ()

    def serves_while_loading(self) -> bool:
        """Return whether operations may run before the whole partition was read."""
        return False

    def adopts(self, holds: bool) -> bool:
        """Return whether a shard that was read while its partition was followed may serve: only if
        the log holds what was read [B31]. It would tell what was never committed, and lack what
        stands in its place."""
        return holds

    def writer(self, writer: PartitionWriter) -> PartitionWriter:
        """Return who says when a write is committed. Neither is a write acknowledged before, nor a
        read answered before the high watermark has passed what it saw."""
        return writer

    def barrier(self) -> tuple[CoordinatorRecord, ...]:
        """Return what is committed before a caller without a generation is answered: a coordinator
        that was deposed and does not know it would tell such callers what was true once."""
        return (BARRIER,)

    def sender(self, check: Callable[[A, B], C], group: A, request: B) -> C | None:
        """Return who commits offsets, once checked: a commit counts only in the generation and
        under the member id of the group as it is now."""
        return check(group, request)

    def departures(self, records: Sequence[CoordinatorRecord]) -> Sequence[CoordinatorRecord]:
        """Return what is written of members that have gone, before the next generation is [N103]:
        the next coordinator must not wait for them."""
        return records

    def stable(self, required: bool) -> bool:
        """Return whether an offset that an open transaction may replace is withheld [K9]."""
        return required

    def end(
        self, saved: SavedTransaction | None, producer: ProducerIdAndEpoch, commit: bool, now: Now
    ) -> Step:
        """Return the step of EndTxn. Every end raises the epoch of its producer, and its markers
        carry the raised one (KIP-890)."""
        return ordinary.end(saved, producer, commit, now)

    def timed_out(self, saved: SavedTransaction, now: Now) -> SavedTransaction:
        """Return the end of a transaction whose time is over, with the same rule."""
        return ordinary.timed_out(saved, now)

    def marker_epoch(self, producer_epoch: int) -> int:
        """Return the epoch below which a marker ends transactions."""
        return producer_epoch

    def marker_sender(self, sender: MarkerSenderPort) -> MarkerSenderPort:
        """Return who says when all markers of a transaction are written, before which the next one
        of its producer does not begin [N111]."""
        return sender

    def missing(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Return those of ``partitions`` for which a leader is told no: their client has not added
        them to its transaction [N112]."""
        return partitions

    def prepared(self, send_markers: Callable[[], None]) -> None:
        """Send no marker when a decision was appended: it is committed first."""

    def asks_deleted(self, ask: AskDeleted) -> AskDeleted:
        """Return who says that a partition is no more, so that its marker is given up: the metadata
        store, as a broker may not have heard of a partition yet."""
        return ask


SAFE = CoordinatorSafeguards()
"""A broker runs with these."""
