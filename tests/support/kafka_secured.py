"""Real brokers make a cluster here, whose clients of Kafka prove who they are."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from oncelog.admin.users import UserAlteration
from oncelog_broker.config import ListenerConfig
from oncelog_controller.features import KAFKA_BATCHES
from support.kafka_client import RawClient, connected
from support.scram_cluster import ScramCluster
from support.waiting import eventually

__all__ = ["SecuredKafkaCluster"]


class SecuredKafkaCluster(ScramCluster):
    """It has three listeners that speak Kafka's protocol, beside those of its base: ``kafka`` with
    TLS and three mechanisms, ``kafka-plain`` without TLS, by SCRAM, and ``kafka-papers``, where
    clients show certificates. Brokers answer wrong passwords as quickly as others."""

    def __init__(self, directory: Path, brokers: int, **settings: Any) -> None:
        super().__init__(directory, brokers, **settings)

    async def converged(self, timeout_s: float = 15.0) -> None:
        """Wait as every cluster does, and until Kafka's batches are taken everywhere."""
        await super().converged(timeout_s)
        lives = [broker.lifecycle for broker in self.brokers.values()]
        await eventually(lambda: all(life and KAFKA_BATCHES in life.features for life in lives))

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        tls = self.papers.tls(f"broker-{broker_id}")
        by_sasl: dict[str, Any] = {
            **tls,
            "tls_client_auth": "none",
            "sasl_mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"],
        }
        without_tls: dict[str, Any] = {"sasl_mechanisms": ["SCRAM-SHA-256"]}
        ours = super().listeners(broker_id, **changed)
        kafka = (("kafka", by_sasl), ("kafka-plain", without_tls), ("kafka-papers", tls))
        return ours + [
            ListenerConfig(name=name, protocol="kafka", **settings) for name, settings in kafka
        ]

    async def add_user(self, name: str = "app", password: str = "pencil") -> None:
        """Make a user who may authenticate by all mechanisms."""
        async with self.admin() as admin:
            created = UserAlteration.create(name, password, iterations=4096)
            (await admin.alter_users([created])).raise_for_errors()

    async def super_client(self) -> RawClient:
        """Return a client of Kafka's protocol that is the super user, at the controller."""
        return await self.client_of("admin")

    async def client_of(self, user: str) -> RawClient:
        """Return a client of Kafka's protocol with a certificate of a user, at the controller."""
        certificate, key = self.papers.issue(user)
        context = ssl.create_default_context(cafile=self.papers.ca_file)
        context.load_cert_chain(certificate, key)
        controller = self.controller.broker_id
        return await connected(self, controller, listener="kafka-papers", ssl=context)

    def kafka_settings(
        self, listener: str = "kafka", *, password: str = "pencil", mechanism: str = "SCRAM-SHA-256"
    ) -> dict[str, Any]:
        """Return how confluent-kafka connects to a listener as the user ``app``."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers(listener)}
        if listener != "kafka-plain":
            settings["ssl.ca.location"] = self.papers.ca_file
        if listener == "kafka-papers":
            certificate, key = self.papers.issue("app")
            papers = {"ssl.certificate.location": certificate, "ssl.key.location": key}
            return {**settings, "security.protocol": "SSL", **papers}
        return {
            **settings,
            "security.protocol": "SASL_PLAINTEXT" if listener == "kafka-plain" else "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "app",
            "sasl.password": password,
        }
