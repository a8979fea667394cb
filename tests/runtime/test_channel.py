"""The channel runs over real loopback sockets, with a machine that frames lines.

Every callback is called exactly once, whatever ends the connection; order is never lost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from oncelog_protocol.connection import ClientConnection
from oncelog_runtime.channel import (
    ChannelClosedError,
    ClientMachine,
    MatchedReply,
    NotSentError,
    Protect,
    RequestChannel,
)
from oncelog_runtime.files import Buffer
from oncelog_runtime.tls import TlsError, TlsProtocol
from support import tls_harness
from support.certificates import Authority
from support.waiting import eventually


class LineError(Exception):
    """The peer's bytes make no sense to the machine."""


@dataclass(frozen=True)
class LineReply:
    correlation_id: int
    message: Any
    payload: memoryview
    throttle_ms: int = 0


class LineMachine:
    """Each line is a message: ``<correlation id> <text>``; "hello" is the handshake, and "hold 50"
    holds the channel for 50 ms."""

    def __init__(self) -> None:
        self.versions: Mapping[int, int] = {}
        self.asks_again = False
        self.meant_broker_id = -1
        self._sent = 0
        self._buffer = bytearray(1 << 16)
        self._line = b""

    def handshake(self) -> tuple[int, list[Buffer]]:
        return self.encode("hello")

    def reconnect(self) -> None:
        self._line = b""

    def encode(
        self, request: Any, payload: Sequence[Buffer] = (), *, expect_response: bool = True
    ) -> tuple[int, list[Buffer]]:
        if request == "too large":
            raise LineError(request)
        self._sent += 1
        return self._sent, [f"{self._sent} {request}".encode(), *payload, b"\n"]

    def may_be_held(self, request: Any, /) -> bool:
        return bool(request != "heartbeat")

    def get_buffer(self, sizehint: int, /) -> memoryview:
        return memoryview(self._buffer)

    def received(self, nbytes: int, /) -> Sequence[MatchedReply]:
        *lines, self._line = (self._line + self._buffer[:nbytes]).split(b"\n")
        replies: list[MatchedReply] = []
        for line in lines:
            number, _, text = line.partition(b" ")
            if not number.isdigit():
                raise LineError(f"not a number: {number!r}")
            if text == b"hello":
                self.versions = {0: 3}
            throttle_ms = int(text[5:]) if text.startswith(b"hold ") else 0
            replies.append(LineReply(int(number), text.decode(), memoryview(b""), throttle_ms))
        return replies


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every line with itself, but those that say "quiet"."""
    while line := await reader.readline():
        if b"quiet" not in line:
            writer.write(line)


def after_hello(reply: bytes | None) -> Serve:
    """Greet, wait for one request, then write these bytes (None: hang up)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await reader.readline()
        if reply is None:
            return
        writer.write(reply)
        await reader.read()

    return serve


@asynccontextmanager
async def serving(serve: Serve = echo, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Start a server on a free loopback port; it is gone, with its connections, at the end."""
    connections: list[asyncio.StreamWriter] = []
    ended: list[asyncio.Event] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        ended.append(end := asyncio.Event())
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()
            end.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
        for end in ended:
            await end.wait()
        await server.wait_closed()


@asynccontextmanager
async def channel_to(port: int) -> AsyncIterator[RequestChannel]:
    channel = await RequestChannel.open("127.0.0.1", port, LineMachine())
    try:
        yield channel
    finally:
        channel.close()
        await channel.wait_closed()


class Heard:
    """It collects what callbacks are told."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.errors: list[BaseException] = []

    def __call__(self, reply: Any, error: BaseException | None) -> None:
        assert (reply is None) != (error is None)
        if error is not None:
            self.errors.append(error)
        else:
            self.messages.append(reply.message)


async def test_call() -> None:
    async with serving() as port, channel_to(port) as channel:
        assert channel.versions == {0: 3}
        assert channel.peer == f"127.0.0.1:{port}"
        reply = await channel.call("one", [b" and", b" payload"], timeout_s=5)
        assert reply.message == "one and payload"
        assert not channel.closed
        assert channel.in_flight == 0


async def test_callbacks_hear_replies_in_the_order_of_requests() -> None:
    async with serving() as port, channel_to(port) as channel:
        heard = Heard()
        for number in range(100):
            channel.send(f"request {number}", callback=heard)
        assert channel.in_flight == 100
        await eventually(lambda: channel.in_flight == 0)
        assert heard.messages == [f"request {number}" for number in range(100)]
        assert heard.errors == []


async def test_a_oneway_request_waits_for_nothing() -> None:
    async with serving() as port, channel_to(port) as channel:
        channel.send_oneway("quiet")
        assert channel.in_flight == 0
        assert (await channel.call("next", timeout_s=5)).message == "next"


def test_the_machine_of_the_protocol_fits() -> None:
    machine: ClientMachine = ClientConnection("test")  # mypy is the test
    assert not machine.versions


async def test_nobody_listens() -> None:
    async with serving() as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        await RequestChannel.open("127.0.0.1", port, LineMachine())


async def test_nobody_listens_at_any_address_of_a_name() -> None:
    async with serving() as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        await RequestChannel.open("localhost", port, LineMachine())


async def test_a_silent_peer_is_given_up_in_time() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as port:
        with pytest.raises(TimeoutError, match=r"no connection within 0.05 s"):
            await RequestChannel.open("127.0.0.1", port, LineMachine(), connect_timeout_s=0.05)


async def test_a_handshake_that_makes_no_sense() -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\n")
        await reader.read()

    async with serving(babble) as port:
        with pytest.raises(LineError, match="not a number"):
            await RequestChannel.open("127.0.0.1", port, LineMachine())


class CorrectedMachine(LineMachine):
    """It says hello in a way that the peer does not take, and then in another."""

    def __init__(self) -> None:
        super().__init__()
        self.reconnects = 0

    def handshake(self) -> tuple[int, list[Buffer]]:
        return self.encode("hello" if self.asks_again else "bonjour")

    def reconnect(self) -> None:
        super().reconnect()
        self.reconnects += 1

    def received(self, nbytes: int, /) -> Sequence[MatchedReply]:
        replies = super().received(nbytes)
        for reply in replies:
            if reply.message == "what?":
                self.asks_again = True
            elif reply.message == "hello":
                self.asks_again = False
        return replies


def english(*, hangs_up: bool) -> Serve:
    """Take "hello" alone as a greeting."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if b"bonjour" in line:
                writer.write(line.replace(b"bonjour", b"what?"))
                if hangs_up:
                    return
            else:
                writer.write(line)

    return serve


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_handshake_that_is_not_understood_is_tried_once_more(hangs_up: bool) -> None:
    async with serving(english(hangs_up=hangs_up)) as port:
        machine = CorrectedMachine()
        channel = await RequestChannel.open("127.0.0.1", port, machine)
        assert (await channel.call("one", timeout_s=5)).message == "one"
        assert machine.reconnects == hangs_up
        channel.close()
        await channel.wait_closed()


async def test_a_peer_that_hangs_up_during_the_handshake() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()

    async with serving(rude) as port:
        with pytest.raises(ConnectionError):
            await RequestChannel.open("127.0.0.1", port, LineMachine())


async def test_the_peer_hangs_up() -> None:
    async with serving(after_hello(None)) as port, channel_to(port) as channel:
        causes: list[BaseException | None] = []
        channel.on_close.append(causes.append)
        heard = Heard()
        channel.send("one", callback=heard)
        channel.send("two", callback=heard)
        await eventually(lambda: channel.closed)
        assert [type(error) for error in heard.errors] == [ChannelClosedError] * 2
        assert isinstance(causes[0], ConnectionError)
        assert len(causes) == 1


async def test_bytes_that_make_no_sense_end_the_channel() -> None:
    async with serving(after_hello(b"2 one\nnonsense\n")) as port, channel_to(port) as channel:
        causes: list[BaseException | None] = []
        channel.on_close.append(causes.append)
        with pytest.raises(ChannelClosedError, match="not a number") as caught:
            await channel.call("one", timeout_s=5)
        assert isinstance(caught.value.__cause__, LineError)
        assert isinstance(causes[0], LineError)


@pytest.mark.parametrize("answer", [b"1 hello\n", b"3 one\n", b"2 one\n2 one\n"])
async def test_an_answer_that_was_not_asked_for_ends_the_channel(answer: bytes) -> None:
    async with serving(after_hello(answer)) as port, channel_to(port) as channel:
        heard = Heard()
        channel.send("one", callback=heard)
        await eventually(lambda: channel.closed)
        assert len(heard.messages) + len(heard.errors) == 1


async def test_a_call_that_times_out_closes_the_channel() -> None:
    async with serving() as port, channel_to(port) as channel:
        heard = Heard()
        channel.send("quiet before", callback=heard)
        with pytest.raises(TimeoutError, match=r"no answer to str within 0.05 s"):
            await channel.call("quiet", timeout_s=0.05)
        assert channel.closed
        assert len(heard.errors) == 1


async def test_a_cancelled_call_leaves_the_channel_in_order() -> None:
    async with serving() as port, channel_to(port) as channel:
        first = asyncio.create_task(channel.call("first", timeout_s=5))
        await asyncio.sleep(0)
        first.cancel()
        assert (await channel.call("second", timeout_s=5)).message == "second"
        assert first.cancelled()


async def test_closing_tells_everybody_once() -> None:
    async with serving() as port, channel_to(port) as channel:
        causes: list[BaseException | None] = []
        channel.on_close.append(causes.append)
        heard = Heard()
        channel.send("quiet", callback=heard)
        channel.close("done with it")
        channel.close("again")
        assert channel.closed
        assert [str(error) for error in heard.errors] == [f"127.0.0.1:{port}: done with it"]
        assert not isinstance(heard.errors[0], NotSentError)
        assert causes == [None]
        await channel.wait_closed()
        assert repr(channel) == f"<RequestChannel 127.0.0.1:{port} closed>"


async def test_what_was_written_before_a_close_arrives() -> None:
    lines: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            lines.append(line)
            if len(lines) == 1:
                writer.write(line)

    async with serving(collect) as port, channel_to(port) as channel:
        large = b"x" * (1 << 15)
        for _ in range(8):
            channel.send_oneway("quiet", [large])
        channel.close()
        await channel.wait_closed()
        await eventually(lambda: len(lines) == 9)


async def test_a_dead_channel_says_that_nothing_was_sent() -> None:
    async with serving() as port, channel_to(port) as channel:
        channel.close()
        heard = Heard()
        channel.send("late", callback=heard)
        assert heard.errors == []  # not from inside send: a caller may retry in its callback
        await eventually(lambda: heard.errors)
        assert isinstance(heard.errors[0], NotSentError)
        with pytest.raises(NotSentError):
            await channel.call("late", timeout_s=5)
        with pytest.raises(NotSentError):
            channel.send_oneway("late")
        with pytest.raises(NotSentError):
            await channel.drain()


async def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    async with serving() as port, channel_to(port) as channel:
        heard = Heard()
        with pytest.raises(LineError):
            channel.send("too large", callback=heard)
        assert channel.in_flight == 0
        assert (await channel.call("next", timeout_s=5)).message == "next"
        assert heard.errors == []


async def test_a_callback_that_fails_hurts_nobody_else() -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    async with serving() as port, channel_to(port) as channel:

        def fail(reply: Any, error: BaseException | None) -> None:
            raise RuntimeError("a bug in the caller")

        heard = Heard()
        channel.send("one", callback=fail)
        channel.send("two", callback=heard)
        await eventually(lambda: heard.messages == ["two"])
        assert not channel.closed
    assert [str(problem["exception"]) for problem in problems] == ["a bug in the caller"]


async def test_a_callback_may_close_the_channel() -> None:
    async with serving() as port, channel_to(port) as channel:
        heard = Heard()
        channel.send("one", callback=lambda reply, error: channel.close("from a callback"))
        channel.send("two", callback=heard)
        await eventually(lambda: channel.closed)
        assert heard.messages == []
        assert [str(error) for error in heard.errors] == [f"127.0.0.1:{port}: from a callback"]


async def test_a_channel_is_held_for_as_long_as_the_peer_says() -> None:
    loop = asyncio.get_running_loop()
    async with serving() as port, channel_to(port) as channel:
        told: list[float] = []
        channel.on_throttle.append(told.append)
        begun = loop.time()
        await channel.call("hold 50", timeout_s=5)
        seen = [channel.held and channel.paused]
        assert (await channel.call("heartbeat", timeout_s=5)).message == "heartbeat"
        seen.append(channel.held)
        assert (await channel.call("one", timeout_s=5)).message == "one"
        seen.append(channel.paused)
        assert seen == [True, True, False]
        assert loop.time() - begun >= 0.049
        assert told == [pytest.approx(0.05)]


async def test_a_longer_hold_counts_and_a_shorter_one_does_not() -> None:
    async with serving() as port, channel_to(port) as channel:
        told: list[float] = []
        channel.on_throttle.append(told.append)
        replies: list[Any] = []
        for text in ("hold 30000", "hold 100", "hold 30000"):
            channel.send(text, callback=lambda reply, error: replies.append(reply))
        await eventually(lambda: len(replies) == 3)
        assert told[1] == 0
        assert sum(told) == pytest.approx(30, abs=1)


async def test_a_call_on_a_channel_that_is_held_for_too_long_leaves_it_open() -> None:
    async with serving() as port, channel_to(port) as channel:
        await channel.call("hold 30000", timeout_s=5)
        with pytest.raises(TimeoutError, match="a quota is exceeded"):
            await channel.call("one", timeout_s=0.01)
        assert not channel.closed
        assert channel.in_flight == 0


async def test_who_waits_on_a_held_channel_hears_of_its_death() -> None:
    async with serving() as port, channel_to(port) as channel:
        await channel.call("hold 30000", timeout_s=5)
        waiting = [
            asyncio.create_task(channel.call("one", timeout_s=5)),
            asyncio.create_task(channel.drain()),
        ]
        await asyncio.sleep(0)
        channel.close()
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, NotSentError)
        assert not channel.held


async def test_drain_waits_for_a_slow_reader() -> None:
    reading = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await reading.wait()
        while await reader.read(1 << 16):
            pass

    async with serving(slow) as port, channel_to(port) as channel:
        await channel.drain()
        large = b"x" * (1 << 20)
        while not channel.paused:
            channel.send_oneway("quiet", [large])
            await asyncio.sleep(0)
        waiting = asyncio.create_task(channel.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        reading.set()
        await asyncio.wait_for(waiting, 5)
        assert not channel.paused


async def test_drain_hears_of_the_channels_death() -> None:
    reading = asyncio.Event()

    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await reading.wait()

    async with serving(stuck) as port, channel_to(port) as channel:
        while not channel.paused:
            channel.send_oneway("quiet", [b"x" * (1 << 20)])
            await asyncio.sleep(0)
        waiting = asyncio.create_task(channel.drain())
        await asyncio.sleep(0)
        reading.set()
        with pytest.raises(ChannelClosedError):
            await asyncio.wait_for(waiting, 5)


# -- over TLS ------------------------------------------------------------------------------------


def protecting(context: ssl.SSLContext, meant: str = "") -> Protect:
    def protect(inner: asyncio.BufferedProtocol, host: str) -> asyncio.BufferedProtocol:
        return TlsProtocol(inner, context, server_hostname=meant or host)

    return protect


async def test_calls_over_tls() -> None:
    authority = Authority()
    protect = protecting(authority.client())
    async with serving(context=authority.server()) as port:
        channel = await RequestChannel.open("127.0.0.1", port, LineMachine(), protect=protect)
        large = b"x" * (1 << 15)
        for _ in range(8):
            channel.send_oneway("quiet", [large])
        reply = await channel.call("one", [b" and", b" payload"], timeout_s=5)
        assert reply.message == "one and payload"
        channel.close()
        await channel.wait_closed()


@pytest.mark.parametrize("meant", ["other.host", ""])
async def test_a_peer_that_is_not_trusted(meant: str) -> None:
    authority = Authority()
    context = (authority if meant else Authority()).client()
    async with serving(context=authority.server()) as port:
        with pytest.raises(TlsError) as caught:
            await RequestChannel.open(
                "127.0.0.1", port, LineMachine(), protect=protecting(context, meant)
            )
    assert ("another name" if meant else "trusted CA") in caught.value.cause
    assert not isinstance(caught.value, ConnectionRefusedError)


async def test_a_peer_that_wants_a_certificate() -> None:
    authority = Authority()
    async with tls_harness.serving(authority.server(trusting=True)) as server:
        with pytest.raises(TlsError, match="set certificate_file"):
            await RequestChannel.open(
                "127.0.0.1", server.port, LineMachine(), protect=protecting(authority.client())
            )


async def test_a_peer_that_speaks_no_tls() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(http) as port:
        with pytest.raises(TlsError, match="HTTP came instead of TLS"):
            await RequestChannel.open(
                "127.0.0.1", port, LineMachine(), protect=protecting(Authority().client())
            )


async def test_a_peer_that_is_silent_over_tls() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass

    async with serving(silent) as port:
        with pytest.raises(TimeoutError):
            await RequestChannel.open(
                "127.0.0.1",
                port,
                LineMachine(),
                connect_timeout_s=0.05,
                protect=protecting(Authority().client()),
            )


async def test_nobody_listens_over_tls() -> None:
    async with serving() as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        await RequestChannel.open(
            "127.0.0.1", port, LineMachine(), protect=protecting(Authority().client())
        )
