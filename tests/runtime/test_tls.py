"""The layer runs over real loopback sockets, against itself, the loop's own TLS, and plain peers.

What any transport promises is in ``tests/ports/test_streams.py``; hostile records are in
``test_tls_hostile.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from oncelog_runtime.tls import TlsError
from support.certificates import Authority
from support.tls_harness import HOST, HandPeer, Inner, connected, plain, serving
from support.waiting import eventually

FRAME = b"\x00\x00\x00\x10" + b"f" * 16


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_what_is_sent_comes_back_the_same(authority: Authority) -> None:
    pieces = [bytes([n % 251]) * size for n, size in enumerate((0, 1, 40, 128 * 1024, 3, 3 << 20))]
    async with (
        serving(authority.server()) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.writelines(pieces)
        client.transport.write(memoryview(b"the last"))
        whole = b"".join(pieces) + b"the last"
        await eventually(lambda: len(client.got) >= len(whole))
        assert client.got == whole
        assert client.transport.get_write_buffer_size() == 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_loops_own_client_is_served(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    async with serving(authority.server(version=version)) as server:
        reader, writer = await asyncio.open_connection(
            HOST, server.port, ssl=authority.client(), server_hostname="localhost"
        )
        writer.write(b"x" * 1_000_000)
        assert await reader.readexactly(1_000_000) == b"x" * 1_000_000
        writer.close()
        assert await server.end_of() is None
        assert server.inners[0].heard[-2:] == ["eof", "lost"]
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def test_the_loops_own_server_is_called(authority: Authority) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1_000_000))
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0, ssl=authority.server())
    async with connected(server.sockets[0].getsockname()[1], authority.client()) as client:
        client.transport.write(b"y" * 1_000_000)
        await eventually(lambda: client.is_lost)
        assert client.got == b"y" * 1_000_000
        assert client.lost is None
    server.close()
    await server.wait_closed()


async def test_a_connection_is_told_before_its_first_byte(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port):
        inner = await server.inner()
        assert inner.heard == ["made"]
        assert inner.transport.get_extra_info("peername")[0] == HOST
        assert inner.transport.get_extra_info("peercert") is None
        assert inner.transport.get_extra_info("cipher", "none yet") == "none yet"


async def test_a_connection_may_be_refused_before_its_first_byte(authority: Authority) -> None:
    def refusing() -> Inner:
        inner = Inner()
        inner.refuse = True
        return inner

    async with serving(authority.server(), refusing) as server, plain(server.port) as (reader, _):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert await server.end_of() is None
        assert server.shaken == []


async def test_what_both_sides_write_before_the_handshake_waits(authority: Authority) -> None:
    class Greeting(Inner):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.write(b"hello")
            assert self.transport.get_write_buffer_size() >= 5

    async with (
        serving(authority.server(), Greeting) as server,
        connected(server.port, authority.client(), Greeting()) as client,
    ):
        await eventually(lambda: client.got == b"hello" and server.inners[0].got == b"hello")


async def test_what_is_known_after_the_handshake(authority: Authority) -> None:
    client_context = authority.client()
    authority.issue("app.test").configure_cert(client_context)
    async with (
        serving(authority.server(trusting=True)) as server,
        connected(server.port, client_context) as client,
    ):
        await eventually(lambda: server.shaken)
        transport = server.inners[0].transport
        assert transport.get_extra_info("ssl_object") is server.shaken[0]
        assert transport.get_extra_info("peercert")["serialNumber"]
        assert transport.get_extra_info("cipher")[1] == "TLSv1.3"
        assert client.transport.get_protocol() is client
        assert not client.transport.can_write_eof()


async def test_a_peer_may_be_refused_by_what_its_handshake_says(authority: Authority) -> None:
    async with serving(authority.server()) as server:
        server.refusal = TlsError("nobody knows you", "introduce yourself")
        async with connected(server.port, authority.client()) as client:
            client.transport.write(b"too early")
            assert await server.end_of() is server.refusal
            assert server.inners[0].got == b""
            await eventually(lambda: client.is_lost)
            assert isinstance(client.lost, ConnectionError)


# -- what is no TLS ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (FRAME, "a plain frame came instead of TLS: this port speaks TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP came instead of TLS"),
        (b"\x80\x2e\x01\x00\x02" + b"\x00" * 40, "an SSLv2 hello came instead"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "a TLS alert came instead"),
        (b"\x17\x03\x03\x00\x02\x02\x28", "a TLS record that begins no handshake came"),
        (b"SSH-2.0-x\r\n", "bytes that are no TLS"),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "TLS failed"),
    ],
)
async def test_a_server_names_what_came_instead(
    authority: Authority, first: bytes, said: str
) -> None:
    async with serving(authority.server()) as server, plain(server.port) as (reader, writer):
        writer.write(first)
        error = await server.end_of()
        assert isinstance(error, TlsError)
        assert said in str(error)
        assert server.inners[0].got == b""
        with contextlib.suppress(ConnectionError):
            await reader.read()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP came instead of TLS: the port speaks no TLS"),
        (FRAME, "a plain frame came instead of TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "no TLS version or cipher suite in common"),
        (b"", "hung up during the TLS handshake"),
    ],
)
async def test_a_client_names_what_came_instead(
    authority: Authority, answer: bytes, said: str
) -> None:
    ended: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.append(True)

    server = await asyncio.start_server(serve, HOST, 0)
    async with connected(server.sockets[0].getsockname()[1], authority.client()) as client:
        await eventually(lambda: client.is_lost)
        assert said in str(client.lost)
        assert isinstance(client.lost, TlsError if answer else ConnectionResetError)
    await eventually(lambda: ended)
    server.close()
    await server.wait_closed()


async def test_a_peer_that_goes_in_the_middle_of_its_hello(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as (_, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00")
        writer.write_eof()
        assert isinstance(await server.end_of(), ConnectionResetError)


async def test_a_hello_of_single_bytes_is_understood(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        peer.step = 1
        await peer.shake_hands()
        await peer.write(b"hello")
        assert await peer.read() == b"hello"


# -- who may not ---------------------------------------------------------------------------------


async def test_old_versions_find_nobody(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as streams:
        context = authority.client()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            await HandPeer(streams, context).shake_hands()
        assert "in common" in str(await server.end_of())


async def test_a_client_without_certificate_is_told_why(authority: Authority) -> None:
    async with (
        serving(authority.server(trusting=True)) as server,
        connected(server.port, authority.client()) as client,
    ):
        await eventually(lambda: client.is_lost)
        assert isinstance(client.lost, TlsError)
        assert client.lost.remedy == "set certificate_file and key_file"
        assert "the peer showed no certificate" in str(await server.end_of())


async def test_a_client_knows_another_ca(authority: Authority) -> None:
    async with (
        serving(authority.server()) as server,
        connected(server.port, Authority().client()) as client,
    ):
        await eventually(lambda: client.is_lost)
        assert isinstance(client.lost, TlsError)
        assert "not signed by a trusted CA" in client.lost.cause
        assert isinstance(client.lost.__cause__, ssl.SSLCertVerificationError)
        assert "does not trust the CA of this side" in str(await server.end_of())


@pytest.mark.parametrize("name", ["other", "127.0.0.2"])
async def test_a_client_meant_another_name(authority: Authority, name: str) -> None:
    async with (
        serving(authority.server()) as server,
        connected(server.port, authority.client(), name=name) as client,
    ):
        await eventually(lambda: client.is_lost)
        assert "for another name" in str(client.lost)


async def test_a_name_that_cannot_be_one(authority: Authority) -> None:
    async with (
        serving(authority.server()) as server,
        connected(server.port, authority.client(), name=".x") as client,
    ):
        await eventually(lambda: client.is_lost)
        assert isinstance(client.lost, TlsError)


# -- ends ----------------------------------------------------------------------------------------


async def test_a_close_says_goodbye_after_all_that_was_written(authority: Authority) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        await eventually(lambda: server.shaken)
        transport = server.inners[0].transport
        transport.write(b"z" * (8 << 20))
        transport.close()
        transport.close()
        transport.write(b"too late")
        assert transport.is_closing()
        size = 0
        while data := await peer.read():
            assert not data.strip(b"z")
            size += len(data)
        assert size == 8 << 20
        assert await server.end_of() is None


async def test_a_close_before_the_handshake(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as (reader, _):
        inner = await server.inner()
        inner.transport.close()
        assert await reader.read() == b""
        assert await server.end_of() is None


async def test_what_was_written_before_the_handshake_survives_a_close(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as streams:
        inner = await server.inner()
        inner.transport.write(b"last words")
        inner.transport.close()
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        await peer.write(b"not heard")
        assert await peer.read() == b"last words"
        assert await peer.read() == b""
        assert await server.end_of() is None
        assert inner.got == b""


async def test_a_peer_that_hangs_up_before_it_could_hear_the_last_words(
    authority: Authority,
) -> None:
    async with serving(authority.server()) as server, plain(server.port) as (_, writer):
        inner = await server.inner()
        inner.transport.write(b"last words")
        inner.transport.close()
        writer.write_eof()
        assert isinstance(await server.end_of(), ConnectionResetError)


async def test_an_end_without_goodbye_is_a_broken_connection(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        await peer.write(b"half a fra")
        peer.writer.write_eof()
        error = await server.end_of()
        assert isinstance(error, ConnectionResetError)
        assert "close_notify" in str(error)
        assert "eof" not in server.inners[0].heard


async def test_an_abort_says_no_goodbye(authority: Authority) -> None:
    async with serving(authority.server()) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        await eventually(lambda: server.shaken)
        server.inners[0].transport.abort()
        with pytest.raises((ssl.SSLEOFError, ConnectionError)):
            await peer.read()
        assert await server.end_of() is None


async def test_a_protocol_may_answer_after_the_peers_goodbye(authority: Authority) -> None:
    class Late(Inner):
        def eof_received(self) -> bool:
            super().eof_received()
            return True

    async with serving(authority.server(), Late) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()
        await peer.flush()
        await eventually(lambda: server.inners[0].heard == ["made", "eof"])
        peer.writer.write(b"after the goodbye")
        await peer.writer.drain()
        server.inners[0].transport.write(b"still there")
        assert len(await peer.reader.read(1 << 16)) > len(b"still there")
        server.inners[0].transport.abort()
        await server.end_of()
        assert server.inners[0].heard == ["made", "eof", "lost"]
        assert server.inners[0].got == b""


# -- pressure ------------------------------------------------------------------------------------


async def test_what_the_peer_does_not_take_waits_and_is_counted(authority: Authority) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        await eventually(lambda: server.shaken)
        inner = server.inners[0]
        inner.transport.set_write_buffer_limits(1 << 20, 1 << 19)
        assert inner.transport.get_write_buffer_limits() == (1 << 19, 1 << 20)
        large = b"w" * (4 << 20)
        written = 0
        while "stop" not in inner.heard or written < 32 << 20:
            inner.transport.write(large)
            written += len(large)
            await asyncio.sleep(0)
        waiting = inner.transport.get_write_buffer_size()
        assert 1 << 20 < waiting < written
        taken = 0
        while taken < written:
            taken += len(await peer.read())
        await eventually(lambda: inner.heard[-1] == "go")
        assert inner.transport.get_write_buffer_size() == 0


async def test_limits_that_are_none(authority: Authority) -> None:
    async with (
        serving(authority.server(), Inner) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.set_write_buffer_limits(high=0)
        client.transport.write(b"a")  # before the handshake
        assert client.heard == ["made", "stop"]
        await eventually(lambda: client.heard == ["made", "stop", "go"])
        with pytest.raises(ValueError, match="must be >="):
            client.transport.set_write_buffer_limits(high=1, low=2)
        client.transport.set_write_buffer_limits(low=3)
        assert client.transport.get_write_buffer_limits() == (3, 12)


async def test_a_protocol_that_has_enough_gets_no_more(authority: Authority) -> None:
    sent = 16 << 20

    def small() -> Inner:
        inner = Inner(room=1000)
        inner.enough = 1
        return inner

    async with (
        serving(authority.server(), small) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.write(b"p" * sent)
        await eventually(lambda: server.inners and server.inners[0].got)
        inner = server.inners[0]
        assert len(inner.got) <= 1000
        assert not inner.transport.is_reading()
        await eventually(lambda: "stop" in client.heard)
        assert len(inner.got) <= 1000
        inner.enough = 0
        inner.transport.resume_reading()
        inner.transport.resume_reading()
        assert len(inner.got) <= 1000  # not from within the call
        await eventually(lambda: len(inner.got) == sent)


async def test_a_protocol_may_pause_and_go_on_again_and_again(authority: Authority) -> None:
    class Hesitant(Inner):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.transport.pause_reading()
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    async with (
        serving(authority.server(), lambda: Hesitant(room=50_000)) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.write(b"q" * (2 << 20))
        await eventually(lambda: server.inners and len(server.inners[0].got) == 2 << 20)
        client.transport.close()
        assert await server.end_of() is None


async def test_a_handshake_goes_on_though_reading_is_paused(authority: Authority) -> None:
    class Waiting(Inner):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.transport.pause_reading()

    async with (
        serving(authority.server(), Waiting) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.write(b"early")
        await eventually(lambda: server.shaken)
        assert server.inners[0].got == b""
        server.inners[0].transport.resume_reading()
        await eventually(lambda: server.inners[0].got == b"early")


async def test_a_protocol_that_fails_loses_its_connection_alone(authority: Authority) -> None:
    class Failing(Inner):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            if self.got == b"12":
                raise RuntimeError("a bug above")
            self.transport.pause_reading()

    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: problems.append(context["exception"])
    )
    async with (
        serving(authority.server(), lambda: Failing(room=1)) as server,
        connected(server.port, authority.client()) as client,
    ):
        client.transport.write(b"123")
        await eventually(lambda: server.inners and server.inners[0].got == b"1")
        server.inners[0].transport.resume_reading()
        assert isinstance(await server.end_of(), RuntimeError)
        assert [str(problem) for problem in problems] == ["a bug above"]
