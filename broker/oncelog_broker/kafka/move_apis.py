"""Reassignments of partitions, and moves between log directories, of Kafka are translated here.

Ours are kept in a plan and begun as there is room. For a client of Kafka what waits for its turn is
a reassignment that is under way; data that a broker has yet to delete afterwards is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.grouping import by_topic
from oncelog_broker.kafka.wire.messages.alter_partition_reassignments import (
    KafkaAlterPartitionReassignmentsRequest,
    KafkaAlterPartitionReassignmentsResponse,
    KafkaAlterPartitionReassignmentsResponseReassignablePartitionResponse,
    KafkaAlterPartitionReassignmentsResponseReassignableTopicResponse,
)
from oncelog_broker.kafka.wire.messages.alter_replica_log_dirs import (
    KafkaAlterReplicaLogDirsRequest,
    KafkaAlterReplicaLogDirsResponse,
    KafkaAlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult,
    KafkaAlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult,
)
from oncelog_broker.kafka.wire.messages.list_partition_reassignments import (
    KafkaListPartitionReassignmentsRequest,
    KafkaListPartitionReassignmentsResponse,
    KafkaListPartitionReassignmentsResponseOngoingPartitionReassignment,
    KafkaListPartitionReassignmentsResponseOngoingTopicReassignment,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.messages.admin import (
    AlterReplicaLogDirsRequest,
    ReplicaPlace,
    ReplicaPlaceResult,
)
from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    PartitionMove,
    ReassignedPartition,
    ReassignmentResult,
)

RESIZE_SINCE: Final = 1
"""From this version on a client says whether the number of replicas may change; before, it may."""


def alter_reassignments(
    exchange: KafkaExchange, request: KafkaAlterPartitionReassignmentsRequest
) -> None:
    """Give partitions other replicas, or cancel that."""
    items = [
        ReassignedPartition(topic.name, part.partition_index, part.replicas)
        for topic in request.topics
        for part in topic.partitions
    ]
    may_resize = exchange.version < RESIZE_SINCE or request.allow_replication_factor_change

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        code = exchange.code(answer.error_code)
        results: list[ReassignmentResult] = [] if code else answer.items
        rows = [
            KafkaAlterPartitionReassignmentsResponseReassignableTopicResponse(
                name,
                [
                    KafkaAlterPartitionReassignmentsResponseReassignablePartitionResponse(
                        each.partition, exchange.code(each.error_code), each.error_message
                    )
                    for each in parts
                ],
            )
            for name, parts in by_topic(results).items()
        ]
        exchange.answer(
            KafkaAlterPartitionReassignmentsResponse(
                allow_replication_factor_change=may_resize,
                error_code=code,
                error_message=answer.error_message,
                responses=rows,
            ),
            counted=answer,
        )

    exchange.ask(
        AlterPartitionReassignmentsRequest(
            items, allow_replication_factor_change=may_resize, timeout_ms=request.timeout_ms
        ),
        then,
    )


def list_reassignments(
    exchange: KafkaExchange, request: KafkaListPartitionReassignmentsRequest
) -> None:
    """Tell which partitions are being given other replicas."""
    wanted = None
    if request.topics is not None:
        wanted = {each.name: set(each.partition_indexes) for each in request.topics}

    def is_shown(move: PartitionMove) -> bool:
        is_wanted = wanted is None or move.partition in wanted.get(move.topic, ())
        return bool(move.target) and is_wanted

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        moves = by_topic(each for each in answer.partitions if is_shown(each))
        rows = [
            KafkaListPartitionReassignmentsResponseOngoingTopicReassignment(
                name, [_ongoing(move) for move in parts]
            )
            for name, parts in moves.items()
        ]
        exchange.answer(
            KafkaListPartitionReassignmentsResponse(
                error_code=exchange.code(answer.error_code),
                error_message=answer.error_message,
                topics=rows,
            )
        )

    names = None if wanted is None else list(wanted)
    exchange.ask(ListPartitionReassignmentsRequest(names, request.timeout_ms), then)


def _ongoing(
    move: PartitionMove,
) -> KafkaListPartitionReassignmentsResponseOngoingPartitionReassignment:
    # For Kafka all replicas that are added are among the replicas from the first moment on.
    adding = [each for each in move.target if each not in move.origin]
    replicas = move.replicas + [each for each in adding if each not in move.replicas]
    return KafkaListPartitionReassignmentsResponseOngoingPartitionReassignment(
        move.partition, replicas, adding, [each for each in replicas if each not in move.target]
    )


def alter_replica_log_dirs(
    exchange: KafkaExchange, request: KafkaAlterReplicaLogDirsRequest
) -> None:
    """Take replicas of the broker that is asked to other directories of it."""
    places = [
        ReplicaPlace(topic.name, partition, directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    ]

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        results: list[ReplicaPlaceResult] = answer.results
        if answer.error_code:
            results = [
                ReplicaPlaceResult(each.topic, each.partition, answer.error_code) for each in places
            ]
        rows = [
            KafkaAlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult(
                name,
                [
                    KafkaAlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult(
                        each.partition, exchange.code(each.error_code)
                    )
                    for each in parts
                ],
            )
            for name, parts in by_topic(results).items()
        ]
        exchange.answer(KafkaAlterReplicaLogDirsResponse(results=rows), counted=answer)

    exchange.ask(AlterReplicaLogDirsRequest(places), then)
