"""A link: connects again and again, and knows a refusal from other failures."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from oncelog_controller.link import BrokerLink
from oncelog_protocol.identity import UNKNOWN, Identity, Introduction
from oncelog_protocol.messages.replication import UpdateMetadataRequest
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.tasks import Tasks
from support.fake_broker import FakeBroker
from support.waiting import eventually


class Watcher:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.channel: RequestChannel | None = None

    def up(self, channel: RequestChannel) -> None:
        self.channel = channel
        self.events.append("up")

    def down(self) -> None:
        self.events.append("down")

    def refused(self) -> None:
        self.events.append("refused")


def has_connected(watcher: Watcher, times: int) -> bool:
    return watcher.events.count("up") == times


@asynccontextmanager
async def linked(
    port: int, connect_timeout_s: float = 5.0, who: Identity = UNKNOWN
) -> AsyncIterator[Watcher]:
    watcher, tasks = Watcher(), Tasks("test")
    link = BrokerLink(
        "127.0.0.1",
        port,
        client_id="test",
        meant=who,
        own_broker_id=7,
        connect_timeout_s=connect_timeout_s,
        on_up=watcher.up,
        on_down=watcher.down,
        on_refused=watcher.refused,
    )
    tasks.spawn("link", link.run())
    try:
        yield watcher
    finally:
        await tasks.close()


async def test_a_dead_process_is_refused_at_once() -> None:
    async with FakeBroker(1) as broker, linked(broker.port) as watcher:
        await eventually(lambda: watcher.events == ["up"])
        await broker.die()
        await eventually(lambda: "refused" in watcher.events)
        assert watcher.events[:3] == ["up", "down", "refused"]
        await broker.start()
        await eventually(lambda: watcher.events[-1] == "up")


async def test_a_broken_connection_alone_is_no_evidence() -> None:
    async with FakeBroker(1) as broker, linked(broker.port) as watcher:
        for connections in (1, 2, 3):
            await eventually(partial(has_connected, watcher, connections))
            broker.break_connections()
        await eventually(lambda: watcher.events.count("up") == 4)
        assert "refused" not in watcher.events


async def test_a_silent_host_is_no_evidence() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)  # accepts by the kernel, and never answers the handshake
        async with linked(silent.getsockname()[1], connect_timeout_s=0.05) as watcher:
            await asyncio.sleep(0.2)
            assert watcher.events == []


async def test_a_peer_that_talks_nonsense_is_no_evidence() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    async with server, linked(server.sockets[0].getsockname()[1]) as watcher:
        await asyncio.sleep(0.1)
        assert watcher.events == []


async def test_closing_the_channel_makes_a_new_one() -> None:
    async with FakeBroker(1) as broker, linked(broker.port) as watcher:
        await eventually(lambda: watcher.channel is not None)
        assert watcher.channel is not None
        watcher.channel.close("the test says so")
        await eventually(lambda: watcher.events == ["up", "down", "up"])


async def test_another_broker_at_the_address_is_neither_taken_nor_evidence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    meant = Identity("cluster", 1)
    async with FakeBroker(1, cluster_id="other") as broker, linked(broker.port, who=meant) as w:
        await eventually(lambda: len(broker.misled) > 3)
        assert w.events == []
        broker.cluster_id = "cluster"
        await eventually(lambda: w.events == ["up"])
    lines = [r.getMessage() for r in caplog.records if "expected" in r.getMessage()]
    assert len(lines) == 1, "said once, not at every attempt"
    assert "expected broker 1 of cluster 'cluster', found broker 1 of cluster 'other'" in lines[0]


async def test_a_link_says_whom_it_means_and_who_it_is() -> None:
    who = Identity("cluster", 1)
    async with FakeBroker(1, cluster_id="cluster") as broker, linked(broker.port, who=who) as w:
        await eventually(lambda: w.channel is not None)
        assert w.channel is not None
        await w.channel.call(UpdateMetadataRequest(7, 1, 1, True, [], []), timeout_s=5)
        assert broker.askers == {Introduction(7, addressed=True)}
