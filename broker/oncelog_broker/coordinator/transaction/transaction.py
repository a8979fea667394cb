"""A transaction coordinator has this of one transactional id in memory.

``saved`` and ``writers`` follow from the log; the rest is of this coordinator alone, and is made
anew by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog_broker.coordinator.ports import MarkerOrder, MarkerSenderPort, ProducerMarker
from oncelog_broker.coordinator.result import DelayedOperations
from oncelog_broker.coordinator.transaction import ordinary, shared
from oncelog_broker.coordinator.transaction.records import (
    Saved,
    SavedShared,
    SavedTransaction,
    SavedWriter,
)
from oncelog_broker.coordinator.transaction.states import TxnState, check_transition
from oncelog_protocol.types import NO_TXN_NUMBER


@dataclass(slots=True, eq=False)
class TransactionMetadata:
    """It is a transactional id: what the log says of it, its markers under way, and who waits for
    it."""

    transactional_id: str
    saved: Saved | None = None
    """It is None only while records are being read and writers were met first."""
    writers: dict[int, SavedWriter] = field(default_factory=dict)
    """The shared transaction that is open or prepared has these writers, by producer id."""
    names: dict[str, int] = field(default_factory=dict)
    """It maps each writer's name to its producer id."""
    partition_count: int = 0
    """All writers together have so many partitions."""
    decided_s: float = 0.0
    """It is the loop time when the transaction was prepared, or found so."""
    delayed: DelayedOperations = field(default_factory=DelayedOperations)
    """These operations wait until the transaction is complete."""
    order: MarkerOrder | None = None
    """These markers are being written, or all are."""
    completed: Saved | None = None
    """It is COMPLETE of the prepared transaction, once all its markers are written and until that
    is appended."""
    _cancel: Callable[[], None] | None = None
    """It gives the order up; None when there is nothing to give up."""

    # ---- durable state

    @property
    def present(self) -> Saved | None:
        """Return what requests go by: a transaction is complete for them when its markers are
        written, for COMPLETE is appended before anything that they append."""
        return self.saved if self.completed is None else self.completed

    def replay(self, saved: Saved | None) -> None:
        """Take over what the log says of the id from now on."""
        self.saved = saved
        self.completed = None

    def check(self, saved: Saved | None) -> None:
        """Check that ``saved`` may follow what is there.

        :raises IllegalTxnTransitionError: ``saved`` cannot follow what is there.
        """
        old = self.saved
        state = TxnState.DEAD if saved is None else saved.state
        check_transition(None if old is None else old.state, state)
        if isinstance(old, SavedTransaction) and isinstance(saved, SavedTransaction):
            ordinary.check_producer(old, saved)
        elif isinstance(old, SavedShared) and isinstance(saved, SavedShared):
            shared.check_ordinal(old, saved)

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

    def forget_old_writers(self) -> None:
        """Forget writers of a transaction that is over, which a log may still name."""
        saved = self.saved
        for producer_id, writer in list(self.writers.items()):
            if not isinstance(saved, SavedShared) or writer.ordinal != saved.ordinal:
                self.set_writer(producer_id, None)

    # ---- from PREPARE to COMPLETE

    def decided(self, now_s: float) -> None:
        """Note the time at which its end was decided, or was found to be."""
        self.decided_s = now_s

    def markers(self) -> list[ProducerMarker]:
        """Return the markers that end the transaction, which is prepared."""
        saved = self.saved
        if isinstance(saved, SavedTransaction):
            commit = saved.state.is_committed
            partitions = list(saved.partitions)
            number = saved.number or NO_TXN_NUMBER
            return [ProducerMarker(saved.marker_id, saved.marker_epoch, commit, partitions, number)]
        assert saved is not None
        return [
            ProducerMarker(
                producer_id,
                shared.MARKER_EPOCH,
                producer_id in saved.winners,
                list(writer.partitions),
            )
            for producer_id, writer in self.writers.items()
            if writer.partitions
        ]

    def send_markers(
        self, sender: MarkerSenderPort, leader_epoch: int, written: Callable[[MarkerOrder], None]
    ) -> None:
        """Have all markers written. ``written`` is called once, maybe before this returns, and not
        after ``stop_markers``."""
        order = MarkerOrder(self.transactional_id, leader_epoch, self.markers())
        is_written = False

        def done() -> None:
            nonlocal is_written
            if is_written:
                return
            is_written = True
            if self.order is order:
                self._cancel = None
                written(order)

        self.order = order
        if not any(marker.partitions for marker in order.markers):
            return done()
        cancel = sender.send(order, done)
        if not is_written:
            self._cancel = cancel

    def complete(self, completed: Saved) -> None:
        """Note that all markers are written, so that it goes on from ``completed``."""
        self.completed = completed

    def stop_markers(self) -> None:
        """Give the order up: it is over, or nobody's business here any more."""
        cancel, self._cancel, self.order = self._cancel, None, None
        if cancel is not None:
            cancel()
