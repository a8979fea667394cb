"""DescribeProducers, DescribeTransactions, ListTransactions and WriteTxnMarkers of Kafka are
translated here, which operators ask (KIP-664).

Rules
-----
* A marker from outside is an abort, by hand, of a transaction that is open in a partition and that
  no coordinator ends; it is our AbortTransaction, with its checks and its rights. The coordinator's
  epoch that it names is not looked at: the partition knows it. All other markers are for brokers.
* Kafka has no pages of producers: all that a partition knows are gathered, a page each turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.describe_producers import (
    KafkaDescribeProducersRequest,
    KafkaDescribeProducersResponse,
    KafkaDescribeProducersResponsePartitionResponse,
    KafkaDescribeProducersResponseProducerState,
    KafkaDescribeProducersResponseTopicResponse,
)
from oncelog_broker.kafka.wire.messages.describe_transactions import (
    KafkaDescribeTransactionsRequest,
    KafkaDescribeTransactionsResponse,
    KafkaDescribeTransactionsResponseTopicData,
    KafkaDescribeTransactionsResponseTransactionState,
)
from oncelog_broker.kafka.wire.messages.list_transactions import (
    KafkaListTransactionsRequest,
    KafkaListTransactionsResponse,
    KafkaListTransactionsResponseTransactionState,
)
from oncelog_broker.kafka.wire.messages.write_txn_markers import (
    KafkaWriteTxnMarkersRequest,
    KafkaWriteTxnMarkersRequestWritableTxnMarker,
    KafkaWriteTxnMarkersResponse,
    KafkaWriteTxnMarkersResponseWritableTxnMarkerPartitionResult,
    KafkaWriteTxnMarkersResponseWritableTxnMarkerResult,
    KafkaWriteTxnMarkersResponseWritableTxnMarkerTopicResult,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.transaction_admin import (
    AbortTransactionRequest,
    AbortTransactionResponse,
    DescribedProducer,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import TxnTopic

ABORTS_MAX: Final = 1000
"""One request aborts in so many partitions at most."""


def list_transactions(exchange: KafkaExchange, request: KafkaListTransactionsRequest) -> None:
    """Tell the transactional ids that this broker coordinates."""
    known = {state.label for state in TxnState}

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        exchange.answer(
            KafkaListTransactionsResponse(
                error_code=exchange.code(answer.error_code),
                unknown_state_filters=[each for each in request.state_filters if each not in known],
                transaction_states=[
                    KafkaListTransactionsResponseTransactionState(
                        each.transactional_id, each.producer_id, each.state
                    )
                    for each in answer.transactions
                ],
            )
        )

    exchange.ask(
        ListTransactionsRequest(
            request.state_filters, request.producer_id_filters, request.duration_filter
        ),
        then,
    )


def describe_transactions(
    exchange: KafkaExchange, request: KafkaDescribeTransactionsRequest
) -> None:
    """Tell of transactional ids and what is open under them."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        found = answer.transactions
        if answer.error_code:
            ids = request.transactional_ids
            found = [DescribedTransaction(answer.error_code, each) for each in ids]
        rows = [_transaction(exchange, each) for each in found]
        exchange.answer(KafkaDescribeTransactionsResponse(transaction_states=rows), counted=answer)

    exchange.ask(DescribeTransactionsRequest(request.transactional_ids), then)


def _transaction(
    exchange: KafkaExchange, found: DescribedTransaction
) -> KafkaDescribeTransactionsResponseTransactionState:
    return KafkaDescribeTransactionsResponseTransactionState(
        exchange.code(found.error_code),
        found.transactional_id,
        found.state,
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        [
            KafkaDescribeTransactionsResponseTopicData(each.topic, each.partitions)
            for each in found.topics
        ],
    )


# ---------------------------------------------------------------------------- DescribeProducers


def describe_producers(exchange: KafkaExchange, request: KafkaDescribeProducersRequest) -> None:
    """Tell what partitions know of their producers."""
    topics = [TxnTopic(each.name, each.partition_indexes) for each in request.topics]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        code = answer.error_code
        if code:
            found = [_Partition(t.topic, each, code) for t in topics for each in t.partitions]
        else:
            found = [
                _Partition(t.topic, p.partition, p.error_code, list(p.producers), p.more)
                for t in answer.topics
                for p in t.partitions
            ]
        _Producers(exchange, answer, topics, found).go_on()

    exchange.ask(DescribeProducersRequest(topics), then)


@dataclass(slots=True)
class _Partition:
    """It is what is known by now of one partition's producers; ``more`` pages of it are missing."""

    topic: str
    partition: int
    error_code: int
    producers: list[DescribedProducer] = field(default_factory=list)
    more: bool = False

    def take(self, answer: DescribeProducersResponse) -> None:
        """Take in a page; after an error none counts, as the asker will ask elsewhere."""
        found = answer.topics[0].partitions[0] if answer.topics else None
        self.error_code = answer.error_code if found is None else found.error_code
        self.producers += [] if found is None else found.producers
        if self.error_code:
            self.producers = []
        self.more = found is not None and found.more and not self.error_code


class _Producers:
    """It gathers the pages that one answer has not held, and answers."""

    __slots__ = ("_exchange", "_first", "_found", "_open", "_topics")

    def __init__(
        self,
        exchange: KafkaExchange,
        first: DescribeProducersResponse,
        topics: list[TxnTopic],
        found: list[_Partition],
    ) -> None:
        self._exchange = exchange
        self._first = first
        self._topics = topics
        self._found = found
        self._open = deque(part for part in found if part.more)

    def go_on(self) -> None:
        """Ask for the next page, or answer."""
        if not self._open:
            self._exchange.answer(self._message(), counted=self._first)
            return
        part = self._open[0]
        after = part.producers[-1].producer_id if part.producers else -1
        self._exchange.ask(
            DescribeProducersRequest([TxnTopic(part.topic, [part.partition])], after), self._more
        )

    def _more(self, answer: Any, _: Sequence[Buffer]) -> None:
        self._open[0].take(answer)
        if not self._open[0].more:
            self._open.popleft()
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        try:
            self.go_on()
        except Exception as exc:
            self._exchange.failed(exc)

    def _message(self) -> KafkaDescribeProducersResponse:
        found = iter(self._found)
        return KafkaDescribeProducersResponse(
            topics=[
                KafkaDescribeProducersResponseTopicResponse(
                    topic.topic, [_partition(self._exchange, next(found)) for _ in topic.partitions]
                )
                for topic in self._topics
            ]
        )


def _partition(
    exchange: KafkaExchange, part: _Partition
) -> KafkaDescribeProducersResponsePartitionResponse:
    return KafkaDescribeProducersResponsePartitionResponse(
        part.partition,
        exchange.code(part.error_code),
        active_producers=[_producer(each) for each in part.producers],
    )


def _producer(found: DescribedProducer) -> KafkaDescribeProducersResponseProducerState:
    return KafkaDescribeProducersResponseProducerState(
        found.producer_id,
        found.producer_epoch,
        found.last_sequence,
        found.last_timestamp_ms,
        found.coordinator_epoch,
        found.txn_start_offset,
    )


# ------------------------------------------------------------------------------ WriteTxnMarkers


def write_txn_markers(exchange: KafkaExchange, request: KafkaWriteTxnMarkersRequest) -> None:
    """Write abort markers by hand. A commit is refused, for each of its partitions."""
    aborts = [
        AbortTransactionRequest(topic.name, partition, marker.producer_id, marker.producer_epoch)
        for marker in request.markers
        if not marker.transaction_result
        for topic in marker.topics
        for partition in topic.partition_indexes
    ]
    if len(aborts) > ABORTS_MAX:
        exchange.refuse(f"a client aborts {len(aborts)} transactions, at most {ABORTS_MAX} at once")
        return

    is_refused = any(marker.transaction_result for marker in request.markers)
    refused_code = ClusterAuthorizationFailedError.code if is_refused else 0
    refusal = AbortTransactionResponse(refused_code)

    def then(answers: list[Any]) -> None:
        codes = deque(each.error_code for each in answers)
        rows = [_marked(exchange, marker, codes) for marker in request.markers]
        counted = next((each for each in answers if each.error_code), refusal)
        exchange.answer(KafkaWriteTxnMarkersResponse(rows), counted=counted)

    exchange.ask_all(aborts, then)


def _marked(
    exchange: KafkaExchange, marker: KafkaWriteTxnMarkersRequestWritableTxnMarker, codes: deque[int]
) -> KafkaWriteTxnMarkersResponseWritableTxnMarkerResult:
    """Take the codes of the marker's partitions off, and tell them."""
    refused = ClusterAuthorizationFailedError.code
    return KafkaWriteTxnMarkersResponseWritableTxnMarkerResult(
        marker.producer_id,
        [
            KafkaWriteTxnMarkersResponseWritableTxnMarkerTopicResult(
                topic.name,
                [
                    KafkaWriteTxnMarkersResponseWritableTxnMarkerPartitionResult(
                        partition,
                        exchange.code(refused if marker.transaction_result else codes.popleft()),
                    )
                    for partition in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
