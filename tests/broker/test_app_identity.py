"""Addresses lead astray, with real brokers: nothing is lost, one line says what is wrong."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from oncelog import Producer
from oncelog.errors import OncelogError
from oncelog_broker.app import Broker
from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.waiting import eventually

PRECIOUS = TopicPartition("precious", 0)


def listeners(broker: Broker, **advertised: int) -> dict[str, Any]:
    """Return the listeners as they are, with other advertised ports for those that are named."""
    return {
        "listeners": [
            ListenerConfig(
                name=listener.name,
                port=broker.addresses[listener.name][1],
                advertised_port=advertised.get(listener.name),
            )
            for listener in broker.config.listeners
        ]
    }


def lines(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    texts = [record.getMessage() for record in caplog.records]
    return [text for text in texts if all(word in text for word in words)]


async def restart(cluster: Cluster, broker_id: int, settings: dict[str, Any]) -> asyncio.Task[Any]:
    """Stop a broker and start it with these settings; it may never come to serve."""
    await cluster.stop_broker(broker_id)
    return asyncio.create_task(cluster.start_broker(broker_id, **settings))


async def give_up(start: asyncio.Task[Any]) -> None:
    start.cancel()
    await asyncio.gather(start, return_exceptions=True)


async def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    leader = cluster.leader(topic)
    channel = await cluster.channel(leader)
    try:
        return await fetch_values(channel, topic, 0, wait_ms=0)
    finally:
        channel.close()
        await channel.wait_closed()


async def test_records_for_one_cluster_never_come_to_another(tmp_path: Path) -> None:
    async with Cluster(tmp_path / "a", 2) as a, Cluster(tmp_path / "b", 2, seed=2) as b:
        for cluster in (a, b):
            await cluster.create_topic("orders", partitions=2)
        astray = listeners(a.brokers[2], external=b.brokers[2].addresses["external"][1])
        await (await restart(a, 2, astray))
        await a.converged()
        bootstrap = "{}:{}".format(*a.brokers[1].addresses["external"])
        mine = next(p for p in range(2) if a.leader("orders", p) == 1)
        await eventually(lambda: a.state("orders", 1 - mine).leader in (1, 2))
        async with Producer(bootstrap, delivery_timeout_ms=800, request_timeout_ms=500) as producer:
            await producer.send("orders", b"mine", partition=mine)
            if a.leader("orders", 1 - mine) == 2:
                with pytest.raises(OncelogError, match="found broker 2 of cluster"):
                    await producer.send("orders", b"lost?", partition=1 - mine)
        for broker in b.brokers.values():
            assert [replica.log.log_end_offset for replica in broker.replicas.partitions()] == (
                [0] * len(broker.replicas.partitions())
            )


async def test_a_controller_of_another_cluster_is_not_obeyed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path / "a", 2) as a, Cluster(tmp_path / "b", 2, seed=2) as b:
        await b.create_topic("precious", replication_factor=2)
        for number in range(3):  # a controller epoch above that of B
            await a.stop_broker(1 + number % 2)
            await a.start_broker(1 + number % 2)
            await a.converged()
        if a.controller.broker_id == 2:
            await a.stop_broker(2)
            await a.start_broker(2)
        before = [(i.fence.controller_epoch, dict(i.image.brokers)) for i in b.brokers.values()]
        astray = listeners(a.brokers[2], internal=b.brokers[2].addresses["internal"][1])
        mended = listeners(a.brokers[2])
        start = await restart(a, 2, astray)
        await eventually(lambda: lines(caplog, "link_leads_astray", "broker_id=2"))
        await eventually(lambda: b.brokers[2].listeners["internal"].counters.misled > 3)
        after = [(i.fence.controller_epoch, dict(i.image.brokers)) for i in b.brokers.values()]
        assert after == before
        for broker in b.brokers.values():
            assert [r.topic_partition for r in broker.replicas.partitions()] == [PRECIOUS]
        assert len(lines(caplog, "link_leads_astray")) == 1
        ids = [cluster.brokers[1].image.cluster_id for cluster in (a, b)]
        expected = f"expected broker 2 of cluster '{ids[0]}', found broker 2 of cluster '{ids[1]}'"
        assert lines(caplog, "link_leads_astray", expected)
        await give_up(start)
        await a.start_broker(2, **mended)
        await a.converged()


async def test_an_address_of_another_broker_of_the_cluster_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        if cluster.controller.broker_id == 2:
            await cluster.stop_broker(2)
            await cluster.start_broker(2)
        astray = listeners(cluster.brokers[2], internal=cluster.brokers[3].addresses["internal"][1])
        mended = listeners(cluster.brokers[2])
        start = await restart(cluster, 2, astray)
        expected = "expected broker 2 of cluster"
        await eventually(lambda: lines(caplog, "link_leads_astray", expected, "found broker 3"))
        await eventually(lambda: cluster.leader("t") in (1, 3))
        assert await values(cluster, "t") == []
        await give_up(start)
        await cluster.start_broker(2, **mended)
        await cluster.converged()
        await eventually(lambda: sorted(cluster.state("t").isr) == [1, 2, 3])


async def test_a_copy_of_a_data_directory_does_not_depose_the_original(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t", partitions=2)
        partition = next(p for p in range(2) if cluster.leader("t", p) == 1)
        channel = await cluster.channel(1)
        await produce(channel, "t", partition, [b"before"])
        shutil.copytree(tmp_path / "broker-1", tmp_path / "copy")
        await produce(channel, "t", partition, [b"after"])
        epoch, controller = cluster.brokers[1].broker_epoch, cluster.controller.broker_id
        copy = cluster.make_broker(
            1,
            log_dirs=[str(tmp_path / "copy")],
            listeners=[ListenerConfig(name="internal"), ListenerConfig(name="external")],
        )
        with pytest.raises(ConfigError, match=r"broker_id: broker id 1 .* alive at .* or a copy"):
            await copy.start()
        await produce(channel, "t", partition, [b"later"])
        assert await fetch_values(channel, "t", partition) == [b"before", b"after", b"later"]
        channel.close()
        assert cluster.brokers[1].broker_epoch == epoch
        assert cluster.controller.broker_id == controller
        assert not cluster.brokers[1].failed.done()


async def test_a_copy_takes_over_from_a_process_that_was_killed(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2, zookeeper_session_timeout_ms=60_000) as cluster:
        await cluster.crash_broker(1)
        shutil.copytree(tmp_path / "broker-1", tmp_path / "copy")
        await cluster.start_broker(1, log_dirs=[str(tmp_path / "copy")])
        await cluster.converged()
