"""A cluster of real brokers decides by ACLs, and knows everybody by a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog_protocol.acls import AclBinding, AclBindingFilter
from oncelog_protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from support.hand_records import produce
from support.tls_cluster import TlsCluster

__all__ = ["AclCluster"]


class AclCluster(TlsCluster):
    """Everybody has a certificate, and nobody may do what no ACL allows, but for the admin."""

    def __init__(self, directory: Path, brokers: int, **settings: Any) -> None:
        given = {"authorizer": "acl", "super_users": ["User:admin"], **settings}
        super().__init__(directory, brokers, **given)

    async def channel(
        self,
        broker_id: int,
        listener: str = "external",
        *,
        own_broker_id: int = NO_BROKER,
        name: str | None = None,
    ) -> RequestChannel:
        if name is None and own_broker_id == NO_BROKER:
            name = "admin"
        return await super().channel(broker_id, listener, own_broker_id=own_broker_id, name=name)

    async def ask(self, request: Any, *, name: str = "admin") -> Any:
        """Return what the controller says to a user."""
        channel = await self.channel(self.controller.broker_id, name=name)
        try:
            return (await channel.call(request, timeout_s=15)).message
        finally:
            channel.close()

    async def allow(self, *entries: AclBinding) -> int:
        """Create ACLs, and return the version in which they are."""
        response = await self.ask(CreateAclsRequest(list(entries)))
        assert [response.error_code, *(result.error_code for result in response.results)] == [0] * (
            1 + len(entries)
        )
        version: int = response.version
        return version

    async def take_back(self, wanted: AclBindingFilter) -> None:
        response = await self.ask(DeleteAclsRequest([wanted]))
        assert response.error_code == 0
        assert response.results[0].entries

    async def writes(self, name: str = "app", topic: str = "t") -> set[int]:
        """Return what brokers answer to a user who writes to each partition of a topic."""
        found = set()
        for partition in range(3):
            channel = await self.channel(self.leader(topic, partition), name=name)
            found.add((await produce(channel, topic, partition, [b"v"])).error_code)
            channel.close()
        return found
