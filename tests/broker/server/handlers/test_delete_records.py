"""DeleteRecords: partitions begin later, at every replica, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.authorizer import DELETE, TOPIC, AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.delete_records import DeleteRecordsHandler
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    InvalidRequestError,
    InvalidTopicError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.admin import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Answer, Cluster, call
from support.server import Only

TP = TopicPartition("t", 0)


def ask(
    cluster: Cluster,
    *asked: tuple[str, int, int],
    broker: int = 1,
    timeout_ms: int = 5000,
    authorizer: Authorizer | None = None,
) -> Answer:
    handler = DeleteRecordsHandler(cluster[broker].replicas, authorizer or AllowAllAuthorizer())
    topics = [DeleteRecordsTopic(t, [DeleteRecordsPartition(p, offset)]) for t, p, offset in asked]
    return call(handler, DeleteRecordsRequest(topics, timeout_ms))


async def results(answer: Answer) -> list[Any]:
    message = await answer.wait()
    assert message.error_code == 0
    return [partition for topic in message.topics for partition in topic.partitions]


async def test_every_replica_begins_there() -> None:
    async with Cluster(brokers=3) as cluster:
        cluster.lead(TP, 1)
        for value in (b"a", b"b", b"c"):
            await cluster.produced(TP, value)
        (result,) = await results(ask(cluster, ("t", 0, 2)))
        assert (result.error_code, result.low_watermark) == (0, 2)
        for broker in (1, 2, 3):
            log = cluster[broker].partition(TP).log
            assert log.log_start_offset == log.log_dir.starts.durable(log) == 2
        (result,) = await results(ask(cluster, ("t", 0, -1)))
        assert (result.error_code, result.low_watermark) == (0, 3)


async def test_one_partition_does_not_stop_the_others() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TopicPartition("u", 0), 2)
        await cluster.produced(TP, b"a")
        found = await results(
            ask(cluster, ("t", 0, 1), ("u", 0, 0), ("v", 0, 0), (GROUP_TOPIC, 0, 0))
        )
        assert [result.error_code for result in found] == [
            0,
            NotLeaderOrFollowerError.code,
            UnknownTopicOrPartitionError.code,
            InvalidTopicError.code,
        ]
        (result,) = await results(ask(cluster, ("t", 0, 5)))
        assert result.error_code == OffsetOutOfRangeError.code
        assert "up to 1" in result.error_message
        with pytest.raises(InvalidRequestError, match="twice"):
            ask(cluster, ("t", 0, 1), ("t", 0, 0))


async def test_only_who_may_delete() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        (result,) = await results(ask(cluster, ("t", 0, 1), authorizer=Only()))
        assert result.error_code == TopicAuthorizationFailedError.code
        assert cluster[1].partition(TP).log.log_start_offset == 0
        (result,) = await results(ask(cluster, ("t", 0, 1), authorizer=Only((DELETE, TOPIC, "t"))))
        assert (result.error_code, result.low_watermark) == (0, 1)


async def test_time_is_up() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        (result,) = await results(ask(cluster, ("t", 0, 1), timeout_ms=0))
        assert result.error_code == RequestTimedOutError.code
        assert cluster[1].partition(TP).log.log_start_offset == 1, "it may happen all the same"
        (result,) = await results(ask(cluster, ("t", 0, 1)))
        assert (result.error_code, result.low_watermark) == (0, 1), "and asking again is harmless"
