"""From PREPARE to COMPLETE: markers of transactions whose end is decided.

Rules:

- markers go out when PREPARE is committed, however long that takes, and not before (ablation 23):
  what was only appended may be lost, and the next coordinator would decide anew;
- a coordinator that finds PREPARE in the log has the markers written again: those that are there
  already change nothing;
- an order completes its own transaction and no other: compared by identity, never by name (B16);
- COMPLETE takes along what the first that waits for it writes: one batch for both;
- nothing here gives up: a refused append is tried again as long as the shard is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from oncelog_broker.coordinator.ports import MarkerOrder, MarkerSender, Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.transaction import ordinary, shared
from oncelog_broker.coordinator.transaction.records import (
    Saved,
    SavedTransaction,
    id_record,
    writer_record,
)
from oncelog_broker.coordinator.transaction.states import check_transition
from oncelog_broker.coordinator.transaction.transaction import Transaction
from oncelog_runtime.clock import WallClock

AGAIN_S = 0.5
"""Pause before what was refused is tried again."""


class Ends:
    """The decided transactions of one shard.

    :param find: gives the transaction of an id, if any.
    :param following: what is to be written right after a transaction is complete in that way.
    """

    def __init__(
        self,
        timers: Timers,
        markers: MarkerSender,
        clock: WallClock,
        find: Callable[[str], Transaction | None],
        following: Callable[[Transaction, Saved], Result[None] | None],
    ) -> None:
        self._timers = timers
        self._markers = markers
        self._clock = clock
        self._find = find
        self._following = following
        self._order_count = 0
        self.leader_epoch = -1

    def settled(self, transactional_id: str) -> Result[None]:
        """An operation that has the markers of a PREPARE written once it is committed."""
        txn = self._find(transactional_id)
        if txn is None or txn.saved is None or not txn.saved.state.is_prepared:
            return Result()
        return self.hooked((), transactional_id, txn.saved)

    def hooked(
        self,
        records: tuple[CoordinatorRecord, ...],
        transactional_id: str,
        saved: Saved,
    ) -> Result[None]:
        """``records``, by which or before which ``saved`` was prepared, with what follows."""
        return Result(
            records,
            None,
            partial(self.decided, transactional_id, saved),
            lambda _: self._settle_later(transactional_id, saved),
            rests_on_log=True,
        )

    def decided(self, transactional_id: str, saved: Saved) -> None:
        """This PREPARE is committed: have the markers written, if that is not under way."""
        txn = self._find(transactional_id)
        # Another PREPARE of the same id may be there already, and not be committed.
        if txn is None or txn.saved != saved or txn.order is not None:
            return
        order = MarkerOrder(transactional_id, self.leader_epoch, txn.markers())
        self._order_count += 1
        key = f"done {self._order_count}"
        written = False

        def done() -> None:
            nonlocal written
            written = True
            if txn.order is order:
                txn.cancel = None
                self._timers.set(key, 0.0, partial(self._complete, txn, order, key))

        txn.order = order
        if not any(marker.partitions for marker in order.markers):
            return done()
        cancel = self._markers.send(order, done)
        if not written:
            txn.cancel = cancel

    def _settle_later(self, transactional_id: str, saved: Saved) -> None:
        """It could not be committed, or not in time; if it was appended, it may be yet."""
        txn = self._find(transactional_id)
        if txn is not None and txn.saved == saved and txn.order is None:
            key = f"settle {transactional_id}"
            self._timers.set(key, AGAIN_S, partial(self.settled, transactional_id))

    def _complete(self, txn: Transaction, order: MarkerOrder, key: str) -> Result[None]:
        saved = txn.saved
        if txn.order is not order or saved is None:
            return Result()

        complete = self._completed(saved)
        following = self._following(txn, complete) or Result()

        def failed(error_code: int) -> None:
            if following.on_failure is not None:
                following.on_failure(error_code)
            if txn.order is order:
                self._timers.set(key, AGAIN_S, partial(self._complete, txn, order, key))

        records = [
            id_record(txn.transactional_id, complete),
            *(writer_record(txn.transactional_id, writer, None) for writer in txn.writers),
            *following.records,
        ]
        return Result(records, None, following.on_committed, failed)

    def _completed(self, saved: Saved) -> Saved:
        """COMPLETE of what is prepared as ``saved``."""
        now_ms = self._clock.now_ms()
        complete: Saved
        if isinstance(saved, SavedTransaction):
            complete = ordinary.completed(saved, now_ms)
        else:
            complete = shared.completed(saved, now_ms)
        check_transition(saved.state, complete.state)
        return complete

    def stop(self, txn: Transaction) -> None:
        """The order of this transaction is over, or nobody's business here any more."""
        cancel, txn.cancel, txn.order = txn.cancel, None, None
        if cancel is not None:
            cancel()
