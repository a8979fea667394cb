"""DescribeProducers tells what leaders, and coordinators of groups, know of producers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import READ, TOPIC, AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers import describe_producers
from oncelog_broker.server.handlers.describe_producers import DescribeProducersHandler
from oncelog_protocol.coordinators import GROUP_TOPIC
from oncelog_protocol.errors import (
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribeProducersRequest,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.types import TopicPartition
from support.fake_transactions import FakeGroups
from support.replication_cluster import Cluster
from support.server import Only, make_context
from support.transactional_logs import append_txn, txn_batch

TP = TopicPartition("t", 0)


async def ask(
    cluster: Cluster,
    *topics: TxnTopic,
    groups: FakeGroups | None = None,
    authorizer: Authorizer | None = None,
    after: int = -1,
    version: int = 1,
) -> list[Any]:
    """Return the answers about all partitions."""
    handler = DescribeProducersHandler(
        cluster[1].replicas,
        cast(GroupCoordinator, groups or FakeGroups()),
        authorizer or AllowAllAuthorizer(),
    )
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    handler.handle(
        make_context(api_version=version),
        DescribeProducersRequest(list(topics), after),
        memoryview(b""),
        lambda message, payload=(): answer.set_result(message),
    )
    message = await answer
    return [partition for topic in message.topics for partition in topic.partitions]


async def test_what_a_partition_knows() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TopicPartition("u", 0), 2)
        cluster[1].partition(TP).append_marker(True, 9, 4, 6, cluster[1].replicas.now())
        told, unknown, elsewhere = await ask(cluster, TxnTopic("t", [0, 5]), TxnTopic("u", [0]))
        (producer,) = told.producers
        assert (producer.producer_id, producer.producer_epoch) == (9, 4)
        assert (producer.coordinator_epoch, producer.txn_start_offset) == (6, -1)
        assert unknown.error_code == UnknownTopicOrPartitionError.code
        assert elsewhere.error_code == NotLeaderOrFollowerError.code
        assert await ask(cluster) == []


async def test_more_than_an_answer_holds_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "COUNT_MAX", 3)
    async with Cluster(brokers=1) as cluster:
        for number in (0, 1):
            cluster.lead(TopicPartition("t", number), 1)
            partition = cluster[1].partition(TopicPartition("t", number))
            for producer_id in (4, 2, 3, 1):
                partition.append_marker(True, producer_id, 4, 6, cluster[1].replicas.now())
        both = TxnTopic("t", [0, 1])
        first, second = await ask(cluster, both)
        assert [each.producer_id for each in first.producers] == [1, 2, 3]
        assert (first.more, second.more, second.producers) == (True, True, [])
        first, second = await ask(cluster, both, after=3)
        assert [each.producer_id for each in first.producers] == [4]
        assert [each.producer_id for each in second.producers] == [4]
        assert (first.more, second.more) == (False, False)


async def test_who_knows_no_pages_is_told_of_open_transactions_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe_producers, "COUNT_MAX", 2)
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        partition = cluster[1].partition(TP)
        for producer_id in range(5):
            partition.append_marker(True, producer_id, 4, 6, cluster[1].replicas.now())
        append_txn(partition.log, txn_batch(b"v", producer=(9, 0, 0)))
        (told,) = await ask(cluster, TxnTopic("t", [0]), version=0)
        assert [each.producer_id for each in told.producers] == [0, 9]


async def test_pending_offsets_come_in_pages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "COUNT_MAX", 1)
    async with Cluster(brokers=1) as cluster:
        groups = FakeGroups()
        groups.producers = [DescribedProducer(each, 1, -1, 5) for each in (8, 7)]
        (told,) = await ask(cluster, TxnTopic(GROUP_TOPIC, [0]), groups=groups)
        assert ([each.producer_id for each in told.producers], told.more) == ([7], True)
        (told,) = await ask(cluster, TxnTopic(GROUP_TOPIC, [0]), groups=groups, after=7)
        assert ([each.producer_id for each in told.producers], told.more) == ([8], False)


async def test_only_who_may_read() -> None:
    async with Cluster(brokers=1) as cluster:
        cluster.lead(TP, 1)
        some = TxnTopic("t", [0]), TxnTopic(GROUP_TOPIC, [0])
        codes = [each.error_code for each in await ask(cluster, *some, authorizer=Only())]
        assert codes == [TopicAuthorizationFailedError.code] * 2
        authorizer = Only((READ, TOPIC, "t"))
        codes = [each.error_code for each in await ask(cluster, *some, authorizer=authorizer)]
        assert codes == [0, TopicAuthorizationFailedError.code]


async def test_pending_offsets() -> None:
    async with Cluster(brokers=1) as cluster:
        groups = FakeGroups()
        groups.producers = [DescribedProducer(7, 1, -1, 5, txn_start_offset=0)]
        (told,) = await ask(cluster, TxnTopic(GROUP_TOPIC, [0]), groups=groups)
        assert told.producers == groups.producers
        groups.code = NotCoordinatorError.code
        (told,) = await ask(cluster, TxnTopic(GROUP_TOPIC, [0]), groups=groups)
        assert (told.error_code, told.producers) == (NotLeaderOrFollowerError.code, [])
