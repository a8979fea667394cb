"""One connection to one broker: a RequestChannel driving a ClientConnection.

Rules: a request that is not answered in time closes its connection, for answers come in order and
all later ones wait behind it. A call that its caller cancels leaves the connection open.
"""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog.backoff import Backoff
from oncelog.config import Address
from oncelog.errors import BrokerUnreachableError
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.messages.base import Request
from oncelog_runtime.channel import RequestChannel

CONTROL = "control"
"""Metadata, offsets, admin: never behind a long poll or a produce that waits for replicas."""
DATA = "data"
"""Produce and fetch."""


class Slot:
    """The connection of one purpose to one broker, and how it fares."""

    __slots__ = ("address", "backoff", "broker_id", "channel", "connecting", "error", "retry_at")

    def __init__(self, broker_id: int, address: Address, backoff: Backoff) -> None:
        self.broker_id = broker_id
        self.address = address
        self.backoff = backoff
        self.channel: RequestChannel | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.error: BrokerUnreachableError | None = None
        self.retry_at = 0.0


async def open_channel(address: Address, client_id: str, timeout_s: float) -> RequestChannel:
    """Connect, shake hands and negotiate versions within ``timeout_s``.

    :raises OSError: refused, unreachable, reset; TimeoutError when nothing answers.
    :raises ProtocolError: what listens there does not speak Oncelog.
    """
    machine = ClientConnection(client_id, reuse=False)
    return await RequestChannel.open(
        address.host, address.port, machine, connect_timeout_s=timeout_s
    )


async def ask(channel: RequestChannel, request: Request, timeout_s: float) -> Any:
    """Send ``request`` and return the response message."""
    reply = await channel.call(request, timeout_s=timeout_s)
    return reply.message


def reason_of(error: BaseException) -> str:
    """Why an address did not serve, short enough for a list."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return str(error) or "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
