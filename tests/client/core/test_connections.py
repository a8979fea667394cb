"""Each broker gets one connection, opened once; these tests see what becomes of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.config import ConnectionOptions
from oncelog.core.connection import CONTROL, DATA
from oncelog.core.router import Router
from oncelog.errors import BrokerUnreachableError, ClosedError
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster


def make(cluster: FakeCluster, **options: Any) -> Router:
    servers = cluster.bootstrap
    return Router(
        ConnectionOptions(bootstrap_servers=servers, client_id="test", **options),
        entropy=SeededEntropy(1),
    )


async def test_closing_while_others_connect() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        waiting = asyncio.create_task(router.connections.channel(2, DATA))
        await asyncio.sleep(0)
        await router.close()
        with pytest.raises(ClosedError):
            await waiting


async def test_many_waiters_share_one_connection_attempt() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        channels = await asyncio.gather(*(router.connections.channel(2, DATA) for _ in range(10)))
        assert len({id(channel) for channel in channels}) == 1
        await router.close()


async def test_a_refused_connection_is_not_tried_again_at_once() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
        await router.start()
        await cluster.brokers[2].stop()
        with pytest.raises(BrokerUnreachableError, match="broker 2") as first:
            await router.connections.channel(2, DATA)
        with pytest.raises(BrokerUnreachableError) as second:
            await router.connections.channel(2, DATA)
        assert first.value is second.value
        with pytest.raises(BrokerUnreachableError, match="not in the cluster"):
            await router.connections.channel(9, DATA)
        await router.close()


async def test_a_broker_that_comes_back_elsewhere_is_found() -> None:
    async with FakeCluster(2) as cluster:
        router = make(cluster)
        await router.start()
        old = await router.connections.channel(2, CONTROL)
        await cluster.brokers[2].stop()
        cluster.brokers[2].port = 0
        await cluster.brokers[2].start()
        await router.refresh()
        new = await router.connections.channel(2, CONTROL)
        assert old.closed
        assert not new.closed
        await router.close()


async def test_dropping_a_connection_blames_nobody() -> None:
    async with FakeCluster(1) as cluster:
        router = make(cluster)
        await router.start()
        channel = await router.connections.channel(1, DATA)
        router.connections.drop_channel(1, DATA, "test")
        assert channel.closed
        assert router.connections.channel_now(1, DATA) is None
        router.connections.drop_channel(1, DATA, "again: nothing to do")
        assert not (await router.connections.channel(1, DATA)).closed
        await router.close()
