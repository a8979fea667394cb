"""APIs of Kafka that change topics and who leads them are translated here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.grouping import by_topic
from oncelog_broker.kafka.topic_ids import id_bytes, topic_of
from oncelog_broker.kafka.wire.messages.create_partitions import (
    KafkaCreatePartitionsRequest,
    KafkaCreatePartitionsResponse,
    KafkaCreatePartitionsResponseTopicResult,
)
from oncelog_broker.kafka.wire.messages.create_topics import (
    KafkaCreateTopicsRequest,
    KafkaCreateTopicsRequestCreatableTopic,
    KafkaCreateTopicsResponse,
    KafkaCreateTopicsResponseCreatableTopicResult,
)
from oncelog_broker.kafka.wire.messages.delete_records import (
    KafkaDeleteRecordsRequest,
    KafkaDeleteRecordsResponse,
    KafkaDeleteRecordsResponsePartitionResult,
    KafkaDeleteRecordsResponseTopicResult,
)
from oncelog_broker.kafka.wire.messages.delete_topics import (
    KafkaDeleteTopicsRequest,
    KafkaDeleteTopicsResponse,
    KafkaDeleteTopicsResponseDeletableTopicResult,
)
from oncelog_broker.kafka.wire.messages.elect_leaders import (
    KafkaElectLeadersRequest,
    KafkaElectLeadersResponse,
    KafkaElectLeadersResponsePartitionResult,
    KafkaElectLeadersResponseReplicaElectionResult,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import (
    ElectionNotNeededError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    UnknownTopicIdError,
)
from oncelog_protocol.messages.admin import (
    ConfigEntry,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
    DeleteTopicsRequest,
    ElectionResult,
    ElectionTarget,
    ElectLeadersRequest,
    PartitionGrowth,
    TopicResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1
BY_ID_SINCE: Final = 6
"""From this version of DeleteTopics on topics may be named by their ids."""


def create_topics(exchange: KafkaExchange, request: KafkaCreateTopicsRequest) -> None:
    """Create topics. The numbers of an assignment's partitions must be 0, 1, 2 and so on."""
    topics: list[CreatableTopic] = []
    refused: dict[str, TopicResult] = {}
    for each in request.topics:
        assignment = _assignment(each)
        if assignment is None and each.assignments:
            code = InvalidReplicaAssignmentError.code
            refused[each.name] = TopicResult(each.name, code, "partitions are 0, 1, 2 and so on")
            continue
        configs = [ConfigEntry(config.name, config.value) for config in each.configs]
        count, factor = each.num_partitions, each.replication_factor
        topics.append(CreatableTopic(each.name, count, factor, assignment, configs))

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = refused | {each.topic: each for each in answer.topics}
        missing = TopicResult("", answer.error_code)
        rows = []
        for topic in request.topics:
            found = results.get(topic.name, missing)
            rows.append(
                KafkaCreateTopicsResponseCreatableTopicResult(
                    topic.name,
                    id_bytes(found.topic_id),
                    exchange.code(found.error_code),
                    found.error_message,
                    num_partitions=found.partition_count,
                    replication_factor=found.replication_factor,
                )
            )
        exchange.answer(KafkaCreateTopicsResponse(topics=rows), counted=answer)

    exchange.ask(CreateTopicsRequest(topics, request.timeout_ms, request.validate_only), then)


def _assignment(topic: KafkaCreateTopicsRequestCreatableTopic) -> list[list[int]] | None:
    """Return the brokers of each partition in order; None where there are none, or gaps."""
    by_index = {each.partition_index: each.broker_ids for each in topic.assignments}
    if not by_index or sorted(by_index) != list(range(len(topic.assignments))):
        return None
    return [by_index[index] for index in range(len(by_index))]


def delete_topics(exchange: KafkaExchange, request: KafkaDeleteTopicsRequest) -> None:
    """Delete topics, by name or by id."""
    named: list[tuple[str | None, bytes]] = [(name, b"") for name in request.topic_names]
    if exchange.version >= BY_ID_SINCE:
        named = [
            (
                topic_of(exchange.image, each.topic_id) if each.name is None else each.name,
                each.topic_id,
            )
            for each in request.topics
        ]
    names = list(dict.fromkeys(name for name, _ in named if name is not None))

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = {each.topic: each for each in answer.topics}
        missing = TopicResult("", answer.error_code)
        rows = []
        for name, topic_id in named:
            if name is None:
                found = TopicResult("", UnknownTopicIdError.code)
            else:
                found = results.get(name, missing)
            rows.append(
                KafkaDeleteTopicsResponseDeletableTopicResult(
                    name,
                    topic_id or id_bytes(found.topic_id),
                    exchange.code(found.error_code),
                    found.error_message,
                )
            )
        exchange.answer(KafkaDeleteTopicsResponse(responses=rows), counted=answer)

    exchange.ask(DeleteTopicsRequest(names, request.timeout_ms), then)


def create_partitions(exchange: KafkaExchange, request: KafkaCreatePartitionsRequest) -> None:
    """Add partitions to topics."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.topics
        if answer.error_code and not results:
            results = [TopicResult(topic.name, answer.error_code) for topic in request.topics]
        rows = [
            KafkaCreatePartitionsResponseTopicResult(
                each.topic, exchange.code(each.error_code or answer.error_code), each.error_message
            )
            for each in results
        ]
        exchange.answer(KafkaCreatePartitionsResponse(results=rows), counted=answer)

    growths = [
        PartitionGrowth(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in request.topics
    ]
    exchange.ask(CreatePartitionsRequest(growths, request.timeout_ms, request.validate_only), then)


def delete_records(exchange: KafkaExchange, request: KafkaDeleteRecordsRequest) -> None:
    """Let partitions begin at later offsets; an offset of -1 is their high watermark."""
    topics = [
        DeleteRecordsTopic(
            topic.name,
            [
                DeleteRecordsPartition(each.partition_index, each.offset)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results = answer.topics
        if answer.error_code:
            results = [
                DeleteRecordsTopicResult(
                    topic.topic,
                    [
                        DeleteRecordsPartitionResult(each.partition, error_code=answer.error_code)
                        for each in topic.partitions
                    ],
                )
                for topic in topics
            ]
        rows = [
            KafkaDeleteRecordsResponseTopicResult(
                topic.topic,
                [
                    KafkaDeleteRecordsResponsePartitionResult(
                        each.partition, each.low_watermark, exchange.code(each.error_code)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in results
        ]
        exchange.answer(KafkaDeleteRecordsResponse(topics=rows), counted=answer)

    exchange.ask(DeleteRecordsRequest(topics, request.timeout_ms), then)


def elect_leaders(exchange: KafkaExchange, request: KafkaElectLeadersRequest) -> None:
    """Elect leaders. Where all partitions are meant, those that need none are not told."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        exchange.answer(KafkaElectLeadersResponse(error_code=InvalidRequestError.code))
        return
    targets = None
    if request.topic_partitions is not None:
        targets = [
            ElectionTarget(topic.topic, partition)
            for topic in request.topic_partitions
            for partition in topic.partitions
        ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results: list[ElectionResult] = answer.partitions
        if answer.error_code:
            results = [
                ElectionResult(each.topic, each.partition, answer.error_code)
                for each in targets or ()
            ]
        elif targets is None:
            results = [each for each in results if each.error_code != ElectionNotNeededError.code]
        rows = [
            KafkaElectLeadersResponseReplicaElectionResult(
                name,
                [
                    KafkaElectLeadersResponsePartitionResult(
                        each.partition, exchange.code(each.error_code), each.error_message
                    )
                    for each in parts
                ],
            )
            for name, parts in by_topic(results).items()
        ]
        # Version 0 has no error of the whole.
        code = exchange.code(answer.error_code) if exchange.version else 0
        message = KafkaElectLeadersResponse(error_code=code, replica_election_results=rows)
        exchange.answer(message, counted=answer)

    exchange.ask(ElectLeadersRequest(request.election_type == UNCLEAN, targets), then)
