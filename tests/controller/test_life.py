"""The address of a registration has that life, another one, somebody else or nobody."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_controller import life
from oncelog_controller.life import Life, ask_life
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    ListenerAddress,
)
from support.server import Parked, ServerUnderTest

BROKER_2 = Identity("cluster", 2)


@contextlib.asynccontextmanager
async def listening(says: bytes) -> AsyncIterator[ListenerAddress]:
    """Start something that is no broker: it says this, reads a byte, and hangs up."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(says)
            await reader.read(1)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield ListenerAddress("internal", *server.sockets[0].getsockname())
        await ended.wait()
    finally:
        server.close()
        await server.wait_closed()


class Describes:
    def __init__(self, *epochs: int, error_code: int = 0) -> None:
        self.answer = DescribeClusterResponse(
            error_code, brokers=[DescribedBroker(2, epoch, []) for epoch in epochs]
        )

    def handle(
        self,
        context: RequestContext,
        request: DescribeClusterRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        respond(self.answer)


def address_of(server: ServerUnderTest) -> ListenerAddress:
    return ListenerAddress("internal", *server.address)


@pytest.mark.parametrize(
    ("handler", "identity", "expected"),
    [
        (Describes(17), BROKER_2, Life.HERE),
        (Describes(18), BROKER_2, Life.OTHER),
        (Describes(), BROKER_2, Life.OTHER),
        (Describes(error_code=31), BROKER_2, Life.SILENT),
        (Describes(17), Identity("cluster", 3), Life.SILENT),
        (Describes(17), Identity("other", 2), Life.SILENT),
        (Describes(17), UNKNOWN, Life.SILENT),
    ],
)
async def test_who_answers(handler: Describes, identity: Identity, expected: Life) -> None:
    handlers = {ApiKey.DESCRIBE_CLUSTER: handler}
    async with ServerUnderTest(handlers, internal=True, identity=identity) as server:
        assert await ask_life(address_of(server), BROKER_2, 17) is expected


async def test_a_refusal_proves_the_end() -> None:
    async with ServerUnderTest(internal=True) as server:
        address = address_of(server)
    assert await ask_life(address, BROKER_2, 17) is Life.GONE


async def test_what_is_no_broker_proves_nothing() -> None:
    """Its broker may be alive although the address leads elsewhere."""
    async with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        assert await ask_life(address, BROKER_2, 17) is Life.SILENT


async def test_silence_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "ASK_TIMEOUT_S", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)  # accepts by the kernel, and never answers
        address = ListenerAddress("internal", *silent.getsockname())
        assert await ask_life(address, BROKER_2, 17) is Life.SILENT
    handlers = {ApiKey.DESCRIBE_CLUSTER: Parked()}
    async with ServerUnderTest(handlers, internal=True, identity=BROKER_2) as server:
        assert await ask_life(address_of(server), BROKER_2, 17) is Life.SILENT


async def test_a_connection_that_breaks_proves_nothing() -> None:
    async with listening(b"") as address:
        assert await ask_life(address, BROKER_2, 17) is Life.SILENT
    unknown = ListenerAddress("internal", "no-such-host.invalid", 1)
    assert await ask_life(unknown, BROKER_2, 17) is Life.SILENT
