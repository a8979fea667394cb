"""A cluster of real brokers has a Kafka listener beside ours."""

from __future__ import annotations

from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.config import ListenerConfig
from oncelog_controller.features import KAFKA_BATCHES, TRANSACTIONS_BY_NUMBER
from support.cluster import Cluster
from support.waiting import eventually

__all__ = ["KafkaCluster"]


class KafkaCluster(Cluster):
    """Its brokers have a third listener, ``kafka``."""

    async def converged(self, timeout_s: float = 15.0) -> None:
        """Wait as every cluster does, and until Kafka's batches are taken everywhere."""
        await super().converged(timeout_s)
        lives = [broker.lifecycle for broker in self.brokers.values()]
        wanted = {KAFKA_BATCHES}
        if all(each.config.transaction_by_number_enable for each in self.brokers.values()):
            wanted.add(TRANSACTIONS_BY_NUMBER)
        await eventually(lambda: all(life and wanted <= life.features for life in lives))

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        listeners = [
            ListenerConfig(
                name=name,
                protocol="kafka" if name == "kafka" else "oncelog",
            )
            for name in ("internal", "external", "kafka")
        ]
        return await super().start_broker(broker_id, listeners=listeners, **settings)

    @property
    def kafka_servers(self) -> str:
        """Return where clients of Kafka find the cluster."""
        at = [broker.addresses["kafka"] for broker in self.brokers.values()]
        return ",".join(f"{host}:{port}" for host, port in at)
