"""Whoever opens connections leaves it to the dialer that it was given how they are opened."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.config import ConnectionOptions
from oncelog.core.router import Router
from oncelog.errors import NoBrokersAvailableError
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_controller.life import Life, ask_life
from oncelog_controller.link import BrokerLink
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import UpdateMetadataRequest
from oncelog_runtime.channel import ClientMachine, RequestChannel
from oncelog_runtime.dialer import PLAIN
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.server import ServerUnderTest
from support.waiting import eventually

BROKER_2 = Identity("c", 2)
ADDRESS = ListenerAddress("internal", "h", 9)


class NobodyThere:
    """It notes who was to be called, and refuses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def open(
        self, host: str, port: int, machine: ClientMachine, *, connect_timeout_s: float
    ) -> RequestChannel:
        self.asked.append((host, port))
        raise ConnectionRefusedError


async def test_a_plain_dialer_connects_and_shakes_hands() -> None:
    async with ServerUnderTest(identity=BROKER_2) as server:
        machine = ClientConnection("test", meant=BROKER_2)
        channel = await PLAIN.open(*server.address, machine, connect_timeout_s=5)
        assert machine.found == BROKER_2
        assert not channel.closed
        channel.close()


async def test_a_link_of_the_controller_uses_its_dialer() -> None:
    dialer, tasks = NobodyThere(), Tasks("test")
    link = BrokerLink(
        "h",
        9,
        client_id="test",
        connect_timeout_s=5,
        dialer=dialer,
        on_up=lambda _: None,
        on_down=lambda: None,
        on_refused=lambda: None,
    )
    tasks.spawn("link", link.run())
    await eventually(lambda: bool(dialer.asked))
    await tasks.close()
    assert set(dialer.asked) == {("h", 9)}


async def test_a_broker_that_starts_asks_its_earlier_life_by_its_dialer() -> None:
    dialer = NobodyThere()
    assert await ask_life(ADDRESS, BROKER_2, 1, dialer) is Life.GONE
    assert dialer.asked == [("h", 9)]


async def test_a_broker_reaches_others_by_its_dialer() -> None:
    dialer, image = NobodyThere(), MetadataImage("c")
    image.apply(UpdateMetadataRequest(1, 1, 1, True, [], [ClusterBroker(2, 1, [ADDRESS])]))
    with pytest.raises(ConnectionRefusedError):
        await BrokerConnector(1, image, "internal", dialer=dialer).open(2)
    assert dialer.asked == [("h", 9)]


async def test_a_client_connects_by_its_dialer() -> None:
    dialer = NobodyThere()
    options = ConnectionOptions(bootstrap_servers="h:9", connect_timeout_ms=100)
    router = Router(options, entropy=SeededEntropy(1), dialer=dialer)
    with pytest.raises(NoBrokersAvailableError):
        async with asyncio.timeout(5):
            await router.start()
    assert set(dialer.asked) == {("h", 9)}
