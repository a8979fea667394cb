"""Topics that are not there are told of soon, with the name that was meant; new ones never are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Consumer, Producer, TopicPartition
from oncelog.config import ConnectionOptions
from oncelog.core.router import UNKNOWN_TOPIC_WAIT_S, Router
from oncelog.core.unknown_topics import ASKED_MAX, CANDIDATES_MAX, nearest
from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_protocol.errors import LeaderNotAvailableError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataTopic
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.waiting import eventually


def make(cluster: FakeCluster, **options: Any) -> Router:
    options = {"bootstrap_servers": cluster.bootstrap, "client_id": "test", **options}
    return Router(ConnectionOptions(**options), entropy=SeededEntropy(1))


def soon(seconds: float = 60) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_a_typo_is_told_long_before_a_call_ends_with_what_was_meant() -> None:
    async with FakeCluster(3) as cluster:
        for topic in ("orders", "payments", "__consumer_offsets"):
            cluster.create_topic(topic)
        router = make(cluster)
        await router.start()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(UnknownTopicOrPartitionError) as caught:
            await router.topic("ordres", soon())
        assert str(caught.value) == "topic 'ordres' does not exist; did you mean 'orders'?"
        assert asyncio.get_running_loop().time() - begun < 5
        assert "ordres" not in router.topics
        with pytest.raises(UnknownTopicOrPartitionError, match="'x' does not exist$"):
            await router.topic("x", soon())
        await router.close()


async def test_producer_and_consumer_say_so() -> None:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("orders")
        servers = cluster.bootstrap
        meant = "topic 'order' does not exist; did you mean 'orders'"
        async with Producer(servers) as producer:
            with pytest.raises(UnknownTopicOrPartitionError, match=meant):
                await producer.send("order", b"v")
        with pytest.raises(UnknownTopicOrPartitionError, match=meant):
            async with Consumer("order", bootstrap_servers=servers):
                pass
        async with Consumer(bootstrap_servers=servers) as consumer:
            consumer.assign([TopicPartition("order", 0)])
            with pytest.raises(UnknownTopicOrPartitionError, match=meant):
                await consumer.getone()


@pytest.mark.parametrize("lagging", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)])
async def test_a_topic_that_one_broker_knows_is_found(lagging: tuple[int, ...]) -> None:
    """The others may lag behind for long."""
    async with FakeCluster(3) as cluster:
        cluster.create_topic("other")
        stale = cluster.metadata(MetadataRequest(["t"]))
        cluster.create_topic("t")
        for broker in lagging:
            cluster.stale_metadata[broker] = stale
        router = make(cluster)
        await router.start()
        assert (await router.topic("t", soon())).partition_count == 1
        await router.close()


@pytest.mark.parametrize("lagging", [(1,), (2,), (3,), (1, 2), (1, 3), (2, 3)])
async def test_a_partition_that_one_broker_knows_is_found(lagging: tuple[int, ...]) -> None:
    """Partitions are added; the others may lag behind for long."""
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", partitions=1)
        router = make(cluster)
        await router.start()
        await router.topic("t", soon())
        stale = cluster.metadata(MetadataRequest(["t"]))
        cluster.add_partition("t")
        for broker in lagging:
            cluster.stale_metadata[broker] = stale
        assert (await router.topic_with("t", 1, soon())).partition_count == 2
        with pytest.raises(UnknownTopicOrPartitionError, match="has 2 partitions, there is no 2$"):
            await router.topic_with("t", 2, soon())
        await router.close()


async def test_offsets_and_sends_find_a_partition_that_was_added() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", partitions=1)
        servers = cluster.bootstrap
        async with Consumer(bootstrap_servers=servers) as consumer, Producer(servers) as producer:
            first, added = TopicPartition("t", 0), TopicPartition("t", 1)
            assert await consumer.end_offsets([first]) == {first: 0}
            await producer.send("t", b"v", partition=0)
            stale = cluster.metadata(MetadataRequest(["t"]))
            leader = cluster.add_partition("t").leader
            for broker in cluster.brokers:
                if broker != leader:
                    cluster.stale_metadata[broker] = stale
            assert await consumer.end_offsets([added]) == {added: 0}
            assert (await producer.send("t", b"v", partition=1)).offset == 0


async def test_many_who_wait_for_a_partition_ask_once() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t", partitions=1)
        router = make(cluster)
        await router.start()
        await router.topic("t", soon())
        before = cluster.count(ApiKey.METADATA)
        await asyncio.gather(*(router._unknown_topics.look_around("t", soon()) for _ in range(100)))
        assert cluster.count(ApiKey.METADATA) - before <= 2 * 3
        await router.close()


async def test_a_topic_that_is_being_made_is_waited_for() -> None:
    """A broker makes what it is asked for (``auto_create_topics_enable``)."""
    async with FakeCluster(2) as cluster:
        stale = cluster.metadata(MetadataRequest(["t"]))
        being_made = cluster.metadata(MetadataRequest([]))
        being_made.topics = [MetadataTopic(LeaderNotAvailableError.code, "t", "", False)]
        cluster.stale_metadata |= {1: stale, 2: being_made}
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            sending = asyncio.create_task(producer.send("t", b"v"))
            begun = asyncio.get_running_loop().time()
            await eventually(
                lambda: asyncio.get_running_loop().time() > begun + 2 * UNKNOWN_TOPIC_WAIT_S
            )
            assert not sending.done()
            cluster.stale_metadata.clear()
            cluster.create_topic("t")
            assert (await sending).offset == 0


async def test_who_has_heard_nothing_or_does_not_answer_is_no_witness() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        empty = cluster.metadata(MetadataRequest(["t"]))
        empty.brokers = []
        cluster.stale_metadata[1] = empty
        assert await router._unknown_topics.verdict("t", soon()) is None
        cluster.stale_metadata.clear()
        held = cluster.rule(ApiKey.METADATA, Action.HOLD, times=1000)
        assert await router._unknown_topics.verdict("t", soon(0.1)) is None
        held.release.set()
        held.times = 0
        assert await router._unknown_topics.verdict("t", soon()) is not None
        await router.close()


async def test_many_who_wait_ask_once() -> None:
    async with FakeCluster(8) as cluster:
        cluster.create_topic("orders")
        router = make(cluster)
        await router.start()
        before = cluster.count(ApiKey.METADATA)
        told = await asyncio.gather(
            *(router._unknown_topics.verdict("ordres", soon()) for _ in range(100))
        )
        assert {str(each) for each in told} == {
            "topic 'ordres' does not exist; did you mean 'orders'?"
        }
        assert cluster.count(ApiKey.METADATA) - before == ASKED_MAX + 1
        await router._unknown_topics.verdict("paymens", soon())
        assert cluster.count(ApiKey.METADATA) - before == 2 * ASKED_MAX + 1, "names are kept"
        await router.close()


def test_the_nearest_name() -> None:
    names = ["orders", "orders.eu", "payments", "__consumer_offsets"]
    assert nearest("ordres", names) == "orders"
    assert nearest("order", names) == "orders"
    assert nearest("orders-eu", names) == "orders.eu"
    assert nearest("zzz", names) is None
    assert nearest("consumer_offsets", names) is None
    assert nearest("__consumer_offset", names) == "__consumer_offsets"
    assert nearest("orders", []) is None


def test_among_very_many_names_few_are_compared() -> None:
    names = [f"t{number:06}" for number in range(100 * CANDIDATES_MAX)]
    assert nearest("t00001x", names) is not None
