"""The HTTP port is uvicorn as a guest of our loop, with bounds, an end, and none of its habits."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from oncelog_runtime import http_port
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.http_port import CLOSE_S, HEAD_BYTES_MAX, Answerer, HttpPort, answering
from oncelog_runtime.tls_contexts import ServerTls, TlsFiles
from support.certificates import Papers
from support.http_get import get, parse, send
from support.waiting import eventually


async def echo(request: Request) -> Response:
    return PlainTextResponse(f"you asked for {request.url.path}")


def port_of(answer: Answerer = echo, tls: ServerTls | None = None) -> HttpPort:
    return HttpPort(answering({"/{path:path}": answer}), tls)


@asynccontextmanager
async def serving(answer: Answerer = echo, tls: ServerTls | None = None) -> AsyncIterator[HttpPort]:
    port = port_of(answer, tls)
    await port.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await port.close()
        await eventually(lambda: port.connection_count == 0)


async def test_get_and_head() -> None:
    async with serving() as port:
        got = await get(port.address, "/a%20b?c=d")
        assert (got.status, got.text) == (200, "you asked for /a b")
        assert got.headers["content-length"] == str(len(got.body))
        assert got.headers["cache-control"] == "no-store"
        assert "server" not in got.headers
        head = await get(port.address, "/a%20b", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(got.body))


async def test_a_connection_is_kept_and_requests_are_answered_in_order() -> None:
    async with serving() as port:
        requests = b"".join(
            b"GET /%d HTTP/1.1\r\nHost: h\r\n%b\r\n" % (n, b"Connection: close\r\n" * (n == 9))
            for n in range(10)
        )
        raw = await send(port.address, requests)
        answers = [part for part in raw.split(b"HTTP/1.1 200 OK") if part]
        assert [part.rpartition(b"/")[2] for part in answers] == [b"%d" % n for n in range(10)]


BAD = {
    "our own protocol": b"\x00\x00\x00\x10abcdefgh\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n",
    "an endless head": b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * HEAD_BYTES_MAX,
    "an endless line": b"G" * (HEAD_BYTES_MAX + 1),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_refused(name: str) -> None:
    async def never(_: Request) -> Response:
        raise AssertionError("a refused request reached the application")

    async with serving(never) as port:
        raw = await send(port.address, BAD[name])
        if raw:  # unread bytes may turn the end of the connection into a reset
            got = parse(raw)
            assert (got.status, got.headers["connection"]) == (400, "close")
        await eventually(lambda: port.connection_count == 0)


async def test_too_many_connections_are_refused_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_port, "CONNECTIONS_MAX", 5)
    async with serving() as port:
        open_ones = [await asyncio.open_connection(*port.address) for _ in range(5)]
        await eventually(lambda: port.connection_count == 5)
        assert await send(port.address, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == b""
        open_ones[0][1].write(b"GET /first HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(5):
            assert parse(await open_ones[0][0].read()).text == "you asked for /first"
        await eventually(lambda: port.connection_count == 4)
        assert (await get(port.address, "/again")).status == 200
        for _, writer in open_ones:
            writer.close()


async def test_who_sends_nothing_or_only_a_part_is_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_port, "IDLE_S", 0.2)
    async with serving() as port:
        assert await send(port.address, b"") == b""
        reader, writer = await asyncio.open_connection(*port.address)

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b"G")
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        async with asyncio.timeout(5):  # what it sends buys no time
            assert await reader.read() == b""
        writer.close()
        await dripping
        raw = await send(port.address, b"GET /kept HTTP/1.1\r\nHost: h\r\n\r\n")
        assert parse(raw).text == "you asked for /kept", "then it was let go as well"


async def test_an_answer_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_: Request) -> Response:
        await asyncio.sleep(0.5)
        return PlainTextResponse("late")

    monkeypatch.setattr(http_port, "ANSWER_S", 0.1)
    async with serving(slow) as port:
        assert await send(port.address, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") == b""


async def test_a_sender_without_end_does_not_fill_the_memory() -> None:
    """While one request is being answered, no more is read than the socket holds."""
    release = asyncio.Event()

    async def slow(_: Request) -> Response:
        await release.wait()
        return PlainTextResponse("done")

    async with serving(slow) as port:
        _, writer = await asyncio.open_connection(*port.address)
        writer.write(b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" * 1_000_000)
        await eventually(lambda: port.connection_count)
        (connection,) = port._server.server_state.connections
        await eventually(lambda: not connection.transport.is_reading())
        release.set()
        writer.transport.abort()


async def test_the_second_part_of_an_answer_waits_for_nobody() -> None:
    """With Nagle's rule on, a body waits until the peer's system has acknowledged the head."""
    async with serving() as port:
        _, writer = await asyncio.open_connection(*port.address)
        await eventually(lambda: port.connection_count)
        (connection,) = port._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        writer.transport.abort()


@pytest.mark.slow
async def test_it_closes_in_time_whatever_peers_do() -> None:
    """One is silent, one is half way, one does not take its answer, one waits for ever."""

    async def answer(request: Request) -> Response:
        if request.url.path == "/never":
            await asyncio.Event().wait()
        return PlainTextResponse("x" * 10_000_000)

    async with serving(answer) as port:
        writers = []
        for data in (
            b"",
            b"GET / HT",
            b"GET /much HTTP/1.0\r\n\r\n",
            b"GET /never HTTP/1.0\r\n\r\n",
        ):
            # The least buffer, and nobody reads: the answer stays with the server.
            sock = socket.create_connection(port.address)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(data)
            writers.append(sock)
        await eventually(lambda: port.connection_count == 4)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(CLOSE_S + 10):
            await port.close()
        assert loop.time() - began >= CLOSE_S / 2, "those two had some time"
        await eventually(lambda: port.connection_count == 0)
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection(*port.address)
        for sock in writers:
            sock.close()


async def test_signals_stay_with_who_has_them() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGTERM, heard.append, "SIGTERM")
    try:
        ours = signal.getsignal(signal.SIGTERM)
        async with serving() as port:
            assert (await get(port.address, "/")).status == 200
            assert signal.getsignal(signal.SIGTERM) == ours
            assert signal.getsignal(signal.SIGINT) == before
            os.kill(os.getpid(), signal.SIGTERM)
            await eventually(lambda: heard == ["SIGTERM"])
            closing = asyncio.ensure_future(port.close())
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGTERM)
            await closing
            await eventually(lambda: heard == ["SIGTERM"] * 2)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_logging_is_left_as_it_is() -> None:
    loggers = [logging.getLogger(name) for name in (None, "uvicorn", "uvicorn.error", "asyncio")]

    def state() -> list[object]:
        return [(each.level, list(each.handlers), each.propagate) for each in loggers]

    before = state()
    async with serving() as port:
        assert (await get(port.address, "/")).status == 200
        assert state() == before


async def test_a_taken_port_is_an_error() -> None:
    async with serving() as port:
        with pytest.raises(OSError, match="in use"):
            await port_of().start(*port.address)


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain"])
async def test_only_a_stream_of_events_goes_on_beyond_the_time_of_an_answer(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(http_port, "ANSWER_S", 0.3)
    ended = asyncio.Event()

    async def parts() -> AsyncIterator[str]:
        try:
            for number in range(10):
                yield f"data: {number}\n\n"
                await asyncio.sleep(0.1)
            await asyncio.Event().wait()  # nothing more comes: it is cut off
        finally:
            ended.set()

    async def answer(request: Request) -> Response:
        return StreamingResponse(parts(), media_type=kind)

    async with serving(answer) as port:
        got = await get(port.address, "/live")
        assert ("data: 9" in got.text) == (kind == "text/event-stream")
        await eventually(ended.is_set)


async def test_one_that_never_started_can_be_closed() -> None:
    await port_of().close()


def tls_of(papers: Papers, name: str = "port") -> ServerTls:
    certificate, key = papers.issue(name)
    files = TlsFiles(min_version="1.2", certificate_file=certificate, key_file=key)
    return ServerTls(files, "none", SystemWallClock())


async def much(request: Request) -> Response:
    return PlainTextResponse("x" * 3_000_000)


async def test_over_tls_the_same_is_answered(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    client = papers.authority.client()
    async with serving(tls=tls_of(papers)) as port:
        got = await get(port.address, "/a", tls=client)
        assert (got.status, got.text) == (200, "you asked for /a")
        raw = await send(port.address, b"GET /%b HTTP/1.0\r\n\r\n" % (b"b" * 7000), tls=client)
        assert parse(raw).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await get(port.address, "/a", tls=Papers(tmp_path / "other").authority.client())
    async with serving(much, tls=tls_of(papers)) as port:
        # uvloop's own client drops what it had not handed on when the other side says goodbye.
        assert len(await asyncio.to_thread(slowly, port.address, client)) == 3_000_000


def slowly(address: tuple[str, int], tls: ssl.SSLContext) -> bytes:
    """Return the body of an answer that is taken in small pieces."""
    plain = socket.create_connection(address)
    with tls.wrap_socket(plain, server_hostname=address[0]) as secured:
        secured.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return parse(b"".join(iter(lambda: secured.recv(4096), b""))).body


async def test_http_without_tls_is_refused_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tls=tls_of(Papers(tmp_path))) as port:
        assert b"200" not in await send(port.address, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await eventually(lambda: "http_peer_refused" in caplog.text)
    assert "HTTP" in caplog.text.partition("http_peer_refused")[2]


async def test_over_tls_silent_peers_are_counted_and_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "CONNECTIONS_MAX", 3)
    papers = Papers(tmp_path)
    async with serving(tls=tls_of(papers)) as port:
        silent = [await asyncio.open_connection(*port.address) for _ in range(3)]
        await eventually(lambda: port.connection_count == 3)
        assert await send(port.address, b"\x16\x03\x01") == b"", "one too many, before it spoke"
        for _, writer in silent:
            writer.close()
        await eventually(lambda: port.connection_count == 0)
        monkeypatch.setattr(http_port, "HANDSHAKE_S", 0.1)
        assert await send(port.address, b"\x16\x03\x01\x02\x00") == b"", "half a hello"
        monkeypatch.setattr(http_port, "HANDSHAKE_S", 60.0)
        assert (await get(port.address, "/", tls=papers.authority.client())).status == 200


async def test_a_renewed_certificate_is_for_new_connections(tmp_path: Path) -> None:
    papers = Papers(tmp_path)
    tls = tls_of(papers)

    def shown(writer: asyncio.StreamWriter) -> object:
        return writer.get_extra_info("peercert")["serialNumber"]

    async with serving(tls=tls) as port:
        client = papers.authority.client()
        reader, old = await asyncio.open_connection(*port.address, ssl=client)
        papers.issue("port")
        assert tls.refresh()
        _, new = await asyncio.open_connection(*port.address, ssl=client)
        assert shown(old) != shown(new)
        old.write(b"GET /old HTTP/1.0\r\n\r\n")
        assert parse(await reader.read()).text == "you asked for /old"
        for writer in (old, new):
            writer.close()
