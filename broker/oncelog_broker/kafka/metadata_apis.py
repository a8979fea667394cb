"""Metadata and FindCoordinator of Kafka are translated here.

Brokers are named by the addresses of the listener that was asked. A broker without a listener of
that name cannot be reached by this client: it is left out, and its partitions have no leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.topic_ids import id_bytes, topic_of
from oncelog_broker.kafka.transactional_clients import REFUSAL, refusal_code
from oncelog_broker.kafka.wire.declaration import NO_UUID
from oncelog_broker.kafka.wire.messages.find_coordinator import (
    KafkaFindCoordinatorRequest,
    KafkaFindCoordinatorResponse,
    KafkaFindCoordinatorResponseCoordinator,
)
from oncelog_broker.kafka.wire.messages.metadata import (
    KafkaMetadataRequest,
    KafkaMetadataResponse,
    KafkaMetadataResponseBroker,
    KafkaMetadataResponsePartition,
    KafkaMetadataResponseTopic,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import (
    LeaderNotAvailableError,
    UnknownTopicIdError,
)
from oncelog_protocol.messages.groups import (
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.metadata import (
    MetadataPartition,
    MetadataRequest,
    MetadataTopic,
)
from oncelog_protocol.types import NO_BROKER

MANY_SINCE = 4
"""From this version of FindCoordinator on a request has many keys."""


def metadata(exchange: KafkaExchange, request: KafkaMetadataRequest) -> None:
    """Tell brokers and topics."""
    names: list[str] = []
    unknown: list[bytes] = []
    for topic in request.topics or ():
        name = topic.name
        if topic.topic_id != NO_UUID:
            name = topic_of(exchange.image, topic.topic_id)
        if name is None:
            unknown.append(topic.topic_id)
        else:
            names.append(name)
    # Below version 1 no topic stands for all of them.
    wants_all = request.topics is None or (exchange.version == 0 and not request.topics)

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            # Kafka's Metadata has no place for it; a client whose connection ends asks again.
            exchange.end(close_after=True)
            return
        reachable = {broker.broker_id for broker in answer.brokers}
        topics = [_topic(exchange, topic, reachable) for topic in answer.topics]
        no_name = None if exchange.version >= 12 else ""
        topics += [
            KafkaMetadataResponseTopic(UnknownTopicIdError.code, no_name, topic_id)
            for topic_id in unknown
        ]
        exchange.answer(
            KafkaMetadataResponse(
                brokers=[
                    KafkaMetadataResponseBroker(each.broker_id, each.host, each.port, each.rack)
                    for each in answer.brokers
                ],
                cluster_id=answer.cluster_id,
                controller_id=answer.controller_id,
                topics=topics,
            )
        )

    exchange.ask(
        MetadataRequest(None if wants_all else names, request.allow_auto_topic_creation), then
    )


def _topic(
    exchange: KafkaExchange, topic: MetadataTopic, reachable: set[int]
) -> KafkaMetadataResponseTopic:
    return KafkaMetadataResponseTopic(
        exchange.code(topic.error_code),
        topic.topic,
        id_bytes(topic.topic_id),
        topic.internal,
        [_partition(exchange, each, reachable) for each in topic.partitions],
    )


def _partition(
    exchange: KafkaExchange, part: MetadataPartition, reachable: set[int]
) -> KafkaMetadataResponsePartition:
    has_leader = part.leader in reachable
    code = part.error_code or (0 if has_leader else LeaderNotAvailableError.code)
    return KafkaMetadataResponsePartition(
        exchange.code(code),
        part.partition,
        part.leader if has_leader else NO_BROKER,
        part.leader_epoch,
        part.replicas,
        part.isr,
        part.offline_replicas,
    )


def find_coordinator(exchange: KafkaExchange, request: KafkaFindCoordinatorRequest) -> None:
    """Tell who coordinates groups, or transactional ids. A client whose transactions are not served
    is told so here already, where there is room for a text."""
    keys = request.coordinator_keys if exchange.version >= MANY_SINCE else [request.key]
    if request.key_type == COORDINATOR_TRANSACTION and not exchange.has_transactions:
        code = refusal_code(exchange.context.connection.software)
        refused = FindCoordinatorResponse(code, REFUSAL)
        _found(exchange, keys, [refused] * len(keys))
        return
    exchange.ask_all(
        [FindCoordinatorRequest(key, request.key_type) for key in keys],
        lambda answers: _found(exchange, keys, answers),
    )


def _found(
    exchange: KafkaExchange, keys: list[str], answers: list[FindCoordinatorResponse]
) -> None:
    if exchange.version >= MANY_SINCE:
        rows = [
            KafkaFindCoordinatorResponseCoordinator(
                key,
                each.broker_id,
                each.host,
                each.port,
                exchange.code(each.error_code),
                each.error_message,
            )
            for key, each in zip(keys, answers, strict=True)
        ]
        counted = next((each for each in answers if each.error_code), None)
        exchange.answer(KafkaFindCoordinatorResponse(coordinators=rows), counted=counted)
        return
    (found,) = answers
    exchange.answer(
        KafkaFindCoordinatorResponse(
            error_code=exchange.code(found.error_code),
            error_message=found.error_message,
            node_id=found.broker_id,
            host=found.host,
            port=found.port,
        )
    )
