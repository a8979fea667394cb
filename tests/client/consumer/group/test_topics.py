"""A member subscribes to topics, and a leader watches them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog.config import ConnectionOptions
from oncelog.consumer.group.topics import GroupTopics, checked_topics
from oncelog.core.router import Router
from oncelog.errors import ConfigurationError, InvalidTopicError
from oncelog_protocol.consumer_protocol import ConsumerSubscription
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster


@asynccontextmanager
async def knowing(**topics: int) -> AsyncIterator[tuple[FakeCluster, Router]]:
    """Open a router to a cluster with these topics."""
    async with FakeCluster() as cluster:
        for topic, partitions in topics.items():
            cluster.create_topic(topic, partitions)
        options = ConnectionOptions(bootstrap_servers=cluster.bootstrap)
        router = Router(options, entropy=SeededEntropy(1))
        await router.start()
        try:
            yield cluster, router
        finally:
            await router.close()


async def test_named_topics_need_not_exist() -> None:
    async with knowing(a=1) as (_, router):
        topics = GroupTopics(router, ["a", "b", "a"], None)
        assert topics.subscribed == ("a", "b")
        assert not topics.by_pattern
        await router.refresh()
        assert not topics.look_again()


async def test_what_does_not_exist_is_told_once() -> None:
    async with knowing(a=1) as (cluster, router):
        topics = GroupTopics(router, ["a", "b", "c"], None)
        assert topics.newly_missing() == [], "nobody was asked yet"
        await router.refresh()
        assert topics.newly_missing() == ["b", "c"]
        await router.refresh()
        assert topics.newly_missing() == []
        assert GroupTopics(router, ["b"], None).newly_missing() == ["b"]
        cluster.create_topic("b")
        await router.refresh()
        assert GroupTopics(router, ["b"], None).newly_missing() == []


async def test_a_pattern_matches_whole_names_of_topics_that_are_not_internal() -> None:
    async with knowing(logs=1, logsaw=1, mylogs=1, __logs=1) as (cluster, router):
        topics = GroupTopics(router, (), "(__)?logs|logs.w")
        await router.refresh()
        assert topics.look_again()
        assert list(topics.subscribed) == ["__logs", "logs", "logsaw"]
        router.cluster.topics["__logs"].internal = True
        cluster.topics.pop("logsaw")
        await router.refresh()
        router.cluster.topics["__logs"].internal = True
        assert topics.look_again()
        assert list(topics.subscribed) == ["logs"]
        GroupTopics(router, ["logs"], None)
        assert not router.all_topics, "not asked for any more"


async def test_a_pattern_must_be_one() -> None:
    async with knowing() as (_, router):
        with pytest.raises(ConfigurationError, match=r"pattern='\('"):
            GroupTopics(router, (), "(")


async def test_the_leader_counts_everybody_s_topics_and_watches_them() -> None:
    async with knowing(a=1, b=2, c=1) as (cluster, router):
        topics = GroupTopics(router, ["a"], None)
        members = {
            "m": ConsumerSubscription(("a", "later")),
            "n": ConsumerSubscription(("b", "not/legal")),
        }
        assert await topics.partition_counts(members) == {"a": 1, "b": 2}
        assert topics.grown() == []
        cluster.create_topic("b", 3)
        cluster.create_topic("c", 3)
        cluster.create_topic("later", 1)
        await router.refresh()
        assert topics.grown() == ["b", "later"]
        topics.led_by_another()
        assert topics.grown() == []


def test_names_are_checked() -> None:
    assert checked_topics("t") == ("t",)
    assert checked_topics(["b", "a", "b"]) == ("b", "a")
    for name in ("", "a/b", "x" * 250, 3):
        with pytest.raises(InvalidTopicError):
            checked_topics([name])  # type: ignore[list-item]
