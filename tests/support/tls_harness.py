"""Tests of TLS over loopback sockets use these: protocols over the layer, and peers by hand.

``Inner`` is a protocol that writes down what it hears, ``HandPeer`` a client that shakes hands as
it should and then does what it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from oncelog_runtime.tls import TlsError, TlsProtocol
from support.certificates import Authority
from support.stream_harness import Factory, StreamHarness
from support.waiting import eventually

__all__ = [
    "HOST",
    "Forger",
    "HandPeer",
    "Inner",
    "Server",
    "TlsStreams",
    "connected",
    "plain",
    "serving",
]

HOST = "127.0.0.1"


class Inner(asyncio.BufferedProtocol):
    """It keeps what it gets, and all that it is told."""

    def __init__(self, *, echo: bool = False, room: int = 1 << 16) -> None:
        self.echo = echo
        self.got = bytearray()
        self.heard: list[str] = []
        self.lost: BaseException | None = None
        self.refuse = False
        self.enough = 0
        """It reads no more once it has so many bytes, if not 0."""
        self._buffer = memoryview(bytearray(room))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsProtocol)
        self.transport = transport
        self.heard.append("made")
        if self.refuse:
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._buffer[:nbytes]
        if self.echo:
            self.transport.write(bytes(self._buffer[:nbytes]))
        if self.enough and len(self.got) >= self.enough:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.heard.append("eof")
        return False

    def pause_writing(self) -> None:
        self.heard.append("stop")

    def resume_writing(self) -> None:
        self.heard.append("go")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.heard.append("lost")
        self.lost = exc

    @property
    def is_lost(self) -> bool:
        return "lost" in self.heard


class Server:
    """It is a port, and the inner protocols of its connections."""

    def __init__(self, make: Callable[[], Inner]) -> None:
        self.make = make
        self.inners: list[Inner] = []
        self.port = 0
        self.shaken: list[ssl.SSLObject] = []
        self.refusal: TlsError | None = None

    def protocol(self, context: ssl.SSLContext) -> TlsProtocol:
        self.inners.append(self.make())
        return TlsProtocol(self.inners[-1], context, on_handshake=self.on_handshake)

    def on_handshake(self, ssl_object: ssl.SSLObject) -> None:
        self.shaken.append(ssl_object)
        if self.refusal is not None:
            raise self.refusal

    async def inner(self, number: int = 0) -> Inner:
        await eventually(lambda: len(self.inners) > number and self.inners[number].heard)
        return self.inners[number]

    async def end_of(self, number: int = 0) -> BaseException | None:
        inner = await self.inner(number)
        await eventually(lambda: inner.is_lost)
        return inner.lost


def echoing() -> Inner:
    return Inner(echo=True)


@asynccontextmanager
async def serving(
    context: ssl.SSLContext, make: Callable[[], Inner] = echoing
) -> AsyncIterator[Server]:
    server = Server(make)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: server.protocol(context), HOST, 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for inner in server.inners:
            if "made" in inner.heard:
                inner.transport.abort()
        await eventually(lambda: all(inner.is_lost for inner in server.inners))
        await listening.wait_closed()


@asynccontextmanager
async def connected(
    port: int, context: ssl.SSLContext, inner: Inner | None = None, name: str = "localhost"
) -> AsyncIterator[Inner]:
    mine = inner or Inner()
    loop = asyncio.get_running_loop()
    await loop.create_connection(
        lambda: TlsProtocol(mine, context, server_hostname=name), HOST, port
    )
    try:
        yield mine
    finally:
        mine.transport.abort()
        await eventually(lambda: mine.is_lost)


@asynccontextmanager
async def plain(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class HandPeer:
    """It is a client that speaks TLS by hand."""

    def __init__(
        self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], context: ssl.SSLContext
    ) -> None:
        self.reader, self.writer = streams
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.context = context
        self.step = 1 << 20
        """So many bytes leave at a time."""

    async def shake_hands(self, session: ssl.SSLSession | None = None) -> None:
        self.tls = self.context.wrap_bio(
            self.incoming, self.outgoing, server_hostname="localhost", session=session
        )
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.flush()
                await self.take()
            else:
                await self.flush()
                return

    async def flush(self) -> None:
        data = self.outgoing.read()
        for start in range(0, len(data), self.step):
            self.writer.write(data[start : start + self.step])
            await self.writer.drain()
            await asyncio.sleep(0)

    async def take(self) -> None:
        data = await self.reader.read(1 << 16)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()

    async def write(self, data: bytes) -> None:
        self.tls.write(data)
        await self.flush()

    async def read(self, size: int = 1 << 16) -> bytes:
        """Return some content; nothing after a goodbye.

        :raises ssl.SSLEOFError: the connection ended without one.
        """
        while True:
            try:
                return self.tls.read(size)
            except ssl.SSLWantReadError:
                await self.take()


class Forger(HandPeer):
    """It makes records of TLS 1.3 (AES-256-GCM) with the keys of its own handshake (RFC 8446)."""

    def __init__(
        self,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        context: ssl.SSLContext,
        keys: Path,
    ) -> None:
        super().__init__(streams, context)
        context.keylog_filename = str(keys)
        self._keys = keys

    async def shake_hands(self, session: ssl.SSLSession | None = None) -> None:
        await super().shake_hands(session)
        assert self.tls.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
        for line in self._keys.read_text().splitlines():
            if line.startswith("CLIENT_TRAFFIC_SECRET_0"):
                self._begin(bytes.fromhex(line.split()[2]))

    def _begin(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._cipher = AESGCM(expand(secret, b"key", 32))
        self._iv = int.from_bytes(expand(secret, b"iv", 12))

    def record(self, kind: int, content: bytes) -> bytes:
        nonce = (self._iv ^ self._number).to_bytes(12)
        self._number += 1
        head = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2)
        return head + self._cipher.encrypt(nonce, content + bytes([kind]), head)

    def key_update(self) -> bytes:
        record = self.record(22, b"\x18\x00\x00\x01\x01")
        self._begin(expand(self._secret, b"traffic upd", 48))
        return record


def expand(secret: bytes, label: bytes, length: int) -> bytes:
    info = length.to_bytes(2) + bytes([len(label) + 6]) + b"tls13 " + label + b"\x00"
    return HKDFExpand(SHA384(), length, info).derive(secret)


class TlsStreams:
    """It is a ``StreamHarness`` whose streams are TLS over those of another one."""

    def __init__(self, below: StreamHarness, authority: Authority) -> None:
        self.address = below.address
        self.unhandled = below.unhandled
        self._below = below
        self._server, self._client = authority.server(), authority.client()

    async def serve(
        self, factory: Factory, *, port: int = 0, start_serving: bool = True
    ) -> asyncio.Server:
        """See ``StreamHarness``."""
        return await self._below.serve(
            lambda: TlsProtocol(factory(), self._server), port=port, start_serving=start_serving
        )

    async def connect(self, factory: Factory, port: int) -> asyncio.Transport:
        """See ``StreamHarness``."""
        made: list[TlsProtocol] = []

        def make() -> TlsProtocol:
            made.append(TlsProtocol(factory(), self._client, server_hostname="localhost"))
            return made[-1]

        await self._below.connect(make, port)
        return made[0]
