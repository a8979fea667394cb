"""A question finds each partition's leader, asks it, and says what becomes of each partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.core.partition_leaders import LeaderQuestion, leader_of
from oncelog.errors import ApiError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from oncelog_protocol.messages.transaction_admin import DescribeProducersRequest
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Question(LeaderQuestion[tuple[TopicPartition, "ApiError | None", bool]]):
    """It notes who is asked together; any question that leaders answer will do."""

    name = "Question"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[list[TopicPartition]] = []

    def request(self, partitions: list[TopicPartition]) -> tuple[DescribeProducersRequest, float]:
        self.asked.append(partitions)
        topics = [TxnTopic(tp.topic, [tp.partition]) for tp in partitions]
        return DescribeProducersRequest(topics), self._deadline

    def outcome(
        self, tp: TopicPartition, error: ApiError | None, item: Any
    ) -> tuple[TopicPartition, ApiError | None, bool]:
        return tp, error, item is not None


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[AdminCluster]:
    async with AdminCluster(2) as made:
        made.create_topic("t", 2)
        made.create_topic("u", 1)
        for number, tp in enumerate((T0, T1, U0)):
            made.partition(*tp).leader = 1 + number // 2
        yield made


def soon() -> float:
    """Return a deadline in the loop's time."""
    return asyncio.get_running_loop().time() + 10.0


async def test_the_leader_as_far_as_is_known(cluster: AdminCluster) -> None:
    cluster.partition(*T0).leader = -1
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        await Question(admin._router, [T1], soon()).ask()
        with pytest.raises(LeaderNotAvailableError):
            leader_of(admin._router, T0)
        assert leader_of(admin._router, T1) == 1


async def test_partitions_are_asked_about_by_leader_each_once(cluster: AdminCluster) -> None:
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        question = Question(admin._router, [U0, T1, ("t", 0), U0, TopicPartition("t", 7)], soon())
        *found, (_, error, said) = await question.ask()
        assert found == [(U0, None, True), (T1, None, True), (T0, None, True)]
        assert question.asked == [[U0], [T1, T0]]
        assert isinstance(error, UnknownTopicOrPartitionError)
        assert not said


async def test_without_a_leader_it_is_asked_again_until_there_is_one(cluster: AdminCluster) -> None:
    cluster.partition(*T0).leader = -1
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        question = Question(admin._router, [T0, U0], soon())
        asking = asyncio.create_task(question.ask())
        while not question.asked:
            await asyncio.sleep(0)
        assert question.asked == [[U0]]
        cluster.partition(*T0).leader = 1
        assert await asking == [(T0, None, True), (U0, None, True)]
        assert question.asked == [[U0], [T0]]


async def test_nobody_in_time(cluster: AdminCluster) -> None:
    cluster.partition(*T0).leader = -1
    async with Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin:
        question = Question(admin._router, [T0], asyncio.get_running_loop().time() + 0.05)
        ((tp, error, said),) = await question.ask()
        assert (tp, said) == (T0, False)
        assert isinstance(error, LeaderNotAvailableError)
