"""InitProducerId, EndTxn and TxnOffsetCommit of Kafka are translated here.

Transactions of newer clients (KIP-890) are ours, word for word: an end raises the epoch, and the
leader, or the group's coordinator, adds its partition by itself. Those of older clients keep their
epoch, and add partitions and groups themselves: theirs end by number, where that is enabled. Where
it is not, such a client is refused when it looks for its coordinator, or asks for its producer id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.transactional_clients import refusal_code
from oncelog_broker.kafka.wire.messages.add_offsets_to_txn import (
    KafkaAddOffsetsToTxnRequest,
    KafkaAddOffsetsToTxnResponse,
)
from oncelog_broker.kafka.wire.messages.add_partitions_to_txn import (
    KafkaAddPartitionsToTxnRequest,
    KafkaAddPartitionsToTxnResponse,
    KafkaAddPartitionsToTxnResponsePartitionResult,
    KafkaAddPartitionsToTxnResponseTopicResult,
)
from oncelog_broker.kafka.wire.messages.end_txn import KafkaEndTxnRequest, KafkaEndTxnResponse
from oncelog_broker.kafka.wire.messages.init_producer_id import (
    KafkaInitProducerIdRequest,
    KafkaInitProducerIdResponse,
)
from oncelog_broker.kafka.wire.messages.txn_offset_commit import (
    KafkaTxnOffsetCommitRequest,
    KafkaTxnOffsetCommitResponse,
    KafkaTxnOffsetCommitResponsePartition,
    KafkaTxnOffsetCommitResponseTopic,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitPidRequest,
    TxnOffsetCommitPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitTopic,
    TxnTopic,
)


def init_producer_id(exchange: KafkaExchange, request: KafkaInitProducerIdRequest) -> None:
    """Give a producer its id, and a transactional one its epoch."""
    timeout_ms = 0
    if request.transactional_id is not None:
        timeout_ms = request.transaction_timeout_ms
        if not exchange.has_transactions:
            code = refusal_code(exchange.context.connection.software)
            exchange.answer(KafkaInitProducerIdResponse(error_code=code))
            return
    exchange.ask(
        InitPidRequest(
            request.transactional_id, timeout_ms, request.producer_id, request.producer_epoch
        ),
        lambda answer, _: exchange.answer(
            KafkaInitProducerIdResponse(
                error_code=exchange.code(answer.error_code),
                producer_id=answer.producer_id,
                producer_epoch=answer.producer_epoch,
            )
        ),
    )


def end_txn(exchange: KafkaExchange, request: KafkaEndTxnRequest) -> None:
    """Commit or abort; the answer has the producer's next id and epoch."""
    exchange.ask(
        EndTxnRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
        ),
        lambda answer, _: exchange.answer(
            KafkaEndTxnResponse(
                error_code=exchange.code(answer.error_code),
                producer_id=answer.producer_id,
                producer_epoch=answer.producer_epoch,
            )
        ),
    )


def add_partitions_to_txn(exchange: KafkaExchange, request: KafkaAddPartitionsToTxnRequest) -> None:
    """Have partitions be in the transaction that is open, or that begins by this. What becomes of
    them all is told for each."""
    topics = request.v3_and_below_topics
    added = AddedTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        [TxnTopic(topic.name, list(topic.partitions)) for topic in topics],
    )

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        code = exchange.code(answer.error_code or answer.results[0].error_code)
        told = [
            KafkaAddPartitionsToTxnResponseTopicResult(
                topic.name,
                [
                    KafkaAddPartitionsToTxnResponsePartitionResult(partition, code)
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ]
        exchange.answer(
            KafkaAddPartitionsToTxnResponse(results_by_topic_v3_and_below=told), counted=answer
        )

    exchange.ask(AddPartitionsToTxnRequest([added]), then)


def add_offsets_to_txn(exchange: KafkaExchange, request: KafkaAddOffsetsToTxnRequest) -> None:
    """Have the offsets of a group be in the transaction that is open, or that begins by this."""
    exchange.ask(
        AddOffsetsToTxnRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.group_id,
        ),
        lambda answer, _: exchange.answer(
            KafkaAddOffsetsToTxnResponse(error_code=exchange.code(answer.error_code))
        ),
    )


def txn_offset_commit(exchange: KafkaExchange, request: KafkaTxnOffsetCommitRequest) -> None:
    """Have offsets become a group's when the transaction commits. An error of the whole is told for
    each partition."""
    topics = [
        TxnOffsetCommitTopic(
            topic.name,
            [
                TxnOffsetCommitPartition(
                    part.partition_index,
                    part.committed_offset,
                    part.committed_leader_epoch,
                    part.committed_metadata,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            rows = [
                (t.name, [(p.partition_index, answer.error_code) for p in t.partitions])
                for t in request.topics
            ]
        else:
            rows = [
                (t.topic, [(p.partition, p.error_code) for p in t.partitions])
                for t in answer.topics
            ]
        told = [
            KafkaTxnOffsetCommitResponseTopic(
                name,
                [
                    KafkaTxnOffsetCommitResponsePartition(partition, exchange.code(code))
                    for partition, code in parts
                ],
            )
            for name, parts in rows
        ]
        exchange.answer(KafkaTxnOffsetCommitResponse(topics=told), counted=answer)

    exchange.ask(
        TxnOffsetCommitRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.group_id,
            topics,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
        ),
        then,
    )
