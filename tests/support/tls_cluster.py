"""A cluster of real brokers speaks TLS, and everybody is known by a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.config import ListenerConfig
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from support.certificates import Papers
from support.cluster import Cluster

__all__ = ["TlsCluster"]


class TlsCluster(Cluster):
    """Its brokers speak TLS on both listeners, each with a certificate of its own."""

    def __init__(self, directory: Path, brokers: int, **settings: Any) -> None:
        super().__init__(directory, brokers, **settings)
        self.papers = Papers(directory)

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        """Return the listeners of a broker; what is changed is so of the one between brokers."""
        tls = self.papers.tls(f"broker-{broker_id}")
        return [
            ListenerConfig(name=name, **settings)
            for name, settings in (("internal", {**tls, **changed}), ("external", tls))
        ]

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        listeners = settings.pop("listeners", None) or self.listeners(broker_id)
        return await super().start_broker(broker_id, listeners=listeners, **settings)

    async def channel(
        self,
        broker_id: int,
        listener: str = "external",
        *,
        own_broker_id: int = NO_BROKER,
        name: str | None = None,
    ) -> RequestChannel:
        broker = self.brokers[broker_id]
        host, port = broker.addresses[listener]
        machine = ClientConnection("test", meant=broker.identity, own_broker_id=own_broker_id)
        name = name or ("client" if own_broker_id == NO_BROKER else f"broker-{own_broker_id}")
        return await self.papers.dialer(name).open(host, port, machine, connect_timeout_s=5)
