"""Peers that know TLS well use it against the layer (``tls.py``): floods, forgeries, resumption."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from oncelog_runtime.tls import (
    BARREN_BYTES_MAX,
    RECEIVE_BYTES_MAX,
    SMALL_RECORDS_MAX,
    TlsError,
    TlsProtocol,
)
from support.certificates import Authority
from support.tls_harness import Forger, HandPeer, Inner, connected, plain, serving
from support.waiting import eventually


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_a_few_new_keys_are_taken(authority: Authority, tmp_path: Path) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = Forger(streams, authority.client(), tmp_path / "keys")
        await peer.shake_hands()
        for _ in range(20):
            peer.writer.write(peer.key_update())
        peer.writer.write(peer.record(23, b"content"))
        await eventually(lambda: server.inners[0].got == b"content")


@pytest.mark.parametrize("between", [b"", b"c"])
@pytest.mark.hostile(11)
async def test_a_flood_of_new_keys(authority: Authority, tmp_path: Path, between: bytes) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = Forger(streams, authority.client(), tmp_path / "keys")
        await peer.shake_hands()
        sent = 0
        while not (server.inners and server.inners[0].is_lost):
            records = [peer.key_update() for _ in range(100)]
            if between:
                records.append(peer.record(23, between))
            flood = b"".join(records)
            peer.writer.write(flood)
            sent += len(flood)
            assert sent < BARREN_BYTES_MAX + RECEIVE_BYTES_MAX + (4 << 20)
            await asyncio.sleep(0)
        assert "flood of records without content" in str(await server.end_of())


class Wire(asyncio.Transport):
    """It is a socket in the test's hand: what its peer writes has arrived at once, and is read in
    the loop's next turns, as much in each as the layer has room for."""

    def __init__(self, layer: TlsProtocol) -> None:
        super().__init__()
        self.layer = layer
        self.answers = asyncio.StreamReader()
        self.turn = 0
        self.answered: Counter[int] = Counter()
        """It has the bytes that the layer has written in each turn of the loop."""
        self.is_read = True
        self.is_closed = False
        self._arrived = b""

    async def turns(self) -> None:
        """Read what has arrived, turn by turn."""
        while not self.is_closed:
            self.turn += 1
            if self._arrived and self.is_read:
                view = self.layer.get_buffer(-1)
                size = min(len(view), len(self._arrived))
                view[:size], self._arrived = self._arrived[:size], self._arrived[size:]
                self.layer.buffer_updated(size)
            await asyncio.sleep(0)

    def arrive(self, data: bytes) -> None:
        self._arrived += data

    def write(self, data: Any) -> None:
        self.answered[self.turn] += len(data)
        self.answers.feed_data(bytes(data))

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.layer.connection_lost, None)

    def abort(self) -> None:
        self.close()


class Hand:
    """It writes to a wire for a peer."""

    def __init__(self, wire: Wire) -> None:
        self.write = wire.arrive

    async def drain(self) -> None:
        pass


@pytest.mark.parametrize("between", [b"", b"c"])
@pytest.mark.hostile(11)
async def test_new_keys_do_not_hold_the_loop(
    authority: Authority, tmp_path: Path, between: bytes
) -> None:
    """To make keys takes OpenSSL 25 us, and a quarter of a mebibyte has ten thousand new ones."""
    inner = Inner()
    wire = Wire(TlsProtocol(inner, authority.server()))
    wire.layer.connection_made(wire)
    reading = asyncio.create_task(wire.turns())
    peer = Forger((wire.answers, cast(Any, Hand(wire))), authority.client(), tmp_path / "keys")
    await peer.shake_hands()
    content = bytes(RECEIVE_BYTES_MAX)
    for start in range(0, len(content), 1 << 14):  # the buffer grows by large records
        wire.arrive(peer.record(23, content[start : start + (1 << 14)]))
    await eventually(lambda: inner.got == content)
    updates = (RECEIVE_BYTES_MAX // 27) // (1 + len(between))
    wire.answered.clear()
    for _ in range(updates):
        wire.arrive(peer.key_update() + (peer.record(23, between) if between else b""))
    if between:
        await eventually(lambda: len(inner.got) == len(content) + updates)
        assert sum(wire.answered.values()) >= 27 * (updates - 1), "the last may wait"
    else:
        await eventually(lambda: inner.is_lost)
        assert "flood of records without content" in str(inner.lost)
    assert max(wire.answered.values()) <= 2 * 27 * SMALL_RECORDS_MAX, "a slice, and the next"
    wire.abort()
    await reading


@pytest.mark.hostile(11)
async def test_empty_records(authority: Authority, tmp_path: Path) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = Forger(streams, authority.client(), tmp_path / "keys")
        await peer.shake_hands()
        peer.writer.write(b"".join(peer.record(23, b"") for _ in range(100)))
        assert isinstance(await server.end_of(), TlsError)


async def test_a_record_that_was_changed(authority: Authority, tmp_path: Path) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = Forger(streams, authority.client(), tmp_path / "keys")
        await peer.shake_hands()
        record = bytearray(peer.record(23, b"content"))
        record[7] ^= 1
        peer.writer.write(peer.record(23, b"") + record)
        assert isinstance(await server.end_of(), TlsError)
        assert server.inners[0].got == b""


async def test_records_of_one_byte_are_no_flood(authority: Authority) -> None:
    async with serving(authority.server(), Inner) as server, plain(server.port) as streams:
        peer = HandPeer(streams, authority.client())
        await peer.shake_hands()
        for _ in range(20_000):
            peer.tls.write(b"1")
        await peer.flush()
        await eventually(lambda: len(server.inners[0].got) == 20_000)


async def test_a_session_is_not_resumed(authority: Authority) -> None:
    context = authority.client()
    async with serving(authority.server(version=ssl.TLSVersion.TLSv1_2)) as server:
        async with plain(server.port) as streams:
            first = HandPeer(streams, context)
            await first.shake_hands()
            session = first.tls.session
        async with plain(server.port) as streams:
            again = HandPeer(streams, context)
            await again.shake_hands(session)
            assert again.tls.session_reused
            assert "resumed a session" in str(await server.end_of(1))
        server.shaken.clear()  # what is still held is not forgotten
        async with plain(server.port) as streams:
            anew = HandPeer(streams, context)
            await anew.shake_hands(session)
            assert not anew.tls.session_reused
            await anew.write(b"hello")
            assert await anew.read() == b"hello"


@pytest.mark.hostile(10)
async def test_a_long_chain_is_not_read_to_its_end(authority: Authority, tmp_path: Path) -> None:
    context = authority.client()
    leaf = authority.issue("app.test")
    pem = leaf.cert_chain_pems[0].bytes()
    chain = tmp_path / "chain.pem"
    chain.write_bytes(leaf.private_key_pem.bytes() + pem * 140)
    context.load_cert_chain(chain)
    async with (
        serving(authority.server(trusting=True)) as server,
        connected(server.port, context) as client,
    ):
        error = await server.end_of()
        assert "send a shorter chain" in str(error)
        await eventually(lambda: client.is_lost)
