"""A secured cluster stands here to be attacked: users, rights and listeners of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from integration.hostile.bystander import TOPIC as CANARYS
from integration.hostile.bystander import USER as CANARY
from integration.hostile.target import PASSWORD, USER, admin_of
from oncelog import Admin
from oncelog.admin.users import UserAlteration
from oncelog_broker.config import ListenerConfig
from oncelog_protocol.acls import ALLOW, LITERAL, READ, TOPIC, WRITE, AclBinding
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.acls import CreateAclsRequest
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from support.tls_cluster import TlsCluster

__all__ = ["SecuredCluster"]

SETTINGS: dict[str, Any] = {
    "authorizer": "acl",
    "super_users": ["User:admin"],
    "connection_handshake_timeout_ms": 1000,
    "request_frame_timeout_ms": 500,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "group_initial_rebalance_delay_ms": 0,
}


class SecuredCluster(TlsCluster):
    """Its brokers have a listener of each kind, all on loopback:

    ``internal`` and ``certified`` want certificates, ``external`` a password over TLS, ``plain`` a
    proof of it without TLS.
    """

    def __init__(self, directory: Path, brokers: int = 1, **settings: Any) -> None:
        super().__init__(directory, brokers, **{**SETTINGS, **settings})
        self.crl = directory / "revoked.pem"
        self.crl.write_bytes(self.papers.authority.revocations())

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        tls = self.papers.tls(f"broker-{broker_id}")
        passwords = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]
        kinds: dict[str, dict[str, Any]] = {
            "internal": {**tls, **changed},
            "certified": {**tls, "tls_crl_file": str(self.crl)},
            "external": {**tls, "tls_client_auth": "none", "sasl_mechanisms": passwords},
            "plain": {"sasl_mechanisms": ["SCRAM-SHA-256"]},
        }
        return [ListenerConfig(name=name, **settings) for name, settings in kinds.items()]

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        try:
            await self._prepare()
        except BaseException:
            await self.close()
            raise
        return self

    async def _prepare(self) -> None:
        """Make the users, and what each may use: ``hidden`` is nobody's."""
        users = [
            UserAlteration.create(name, password, iterations=4096)
            for name, password in ((USER, PASSWORD), (CANARY, CANARY))
        ]
        async with self.admin() as admin:
            (await admin.alter_users(users)).raise_for_errors()
        for topic in (CANARYS, "t", "hidden"):
            await self.create_topic(topic)
        await self.allow(*(may(CANARY, each, CANARYS) for each in (READ, WRITE)))
        await self.allow(*(may(USER, each, "t") for each in (READ, WRITE)))

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Return where the listeners of broker 1 are."""
        return self.brokers[1].addresses

    async def channel(
        self,
        broker_id: int,
        listener: str = "certified",
        *,
        own_broker_id: int = NO_BROKER,
        name: str | None = None,
    ) -> RequestChannel:
        if name is None and own_broker_id == NO_BROKER:
            name = "admin"
        known = "certified" if listener == "external" else listener
        return await super().channel(broker_id, known, own_broker_id=own_broker_id, name=name)

    def admin(self) -> Admin:
        """Return the admin client of the super user."""
        return admin_of(self.addresses, self.papers)

    async def allow(self, *entries: AclBinding) -> None:
        """Create ACLs."""
        response = await self.call(self.controller.broker_id, CreateAclsRequest(list(entries)))
        codes = [response.error_code, *(result.error_code for result in response.results)]
        for code in filter(None, codes):
            raise error_for(code)


def may(user: str, operation: str, topic: str) -> AclBinding:
    return AclBinding(TOPIC, LITERAL, topic, f"User:{user}", "*", operation, ALLOW)
