"""One connection is opened under a deadline, asked, and tells why an address failed."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.config import Address
from oncelog.core.connection import ask, find_broker, hint, open_channel, reason_of
from oncelog.errors import RebootstrapRequiredError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest
from support.fake_cluster import Action, FakeCluster


async def test_ask() -> None:
    async with FakeCluster() as cluster:
        address = Address("127.0.0.1", cluster.brokers[1].port)
        channel = await open_channel(address, "test", 5)
        response = await ask(channel, MetadataRequest([]), 5)
        assert [broker.broker_id for broker in response.brokers] == [1]
        channel.close()
        await channel.wait_closed()


async def test_an_unanswered_request_ends_the_connection() -> None:
    async with FakeCluster() as cluster:
        cluster.rule(ApiKey.METADATA, Action.HOLD)
        channel = await open_channel(Address("127.0.0.1", cluster.brokers[1].port), "test", 5)
        with pytest.raises(TimeoutError):
            await ask(channel, MetadataRequest([]), 0.05)
        assert channel.closed
        await channel.wait_closed()


async def test_refused() -> None:
    async with FakeCluster() as cluster:
        address = Address("127.0.0.1", cluster.brokers[1].port)
    with pytest.raises(ConnectionRefusedError) as caught:
        await open_channel(address, "test", 5)
    assert reason_of(caught.value) == "connection refused"


async def test_a_peer_that_says_nothing_is_given_up_in_time() -> None:
    over = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    with pytest.raises(TimeoutError) as caught:
        await open_channel(address, "test", 0.05)
    assert "0.05 s" in reason_of(caught.value)
    over.set()
    server.close()
    await server.wait_closed()


async def test_somebody_else_than_was_meant() -> None:
    async with FakeCluster() as cluster:
        address = Address("127.0.0.1", cluster.brokers[1].port)
        with pytest.raises(RebootstrapRequiredError) as caught:
            await open_channel(address, "test", 5, Identity("mine", 1))
        expected = "expected broker 1 of cluster 'mine', found broker 1 of cluster 'fake'"
        assert reason_of(caught.value) == expected
        assert "leads elsewhere" in hint(caught.value, is_known=True)
        channel, found, recognition = await find_broker(address, "test", 5, Identity("fake"))
        assert recognition.principal == "User:ANONYMOUS"
        assert found == Identity("fake", 1)
        channel.close()
        await channel.wait_closed()


def test_hints() -> None:
    assert "check advertised_host" in hint(OSError(), is_known=False)
    assert hint(OSError(), is_known=True) == ""


def test_reasons() -> None:
    assert reason_of(TimeoutError()) == "timed out"
    assert reason_of(OSError(113, "No route to host")) == "No route to host"
    assert reason_of(ValueError()) == "ValueError"
