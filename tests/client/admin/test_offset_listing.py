"""Offsets of partitions: the leaders are asked, wherever they are by now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition, blocking
from oncelog.admin.results import ListedOffset
from oncelog.errors import (
    ApiError,
    ConfigurationError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    RequestTimedOutError,
    StorageError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """Each partition has three records; in t-0 a transaction is open behind them."""
    async with FakeCluster(2) as made:
        for topic, count in (("t", 2), ("u", 1)):
            for partition in made.create_topic(topic, count):
                partition.append(encode_batch([b"a", b"b", b"c"], timestamps=[100, 200, 300]))
        for number, tp in enumerate((T0, T1, U0)):
            made.partition(*tp).leader = 1 + number // 2
        made.partition(*T0).append(
            encode_batch(
                [b"d"], timestamps=[400], producer_id=7, producer_epoch=0, transactional=True
            )
        )
        yield made


def make(cluster: FakeCluster) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


def names(found: list[ListedOffset]) -> list[str | None]:
    return [None if item.error is None else item.error.name for item in found]


async def test_start_high_watermark_and_last_stable_offset(cluster: FakeCluster) -> None:
    cluster.partition(*T1).log_start_offset = 2
    async with make(cluster) as admin:
        found = await admin.list_offsets([U0, T1, T0, U0], "earliest")
        assert [(item.partition, item.offset) for item in found.raise_for_errors()] == [
            (U0, 0),
            (T1, 2),
            (T0, 0),
        ]
        assert cluster.count(ApiKey.LIST_OFFSETS) == 2, "one request a leader"
        ends = await admin.list_offsets([T0, T1])
        assert [item.offset for item in ends] == [4, 3]
        stable = await admin.list_offsets([T0, T1], "latest", isolation_level="read_committed")
        assert [item.offset for item in stable] == [3, 3]
        epoch = cluster.partition(*T0).leader_epoch
        assert (ends[0].timestamp_ms, ends[0].leader_epoch) == (None, epoch)
        assert list(await admin.list_offsets([])) == []


async def test_by_time(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        found, later = await admin.list_offsets([T0, T1], 250)
        assert (found.offset, found.timestamp_ms) == (2, 300)
        assert (later.offset, later.timestamp_ms) == (2, 300)
        (none,) = await admin.list_offsets([T1], 301)
        assert (none.error, none.offset, none.timestamp_ms) == (None, None, None)
        (first,) = await admin.list_offsets([T1], 0)
        assert first.offset == 0


@pytest.mark.parametrize(
    "wrong",
    [{"at": "begin"}, {"at": -1}, {"at": 1.5}, {"at": True}, {"isolation_level": "committed"}],
)
async def test_what_cannot_be_is_not_asked(cluster: FakeCluster, wrong: Any) -> None:
    async with make(cluster) as admin:
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            await admin.list_offsets([T0], **wrong)
        assert cluster.count(ApiKey.LIST_OFFSETS) == 0


async def test_each_partition_has_its_own_outcome(cluster: FakeCluster) -> None:
    cluster.rule(
        ApiKey.LIST_OFFSETS,
        Action.ERROR,
        error=TopicAuthorizationFailedError,
        when=lambda request: request.topics[0].topic == "u",
    )
    wanted = [T0, TopicPartition("t", 9), U0, TopicPartition("none", 0), TopicPartition("t", -1)]
    async with make(cluster) as admin:
        found = await admin.list_offsets(wanted)
        assert [item.partition for item in found] == wanted
        assert [item.offset for item in found] == [4, None, None, None, None]
        unknown = UnknownTopicOrPartitionError.name
        denied = TopicAuthorizationFailedError.name
        assert names(list(found)) == [None, unknown, denied, unknown, unknown]
        assert "no 9" in str(found[1].error) or "t-9" in str(found[1].error)
        assert "may not DESCRIBE topic u: oncelog acls add" in str(found[2].error)


@pytest.mark.parametrize("error", [NotLeaderOrFollowerError, OffsetNotAvailableError])
async def test_leaders_that_move_are_followed(cluster: FakeCluster, error: type[ApiError]) -> None:
    async with make(cluster) as admin:
        await admin.list_offsets([T0, U0])
        cluster.move_leader(*T0, 2)
        cluster.rule(ApiKey.LIST_OFFSETS, Action.DROP_BEFORE, broker=2)
        cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=error, broker=2)
        found = await admin.list_offsets([T0, U0])
        assert [item.offset for item in found.raise_for_errors()] == [4, 3]


async def test_nobody_in_time_is_an_error_of_its_partition(cluster: FakeCluster) -> None:
    cluster.partition(*T0).leader = -1
    cluster.rule(ApiKey.LIST_OFFSETS, Action.ERROR, error=StorageError, broker=2, times=1000)
    async with make(cluster) as admin:
        found = await admin.list_offsets([T0, T1, U0], timeout_ms=500)
        assert names(list(found)) == [LeaderNotAvailableError.name, None, StorageError.name]
        assert found[1].offset == 3


async def test_a_leader_that_says_nothing(cluster: FakeCluster) -> None:
    cluster.rule(ApiKey.LIST_OFFSETS, Action.HOLD, broker=2, times=1000)
    async with make(cluster) as admin:
        found = await admin.list_offsets([T1, U0], timeout_ms=500)
        assert names(list(found)) == [None, RequestTimedOutError.name]


async def test_partitions_that_were_added_since(cluster: FakeCluster) -> None:
    async with make(cluster) as admin:
        await admin.list_offsets([U0])
        cluster.add_partition("u")
        found = await admin.list_offsets([U0, TopicPartition("u", 1)])
        assert [item.offset for item in found.raise_for_errors()] == [3, 0]


async def test_from_scripts(cluster: FakeCluster) -> None:
    def ask() -> list[int | None]:
        with blocking.Admin(cluster.bootstrap) as admin:
            return [item.offset for item in admin.list_offsets([T0, U0])]

    assert await asyncio.to_thread(ask) == [4, 3]
