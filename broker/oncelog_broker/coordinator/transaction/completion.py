"""A transaction whose end is decided goes from PREPARE to COMPLETE here, by its markers.

Rules:

- markers go out when PREPARE is committed, however long that takes, and not before [K2]: what was
  only appended may be lost, and the next coordinator would decide anew;
- a coordinator that finds PREPARE in the log has the markers written again: those that are there
  already change nothing;
- an order completes its own transaction and no other: it is compared by identity, never by name
  [B16];
- whoever waits for the end of an ordinary transaction goes on when the markers are written, and
  COMPLETE is the first of the records that it appends: one batch is for both. A shared one is
  completed by itself, for its writers end with it;
- nothing here gives up: a refused append is tried again as long as the shard is there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from oncelog_broker.coordinator.ports import MarkerOrder, MarkerSenderPort, Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.transaction.records import (
    Saved,
    SavedTransaction,
    id_record,
    writer_record,
)
from oncelog_broker.coordinator.transaction.states import check_transition
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_runtime.clock import WallClock

R = TypeVar("R")

AGAIN_S = 0.5
"""An append that was refused is tried again after this pause."""


class TransactionCompletion:
    """It carries out the decided transactions of one shard.

    :param find: gives the transaction of an id, if any.
    :param resume: lets go on what waits for the end of a transaction.
    """

    def __init__(
        self,
        timers: Timers,
        markers: MarkerSenderPort,
        clock: WallClock,
        find: Callable[[str], TransactionMetadata | None],
        resume: Callable[[TransactionMetadata], None],
    ) -> None:
        self._timers = timers
        self._markers = markers
        self._clock = clock
        self._find = find
        self._resume = resume
        self._leader_epoch = -1

    def led_in(self, leader_epoch: int) -> None:
        """Take over the leader epoch: markers carry it as their coordinator epoch."""
        self._leader_epoch = leader_epoch

    def prepared(
        self,
        records: tuple[CoordinatorRecord, ...],
        reply: R | None,
        transactional_id: str,
        saved: Saved,
    ) -> Result[R]:
        """Return the result that writes ``records``. ``saved`` was prepared by them or before them;
        its markers follow when it is committed."""
        return Result(
            records,
            reply,
            partial(self.decided, transactional_id, saved),
            lambda _: self._settle_later(transactional_id, saved),
            rests_on_log=True,
        )

    def settle(self, transactional_id: str) -> Result[None]:
        """Have the markers of a PREPARE that was appended before written, once it is committed."""
        txn = self._find(transactional_id)
        if txn is None or txn.saved is None or not txn.saved.state.is_prepared:
            return Result()
        return self.prepared((), None, transactional_id, txn.saved)

    def _settle_later(self, transactional_id: str, saved: Saved) -> None:
        """Try again later, since PREPARE could not be committed, or not in time; if it was
        appended, it may be yet."""
        txn = self._find(transactional_id)
        if txn is not None and txn.saved == saved and txn.order is None:
            key = f"settle {transactional_id}"
            self._timers.set(key, AGAIN_S, partial(self.settle, transactional_id))

    def decided(self, transactional_id: str, saved: Saved) -> None:
        """Have the markers of this committed PREPARE written, if that is not under way."""
        txn = self._find(transactional_id)
        # Another PREPARE of the same id may be there already, and not be committed.
        if txn is None or txn.saved != saved or txn.order is not None:
            return

        def written(order: MarkerOrder) -> None:
            self._timers.soon(partial(self._complete, txn, order), retry_s=AGAIN_S)

        txn.send_markers(self._markers, self._leader_epoch, written)

    def _complete(self, txn: TransactionMetadata, order: MarkerOrder) -> Result[None]:
        saved = txn.saved
        if txn.order is not order or saved is None:
            return Result()
        complete = saved.completed(self._clock.now_ms())
        check_transition(saved.state, complete.state)
        if txn.delayed and isinstance(complete, SavedTransaction):
            txn.complete(complete)
            self._resume(txn)
            # Who waited may have appended nothing, or was refused.
            self._timers.soon(partial(self._complete, txn, order), retry_s=AGAIN_S)
            return Result()
        records = [
            id_record(txn.transactional_id, complete),
            *(writer_record(txn.transactional_id, writer, None) for writer in txn.writers),
        ]
        return Result(records)
