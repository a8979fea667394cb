"""One transactional id as its coordinator has it in memory. Pure.

``saved`` and ``writers`` follow from the log; the rest is of this coordinator alone, and is made
anew by the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog_broker.coordinator.ports import MarkerOrder, ProducerMarker
from oncelog_broker.coordinator.transaction.asks import AnyAsk
from oncelog_broker.coordinator.transaction.records import (
    SavedShared,
    SavedTransaction,
    SavedWriter,
)
from oncelog_broker.coordinator.transaction.shared import MARKER_EPOCH


class Transaction:
    """A transactional id."""

    __slots__ = (
        "cancel",
        "decided_s",
        "names",
        "order",
        "parked",
        "partition_count",
        "saved",
        "transactional_id",
        "writers",
    )

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.saved: SavedTransaction | SavedShared | None = None
        """None only while records are being read: writers were met first."""
        self.writers: dict[int, SavedWriter] = {}
        """Of the shared transaction that is open or prepared, by producer id."""
        self.names: dict[str, int] = {}
        """The producer id of each writer."""
        self.partition_count = 0
        """Of all writers together."""
        self.parked: dict[int, AnyAsk] = {}
        """Who waits until the transaction is complete, by number, in order."""
        self.order: MarkerOrder | None = None
        """Markers that are being written."""
        self.cancel: Callable[[], None] | None = None
        """Gives the order up; None when there is nothing to give up."""
        self.decided_s = 0.0
        """Loop time when it was prepared, or found so."""

    def set_writer(self, producer_id: int, saved: SavedWriter | None) -> None:
        """Add or change a writer, or forget it."""
        old = self.writers.pop(producer_id, None)
        if old is not None:
            self.partition_count -= len(old.partitions)
            if self.names.get(old.writer) == producer_id:
                del self.names[old.writer]
        if saved is not None:
            self.partition_count += len(saved.partitions)
            self.writers[producer_id] = saved
            self.names[saved.writer] = producer_id

    def markers(self) -> list[ProducerMarker]:
        """What ends the transaction that is prepared."""
        saved = self.saved
        if isinstance(saved, SavedTransaction):
            commit = saved.state.is_committed
            return [
                ProducerMarker(saved.marker_id, saved.marker_epoch, commit, list(saved.partitions))
            ]
        assert saved is not None
        return [
            ProducerMarker(
                producer_id, MARKER_EPOCH, producer_id in saved.winners, list(writer.partitions)
            )
            for producer_id, writer in self.writers.items()
            if writer.partitions
        ]
