"""A cluster of real brokers takes tokens of one issuer on its listener for clients."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from oncelog import Admin
from oncelog.security import Security
from oncelog_broker.app import Broker
from oncelog_broker.config import ListenerConfig
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from support.tls_cluster import TlsCluster
from support.tokens import AUDIENCE, ISSUER, Issuer, claims_at

__all__ = ["TokenCluster"]


class TokenCluster(TlsCluster):
    """Brokers and the admin are known by certificates, clients by tokens."""

    def __init__(
        self, directory: Path, brokers: int, *, issuer: Issuer | None = None, **settings: Any
    ) -> None:
        self.issuer = issuer or Issuer()
        directory.mkdir(exist_ok=True)
        keys = directory / "keys.json"
        keys.write_bytes(self.issuer.document())
        given = {
            "authorizer": "acl",
            "super_users": ["User:admin"],
            "oidc_issuer": ISSUER,
            "oidc_audience": AUDIENCE,
            **({} if "oidc_jwks_url" in settings else {"oidc_jwks_file": str(keys)}),
        }
        super().__init__(directory, brokers, **{**given, **settings})

    def listeners(self, broker_id: int, **changed: Any) -> list[ListenerConfig]:
        internal, external = super().listeners(broker_id, **changed)
        sasl = {"tls_client_auth": "none", "sasl_mechanisms": ["OAUTHBEARER"]}
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

    def servers(self, listener: str = "external") -> str:
        """Return where clients of a listener begin."""
        brokers = self.brokers.values()
        return ",".join("{}:{}".format(*broker.addresses[listener]) for broker in brokers)

    def admin(self) -> Admin:
        """Return the admin client of the super user."""
        certificate, key = self.papers.issue("admin")
        security = Security(ca_file=self.papers.ca_file, certificate_file=certificate, key_file=key)
        return Admin(self.servers("internal"), security=security)

    def token(self, *, lasts_s: float = 300, **claims: Any) -> str:
        """Return a token that is good from now on."""
        now_s = time.time()
        return self.issuer.token(claims_at(now_s, **{"exp": now_s + lasts_s, **claims}))

    def security(self, **options: Any) -> Security:
        """Return the options of a client with a token."""
        return Security(ca_file=self.papers.ca_file, **options)

    def known(self, name: str) -> int:
        """Return how many connections are authenticated as a user."""
        return sum(_known(broker, name) for broker in self.brokers.values())

    async def attempts(self, tokens: list[str]) -> list[object]:
        """Try to authenticate with all of them at once; return what came of each."""
        host, port = next(iter(self.brokers.values())).addresses["external"]

        async def attempt(token: str) -> None:
            dialer = self.security(token=token).dialer()
            machine = ClientConnection("flood")
            channel = await dialer.open(host, port, machine, connect_timeout_s=10)
            channel.close()

        return await asyncio.gather(*map(attempt, tokens), return_exceptions=True)


def _known(broker: Broker, name: str) -> int:
    connections = broker.listeners["external"].connections
    return sum(each.state.known.principal == f"User:{name}" for each in connections)
