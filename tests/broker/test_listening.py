"""A listener has its protocol, and an address or a mistake that names its place in the settings."""

from __future__ import annotations

import asyncio
import struct
import sys
from pathlib import Path

import pytest

from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_broker.kafka.wire.connection import KafkaConnection
from oncelog_broker.listening import elsewhere, spoken, take_address
from oncelog_protocol.connection import ClientConnection
from support.cluster import Cluster
from support.kafka_cluster import KafkaCluster


async def test_each_listener_has_its_protocol(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        broker = cluster.brokers[1]
        assert type(broker.listeners["kafka"].new_machine()) is KafkaConnection
        assert type(broker.listeners["external"].new_machine()) is not KafkaConnection
        assert spoken("oncelog", broker, ()) == (broker.dispatcher, None)
        assert "oncelog_broker.kafka.router" in sys.modules
        host, port = broker.addresses["kafka"]
        taken = ListenerConfig(name="other", host=host, port=port)
        with pytest.raises(ConfigError, match="cannot listen on"):
            await take_address(broker.listeners["external"], taken, 3)


async def lines_of(
    cluster: Cluster, to: str, first: bytes, caplog: pytest.LogCaptureFixture
) -> list[str]:
    """Return what is logged about a peer that begins with these bytes."""
    caplog.clear()
    with caplog.at_level("WARNING", logger="oncelog_broker"):
        host, port = cluster.brokers[1].addresses[to]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(first)
        assert await reader.read() == b""  # the connection is closed
        writer.close()
    return [record.getMessage() for record in caplog.records]


KAFKAS = struct.pack(">ihhih", 14, 18, 3, 1, 4) + b"raw!"
OURS = b"".join(map(bytes, ClientConnection("app").handshake()[1]))


async def test_who_came_to_the_wrong_listener_is_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        (line,) = await lines_of(cluster, "external", KAFKAS, caplog)
        assert "a client of Kafka came to a listener that speaks ours" in line
        at = {name: port for name, (_, port) in cluster.brokers[1].addresses.items()}
        assert f"should connect to 'kafka' (port {at['kafka']})" in line
        assert cluster.brokers[1].listeners["external"].counters.foreign == 1
        # One line a host and interval, as of all that is wrong.
        assert await lines_of(cluster, "external", KAFKAS, caplog) == []
        (line,) = await lines_of(cluster, "kafka", OURS, caplog)
        assert "a client of Oncelog came to a listener that speaks Kafka's" in line
        ours = f"'internal' (port {at['internal']}), 'external' (port {at['external']})"
        assert f"should connect to {ours}" in line
        assert cluster.brokers[1].listeners["kafka"].counters.foreign == 1


async def test_a_broker_without_a_listener_of_kafka_says_how_to_get_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        (line,) = await lines_of(cluster, "external", KAFKAS, caplog)
    assert 'none here speaks that: add a listener with protocol = "kafka"' in line


async def test_what_is_broken_otherwise_names_no_other_listener(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        # Kafka's API 999 does not exist.
        broken = struct.pack(">ihhih", 14, 999, 3, 1, 4) + b"raw!"
        lines = await lines_of(cluster, "kafka", broken, caplog)
        assert lines
        assert not any("should connect" in line for line in lines)


def test_the_ports_of_other_listeners_are_named_where_they_are_set() -> None:
    listeners = [
        ListenerConfig(name="a", port=9092),
        ListenerConfig(name="b", port=9094, protocol="kafka"),
    ]
    assert elsewhere(listeners, "oncelog")(KAFKAS).endswith("connect to 'b' (port 9094)")
    assert elsewhere(listeners, "kafka")(OURS).endswith("connect to 'a' (port 9092)")
    assert elsewhere(listeners, "kafka")(KAFKAS) == ""
