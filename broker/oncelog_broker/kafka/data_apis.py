"""Produce, Fetch, ListOffsets and OffsetForLeaderEpoch of Kafka are translated here.

Batches of Kafka are stored and served as they are. Batches of ours are converted for readers of
Kafka, some at a time, in turns of the loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.fetch import (
    KafkaFetchRequest,
    KafkaFetchResponse,
    KafkaFetchResponseAbortedTransaction,
    KafkaFetchResponseEpochEndOffset,
    KafkaFetchResponseFetchableTopicResponse,
    KafkaFetchResponsePartitionData,
)
from oncelog_broker.kafka.wire.messages.list_offsets import (
    KafkaListOffsetsRequest,
    KafkaListOffsetsResponse,
    KafkaListOffsetsResponsePartitionResponse,
    KafkaListOffsetsResponseTopicResponse,
)
from oncelog_broker.kafka.wire.messages.offset_for_leader_epoch import (
    KafkaOffsetForLeaderEpochRequest,
    KafkaOffsetForLeaderEpochResponse,
    KafkaOffsetForLeaderEpochResponseEpochEndOffset,
    KafkaOffsetForLeaderEpochResponseOffsetForLeaderTopicResult,
)
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceResponse,
    KafkaProduceResponseBatchIndexAndErrorMessage,
    KafkaProduceResponsePartitionProduceResponse,
    KafkaProduceResponseTopicProduceResponse,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import (
    CorruptMessageError,
    FetchSessionIdNotFoundError,
    InvalidTxnStateError,
)
from oncelog_protocol.messages.fetch import (
    ALL_FORMATS,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)
from oncelog_protocol.messages.offsets import (
    EpochAnswer,
    EpochAnswerTopic,
    EpochQuery,
    EpochQueryTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.records.kafka_conversion import Conversion
from oncelog_protocol.schema import Span
from oncelog_protocol.types import CONSUMER_REPLICA_ID, EARLIEST_TIMESTAMP, TopicPartition

NOTHING: Final = Span(0, 0)
NO_SESSION: Final = -1
EPOCH_SINCE: Final = 4
"""From this version of ListOffsets on an answer has leader epochs."""
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
ON_TIERS: Final = (EARLIEST_LOCAL, LATEST_TIERED)
"""The first offset on a broker's own disk, and the last one that lies elsewhere."""
RECORD_ERRORS_MAX: Final = 10_000
"""One answer names so many records that were refused: as many as clients put in a batch. A request
of 64 MiB may have millions, and its answer would be larger than it is."""
NO_KEY_MESSAGE: Final = "the topic is compacted, and the record has no key"
TURN_BYTES_MAX: Final = 1024 * 1024
"""So many bytes of batches are gone through in one turn of the loop."""
CONVERTED_BYTES_MAX: Final = 4 * 1024 * 1024
"""So many are converted for one answer; the first batch always, and whole. The reader asks for the
rest."""


# ---------------------------------------------------------------------------------------- Produce


def produce(exchange: KafkaExchange, request: KafkaProduceRequest) -> None:
    """Append batches of Kafka. Those of a transaction are added to it here, which older clients
    do not expect: they are refused."""
    if request.transactional_id is not None and not exchange.has_transactions:
        _refuse_produce(exchange, request, ProduceResponse(InvalidTxnStateError.code))
        return
    topics = [
        ProduceTopic(
            topic.name,
            [
                ProducePartition(part.index, part.records or NOTHING)
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            _refuse_produce(exchange, request, answer)
            return
        room = RECORD_ERRORS_MAX
        responses: list[KafkaProduceResponseTopicProduceResponse] = []
        for topic in answer.topics:
            produced: list[KafkaProduceResponsePartitionProduceResponse] = []
            for part in topic.partitions:
                produced.append(_produced(exchange, topic.topic, part, room))
                room -= len(produced[-1].record_errors)
            responses.append(
                KafkaProduceResponseTopicProduceResponse(topic.topic, partition_responses=produced)
            )
        exchange.answer(KafkaProduceResponse(responses), counted=answer)

    exchange.ask(
        ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics), then
    )


def _refuse_produce(
    exchange: KafkaExchange, request: KafkaProduceRequest, answer: ProduceResponse
) -> None:
    """Refuse the whole request, which is told for each partition."""
    code = exchange.code(answer.error_code)
    responses = [
        KafkaProduceResponseTopicProduceResponse(
            topic.name,
            partition_responses=[
                KafkaProduceResponsePartitionProduceResponse(part.index, code, -1)
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    exchange.answer(KafkaProduceResponse(responses), counted=answer)


def _produced(
    exchange: KafkaExchange, topic: str, part: ProducePartitionResponse, room: int
) -> KafkaProduceResponsePartitionProduceResponse:
    """Tell of a partition. Records that were refused are named, ``room`` of them at most; a client
    fails the others of their batch by another error (KIP-467)."""
    refused = exchange.record_errors.get(TopicPartition(topic, part.partition), ())
    return KafkaProduceResponsePartitionProduceResponse(
        part.partition,
        exchange.code(part.error_code),
        part.base_offset,
        part.log_append_time_ms,
        part.log_start_offset,
        [
            KafkaProduceResponseBatchIndexAndErrorMessage(index, NO_KEY_MESSAGE)
            for index in refused[:room]
        ],
        part.error_message,
    )


# ------------------------------------------------------------------------------------------ Fetch


def fetch(exchange: KafkaExchange, request: KafkaFetchRequest) -> None:
    """Serve a consumer. Sessions are not kept: each fetch names all its partitions."""
    if request.replica_id != CONSUMER_REPLICA_ID:
        exchange.refuse(f"a client fetches as replica {request.replica_id}")
        return
    if request.session_id:
        exchange.answer(KafkaFetchResponse(error_code=FetchSessionIdNotFoundError.code))
        return
    topics = [
        FetchTopic(
            topic.topic,
            [
                FetchPartition(
                    part.partition,
                    part.fetch_offset,
                    part.partition_max_bytes,
                    part.current_leader_epoch,
                    part.last_fetched_epoch,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    native = FetchRequest(
        CONSUMER_REPLICA_ID,
        -1,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        NO_SESSION,
        topics,
        formats=ALL_FORMATS,
    )
    exchange.ask(native, lambda answer, payload: _Fetched(exchange, answer, payload).go_on())


class _Fetched:
    """It makes the answer of one fetch, whose batches of ours are converted."""

    __slots__ = (
        *("_answer", "_buffers", "_conversion", "_converted_bytes", "_exchange", "_outcomes"),
        *("_payload", "_size", "_waiting"),
    )

    def __init__(self, exchange: KafkaExchange, answer: Any, payload: Sequence[Buffer]) -> None:
        self._exchange = exchange
        self._answer = answer
        self._payload = list(payload)
        self._waiting: list[FetchPartitionResponse] = [
            part for topic in answer.topics for part in topic.partitions
        ]
        self._waiting.reverse()
        self._outcomes: list[tuple[int, Span]] = []
        """They are (error code, records) of the partitions that are done, in order."""
        self._conversion: Conversion | None = None
        self._buffers: list[Buffer] = []
        self._size = 0
        self._converted_bytes = 0

    def go_on(self) -> None:
        """Convert for one turn of the loop; answer when all is done."""
        try:
            while self._waiting:
                if not self._step(self._waiting[-1]):
                    asyncio.get_running_loop().call_soon(self.go_on)
                    return
                self._waiting.pop()
        except Exception as exc:
            self._exchange.failed(exc)
            return
        self._exchange.answer(self._message(), self._buffers, counted=self._answer)

    def _step(self, part: FetchPartitionResponse) -> bool:
        """Go on with one partition; return whether it is done."""
        if not part.records.length:
            self._outcomes.append((part.error_code, NOTHING))
            return True
        conversion = self._conversion
        if conversion is None:
            records = _taken(self._payload, part.records.length)
            conversion = self._conversion = Conversion(records)
        try:
            left = max(CONVERTED_BYTES_MAX - self._converted_bytes, 0)
            done = conversion.step(TURN_BYTES_MAX, left)
        except CorruptBatchError:
            self._outcomes.append((CorruptMessageError.code, NOTHING))
            self._conversion = None
            return True
        if done:
            size = conversion.size_bytes
            self._outcomes.append((part.error_code, Span(self._size, size)))
            self._buffers += conversion.pieces
            self._size += size
            self._converted_bytes += conversion.converted_bytes
            self._conversion = None
        return done

    def _message(self) -> KafkaFetchResponse:
        code = self._exchange.code
        outcomes = iter(self._outcomes)
        responses = [
            KafkaFetchResponseFetchableTopicResponse(
                topic.topic,
                partitions=[_fetched(part, code, *next(outcomes)) for part in topic.partitions],
            )
            for topic in self._answer.topics
        ]
        return KafkaFetchResponse(error_code=code(self._answer.error_code), responses=responses)


def _taken(payload: list[Buffer], length: int) -> Buffer:
    """Take the next bytes off the payload: one piece, joined if they lie in several."""
    found: list[Buffer] = []
    while length:
        first = payload.pop(0)
        if len(first) > length:
            view = memoryview(first)
            payload.insert(0, view[length:])
            first = view[:length]
        found.append(first)
        length -= len(first)
    return found[0] if len(found) == 1 else b"".join(found)


def _fetched(
    part: FetchPartitionResponse, code: Callable[[int], int], error_code: int, records: Span
) -> KafkaFetchResponsePartitionData:
    diverging, aborted = None, None
    if part.diverging is not None:
        diverging = KafkaFetchResponseEpochEndOffset(
            part.diverging.leader_epoch, part.diverging.end_offset
        )
    if part.aborted is not None:
        aborted = [
            KafkaFetchResponseAbortedTransaction(each.producer_id, each.first_offset)
            for each in part.aborted
        ]
    return KafkaFetchResponsePartitionData(
        part.partition,
        code(error_code),
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=records,
    )


# ------------------------------------------------------------------------------------ ListOffsets


def list_offsets(exchange: KafkaExchange, request: KafkaListOffsetsRequest) -> None:
    """Tell offsets by timestamps; -1 is the end, -2 the beginning, and -3 the newest record, as
    ours. All that there is lies on the disks of brokers, and nothing elsewhere (KIP-405)."""
    if request.replica_id != CONSUMER_REPLICA_ID:
        exchange.refuse(f"a client asks for offsets as replica {request.replica_id}")
        return
    topics = [
        ListOffsetsTopic(
            topic.name,
            [
                ListOffsetsPartition(
                    part.partition_index,
                    EARLIEST_TIMESTAMP if part.timestamp in ON_TIERS else part.timestamp,
                    part.current_leader_epoch,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            code = exchange.code(answer.error_code)
            found = [
                (t.name, [_listed(p.partition_index, code) for p in t.partitions])
                for t in request.topics
            ]
        else:
            found = [
                (
                    t.topic,
                    [
                        _listed(p.partition, exchange.code(p.error_code))
                        if p.error_code or q.timestamp == LATEST_TIERED
                        else _listed(
                            p.partition,
                            0,
                            p.timestamp,
                            p.offset,
                            p.leader_epoch if exchange.version >= EPOCH_SINCE else -1,
                        )
                        for p, q in zip(t.partitions, asked.partitions, strict=True)
                    ],
                )
                for t, asked in zip(answer.topics, request.topics, strict=True)
            ]
        rows = [KafkaListOffsetsResponseTopicResponse(name, parts) for name, parts in found]
        exchange.answer(KafkaListOffsetsResponse(topics=rows), counted=answer)

    exchange.ask(ListOffsetsRequest(request.isolation_level, topics), then)


def _listed(
    partition: int, code: int, timestamp: int = -1, offset: int = -1, epoch: int = -1
) -> KafkaListOffsetsResponsePartitionResponse:
    return KafkaListOffsetsResponsePartitionResponse(
        partition, code, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


# --------------------------------------------------------------------------- OffsetForLeaderEpoch


def offset_for_leader_epoch(
    exchange: KafkaExchange, request: KafkaOffsetForLeaderEpochRequest
) -> None:
    """Tell consumers where leader epochs end."""
    if request.replica_id >= 0:
        exchange.refuse(f"a client asks for leader epochs as replica {request.replica_id}")
        return
    topics = [
        EpochQueryTopic(
            topic.topic,
            [
                EpochQuery(part.partition, part.current_leader_epoch, part.leader_epoch)
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.topics
        if answer.error_code:
            code = answer.error_code
            results = [
                EpochAnswerTopic(t.topic, [EpochAnswer(p.partition, code) for p in t.partitions])
                for t in topics
            ]
        rows = [
            KafkaOffsetForLeaderEpochResponseOffsetForLeaderTopicResult(
                topic.topic,
                [
                    KafkaOffsetForLeaderEpochResponseEpochEndOffset(
                        exchange.code(part.error_code),
                        part.partition,
                        part.leader_epoch,
                        part.end_offset,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in results
        ]
        exchange.answer(KafkaOffsetForLeaderEpochResponse(topics=rows), counted=answer)

    exchange.ask(OffsetForLeaderEpochRequest(topics), then)
