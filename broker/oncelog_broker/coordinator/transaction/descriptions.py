"""These functions tell people about transactions: ListTransactions, DescribeTransactions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog_broker.coordinator.transaction.records import (
    SavedShared,
    SavedTransaction,
    by_topic,
)
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.errors import NO_ERROR
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    DescribedWriter,
    ListedTransaction,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


def listed(
    transactions: Iterable[TransactionMetadata], request: ListTransactionsRequest, now_ms: int
) -> list[ListedTransaction]:
    """Return the transactions that the request asks for, in order of coming."""
    states, wanted = frozenset(request.states), frozenset(request.producer_ids)
    found = []
    for txn in transactions:
        saved = txn.saved
        if saved is None or (states and saved.state.label not in states):
            continue
        if wanted and not (wanted & frozenset(producer_ids(txn))):
            continue
        age_ms = now_ms - saved.start_ms if saved.start_ms >= 0 else -1
        if request.older_than_ms >= 0 and age_ms < request.older_than_ms:
            continue
        is_shared = isinstance(saved, SavedShared)
        producer_id = NO_PRODUCER_ID if is_shared else producer_ids(txn)[0]
        found.append(
            ListedTransaction(txn.transactional_id, producer_id, saved.state.label, is_shared)
        )
    return found


def producer_ids(txn: TransactionMetadata) -> list[int]:
    """Return the producers whose records may wait for this id: the present one, one whose epochs
    are used up while it is being ended, writers."""
    saved = txn.saved
    if not isinstance(saved, SavedTransaction):
        return list(txn.writers)
    if saved.state.is_prepared and saved.marker_id != saved.producer_id:
        return [saved.producer_id, saved.marker_id]
    return [saved.producer_id]


def described(txn: TransactionMetadata) -> DescribedTransaction:
    """Return everything that is known of one transaction."""
    saved = txn.saved
    assert saved is not None
    answer = DescribedTransaction(
        NO_ERROR,
        txn.transactional_id,
        saved.state.label,
        timeout_ms=saved.timeout_ms,
        start_ms=saved.start_ms,
    )
    if isinstance(saved, SavedTransaction):
        answer.producer_id = saved.producer_id
        answer.producer_epoch = saved.producer_epoch
        answer.topics = _topics(saved.partitions)
        return answer
    answer.producer_id, answer.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
    answer.shared = True
    answer.ordinal = saved.ordinal
    answer.tag = saved.tag
    answer.last_committed_tag = saved.last_committed_tag
    answer.writers = [
        DescribedWriter(writer.writer, producer_id, _topics(writer.partitions))
        for producer_id, writer in txn.writers.items()
    ]
    everywhere = dict.fromkeys(tp for w in txn.writers.values() for tp in w.partitions)
    answer.topics = _topics(list(everywhere))
    return answer


def _topics(partitions: Sequence[TopicPartition]) -> list[TxnTopic]:
    return [TxnTopic(topic, numbers) for topic, numbers in by_topic(sorted(partitions))]
