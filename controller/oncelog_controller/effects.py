"""The machine orders its shell to carry out these effects. Plain data, imperative.

The shell carries them out in order. Store writes of one event may be in flight together; their
results come back as events before any other event is handled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from oncelog_controller.orders import Orders
from oncelog_controller.state import BrokerRegistration
from oncelog_controller.store import Op


@dataclass(frozen=True, slots=True)
class WriteStore:
    """It orders one multi. Its first operation checks the controller epoch [Z3]."""

    write_id: int
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class SendOrders:
    """Queue orders for one life of one broker."""

    broker_id: int
    broker_epoch: int
    orders: Orders


@dataclass(frozen=True, slots=True)
class ConnectBrokers:
    """It lists all brokers to keep connections to; orders for any other are dropped."""

    brokers: tuple[BrokerRegistration, ...]


@dataclass(frozen=True, slots=True)
class SendReply:
    """Answer a request."""

    request_id: int
    response: Any


@dataclass(frozen=True, slots=True)
class Reload:
    """The store may not be what we think: it is to be read again [Z2] [Z8]."""

    reason: str


@dataclass(frozen=True, slots=True)
class Resign:
    """Somebody else is controller, or should be."""

    reason: str


Effect: TypeAlias = WriteStore | SendOrders | ConnectBrokers | SendReply | Reload | Resign
