"""OffsetCommit, OffsetFetch and OffsetDelete of Kafka are translated here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.offset_commit import (
    KafkaOffsetCommitRequest,
    KafkaOffsetCommitResponse,
    KafkaOffsetCommitResponsePartition,
    KafkaOffsetCommitResponseTopic,
)
from oncelog_broker.kafka.wire.messages.offset_delete import (
    KafkaOffsetDeleteRequest,
    KafkaOffsetDeleteResponse,
    KafkaOffsetDeleteResponsePartition,
    KafkaOffsetDeleteResponseTopic,
)
from oncelog_broker.kafka.wire.messages.offset_fetch import (
    KafkaOffsetFetchRequest,
    KafkaOffsetFetchResponse,
    KafkaOffsetFetchResponseGroup,
    KafkaOffsetFetchResponsePartition,
    KafkaOffsetFetchResponsePartitions,
    KafkaOffsetFetchResponseTopic,
    KafkaOffsetFetchResponseTopics,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.messages.groups import (
    NO_MEMBER,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)

MANY_SINCE: Final = 8
"""From this version of OffsetFetch on a request has many groups."""


def offset_commit(exchange: KafkaExchange, request: KafkaOffsetCommitRequest) -> None:
    """Remember offsets. An error of the whole is told for each partition."""
    topics = [
        OffsetCommitTopic(
            topic.name,
            [
                OffsetCommitPartition(
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
            KafkaOffsetCommitResponseTopic(
                name,
                partitions=[
                    KafkaOffsetCommitResponsePartition(partition, exchange.code(code))
                    for partition, code in parts
                ],
            )
            for name, parts in rows
        ]
        exchange.answer(KafkaOffsetCommitResponse(topics=told), counted=answer)

    exchange.ask(
        OffsetCommitRequest(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            topics,
        ),
        then,
    )


def offset_fetch(exchange: KafkaExchange, request: KafkaOffsetFetchRequest) -> None:
    """Tell committed offsets."""
    stable = request.require_stable
    if exchange.version < MANY_SINCE:
        topics = None
        if request.topics is not None:
            topics = [OffsetFetchTopic(t.name, t.partition_indexes) for t in request.topics]
        exchange.ask(
            OffsetFetchRequest(request.group_id, topics, stable),
            lambda answer, _: _of_one_group(exchange, request, answer),
        )
        return
    requests = [
        OffsetFetchRequest(
            group.group_id,
            None
            if group.topics is None
            else [OffsetFetchTopic(t.name, t.partition_indexes) for t in group.topics],
            stable,
            group.member_id or NO_MEMBER,
            group.member_epoch,
        )
        for group in request.groups
    ]
    names = [group.group_id for group in request.groups]
    exchange.ask_all(requests, lambda answers: _of_many_groups(exchange, names, answers))


def _of_one_group(
    exchange: KafkaExchange, request: KafkaOffsetFetchRequest, answer: OffsetFetchResponse
) -> None:
    code = exchange.code(answer.error_code)
    rows = [
        KafkaOffsetFetchResponseTopic(
            topic.topic,
            [
                KafkaOffsetFetchResponsePartition(
                    part.partition,
                    part.offset,
                    part.leader_epoch,
                    part.metadata or "",
                    exchange.code(part.error_code),
                )
                for part in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    if code and exchange.version < 2:
        # This version has no place for the error of the whole.
        rows = [
            KafkaOffsetFetchResponseTopic(
                topic.name,
                [
                    KafkaOffsetFetchResponsePartition(index, -1, -1, "", code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    exchange.answer(KafkaOffsetFetchResponse(topics=rows, error_code=code))


def _of_many_groups(
    exchange: KafkaExchange, names: list[str], answers: list[OffsetFetchResponse]
) -> None:
    groups = [
        KafkaOffsetFetchResponseGroup(
            name,
            [
                KafkaOffsetFetchResponseTopics(
                    topic.topic,
                    partitions=[
                        KafkaOffsetFetchResponsePartitions(
                            part.partition,
                            part.offset,
                            part.leader_epoch,
                            part.metadata or "",
                            exchange.code(part.error_code),
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
            exchange.code(answer.error_code),
        )
        for name, answer in zip(names, answers, strict=True)
    ]
    counted = next((each for each in answers if each.error_code), None)
    exchange.answer(KafkaOffsetFetchResponse(groups=groups), counted=counted)


def offset_delete(exchange: KafkaExchange, request: KafkaOffsetDeleteRequest) -> None:
    """Forget offsets of topics that no member of the group reads."""

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        rows = [
            KafkaOffsetDeleteResponseTopic(
                topic.topic,
                [
                    KafkaOffsetDeleteResponsePartition(
                        part.partition, exchange.code(part.error_code)
                    )
                    for part in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
        exchange.answer(
            KafkaOffsetDeleteResponse(error_code=exchange.code(answer.error_code), topics=rows),
            counted=answer,
        )

    topics = [
        OffsetFetchTopic(topic.name, [part.partition_index for part in topic.partitions])
        for topic in request.topics
    ]
    exchange.ask(OffsetDeleteRequest(request.group_id, topics), then)
