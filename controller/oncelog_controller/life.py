"""The address of a registration is asked which life is there, and whether it is the one registered.

Rules
-----
* What a directory remembers proves nothing of who is alive: it may be a copy.
* The handshake tells another broker and another cluster apart, DescribeCluster another life of the
  same broker: each names its own broker epoch, from the moment it has one.
* A refusal, or another life of that broker, proves the end of the registered one. Silence proves
  nothing, nor does somebody else who answers: the address may lead elsewhere only for us.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeAlias

from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    ListenerAddress,
)
from oncelog_runtime.dialer import PLAIN, Dialer

ASK_TIMEOUT_S = 1.0
"""The time-out of the connection, and that of the answer."""


class Life(Enum):
    """It says what was found at the address of a registration."""

    HERE = "here"
    """The life that registered."""
    OTHER = "other"
    """Another life of the same broker, perhaps the one that asks."""
    GONE = "gone"
    """Nobody: the connection is refused."""
    SILENT = "silent"
    """No answer, or none that proves anything, as that of another broker."""


AskLife: TypeAlias = Callable[[ListenerAddress, Identity, int], Awaitable[Life]]
"""It asks at an address for one life (its broker epoch) of a broker."""


async def ask_life(
    address: ListenerAddress, broker: Identity, broker_epoch: int, dialer: Dialer = PLAIN
) -> Life:
    """Ask at the ``address`` of the registration ``broker_epoch`` of a broker; never raises for
    what the network does."""
    try:
        found, answer = await _ask(address, broker, dialer)
    except ConnectionRefusedError:
        return Life.GONE
    except (OSError, TimeoutError, OncelogError):
        return Life.SILENT
    if answer.error_code or not found.whole:
        return Life.SILENT  # it may not say, or is of a release that does not say who it is
    epochs = [b.broker_epoch for b in answer.brokers if b.broker_id == broker.broker_id]
    return Life.HERE if broker_epoch in epochs else Life.OTHER


async def _ask(
    address: ListenerAddress, broker: Identity, dialer: Dialer
) -> tuple[Identity, DescribeClusterResponse]:
    machine = ClientConnection(
        f"broker-{broker.broker_id}-start", meant=broker, own_broker_id=broker.broker_id
    )
    channel = await dialer.open(
        address.host, address.port, machine, connect_timeout_s=ASK_TIMEOUT_S
    )
    try:
        reply = await channel.call(DescribeClusterRequest(), timeout_s=ASK_TIMEOUT_S)
        return machine.found, reply.message
    finally:
        channel.close("asked")
