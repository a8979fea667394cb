"""The two faces of a cluster: they offer the same, one blocks, one is awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from oncelog import Consumer, Producer, blocking
from oncelog_testing import AsyncCluster, Cluster, ClusterClosedError
from oncelog_testing.core import ClusterCore

INSIDE = {"start", "close", "converged", "until"}
"""Coroutines of the core that a face has under its own rules, or not at all."""


def test_both_faces_have_all_that_waits() -> None:
    waits = {
        name
        for name, method in inspect.getmembers(ClusterCore, inspect.iscoroutinefunction)
        if not name.startswith("_")
    } - INSIDE
    assert waits
    for name in sorted(waits):
        for face in (Cluster, AsyncCluster):
            assert getattr(face, name).__wrapped__ is getattr(ClusterCore, name), name
    own = {name for name in vars(Cluster) if not name.startswith("_")} - {"aio"}
    assert own == {name for name in vars(AsyncCluster) if not name.startswith("_")}


def test_a_test_that_blocks() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("t")
        with blocking.Producer(cluster.bootstrap) as producer:
            producer.send(topic, b"x")
        with blocking.Consumer(
            topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert consumer.getone().value == b"x"


async def test_a_test_that_awaits() -> None:
    async with AsyncCluster(brokers=2) as cluster:
        topic = await cluster.create_topic("t", replication_factor=2)
        async with Producer(cluster.bootstrap) as producer:
            await producer.send(topic, b"x")
        await cluster.kill(await cluster.leader(topic))
        async with Consumer(
            topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert (await consumer.getone()).value == b"x"


async def test_blocking_calls_in_a_coroutine_say_what_to_use(oncelog_cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match=r"use await cluster\.aio\.create_topic\(\.\.\.\)"):
        oncelog_cluster.create_topic("t")
    with pytest.raises(RuntimeError, match=r"await cluster\.aio\.eventually"):
        oncelog_cluster.eventually(lambda: True)
    assert oncelog_cluster.aio.bootstrap == oncelog_cluster.bootstrap


def test_conditions_of_the_tests_own(oncelog_cluster: Cluster) -> None:
    seen: list[int] = []

    def third_time() -> bool:
        seen.append(1)
        return len(seen) == 3

    oncelog_cluster.eventually(third_time)
    with pytest.raises(TimeoutError, match=r"never did not hold within 0.02 s\. brokers up: \[1\]"):
        oncelog_cluster.eventually(lambda: False, timeout_s=0.02, what="never")


async def test_conditions_that_are_awaited(oncelog_cluster: Cluster) -> None:
    cluster, seen = oncelog_cluster.aio, []

    async def third_time() -> bool:
        seen.append(await asyncio.sleep(0, 1))
        return len(seen) == 3

    await cluster.eventually(third_time)
    await cluster.eventually(lambda: True)

    def never() -> bool:
        return False

    with pytest.raises(TimeoutError, match="never did not hold"):
        await cluster.eventually(never, timeout_s=0.02)


def test_a_cluster_lives_once() -> None:
    before = threading.active_count()
    cluster = Cluster()
    cluster.close()
    with cluster, pytest.raises(ClusterClosedError, match="started once"):
        cluster.start()
    cluster.close()
    assert threading.active_count() == before
    with pytest.raises(ClusterClosedError):
        cluster.create_topic("t")


def test_many_clusters_at_once() -> None:
    with Cluster() as one, Cluster() as another:
        one.create_topic("here")
        another.create_topic("there")
        with blocking.Admin(one.bootstrap) as admin:
            assert admin.list_topics() == ["here"]
