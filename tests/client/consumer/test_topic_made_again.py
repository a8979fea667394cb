"""A topic is deleted and made again under its readers: nothing of the new one is skipped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, Record, TopicPartition
from oncelog.errors import NoOffsetForPartitionError, TopicRecreatedError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import OffsetCommitPartition
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.fake_members import GroupCluster
from support.group_members import fill
from support.running import Handler, running
from support.waiting import eventually

A = TopicPartition("t", 0)
ONE: dict[str, Any] = {
    "offsets_topic_replication_factor": 1,
    "offsets_topic_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
}


def make(cluster: GroupCluster, *topics: str, **options: Any) -> Consumer:
    given = {"entropy": SeededEntropy(1), "auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **given)


@asynccontextmanager
async def reading(count: int, **options: Any) -> AsyncIterator[tuple[GroupCluster, Consumer]]:
    """Open a reader of ``t`` that has read ``count`` records."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, "t", **options) as consumer:
            await consumer.getmany(timeout_ms=10)
            if "group_id" in options:
                await polled(consumer, lambda: consumer.assignment() == [A])
            await polled(consumer, lambda: consumer._core.subscription.states[A].offset is not None)
            if count:
                fill(cluster, count, 0)
            assert await take(consumer, count) == list(range(count))
            yield cluster, consumer


async def polled(consumer: Consumer, until: Any) -> None:
    async with asyncio.timeout(15):
        while not until():
            assert await consumer.getmany(timeout_ms=10) == {}


async def take(consumer: Consumer, count: int) -> list[int]:
    found: list[Record] = []
    async with asyncio.timeout(15):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=50)).values():
                found += records
    return [record.offset for record in found]


def make_again(cluster: GroupCluster, count: int) -> None:
    cluster.create_topic("t")
    fill(cluster, count, 0)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.parametrize("group", [{}, {"group_id": "g", "auto_commit_interval_ms": 20}])
async def test_a_live_reader_begins_anew(
    policy: str, group: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It may notice by metadata or by a leader that refuses: here it is the leader."""
    async with reading(10, auto_offset_reset=policy, **group) as (cluster, consumer):
        make_again(cluster, 15)
        assert await take(consumer, 15) == list(range(15))
        assert caplog.text.count("deleted and made again") == 1
        if group:
            await consumer.getmany(timeout_ms=10)  # what is in hand is not committed
            await eventually(lambda: cluster.group().offsets[A].offset == 15)
            assert cluster.group().topic_ids[A] == "id-t-again"


async def test_metadata_alone_tells_too() -> None:
    """Brokers of a release that does not compare ids serve whatever is there."""
    async with reading(10) as (cluster, consumer):
        make_again(cluster, 15)
        cluster.topic_ids["t"], new = "id-t", cluster.topic_ids["t"]
        await take(consumer, 5)
        cluster.topic_ids["t"] = new
        consumer._router.refresh_soon()
        assert (await take(consumer, 15))[-15:] == list(range(15))


async def test_who_assigned_by_hand_is_told() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 10, 0)
        async with make(cluster) as consumer:
            consumer.assign([A])
            await take(consumer, 10)
            make_again(cluster, 15)
            with pytest.raises(TopicRecreatedError, match="position 10") as caught:
                await take(consumer, 1)
            assert (caught.value.partition, caught.value.offset) == (A, 10)
            with pytest.raises(NoOffsetForPartitionError):
                await take(consumer, 1)
            consumer.seek(A, 3)
            assert await take(consumer, 12) == list(range(3, 15))


async def test_the_policy_may_forbid_it() -> None:
    async with reading(10) as (cluster, consumer):
        assert consumer._core.fetcher is not None
        consumer._core.fetcher.positions.policy = None
        make_again(cluster, 15)
        with pytest.raises(NoOffsetForPartitionError):
            await take(consumer, 1)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_what_was_committed_for_the_former_topic_counts_as_nothing(policy: str) -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        make_again(cluster, 15)
        group = cluster.group()
        async with make(cluster, group_id="g") as consumer:
            await consumer.commit({A: OffsetAndMetadata(10, topic_id="id-t")})
        assert group.topic_ids[A] == "id-t"
        async with make(cluster, "t", group_id="g", auto_offset_reset=policy) as consumer:
            assert await take(consumer, 15) == list(range(15))


async def test_a_group_goes_on_when_only_we_did_not_know() -> None:
    """Metadata of before: the offset is of the new topic, and is not thrown away."""
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, "t", group_id="g") as consumer:
            before = cluster.topic_ids["t"]
            make_again(cluster, 15)
            group = cluster.group()
            group.offsets[A] = OffsetCommitPartition(0, 10)
            group.topic_ids[A] = "id-t-again"
            assert consumer._router.cluster.topic_id("t") == before
            assert await take(consumer, 5) == list(range(10, 15))
        assert group.topic_ids[A] == "id-t-again"


async def test_run_commits_nothing_of_the_former_topic() -> None:
    async with reading(0, group_id="g", auto_commit_interval_ms=20) as (cluster, consumer):
        handler = Handler()
        handler.slow = lambda record: record.offset == 3 and not handler.gate.is_set()
        async with running(consumer, handler):
            fill(cluster, 10, 0)
            await eventually(lambda: handler.begun == [0, 1, 2, 3])
            make_again(cluster, 15)
            cluster.announce()
            await eventually(
                lambda: cluster.count(ApiKey.FETCH) and consumer._core.subscription.states
            )
            handler.gate.set()
            await eventually(lambda: handler.done[-15:] == list(range(15)))
            await eventually(lambda: cluster.group().offsets[A].offset == 15)
        assert cluster.group().topic_ids[A] == "id-t-again"


# ------------------------------------------------------------------------------ real brokers


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.slow
async def test_real_brokers(tmp_path: Path, grouped: bool) -> None:
    async with (
        Cluster(tmp_path, brokers=1, **ONE) as cluster,
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap, linger_ms=0) as producer,
    ):
        await admin.create_topics([NewTopic("t", 1, 1)])
        await producer.send_many("t", [b"old"] * 10)
        options: dict[str, Any] = {"group_id": "g"} if grouped else {}
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **options
        ) as consumer:
            assert await take(consumer, 10) == list(range(10))
            if grouped:
                await consumer.commit()
            await admin.delete_topics(["t"])
            broker = cluster.brokers[1]
            await eventually(lambda: broker.image.partition(A) is None)
            await admin.create_topics([NewTopic("t", 1, 1)])
            await producer.send_many("t", [b"new"] * 15)
            assert await take(consumer, 15) == list(range(15))
            if grouped:
                await consumer.commit()
                committed = await consumer.committed([A])
                item = committed[A]
                assert item is not None
                assert (item.offset, item.topic_id) == (15, broker.image.topic_id("t"))
                with pytest.raises(Exception, match="topic"):
                    await consumer.commit({A: OffsetAndMetadata(3, topic_id="another")})
