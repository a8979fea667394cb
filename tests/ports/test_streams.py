"""TCP on both loops and the simulator keep what both sides of every connection rely on.

So does TLS over them, but that it has no half-closed connections.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from simulation.contract import ContractLoop, SimStreams
from support.certificates import Authority
from support.stream_harness import End, RealStreams, StreamHarness
from support.tls_harness import TlsStreams
from support.waiting import eventually

pytestmark = pytest.mark.timeout(60)

MEGABYTE = bytes(range(256)) * 4096
TOO_MUCH = 256 * 1024 * 1024
"""More bytes than any kernel takes ahead of a reader that does not read."""


class World:
    """It makes connections between two machines; all are gone when the test ends."""

    def __init__(self, harness: StreamHarness) -> None:
        self.harness = harness
        self.address = harness.address
        self.ends: list[End] = []
        self.servers: list[asyncio.Server] = []

    def end(self, **options: Any) -> End:
        """Return a new end of a connection to be."""
        end = End(**options)
        self.ends.append(end)
        return end

    async def serve(
        self, *, port: int = 0, start_serving: bool = True, **options: Any
    ) -> tuple[asyncio.Server, list[End]]:
        """Start a server; return it and the ends of the connections that it takes, as they come."""
        accepted: list[End] = []

        def accept() -> End:
            accepted.append(self.end(**options))
            return accepted[-1]

        server = await self.harness.serve(accept, port=port, start_serving=start_serving)
        self.servers.append(server)
        return server, accepted

    async def connect(self, port: int, **options: Any) -> End:
        """Open a connection and return the client's end."""
        end = self.end(**options)
        await self.harness.connect(lambda: end, port)
        return end

    async def pair(
        self, client: dict[str, Any] | None = None, server: dict[str, Any] | None = None
    ) -> tuple[End, End]:
        """Return both ends of one connection: the client's, the server's."""
        listening, accepted = await self.serve(**(server or {}))
        end = await self.connect(port_of(listening), **(client or {}))
        await until(lambda: accepted and accepted[0].made)
        return end, accepted[0]

    async def close(self) -> None:
        """End everything."""
        for server in self.servers:
            server.close()
        connected = [end for end in self.ends if end.made]
        for end in connected:
            end.transport.abort()
        await until(lambda: all(end.lost for end in connected))


TCP_ONLY = pytest.mark.parametrize("world", ["tcp"], indirect=True)
"""TLS has no end of one direction alone, and no goodbye before the handshake."""


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def until(condition: Callable[[], object], what: str = "") -> Any:
    return eventually(condition, timeout_s=20.0, what=what)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest_asyncio.fixture(params=["tcp", "tls"])
async def world(request: pytest.FixtureRequest, authority: Authority) -> AsyncIterator[World]:
    loop = asyncio.get_running_loop()
    harness: StreamHarness = SimStreams(loop) if isinstance(loop, ContractLoop) else RealStreams()
    if request.param == "tls":
        harness = TlsStreams(harness, authority)
    world = World(harness)
    yield world
    await world.close()
    for end in world.ends:
        assert end.heard.count("made") <= 1
        assert end.heard.count("lost") == end.heard.count("made")
        assert end.heard.count("eof") <= 1
        pauses = [name for name in end.heard if name in ("pause", "resume")]
        assert pauses == ["pause", "resume"] * (len(pauses) // 2) + ["pause"] * (len(pauses) % 2)
    assert harness.unhandled == []


# ---- servers and connections


async def test_a_server_that_does_not_serve_yet_refuses(world: World) -> None:
    server, accepted = await world.serve(start_serving=False)
    assert not server.is_serving()
    with pytest.raises(ConnectionRefusedError) as refused:
        await world.connect(port_of(server))
    assert refused.value.errno == errno.ECONNREFUSED
    await server.start_serving()
    assert server.is_serving()
    client = await world.connect(port_of(server))
    await until(lambda: accepted and accepted[0].made)
    assert client.heard == accepted[0].heard == ["made"]


async def test_nobody_listens(world: World) -> None:
    server, accepted = await world.serve()
    port = port_of(server)
    server.close()
    assert not server.is_serving()
    with pytest.raises(ConnectionRefusedError) as refused:
        await world.connect(port)
    assert refused.value.errno == errno.ECONNREFUSED
    assert not accepted


async def test_a_port_is_taken_until_its_server_closes(world: World) -> None:
    server, _ = await world.serve()
    port = port_of(server)
    with pytest.raises(OSError) as taken:
        await world.serve(port=port)
    assert taken.value.errno == errno.EADDRINUSE
    server.close()
    again, accepted = await world.serve(port=port)
    assert port_of(again) == port
    await world.connect(port)
    await until(lambda: accepted)


async def test_closing_a_server_leaves_its_connections(world: World) -> None:
    server, accepted = await world.serve()
    client = await world.connect(port_of(server))
    await until(lambda: accepted and accepted[0].made)
    port = port_of(server)
    server.close()
    client.transport.write(b"still")
    await until(lambda: accepted[0].received == b"still")
    accepted[0].transport.write(b"here")
    await until(lambda: client.received == b"here")
    with pytest.raises(ConnectionRefusedError):
        await world.connect(port)


async def test_each_end_knows_both_addresses(world: World) -> None:
    server, accepted = await world.serve()
    client = await world.connect(port_of(server))
    await until(lambda: accepted and accepted[0].made)
    here, there = client.transport, accepted[0].transport
    assert here.get_extra_info("peername") == (world.address, port_of(server))
    assert there.get_extra_info("sockname") == (world.address, port_of(server))
    assert there.get_extra_info("peername") == here.get_extra_info("sockname")
    assert here.get_extra_info("no such thing", "nothing") == "nothing"
    host, port = there.get_extra_info("peername")
    assert host
    assert 0 < port < 65536


async def test_connections_do_not_mix(world: World) -> None:
    server, accepted = await world.serve()
    clients = [await world.connect(port_of(server)) for _ in range(20)]
    await until(lambda: len([end for end in accepted if end.made]) == 20)
    for number, client in enumerate(clients):
        client.transport.write(b"%d," % number * 100)
    await until(lambda: all(len(end.received) >= 200 for end in accepted))
    for end in accepted:
        end.transport.write(end.received)
    await until(
        lambda: [bytes(c.received) for c in clients] == [b"%d," % n * 100 for n in range(20)]
    )


async def test_who_stops_connecting_leaves_nothing_open(world: World) -> None:
    server, accepted = await world.serve()
    for rounds in range(6):
        task = asyncio.ensure_future(world.harness.connect(End, port_of(server)))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        try:
            transport = await task
        except asyncio.CancelledError:
            pass
        else:  # it was faster
            transport.close()
    last = await world.connect(port_of(server))
    await until(lambda: accepted and accepted[-1].made)
    last.transport.close()
    await until(lambda: all(end.lost for end in accepted if end.made))


# ---- bytes


async def test_small_buffers_get_everything_in_order(world: World) -> None:
    client, server = await world.pair(server={"buffer_bytes": 7})
    client.transport.write(MEGABYTE[:10_000])
    await until(lambda: len(server.received) >= 10_000)
    assert server.received == MEGABYTE[:10_000]


async def test_a_megabyte_each_way_in_many_writes(world: World) -> None:
    client, server = await world.pair({"buffer_bytes": 1000}, {"buffer_bytes": 65_536})
    for end in (client, server):
        data, at, size = memoryview(MEGABYTE), 0, 1
        while at < len(data):
            pieces = [data[at : at + size], data[at + size : at + 2 * size]]
            if size % 2:
                end.transport.writelines(pieces)
            else:
                end.transport.write(bytes(pieces[0]))
                end.transport.write(bytearray(pieces[1]))
            at, size = at + 2 * size, size % 4001 + 1
    await until(lambda: len(client.received) >= 2**20 and len(server.received) >= 2**20)
    assert client.received == MEGABYTE
    assert server.received == MEGABYTE


async def test_nothing_is_written_by_nothing(world: World) -> None:
    client, server = await world.pair()
    client.transport.write(b"")
    client.transport.writelines([])
    client.transport.writelines([b"", b"x", b""])
    await until(lambda: server.received == b"x")


async def test_what_is_said_at_once_is_heard(world: World) -> None:
    """The server speaks first; both speak before they have heard anything."""

    def greet(end: End) -> None:
        end.transport.write(b"hello")

    client, server = await world.pair({"on_made": greet}, {"on_made": greet})
    await until(lambda: client.received == server.received == b"hello")


# ---- back-pressure


def fill(end: End) -> int:
    """Write until the transport has enough; returns how many bytes."""
    written = 0
    while "pause" not in end.heard:
        end.transport.write(MEGABYTE)
        written += len(MEGABYTE)
        assert written < TOO_MUCH
    return written


async def test_back_pressure(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 2**20, "on_made": lambda end: end.transport.pause_reading()}
    )
    written = fill(client)
    assert client.transport.get_write_buffer_size() > 0
    assert client.heard == ["made", "pause"]
    assert not server.received
    server.transport.resume_reading()
    await until(lambda: client.heard == ["made", "pause", "resume"])
    await until(lambda: len(server.received) >= written)
    assert server.received == MEGABYTE * (written // len(MEGABYTE))
    await until(lambda: client.transport.get_write_buffer_size() == 0)


async def test_limits_of_the_write_buffer(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 2**20, "on_made": lambda end: end.transport.pause_reading()}
    )
    client.transport.set_write_buffer_limits(high=TOO_MUCH, low=0)
    for _ in range(16):
        client.transport.write(MEGABYTE)
    assert client.heard == ["made"]
    unsent = client.transport.get_write_buffer_size()
    assert 0 < unsent <= 16 * len(MEGABYTE)
    with pytest.raises(ValueError):
        client.transport.set_write_buffer_limits(high=1, low=2)
    client.transport.set_write_buffer_limits(high=unsent - 1, low=0)
    client.transport.write(b"x")
    assert client.heard == ["made", "pause"]
    server.transport.resume_reading()
    await until(lambda: client.heard == ["made", "pause", "resume"])
    assert client.transport.get_write_buffer_size() == 0


async def test_who_pauses_reading_reads_nothing(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 10, "on_read": lambda end: end.transport.pause_reading()}
    )
    assert server.transport.is_reading()
    client.transport.write(bytes(100))
    await until(lambda: server.received)
    assert not server.transport.is_reading()
    server.transport.write(b"go on")  # comes back while nothing more is read
    await until(lambda: client.received == b"go on")
    assert len(server.received) <= 10
    for size in range(20, 101, 10):
        server.transport.resume_reading()
        await until(partial(has_at_least, server, size - 9))
        assert len(server.received) <= size


def has_at_least(end: End, size: int) -> bool:
    return len(end.received) >= size


# ---- the end of the stream


@TCP_ONLY
async def test_half_closed_connections_go_on_the_other_way(world: World) -> None:
    client, server = await world.pair(server={"stay_open": True})
    assert client.transport.can_write_eof()
    client.transport.write(MEGABYTE)
    client.transport.write_eof()
    with pytest.raises(RuntimeError):
        client.transport.write(b"more")
    await until(lambda: "eof" in server.heard)
    assert server.received == MEGABYTE
    assert not server.transport.is_closing()
    assert not client.transport.is_closing()
    server.transport.write(MEGABYTE)
    await until(lambda: len(client.received) >= len(MEGABYTE))
    server.transport.close()
    await until(lambda: client.lost and server.lost)
    assert client.received == MEGABYTE
    assert client.heard[-2:] == ["eof", "lost"]
    assert client.error is None
    assert server.error is None


@TCP_ONLY
async def test_an_end_that_does_not_stay_open_closes_at_the_end_of_the_stream(
    world: World,
) -> None:
    client, server = await world.pair()
    client.transport.write(b"last words")
    client.transport.write_eof()
    await until(lambda: client.lost and server.lost)
    assert server.received == b"last words"
    assert server.heard == client.heard == ["made", "eof", "lost"]
    assert client.error is None
    assert server.error is None


async def test_close_flushes_what_was_written(world: World) -> None:
    client, server = await world.pair()
    client.transport.write(MEGABYTE)
    client.transport.write(MEGABYTE)
    client.transport.close()
    assert client.transport.is_closing()
    assert not client.lost
    await until(lambda: client.lost and server.lost)
    assert server.received == MEGABYTE * 2
    assert server.heard == ["made", "eof", "lost"]
    assert client.error is None
    assert server.error is None


async def test_who_closes_reads_no_more(world: World) -> None:
    client, server = await world.pair(client={"buffer_bytes": 10})
    client.transport.close()
    server.transport.write(bytes(1000))
    await until(lambda: client.lost and server.lost)
    assert not client.received
    assert client.heard[-1] == "lost"


async def test_closing_in_a_read(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 10, "on_read": lambda end: end.transport.close()}
    )
    client.transport.write(bytes(10))
    await until(lambda: client.lost and server.lost)
    assert len(server.received) <= 10
    assert "eof" not in server.heard
    assert server.error is None


async def test_abort_drops_what_is_unsent(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 2**20, "on_made": lambda end: end.transport.pause_reading()}
    )
    written = fill(client)
    client.transport.abort()
    assert client.transport.is_closing()
    await until(lambda: client.lost)
    assert client.error is None
    server.transport.resume_reading()
    await until(lambda: server.lost)
    assert len(server.received) < written
    assert server.received == (MEGABYTE * (written // len(MEGABYTE)))[: len(server.received)]


async def test_leaving_with_bytes_unread_is_an_error_for_the_other_end(world: World) -> None:
    client, server = await world.pair(
        server={"buffer_bytes": 1, "on_read": lambda end: end.transport.pause_reading()}
    )
    client.transport.write(bytes(100))
    await until(lambda: server.received)
    server.transport.abort()
    await until(lambda: client.lost)
    assert isinstance(client.error, ConnectionResetError)
    assert server.error is None


@TCP_ONLY
async def test_writing_to_an_end_that_is_gone_ends_in_an_error(world: World) -> None:
    client, server = await world.pair(client={"stay_open": True})
    server.transport.close()
    await until(lambda: "eof" in client.heard)
    await until(lambda: server.lost)
    assert not client.lost

    def write_until_lost() -> bool:  # the first may seem to go well
        if not client.lost:
            client.transport.write(b"anybody?")
        return client.lost

    await until(write_until_lost)
    assert isinstance(client.error, ConnectionResetError | BrokenPipeError)


async def test_ends_of_ends_are_told_once(world: World) -> None:
    client, server = await world.pair()
    client.transport.write(b"x")
    client.transport.close()
    client.transport.close()
    client.transport.abort()
    server.transport.abort()
    server.transport.close()
    await until(lambda: client.lost and server.lost)
    client.transport.close()
    client.transport.abort()
    assert client.transport.is_closing()  # how often was heard: see the fixture


# ---- protocols that fail


@TCP_ONLY
@pytest.mark.parametrize("event", ["on_read", "on_eof"])
async def test_a_protocol_that_fails_loses_its_connection(world: World, event: str) -> None:
    class FailingError(Exception):
        pass

    def fail(end: End) -> None:
        raise FailingError

    client, server = await world.pair(server={event: fail})
    client.transport.write(b"x")
    client.transport.write_eof()
    await until(lambda: client.lost and server.lost)
    assert isinstance(server.error, FailingError)
    told = world.harness.unhandled
    assert [type(each["exception"]) for each in told] == [FailingError]
    told.clear()


async def test_a_protocol_without_a_buffer_loses_its_connection(world: World) -> None:
    client, server = await world.pair(server={"buffer_bytes": 0})
    client.transport.write(b"x")
    await until(lambda: client.lost and server.lost)
    assert isinstance(server.error, RuntimeError)
    world.harness.unhandled.clear()
