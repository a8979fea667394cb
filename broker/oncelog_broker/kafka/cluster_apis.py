"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs of Kafka are translated here.

The first two are told what Metadata tells, to whom Metadata tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.grouping import by_topic
from oncelog_broker.kafka.topic_ids import id_bytes
from oncelog_broker.kafka.wire.messages.describe_cluster import (
    KafkaDescribeClusterRequest,
    KafkaDescribeClusterResponse,
    KafkaDescribeClusterResponseBroker,
)
from oncelog_broker.kafka.wire.messages.describe_log_dirs import (
    KafkaDescribeLogDirsRequest,
    KafkaDescribeLogDirsResponse,
    KafkaDescribeLogDirsResponsePartition,
    KafkaDescribeLogDirsResponseResult,
    KafkaDescribeLogDirsResponseTopic,
)
from oncelog_broker.kafka.wire.messages.describe_topic_partitions import (
    KafkaDescribeTopicPartitionsRequest,
    KafkaDescribeTopicPartitionsResponse,
    KafkaDescribeTopicPartitionsResponseCursor,
    KafkaDescribeTopicPartitionsResponsePartition,
    KafkaDescribeTopicPartitionsResponseTopic,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol.errors import (
    CorruptMessageError,
    InvalidRequestError,
    LeaderNotAvailableError,
)
from oncelog_protocol.messages.admin import DescribeLogDirsRequest, ReplicaSize
from oncelog_protocol.messages.metadata import MetadataPartition, MetadataRequest, MetadataTopic
from oncelog_protocol.types import NO_BROKER

OF_BROKERS: Final = 1
"""A client asks for the brokers, and not for controllers, which are brokers here."""
PARTITIONS_MAX: Final = 2000
"""So many partitions are in one answer, as in one of Kafka's."""


def describe_cluster(exchange: KafkaExchange, request: KafkaDescribeClusterRequest) -> None:
    """Tell the brokers that have a listener of the name of the one that was asked."""
    if request.endpoint_type != OF_BROKERS:
        code, text = InvalidRequestError.code, "every controller here is a broker: ask for brokers"
        exchange.answer(KafkaDescribeClusterResponse(error_code=code, error_message=text))
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        brokers = [
            KafkaDescribeClusterResponseBroker(each.broker_id, each.host, each.port, each.rack)
            for each in answer.brokers
        ]
        exchange.answer(
            KafkaDescribeClusterResponse(
                error_code=exchange.code(answer.error_code),
                cluster_id=answer.cluster_id,
                controller_id=answer.controller_id,
                brokers=brokers,
            )
        )

    exchange.ask(MetadataRequest([]), then)


# ------------------------------------------------------------------------- DescribeTopicPartitions


def describe_topic_partitions(
    exchange: KafkaExchange, request: KafkaDescribeTopicPartitionsRequest
) -> None:
    """Tell the partitions of topics by name, from a cursor on; no topic named: those of all."""
    cursor = request.cursor
    first, start = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    room = max(min(request.response_partition_limit, PARTITIONS_MAX), 1)

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        if answer.error_code:
            # There is no place for it, as in Metadata.
            exchange.end(close_after=True)
            return
        reachable = {broker.broker_id for broker in answer.brokers}
        topics = sorted(
            (topic for topic in answer.topics if topic.topic >= first), key=lambda each: each.topic
        )
        page, following = page_of(topics, start if first else 0, first, room)
        rows = [
            KafkaDescribeTopicPartitionsResponseTopic(
                exchange.code(topic.error_code),
                topic.topic,
                id_bytes(topic.topic_id),
                topic.internal,
                [_partition(exchange, part, reachable) for part in topic.partitions],
            )
            for topic in page
        ]
        next_cursor = None
        if following is not None:
            next_cursor = KafkaDescribeTopicPartitionsResponseCursor(*following)
        exchange.answer(
            KafkaDescribeTopicPartitionsResponse(topics=rows, next_cursor=next_cursor),
            counted=answer,
        )

    names = sorted({each.name for each in request.topics}) or None
    exchange.ask(MetadataRequest(names), then)


def page_of(
    topics: Sequence[MetadataTopic], start: int, first: str, room: int
) -> tuple[list[MetadataTopic], tuple[str, int] | None]:
    """Return the topics of one answer, and (topic, partition) with which the next one begins; None
    when this one is the last.

    :param start: the topic ``first`` begins with this partition.
    :param room: at most so many partitions; at least one.
    """
    page: list[MetadataTopic] = []
    for topic in topics:
        begin = start if topic.topic == first else 0
        parts = [part for part in topic.partitions if part.partition >= begin]
        parts.sort(key=lambda part: part.partition)
        if parts and not room:
            return page, (topic.topic, parts[0].partition)
        shown = parts[:room]
        page.append(
            MetadataTopic(topic.error_code, topic.topic, topic.topic_id, topic.internal, shown)
        )
        if len(parts) > room:
            return page, (topic.topic, parts[room].partition)
        room -= len(parts)
    return page, None


def _partition(
    exchange: KafkaExchange, part: MetadataPartition, reachable: set[int]
) -> KafkaDescribeTopicPartitionsResponsePartition:
    has_leader = part.leader in reachable
    code = part.error_code or (0 if has_leader else LeaderNotAvailableError.code)
    return KafkaDescribeTopicPartitionsResponsePartition(
        exchange.code(code),
        part.partition,
        part.leader if has_leader else NO_BROKER,
        part.leader_epoch,
        part.replicas,
        part.isr,
        part.elr,
        part.last_known_elr,
        part.offline_replicas,
    )


# --------------------------------------------------------------------------------- DescribeLogDirs


def describe_log_dirs(exchange: KafkaExchange, request: KafkaDescribeLogDirsRequest) -> None:
    """Tell the directories of the broker that is asked, and the replicas in them."""
    wanted = None
    if request.topics is not None:
        wanted = {each.topic: set(each.partitions) for each in request.topics}

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        heads: dict[str, Any] = {}
        topics: dict[str, list[KafkaDescribeLogDirsResponseTopic]] = {}
        for each in answer.log_dirs:
            # Replicas in which rot was found come in an entry of their own, after that of their
            # directory. A client of Kafka would take the directory for a broken one.
            if each.error_code != CorruptMessageError.code or each.path not in heads:
                heads[each.path], topics[each.path] = each, []
            shown = (
                replica
                for replica in each.replicas
                if wanted is None or replica.partition in wanted.get(replica.topic, ())
            )
            topics[each.path] += [
                KafkaDescribeLogDirsResponseTopic(name, [_replica(part) for part in parts])
                for name, parts in by_topic(shown).items()
            ]
        results = [
            KafkaDescribeLogDirsResponseResult(
                exchange.code(each.error_code),
                path,
                topics[path],
                each.total_bytes,
                each.free_bytes,
            )
            for path, each in heads.items()
        ]
        code = exchange.code(answer.error_code)
        told = KafkaDescribeLogDirsResponse(error_code=code, results=results)
        exchange.answer(told, counted=answer)

    exchange.ask(DescribeLogDirsRequest(None if wanted is None else list(wanted)), then)


def _replica(replica: ReplicaSize) -> KafkaDescribeLogDirsResponsePartition:
    lag = replica.offset_lag
    if not replica.is_future:
        lag = max(replica.high_watermark - replica.log_end_offset, 0)
    return KafkaDescribeLogDirsResponsePartition(
        replica.partition, replica.size_bytes, lag, replica.is_future
    )
