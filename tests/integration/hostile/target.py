"""A secured broker is attacked here.

    async with SecuredCluster(tmp_path) as cluster, Target(cluster.addresses, cluster.papers) as it:
        await attack.on(it)

A target is what an attacker sees: addresses, the CA, and a user with a password, ``app`` and
``pencil``. So an attack comes from another process (``attacker.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Any

import trustme

from oncelog import Admin
from oncelog.security import Security
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.messages.base import Request
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN
from support.certificates import Papers
from support.server import RawPeer
from support.waiting import eventually

__all__ = ["PASSWORD", "USER", "Target", "admin_of", "end_of"]

USER, PASSWORD = "app", "pencil"
ANSWER_S = 15.0
"""A peer that has failed often is answered after five seconds; no other answer takes a second."""


def admin_of(addresses: Mapping[str, tuple[str, int]], papers: Papers) -> Admin:
    """Return the admin client of the super user, who has a certificate."""
    certificate, key = papers.issue("admin")
    security = Security(ca_file=papers.ca_file, certificate_file=certificate, key_file=key)
    return Admin("{}:{}".format(*addresses["certified"]), security=security)


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
