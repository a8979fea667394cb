"""Brokers and clients speak TLS with real certificates: who proves to be whom, and how long."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from oncelog_protocol.messages.replication import ControlledShutdownRequest
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.tls_contexts import ServerTls
from oncelog_runtime.tls_errors import TlsError
from support.certificates import Papers
from support.hand_records import fetch_values, produce
from support.tls_cluster import TlsCluster
from support.waiting import eventually


async def answer(channel: RequestChannel, request: Request) -> Any:
    return (await channel.call(request, timeout_s=5)).message


async def test_brokers_replicate_and_elect_over_tls(tmp_path: Path) -> None:
    async with TlsCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        channel = await cluster.channel(cluster.leader("t"))
        await produce(channel, "t", 0, [b"one"])
        await cluster.crash_broker(cluster.leader("t"))
        await cluster.converged()
        channel = await cluster.channel(cluster.leader("t"))
        await produce(channel, "t", 0, [b"two"])
        assert await fetch_values(channel, "t", 0) == [b"one", b"two"]


@pytest.mark.parametrize("name", ["client", "broker-3"])
async def test_who_has_no_certificate_of_a_broker_gives_no_orders_in_its_name(
    tmp_path: Path, name: str
) -> None:
    async with TlsCluster(tmp_path, 1) as cluster:
        channel = await cluster.channel(1, "internal", own_broker_id=2, name=name)
        refused = await answer(channel, ControlledShutdownRequest(2, 1))
        assert refused.error_code == ClusterAuthorizationFailedError.code
        assert cluster.brokers[1].listeners["internal"].counters.misled == 1
        await eventually(lambda: channel.closed)
        served = await answer(await cluster.channel(1), DescribeClusterRequest())
        assert served.error_code == 0


async def test_a_broker_that_shows_the_certificate_of_another_is_not_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with TlsCluster(tmp_path, 1) as cluster:
        cluster.add(2)
        astray = cluster.listeners(2, **cluster.papers.tls("somebody"))
        start = asyncio.create_task(cluster.start_broker(2, listeners=astray))
        await eventually(lambda: "is not that of broker 2" in caplog.text)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)


async def test_a_client_without_a_certificate_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async with TlsCluster(tmp_path, 1) as cluster:
        canary = await cluster.channel(1)
        host, port = cluster.brokers[1].addresses["external"]
        for stranger in (cluster.papers.dialer(), Papers(tmp_path / "others").dialer("client")):
            with pytest.raises(TlsError):
                await stranger.open(host, port, ClientConnection("test"), connect_timeout_s=5)
        assert (await answer(canary, MetadataRequest(None))).error_code == 0


@pytest.mark.hostile(14)
async def test_a_renewed_certificate_is_taken_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with TlsCluster(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        tls = broker.listeners["external"].security.tls
        assert tls is not None
        first = tls.context
        cluster.papers.issue("broker-1")
        await broker.tls_watch.look()
        second = tls.context
        assert second is not first
        (tmp_path / "broker-1.pem").write_text("-----BEGIN CERTIFICATE-----\nhalf")
        await broker.tls_watch.look()
        assert tls.context is second
        assert "tls_files_refused" in caplog.text
        assert (await answer(await cluster.channel(1), MetadataRequest(None))).error_code == 0


async def test_brokers_reach_each_other_while_they_move_to_another_listener(
    tmp_path: Path,
) -> None:
    """One has moved and the other has not, in either direction."""
    before, after = {"inter_broker_listener": "plain"}, {"inter_broker_listener": "internal"}
    cluster = TlsCluster(tmp_path, 2)

    async def start(broker_id: int, **settings: Any) -> None:
        listeners = [ListenerConfig(name="plain"), *cluster.listeners(broker_id)]
        await cluster.start_broker(broker_id, listeners=listeners, **settings)

    async def write(value: bytes) -> None:
        await eventually(lambda: len(cluster.state("t", 0).isr) == 2)
        answer = await produce(await cluster.channel(cluster.leader("t")), "t", 0, [value])
        assert answer.error_code == 0

    try:
        await asyncio.gather(
            *(start(each, **before, inter_broker_listener_second="internal") for each in (1, 2))
        )
        await cluster.create_topic("t", replication_factor=2, min_insync_replicas=2)
        for broker_id in (1, 2):
            await cluster.stop_broker(broker_id)
            await start(broker_id, **after, inter_broker_listener_second="plain")
            await write(b"%d has moved" % broker_id)
        for broker_id in (1, 2):
            await cluster.stop_broker(broker_id)
            await start(broker_id, **after)
            await write(b"%d has TLS alone" % broker_id)
        channel = await cluster.channel(cluster.leader("t"))
        assert len(await fetch_values(channel, "t", 0)) == 4
    finally:
        await cluster.close()


def is_not(tls: ServerTls, context: ssl.SSLContext) -> bool:
    return tls.context is not context


async def test_files_are_looked_at_when_somebody_asks_for_it(tmp_path: Path) -> None:
    async with TlsCluster(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        tls = broker.listeners["internal"].security.tls
        assert tls is not None
        for _ in range(2):
            changed = partial(is_not, tls, tls.context)
            cluster.papers.issue("broker-1")
            broker.tls_watch.look_soon()
            await eventually(changed, timeout_s=8)


@pytest.mark.hostile(53)
async def test_a_key_that_everybody_may_read_stops_the_start(tmp_path: Path) -> None:
    cluster = TlsCluster(tmp_path, 1)
    listeners = cluster.listeners(1)
    (tmp_path / "broker-1.key").chmod(0o644)
    with pytest.raises(ConfigError, match="everybody may read"):
        await cluster.start_broker(1, listeners=listeners)
    await cluster.close()
