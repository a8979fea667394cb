"""Real brokers make a cluster here, whose clients authenticate by SCRAM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog import Admin, Producer
from oncelog.security import Security
from oncelog_broker.config import ListenerConfig
from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, AclBinding
from oncelog_protocol.messages.acls import CreateAclsRequest
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from support.tls_cluster import TlsCluster

__all__ = ["ScramCluster"]


class ScramCluster(TlsCluster):
    """Brokers are known by certificates, as the admin is; clients authenticate by SCRAM."""

    def __init__(self, directory: Path, brokers: int, **settings: Any) -> None:
        given = {"authorizer": "acl", "super_users": ["User:admin"], **settings}
        super().__init__(directory, brokers, **given)

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        internal, external = super().listeners(broker_id, **changed)
        sasl = {"tls_client_auth": "none", "sasl_mechanisms": ["SCRAM-SHA-256"]}
        return [internal, external.model_copy(update=sasl)]

    async def channel(
        self,
        broker_id: int,
        listener: str = "internal",
        *,
        own_broker_id: int = NO_BROKER,
        name: str | None = None,
    ) -> RequestChannel:
        if name is None and own_broker_id == NO_BROKER:
            name = "admin"
        return await super().channel(broker_id, "internal", own_broker_id=own_broker_id, name=name)

    def servers(self, listener: str) -> str:
        """Return where clients of a listener begin."""
        brokers = self.brokers.values()
        return ",".join("{}:{}".format(*broker.addresses[listener]) for broker in brokers)

    def admin(self) -> Admin:
        """Return the admin client of the super user."""
        certificate, key = self.papers.issue("admin")
        security = Security(ca_file=self.papers.ca_file, certificate_file=certificate, key_file=key)
        return Admin(self.servers("internal"), security=security)

    def producer(self, password: str = "pencil", **options: Any) -> Producer:
        """Return a producer of the user."""
        security = Security(ca_file=self.papers.ca_file, username="app", password=password)
        return Producer(self.servers("external"), security=security, **options)

    async def allow(self, *operations: str) -> None:
        """Let the user do this to the topic."""
        entries = [
            AclBinding(TOPIC, LITERAL, "t", "User:app", "*", operation, ALLOW)
            for operation in operations
        ]
        channel = await self.channel(self.controller.broker_id)
        response = (await channel.call(CreateAclsRequest(entries), timeout_s=15)).message
        channel.close()
        assert response.error_code == 0
