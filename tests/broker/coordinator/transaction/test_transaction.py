"""One id in memory has writers, and markers end it."""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.records import (
    SavedShared,
    SavedTransaction,
    SavedWriter,
)
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.types import TopicPartition

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_writers_come_change_and_go() -> None:
    txn = TransactionMetadata("t")
    txn.set_writer(1, SavedWriter(5, "v"))
    txn.set_writer(2, SavedWriter(5, "w", (A0,)))
    txn.set_writer(1, SavedWriter(5, "v", (A0, A1)))
    assert txn.names == {"v": 1, "w": 2}
    assert txn.partition_count == 3
    txn.set_writer(1, None)
    txn.set_writer(9, None)
    assert (txn.names, list(txn.writers), txn.partition_count) == ({"w": 2}, [2], 1)


def test_markers_of_an_ordinary_transaction_carry_the_epoch_of_the_next() -> None:
    txn = TransactionMetadata("t")
    txn.saved = SavedTransaction(
        TxnState.PREPARE_COMMIT, 9, 0, 1, marker_id=7, marker_epoch=32_767, partitions=(A0, A1)
    )
    assert txn.markers() == [(7, 32_767, True, [A0, A1], -1)]


def test_markers_of_a_shared_transaction_say_who_has_won() -> None:
    txn = TransactionMetadata("t")
    txn.saved = SavedShared(TxnState.PREPARE_COMMIT, 5, 1, 1, winners=(2, 3))
    txn.set_writer(1, SavedWriter(5, "u", (A0,)))
    txn.set_writer(2, SavedWriter(5, "v", (A1,)))
    txn.set_writer(3, SavedWriter(5, "w"))
    assert txn.markers() == [(1, 1, False, [A0], -1), (2, 1, True, [A1], -1)]
