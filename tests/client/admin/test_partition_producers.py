"""Producers of partitions: the leaders are asked, wherever they are by now."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.partition_producers import describe_producers
from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_protocol.errors import TopicAuthorizationFailedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster
from support.fake_cluster import Action

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    async with AdminCluster(2) as made:
        made.create_topic("t", 2)
        made.create_topic("u", 1)
        made.producers[T0] = [DescribedProducer(8, 4, 3, 1_000)]
        made.producers[U0] = [DescribedProducer(9, 0, 3, 1_000)]
        yield made


async def test_one_request_a_leader_and_answers_in_order(cluster: AdminCluster) -> None:
    for tp in (T0, T1, U0):
        cluster.partition(*tp).leader = 1
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        found = await admin.describe_producers([U0, T1, T0, U0])
        assert [(each.partition, [p.producer_id for p in each.producers]) for each in found] == [
            (U0, [9]),
            (T1, []),
            (T0, [8]),
        ]
        assert cluster.count(ApiKey.DESCRIBE_PRODUCERS) == 1
        assert len(await admin.describe_producers([])) == 0


async def test_many_producers_come_in_pages(cluster: AdminCluster) -> None:
    cluster.producers_page = 2
    cluster.producers[T0] = [DescribedProducer(each, 0, 3, 1_000) for each in range(5)]
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        many, few = await admin.describe_producers([T0, U0])
        assert [each.producer_id for each in many.producers] == [0, 1, 2, 3, 4]
        assert [each.producer_id for each in few.producers] == [9]
        cluster.producers[T0] = [DescribedProducer(each, 0, 3, 1_000) for each in range(4)]
        (whole,) = await admin.describe_producers([T0])
        assert [each.producer_id for each in whole.producers] == [0, 1, 2, 3]


async def test_a_page_that_cannot_be_had_leaves_an_error(cluster: AdminCluster) -> None:
    cluster.producers_page = 1
    cluster.producers[T0] = [DescribedProducer(each, 0, 3, 1_000) for each in range(3)]
    cluster.rule(
        ApiKey.DESCRIBE_PRODUCERS,
        Action.ERROR,
        error=TopicAuthorizationFailedError,
        when=lambda request: request.after_producer_id == 1,
    )
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        (found,) = await admin.describe_producers([T0])
        assert isinstance(found.error, TopicAuthorizationFailedError)
        assert found.producers == ()


async def test_leaders_that_move_and_partitions_without_one(cluster: AdminCluster) -> None:
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        await admin.describe_producers([T0, T1])
        cluster.partition("t", 0).leader = 3 - cluster.partition("t", 0).leader
        (found,) = await admin.describe_producers([T0])
        assert [p.producer_id for p in found.producers] == [8]
        cluster.partition("t", 0).leader = -1
        gone, other = await admin.describe_producers([T0, T1], timeout_ms=500)
        assert gone.error is not None
        assert gone.error.retriable
        assert other.error is None


async def test_what_is_not_there(cluster: AdminCluster) -> None:
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        wanted = [TopicPartition("t", 9), TopicPartition("t", -1), TopicPartition("none", 0), T0]
        found = await admin.describe_producers(wanted)
        assert [type(each.error) for each in found[:3]] == [UnknownTopicOrPartitionError] * 3
        assert found[3].error is None


async def test_what_is_wrong_with_one_partition_stands_with_it(cluster: AdminCluster) -> None:
    def refuse(request: DescribeProducersRequest) -> DescribeProducersResponse:
        code = TopicAuthorizationFailedError.code
        return DescribeProducersResponse(
            0,
            [
                DescribeProducersTopic(
                    topic.topic, [DescribeProducersPartition(n, code) for n in topic.partitions]
                )
                for topic in request.topics
            ],
        )

    for broker in cluster.brokers.values():
        broker._handlers._describe_producers = refuse  # type: ignore[attr-defined]
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        deadline = admin._deadline(5_000)
        (found,) = await describe_producers(admin._router, [T0], deadline)
        assert isinstance(found.error, TopicAuthorizationFailedError)
        assert "t-0" in str(found.error)
