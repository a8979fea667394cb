"""Questions about offsets find their leaders, also when those move."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.config import ConnectionOptions
from oncelog.consumer.offsets import list_offsets
from oncelog.core.router import Router
from oncelog.errors import (
    DeadlineExceededError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


async def started(cluster: FakeCluster) -> Router:
    for partition in cluster.create_topic("t", 2):
        partition.append(encode_batch([b"a", b"b", b"c"], timestamps=[100, 200, 300]))
    options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
    router = Router(options, entropy=SeededEntropy(1))
    await router.start()
    return router


def soon(seconds: float = 5) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_one_request_a_leader() -> None:
    async with FakeCluster(2) as cluster:
        router = await started(cluster)
        found = await list_offsets(router, {A: 150, B: -1}, 0, soon())
        assert found[A][:2] == (1, 200)
        assert found[B].offset == 3
        assert list(found) == [A, B]
        assert cluster.count(ApiKey.LIST_OFFSETS) == 2
        later = await list_offsets(router, {A: 1000, B: -2}, 0, soon())
        assert [answer.offset for answer in later.values()] == [-1, 0]
        await router.close()


async def test_moved_leaders_and_lost_connections() -> None:
    async with FakeCluster(2) as cluster:
        router = await started(cluster)
        await router.topic("t", soon())
        cluster.move_leader("t", 0, 2)
        cluster.rule(ApiKey.LIST_OFFSETS, Action.DROP_BEFORE, broker=2)
        cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=NotLeaderOrFollowerError, broker=2)
        cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=OffsetNotAvailableError, broker=2)
        found = await list_offsets(router, {A: -1, B: -1}, 0, soon())
        assert [answer.offset for answer in found.values()] == [3, 3]
        await router.close()


async def test_what_cannot_be_answered() -> None:
    async with FakeCluster(2) as cluster:
        router = await started(cluster)
        with pytest.raises(UnknownTopicOrPartitionError, match="no 7"):
            await list_offsets(router, {TopicPartition("t", 7): -1}, 0, soon())
        cluster.move_leader("t", 0, -1)
        await router.refresh()
        with pytest.raises(DeadlineExceededError, match="t-0"):
            await list_offsets(router, {A: -1, B: -1}, 0, soon(0.1))
        error = TopicAuthorizationFailedError
        cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=error)
        with pytest.raises(error, match="t-1"):
            await list_offsets(router, {B: -1}, 0, soon())
        await router.close()
