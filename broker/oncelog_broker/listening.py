"""Listeners are given the protocol that they speak here, and take their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_broker.controller_settings import TakesNumbers, takes_numbers
from oncelog_broker.server.connection import Dispatcher, ProtocolMachine
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.strangers import begins_like_kafka, begins_like_ours


class Served(TakesNumbers, Protocol):
    """It is the broker whose listeners these are."""

    dispatcher: RequestDispatcher
    image: MetadataImage


def spoken(
    protocol: str,
    broker: Served,
    mechanisms: tuple[Mechanism, ...],
) -> tuple[Dispatcher, Callable[[], ProtocolMachine] | None]:
    """Return who serves the requests of a protocol, and what makes the machine of a connection of
    it; None is our own. The room of Kafka is loaded only by this.

    :param mechanisms: clients of the listener authenticate by one of these.
    """
    if protocol != "kafka":
        return broker.dispatcher, None
    from oncelog_broker.kafka.router import KafkaRouter

    router = KafkaRouter(
        broker.dispatcher, broker.image, mechanisms, partial(takes_numbers, broker)
    )
    return router, router.connect


def elsewhere(listeners: Sequence[ListenerConfig], protocol: str) -> Callable[[bytes], str]:
    """Return what says where a peer belongs that speaks the other protocol to a listener of
    ``protocol``, by its first bytes; it says "" of any other."""
    if protocol == "kafka":
        began, came = begins_like_ours, "a client of Oncelog came to a listener that speaks Kafka's"
    else:
        began, came = begins_like_kafka, "a client of Kafka came to a listener that speaks ours"
    others = [each for each in listeners if each.protocol != protocol]
    named = ", ".join(
        f"{each.name!r}" + f" (port {each.port})" * bool(each.port) for each in others
    )
    if named:
        text = f"{came}: it should connect to {named}"
    else:
        text = f'{came}, and none here speaks that: add a listener with protocol = "kafka"'
    return lambda first: text if began(first) else ""


async def take_address(listener: Listener, wanted: ListenerConfig, index: int) -> None:
    """Take the address of a listener, without accepting yet.

    :param index: it stands at this place in the settings.
    :raises ConfigError: the address cannot be had.
    """
    try:
        await listener.bind(wanted.host, wanted.port)
    except OSError as exc:
        raise ConfigError(
            f"listeners.{index}",
            f"cannot listen on {wanted.host}:{wanted.port} ({exc.strerror or exc})",
            "Free the port or choose another; 0 takes a free one",
        ) from exc
