"""A secured broker stands here to be attacked.

    async with SecuredCluster(tmp_path) as cluster, Target(cluster.addresses, cluster.papers) as it:
        await attack.on(it)

A target is what an attacker sees: addresses, the certificate of the CA, and a user with a password,
``app`` and ``pencil``. So an attack may come from another process as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import trustme

from integration.hostile.bystander import TOPIC as CANARYS
from integration.hostile.bystander import USER as CANARY
from oncelog import Admin
from oncelog.admin.users import UserAlteration
from oncelog.security import Security
from oncelog_broker.config import ListenerConfig
from oncelog_protocol.acls import ALLOW, LITERAL, READ, TOPIC, WRITE, AclBinding
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import error_for
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.acls import CreateAclsRequest
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.messages.base import Request
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN
from support.certificates import Papers
from support.server import RawPeer
from support.tls_cluster import TlsCluster
from support.waiting import eventually

__all__ = ["PASSWORD", "USER", "SecuredCluster", "Target", "end_of"]

USER, PASSWORD = "app", "pencil"
ANSWER_S = 15.0
"""A peer that has failed often is answered after five seconds; no other answer takes a second."""

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
        return [
            ListenerConfig(name=name, port=self._at.get((broker_id, name), 0), **settings)
            for name, settings in kinds.items()
        ]

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


def admin_of(addresses: Mapping[str, tuple[str, int]], papers: Papers) -> Admin:
    """Return the admin client of the super user, who has a certificate."""
    certificate, key = papers.issue("admin")
    security = Security(ca_file=papers.ca_file, certificate_file=certificate, key_file=key)
    return Admin("{}:{}".format(*addresses["certified"]), security=security)


def may(user: str, operation: str, topic: str) -> AclBinding:
    return AclBinding(TOPIC, LITERAL, topic, f"User:{user}", "*", operation, ALLOW)


class Target:
    """It opens connections to a broker, and ends all of them when the block ends."""

    def __init__(self, addresses: Mapping[str, tuple[str, int]], papers: Papers) -> None:
        self.addresses = addresses
        self.papers = papers
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Target:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def context(self, leaf: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts the broker, with this certificate."""
        made = self.papers.authority.client()
        if leaf is not None:
            leaf.configure_cert(made)
        return made

    async def raw(self, listener: str, context: ssl.SSLContext | None = None) -> RawPeer:
        """Return a peer that sends what it likes, over TLS if it has a context.

        :raises OSError: the handshake was refused.
        """
        host, port = self.addresses[listener]
        name = host if context is not None else None
        streams = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        peer = RawPeer(*streams)
        self._open.push_async_callback(_ended, peer)
        return peer

    async def refuses(self, listener: str, context: ssl.SSLContext, hello: bytes) -> None:
        """Check that a broker serves nobody with this context: the handshake fails, or the first
        request is not answered."""
        try:
            peer = await self.raw(listener, context)
        except OSError:
            return
        peer.send(hello)
        assert await end_of(peer) == b""

    async def channel(
        self,
        listener: str,
        *,
        name: str | None = None,
        own_broker_id: int = NO_BROKER,
        meant: Identity = UNKNOWN,
    ) -> RequestChannel:
        """Return an open channel on which nobody has authenticated; it shows the certificate of
        this name, and means this broker."""
        host, port = self.addresses[listener]
        dialer = PLAIN if listener == "plain" else self.papers.dialer(name)
        machine = ClientConnection("attacker", meant=meant, own_broker_id=own_broker_id)
        return self._kept(await dialer.open(host, port, machine, connect_timeout_s=ANSWER_S))

    async def user(self, name: str = USER, password: str = PASSWORD) -> RequestChannel:
        """Return the channel of a user who has authenticated."""
        host, port = self.addresses["external"]
        security = Security(ca_file=self.papers.ca_file, username=name, password=password)
        machine = ClientConnection("attacker")
        opened = await security.dialer().open(host, port, machine, connect_timeout_s=ANSWER_S)
        return self._kept(opened)

    def _kept(self, channel: RequestChannel) -> RequestChannel:
        self._open.push_async_callback(_closed, channel)
        return channel

    async def ask(self, channel: RequestChannel, request: Request, *payload: bytes) -> Any:
        """Return the answer to a request."""
        return (await channel.call(request, list(payload), timeout_s=ANSWER_S)).message

    async def sasl(
        self, channel: RequestChannel, data: bytes, mechanism: str = "SCRAM-SHA-256"
    ) -> AuthenticateResponse:
        """Return the answer to one message of an exchange."""
        answer: AuthenticateResponse = await self.ask(channel, AuthenticateRequest(mechanism, data))
        return answer

    def admin(self) -> Admin:
        """Return the admin client of the super user: what is done to users in an attack."""
        return admin_of(self.addresses, self.papers)

    async def is_closed(self, channel: RequestChannel) -> None:
        """Wait until the broker has closed a channel."""
        await eventually(lambda: channel.closed, what="the broker closes the connection")


async def end_of(peer: RawPeer) -> bytes:
    """Read until the broker closes; return what it has sent. However it closes is well."""
    got = b""
    try:
        async with asyncio.timeout(ANSWER_S):
            while data := await peer.reader.read(1 << 16):
                got += data
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise AssertionError("the broker did not close the connection") from error
    return got


async def _ended(peer: RawPeer) -> None:
    with contextlib.suppress(OSError):
        await peer.close()


async def _closed(channel: RequestChannel) -> None:
    channel.close()
    await channel.wait_closed()
