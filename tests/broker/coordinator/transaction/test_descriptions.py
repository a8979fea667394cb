"""ListTransactions and DescribeTransactions tell what people ask for."""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.descriptions import described, listed, producer_ids
from oncelog_broker.coordinator.transaction.records import (
    SavedShared,
    SavedTransaction,
    SavedWriter,
)
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    DescribedWriter,
    ListedTransaction,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def ordinary() -> TransactionMetadata:
    txn = TransactionMetadata("t")
    txn.saved = SavedTransaction(
        TxnState.ONGOING, 7, 3, 60_000, start_ms=1_000, partitions=(B0, A1, A0)
    )
    return txn


def shared() -> TransactionMetadata:
    txn = TransactionMetadata("s")
    txn.saved = SavedShared(
        TxnState.PREPARE_COMMIT, 5, 10, 60_000, 2_000, last_committed_tag=10, winners=(21,)
    )
    txn.set_writer(21, SavedWriter(5, "v", (A0,)))
    txn.set_writer(22, SavedWriter(5, "w", (A0, A1)))
    return txn


def names(request: ListTransactionsRequest, now_ms: int = 3_000) -> list[str]:
    found = listed([ordinary(), shared(), TransactionMetadata("half")], request, now_ms)
    return [each.transactional_id for each in found]


def test_all_are_listed_unless_something_is_asked_for() -> None:
    assert listed([ordinary(), shared()], ListTransactionsRequest(), 0) == [
        ListedTransaction("t", 7, "Ongoing"),
        ListedTransaction("s", -1, "PrepareCommit", shared=True),
    ]
    assert names(ListTransactionsRequest(states=["Ongoing", "Empty"])) == ["t"]
    assert names(ListTransactionsRequest(producer_ids=[22])) == ["s"]
    assert names(ListTransactionsRequest(producer_ids=[7, 9])) == ["t"]


def test_old_ones_are_those_that_are_open_for_so_long() -> None:
    assert names(ListTransactionsRequest(older_than_ms=2_000)) == ["t"]
    assert names(ListTransactionsRequest(older_than_ms=2_001)) == []
    idle = TransactionMetadata("i")
    idle.saved = SavedTransaction(TxnState.EMPTY, 8, 0, 60_000)
    assert listed([idle], ListTransactionsRequest(older_than_ms=0), 3_000) == []


def test_a_producer_whose_epochs_are_used_up_is_found_until_its_end() -> None:
    txn = TransactionMetadata("t")
    txn.saved = SavedTransaction(
        TxnState.PREPARE_ABORT, 9, 0, 1, marker_id=7, marker_epoch=32_767, partitions=(A0,)
    )
    assert producer_ids(txn) == [9, 7]
    txn.saved = SavedTransaction(TxnState.COMPLETE_ABORT, 9, 0, 1, marker_id=7)
    assert producer_ids(txn) == [9]


def test_an_ordinary_transaction() -> None:
    assert described(ordinary()) == DescribedTransaction(
        0,
        "t",
        "Ongoing",
        7,
        3,
        60_000,
        1_000,
        [TxnTopic("a", [0, 1]), TxnTopic("b", [0])],
    )


def test_a_shared_transaction() -> None:
    assert described(shared()) == DescribedTransaction(
        0,
        "s",
        "PrepareCommit",
        timeout_ms=60_000,
        start_ms=2_000,
        topics=[TxnTopic("a", [0, 1])],
        shared=True,
        ordinal=5,
        tag=10,
        last_committed_tag=10,
        writers=[
            DescribedWriter("v", 21, [TxnTopic("a", [0])]),
            DescribedWriter("w", 22, [TxnTopic("a", [0, 1])]),
        ],
    )
