"""Requests to other brokers use a connection a lane, which is opened again when it broke."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.server.broker_calls import BrokerCalls
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from support.server import Parked, ServerUnderTest
from support.waiting import eventually


def calls_to(address: tuple[str, int]) -> BrokerCalls:
    image = MetadataImage("c")
    image.note_controller(1, 1, [ClusterBroker(2, 1, [ListenerAddress("internal", *address)])])
    return BrokerCalls(BrokerConnector(1, image, "internal"))


def serving(server: Server) -> ServerUnderTest:
    handlers = {ApiKey.WRITE_TXN_MARKERS: server}
    return ServerUnderTest(handlers, internal=True, identity=Identity("c", 2))


class Server(Parked):
    """It answers unless it is told to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.peers: set[int] = set()

    def handle(self, context, request, payload, respond) -> None:  # type: ignore[no-untyped-def]
        self.peers.add(id(context.connection))
        super().handle(context, request, payload, respond)
        if not self.holds:
            respond(WriteTxnMarkersResponse())


async def test_lanes_do_not_wait_for_each_other() -> None:
    server = Server()
    async with serving(server) as listener:
        calls = calls_to(listener.address)
        request = WriteTxnMarkersRequest([])
        for _ in range(3):
            answer = await calls.call(2, request, timeout_s=5)
            assert isinstance(answer, WriteTxnMarkersResponse)
        assert len(server.peers) == 1, "the connection is kept"
        server.holds = True
        slow = asyncio.ensure_future(calls.call(2, request, timeout_s=5))
        await eventually(lambda: len(server.requests) == 4)
        server.holds = False
        await calls.call(2, request, timeout_s=5, lane=1)
        assert not slow.done()
        assert len(server.peers) == 2
        calls.close()
        with pytest.raises(OSError, match="stops"):
            await slow
        with pytest.raises(OSError, match="stops"):
            await calls.call(2, request, timeout_s=5)


async def test_silence_and_absence() -> None:
    server = Server()
    async with serving(server) as listener:
        calls = calls_to(listener.address)
        server.holds = True
        with pytest.raises(TimeoutError):
            await calls.call(2, WriteTxnMarkersRequest([]), timeout_s=0.05)
        server.holds = False
        await calls.call(2, WriteTxnMarkersRequest([]), timeout_s=5)
        assert len(server.peers) == 2, "a late answer must not be taken for the next one"
        with pytest.raises(OSError, match="not in the metadata"):
            await calls.call(3, WriteTxnMarkersRequest([]), timeout_s=5)
        calls.close()
