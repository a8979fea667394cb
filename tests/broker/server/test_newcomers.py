"""Newcomers are bounded at a time and in a second, for each address and for all; and a listener
bounds what they send, and how long they take."""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.server import newcomers as module
from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.metadata import MetadataHandler
from oncelog_broker.server.listener_security import ListenerSecurity
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.newcomers import (
    ADDRESSES_MAX,
    BURST_S,
    GRACE_S,
    ArrivalRates,
    NewcomerLimits,
    Newcomers,
    is_loopback,
)
from oncelog_protocol import limits as wire
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tls_contexts import ServerTls, TlsFiles
from support.certificates import Papers
from support.room_settings import connection_settings
from support.server import HELLO, Canary, Parked, RawPeer, ServerUnderTest, frame, request_head
from support.waiting import eventually

HERE = "127.0.0.1"
A, B = "192.0.2.1", "192.0.2.2"


class Peer:
    def __init__(self, host: str = A) -> None:
        self.peer_host = host


def limits(
    newcomers_max: int = 6, per_ip: int = 3, rate_max: int = 1000, rate_per_ip: int = 50
) -> NewcomerLimits:
    return NewcomerLimits(
        newcomers_max=newcomers_max,
        newcomers_per_ip_max=per_ip,
        rate_max=rate_max,
        rate_per_ip_max=rate_per_ip,
    )


class Crowd:
    """Its newcomers come a second apart."""

    def __init__(self, bounds: NewcomerLimits) -> None:
        self.newcomers = Newcomers[Peer](bounds)
        self.now = 0.0

    def comes(self, host: str = A) -> tuple[Peer, list[Peer]]:
        """Return a new peer of this address, and those that had to go for it."""
        peer = Peer(host)
        self.now += 1.0
        return peer, [each for each, _ in self.newcomers.add(peer, self.now)]


# ------------------------------------------------------------------------------ at a time


def test_of_one_address_the_oldest_goes_first() -> None:
    crowd = Crowd(limits())
    first, second, third = (crowd.comes()[0] for _ in range(3))
    assert crowd.comes()[1] == [first]
    crowd.newcomers.remove(third)  # it has said hello
    assert crowd.comes()[1] == []
    assert crowd.comes()[1] == [second]
    assert len(crowd.newcomers) == 3


def test_of_all_addresses_the_oldest_goes_first() -> None:
    crowd = Crowd(limits(per_ip=4))
    oldest = [crowd.comes(host)[0] for host in (B, A, A, A, B, B)]
    assert [crowd.comes(f"192.0.2.{n}")[1] for n in range(10, 16)] == [[each] for each in oldest]
    assert len(crowd.newcomers) == 6


def test_the_reason_names_the_bound() -> None:
    newcomers = Newcomers[Peer](limits(newcomers_max=3, per_ip=2))
    reasons = []
    for n, host in enumerate((A, A, A, B, B)):
        reasons += [reason.partition(" have")[0] for _, reason in newcomers.add(Peer(host), n)]
    assert reasons == ["2 connections of this host", "3 connections"]


def test_those_who_come_at_once_are_left_until_all_could_be_heard() -> None:
    newcomers = Newcomers[Peer](limits())
    peers = [Peer(host) for host in (A, B) for _ in range(10)]
    assert not any(newcomers.add(peer, 7.0) for peer in peers)
    assert newcomers.crowded_out(7.0 + GRACE_S / 2) == []
    newcomers.remove(peers[0])
    gone = [peer for peer, _ in newcomers.crowded_out(7.0 + 2 * GRACE_S)]
    assert gone == [*peers[1:7], *peers[10:17]]
    assert newcomers.crowded_out(8.0) == []


def test_one_that_is_removed_twice_or_was_crowded_out_is_no_matter() -> None:
    crowd = Crowd(limits(per_ip=1))
    first, _ = crowd.comes()
    second, gone = crowd.comes()
    assert gone == [first]
    for peer in (first, second, second):
        crowd.newcomers.remove(peer)
    assert len(crowd.newcomers) == 0


def test_bounds_may_change_while_it_runs() -> None:
    bounds = limits(newcomers_max=2, per_ip=2, rate_max=1)
    crowd = Crowd(bounds)
    rates = crowd.newcomers
    assert [bool(rates.over_rate(A, 0.0)) for _ in range(5)] == [False] * 4 + [True]
    bounds.rate_max, bounds.newcomers_per_ip_max = 1000, 1
    assert not rates.over_rate(A, 4.1)
    first, _ = crowd.comes()
    assert crowd.comes()[1] == [first]


# -------------------------------------------------------------------------------- in a second


def let_in(rates: ArrivalRates, times: list[float], *, rate: int = 50, key: str = A) -> int:
    return sum(rates.take(key, rate, now) for now in times)


def test_a_burst_and_then_the_rate() -> None:
    rates = ArrivalRates(10)
    assert let_in(rates, [0.0] * 1000) == 50 * BURST_S
    assert let_in(rates, [10 / 50] * 1000) == 10
    assert let_in(rates, [1.2] * 1000) == 50
    assert let_in(rates, [n / 1000 for n in range(2000, 12_000)]) == 50 * 10 + 40


def test_after_a_long_rest_there_is_one_burst_and_not_more() -> None:
    rates = ArrivalRates(10)
    for now in (0.0, 100.0, 1e6):
        assert let_in(rates, [now] * 1000) == 200


@pytest.mark.parametrize("rate", [1, 3, 7, 300, 1_000_000])
def test_a_burst_is_four_seconds_worth(rate: int) -> None:
    assert let_in(ArrivalRates(1), [7.0] * (5 * min(rate, 1000)), rate=rate) == min(4 * rate, 5000)


def test_addresses_are_counted_apart_and_all_together() -> None:
    newcomers = Newcomers[Peer](limits(rate_max=75, rate_per_ip=50))
    assert sum(not newcomers.over_rate(A, 0.0) for _ in range(300)) == 200
    assert "50 connections a second of this host" in newcomers.over_rate(A, 0.0)
    assert sum(not newcomers.over_rate(B, 0.0) for _ in range(300)) == 100
    assert newcomers.over_rate("192.0.2.9", 0.0) == "more than 75 connections a second"


def test_so_many_addresses_are_remembered_and_the_quietest_is_forgotten() -> None:
    rates = ArrivalRates(3)
    for key in ("a", "b", "c"):
        let_in(rates, [0.0] * 200, key=key)
    assert not rates.take("a", 50, 0.0)  # so b was quiet longest
    assert rates.take("d", 50, 0.0)
    assert len(rates) == 3
    assert not rates.take("a", 50, 0.0)
    assert rates.take("b", 50, 0.0)


def test_a_flood_of_addresses_takes_bounded_memory() -> None:
    rates = ArrivalRates(ADDRESSES_MAX)
    for n in range(3 * ADDRESSES_MAX):
        rates.take(f"2001:db8::{n:x}", 50, 0.0)
    assert len(rates) == ADDRESSES_MAX


# --------------------------------------------------------------------------------- loopback


def test_a_loopback_address_has_only_the_bounds_of_the_listener() -> None:
    crowd = Crowd(limits(newcomers_max=6, per_ip=3, rate_max=100, rate_per_ip=1))
    assert sum(not crowd.newcomers.over_rate(HERE, 0.0) for _ in range(500)) == 400
    assert [len(crowd.comes(HERE)[1]) for _ in range(8)] == [0] * 6 + [1] * 2


def test_what_is_loopback() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "192.0.2.1", "::", "::2", "localhost.example", "?", "1.127.0.0"):
        assert not is_loopback(host)


# --------------------------------------------------------------------------- a real listener


def serving(bounds: NewcomerLimits | None = None, **options: Any) -> ServerUnderTest:
    handler = MetadataHandler(MetadataImage("cluster"), AllowAllAuthorizer(), None)
    settings = connection_settings(handshake_s=60.0, sweep_s=0.02, log_interval_s=60.0)
    settings.newcomers = bounds or settings.newcomers
    options.setdefault("limits", settings)
    handlers = {ApiKey.METADATA: handler, ApiKey.FETCH: Parked()}
    return ServerUnderTest(handlers, **options)


async def crowd(server: ServerUnderTest, count: int) -> list[RawPeer]:
    """Return silent peers that the listener has taken in, one after the other."""
    peers = []
    for n in range(count):
        peers.append(await server.peer())
        await eventually(lambda n=n: server.listener.counters.accepted > n)  # type: ignore[misc]
    return peers


async def test_silent_peers_make_room_and_who_has_spoken_stays() -> None:
    async with serving(limits(newcomers_max=3)) as server:
        channel = await server.channel()
        peers = [await server.peer() for _ in range(3)]
        await eventually(lambda: server.listener.newcomer_count() == 3)
        peers.append(await server.peer())
        assert await peers[0].closed_within(5.0)
        assert server.listener.counters.crowded_out == 1
        assert server.listener.newcomer_count() == 3
        for peer in peers[1:]:
            peer.send(HELLO)
            await peer.response()
        assert server.listener.newcomer_count() == 0
        assert len(server.listener.connections) == 4
        async with Canary(channel, MetadataRequest(None)) as canary:
            await canary.still_sings()


async def test_silent_peers_of_one_address_make_room_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "is_loopback", lambda host: False)
    async with serving(limits(newcomers_max=100, per_ip=2)) as server:
        peers = await crowd(server, 3)
        assert await peers[0].closed_within(5.0)
        assert server.listener.newcomer_count() == 2


async def test_who_comes_too_often_is_refused_and_the_others_go_on() -> None:
    async with serving(limits(newcomers_max=100, rate_max=1)) as server:
        channel = await server.channel()
        peers = [await server.peer() for _ in range(30)]
        counters = server.listener.counters
        await eventually(lambda: counters.accepted + counters.throttled == 31)
        assert counters.accepted >= 4
        assert counters.throttled > 0
        assert await peers[-1].closed_within(5.0)
        async with Canary(channel, MetadataRequest(None)) as canary:
            await canary.still_sings()


async def test_brokers_are_not_held_back_by_what_holds_clients_back() -> None:
    async with serving(limits(newcomers_max=1, rate_max=1), internal=True) as server:
        peers = await crowd(server, 20)
        for peer in peers:
            peer.send(HELLO)
            await peer.response()
        counters = server.listener.counters
        assert (counters.throttled, counters.crowded_out) == (0, 0)


@pytest.mark.cve("2022-34917")
async def test_before_the_greeting_a_frame_is_small_and_its_claim_takes_no_memory() -> None:
    async with serving() as server:
        peer = await server.peer()
        peer.send(struct.pack(">II", wire.FRAME_BYTES_MAX_UNAUTHENTICATED - 4, 100) + b"x")
        await eventually(lambda: any(c.machine.partial for c in server.listener.connections))
        (channel,) = server.listener.connections
        assert channel.machine.buffer_bytes == 4096
        other = await server.peer()
        other.send(struct.pack(">I", wire.FRAME_BYTES_MAX_UNAUTHENTICATED - 3))
        assert await other.closed_within(5.0)
        assert not await peer.closed_within(0.05)


async def test_behind_the_greeting_a_frame_may_be_large() -> None:
    async with serving() as server:
        peer = await server.peer()
        names = [f"{n:0100d}" for n in range(1000)]
        peer.send(HELLO + frame(request_head(ApiKey.METADATA, [names, False], correlation_id=1)))
        assert [(await peer.response())[0] for _ in range(2)] == [0, 1]


# ------------------------------------------------------------------------- one deadline, with TLS


def with_tls(directory: Path, **options: Any) -> tuple[ServerUnderTest, Papers]:
    papers = Papers(directory)
    certificate, key = papers.issue("broker")
    files = TlsFiles(min_version="1.2", certificate_file=certificate, key_file=key)
    security = ListenerSecurity(ServerTls(files, "none", SystemWallClock()))
    return serving(security=security, **options), papers


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="broker").do_handshake()
    return outgoing.read()


async def _nothing(peer: RawPeer) -> None:
    """Say nothing."""


async def _half_a_hello(peer: RawPeer) -> None:
    peer.send(client_hello()[:100])


async def _byte_by_byte(peer: RawPeer) -> None:
    for byte in client_hello():
        if peer.writer.is_closing():
            return
        peer.send(bytes([byte]))
        await asyncio.sleep(0.03)


async def _a_hello_alone(peer: RawPeer) -> None:
    peer.send(client_hello())


@pytest.mark.parametrize("behave", [_nothing, _half_a_hello, _byte_by_byte, _a_hello_alone])
@pytest.mark.hostile(1, 2)
async def test_one_deadline_holds_from_accept_over_tls(
    tmp_path: Path, behave: Callable[[RawPeer], Any]
) -> None:
    bounds = connection_settings(handshake_s=0.4, sweep_s=0.02)
    server, papers = with_tls(tmp_path, limits=bounds)
    async with server:
        host, port = server.address
        machine = ClientConnection("test")
        channel = await papers.dialer().open(host, port, machine, connect_timeout_s=5)
        async with Canary(channel, MetadataRequest(None)) as canary:
            peer = await server.peer()
            task = asyncio.create_task(behave(peer))
            assert await peer.closed_within(3.0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert server.listener.counters.broken == 1
            assert server.listener.newcomer_count() == 0
            await canary.still_sings()


async def test_who_agrees_on_tls_and_then_says_nothing_has_the_same_deadline(
    tmp_path: Path,
) -> None:
    bounds = connection_settings(handshake_s=0.4, sweep_s=0.02)
    server, papers = with_tls(tmp_path, limits=bounds)
    async with server:
        context = ssl.create_default_context(cafile=papers.ca_file)
        peer = RawPeer(*await asyncio.open_connection(*server.address, ssl=context))
        assert server.listener.newcomer_count() == 1
        assert await peer.closed_within(3.0)
        assert server.listener.counters.broken == 1
        await peer.close()


async def test_handshakes_under_way_are_newcomers(tmp_path: Path) -> None:
    settings = connection_settings(sweep_s=0.02, newcomers=limits(newcomers_max=2))
    server, _ = with_tls(tmp_path, limits=settings)
    async with server:
        peers = await crowd(server, 2)
        for peer in peers:
            peer.send(client_hello()[:100])
        await server.peer()
        assert await peers[0].closed_within(5.0)
        assert server.listener.newcomer_count() == 2


async def test_of_many_who_speak_at_once_nobody_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard loop accepts all of them before it reads from the first one."""
    monkeypatch.setattr(module, "GRACE_S", 60.0)
    async with serving(limits(newcomers_max=10)) as server:

        async def says_hello() -> None:
            peer = await server.peer()
            peer.send(HELLO)
            await peer.response()

        await asyncio.gather(*(says_hello() for _ in range(100)))
        assert server.listener.counters.crowded_out == 0


@pytest.mark.hostile(13)
async def test_the_end_without_goodbye_inside_a_frame_is_a_broken_connection(
    tmp_path: Path,
) -> None:
    server, papers = with_tls(tmp_path)
    async with server:
        context = ssl.create_default_context(cafile=papers.ca_file)
        reader, writer = await asyncio.open_connection(*server.address, ssl=context)
        peer = RawPeer(reader, writer)
        peer.send(HELLO)
        await peer.response()
        peer.send(frame(request_head(ApiKey.FETCH, []))[:-1])
        await eventually(lambda: any(c.machine.partial for c in server.listener.connections))
        await peer.close()
        await eventually(lambda: not server.listener.connections)
        stats = server.dispatcher.stats.of(ApiKey.FETCH)
        assert stats.started == 0


# --------------------------------------------------------------------- who speaks something else

FOREIGN = {
    "a TLS ClientHello": (False, client_hello()),
    "a TLS ClientHello, in pieces": (False, client_hello()[:4]),
    "HTTP": (False, b"GET / HTTP/1.1\r\n\r\n"),
    "HTTP, in pieces": (False, b"POST"),
    "a plain frame": (True, HELLO),
    "HTTP, where TLS is spoken": (True, b"GET / HTTP/1.1\r\n\r\n"),
}


@pytest.mark.parametrize("case", FOREIGN)
@pytest.mark.hostile(3)
async def test_what_is_spoken_instead_is_said_once(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls, data = FOREIGN[case]
    server = with_tls(tmp_path)[0] if tls else serving()
    with caplog.at_level(logging.WARNING, logger="oncelog_broker.server.listener"):
        async with server:
            for _ in range(3):
                peer = await server.peer()
                peer.send(data)
                assert await peer.closed_within(5.0)
            counters = server.listener.counters
            await eventually(lambda: counters.foreign == 3)
            assert counters.broken == 3
    (line,) = (r.getMessage() for r in caplog.records if r.name.endswith("server.listener"))
    assert f"{case.partition(',')[0]} came instead of" in line


async def test_rubbish_is_nothing_that_has_a_name() -> None:
    async with serving() as server:
        for data in (b"\xff" * 20, b"EHLO example.org\r\n", struct.pack(">II", 0, 0)):
            peer = await server.peer()
            peer.send(data)
            assert await peer.closed_within(5.0)
        assert (server.listener.counters.broken, server.listener.counters.foreign) == (3, 0)
