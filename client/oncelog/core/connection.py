"""A RequestChannel drives a ClientConnection: one connection to one broker.

Rules: a request that is not answered in time closes its connection, for answers come in order and
all later ones wait behind it. A call that its caller cancels leaves the connection open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from oncelog.config import Address
from oncelog.core.backoff import Backoff
from oncelog.errors import BrokerUnreachableError, HandshakeError, RebootstrapRequiredError
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.identity import UNKNOWN, Identity, Recognition
from oncelog_protocol.messages.base import Request
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN, Dialer

CONTROL = "control"
"""Metadata, offsets, admin: never behind a long poll or a produce that waits for replicas."""
DATA = "data"
"""Produce and fetch."""


@dataclass(slots=True, eq=False)
class ConnectionSlot:
    """A slot has the connection of one purpose to one broker, and its state."""

    broker_id: int
    address: Address
    backoff: Backoff
    channel: RequestChannel | None = None
    connecting: asyncio.Task[None] | None = None
    error: BrokerUnreachableError | HandshakeError | None = None
    retry_at: float = 0.0

    @property
    def open_channel(self) -> RequestChannel | None:
        """Return the connection while it is open, else None."""
        return None if self.channel is None or self.channel.closed else self.channel

    @property
    def failure(self) -> BrokerUnreachableError | HandshakeError:
        """Return why there is no connection; who changes the error of a refusal has their own."""
        if isinstance(self.error, HandshakeError):
            return self.error.anew()
        return self.error or BrokerUnreachableError(
            self.broker_id, str(self.address), "closed as soon as it was open"
        )

    def connects(self, attempt: asyncio.Task[None]) -> None:
        """Note that an attempt is under way."""
        self.connecting = attempt

    def attempt_over(self) -> None:
        """Note that no attempt is under way."""
        self.connecting = None

    def attach(self, channel: RequestChannel) -> None:
        """Note that the connection is open."""
        self.channel = channel
        self.error = None
        self.backoff.reset()

    def failed(self, error: BrokerUnreachableError | HandshakeError, now: float) -> None:
        """Note that the attempt failed: the next one comes after a pause."""
        self.retry_at = now + self.backoff.next_s()
        self.error = error

    def gone(self, error: BrokerUnreachableError) -> None:
        """Note that the broker left the cluster, or moved, while it was connected to."""
        self.error = error


async def open_channel(
    address: Address,
    client_id: str,
    timeout_s: float,
    meant: Identity = UNKNOWN,
    dialer: Dialer = PLAIN,
) -> RequestChannel:
    """Connect, shake hands and negotiate versions within ``timeout_s``.

    :param meant: the broker that is looked for, as far as it is known.
    :raises OSError: refused, unreachable, reset; TimeoutError when nothing answers.
    :raises ProtocolError: what listens there does not speak Oncelog.
    :raises RebootstrapRequiredError: another broker, or one of another cluster, is there.
    """
    channel, *_ = await find_broker(address, client_id, timeout_s, meant, dialer)
    return channel


async def find_broker(
    address: Address,
    client_id: str,
    timeout_s: float,
    meant: Identity = UNKNOWN,
    dialer: Dialer = PLAIN,
) -> tuple[RequestChannel, Identity, Recognition]:
    """Connect as :func:`open_channel` does; return who was found, and how this client is known
    there, as far as it says so."""
    machine = ClientConnection(client_id, reuse=False, meant=meant)
    channel = await dialer.open(address.host, address.port, machine, connect_timeout_s=timeout_s)
    return channel, machine.found, machine.recognition


async def ask(channel: RequestChannel, request: Request, timeout_s: float) -> Any:
    """Send ``request`` and return the response message."""
    reply = await channel.call(request, timeout_s=timeout_s)
    return reply.message


def reason_of(error: BaseException) -> str:
    """Return why an address could not be used, short enough for a list."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return str(error) or "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def hint(error: BaseException, *, is_known: bool) -> str:
    """Return what to check when a broker could not be reached; ``is_known``: it has served."""
    remedy = "check advertised_host and advertised_port of the listener, or the way there"
    if isinstance(error, RebootstrapRequiredError):
        return f"the address that the broker advertises leads elsewhere: {remedy}"
    if is_known:
        return ""
    return (
        "this is the address that the broker advertises, the bootstrap address did answer: "
        + remedy
    )
