"""A listener has its protocol, and an address or a mistake that names its place in the settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_broker.kafka.wire.connection import KafkaConnection
from oncelog_broker.listening import spoken, take_address
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
