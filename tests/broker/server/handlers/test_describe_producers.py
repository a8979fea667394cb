"""DescribeProducers: what leaders, and coordinators of groups, know of producers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import READ, TOPIC, AllowAllAuthorizer, Authorizer
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
from support.replication_cluster import Cluster, call
from support.server import Only

pytestmark = pytest.mark.asyncio

TP = TopicPartition("t", 0)


async def ask(
    cluster: Cluster,
    *topics: TxnTopic,
    groups: FakeGroups | None = None,
    authorizer: Authorizer | None = None,
) -> list[Any]:
    """The answers about all partitions."""
    handler = DescribeProducersHandler(
        cluster[1].replicas,
        cast(GroupCoordinator, groups or FakeGroups()),
        authorizer or AllowAllAuthorizer(),
    )
    message = await call(handler, DescribeProducersRequest(list(topics))).wait()
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
