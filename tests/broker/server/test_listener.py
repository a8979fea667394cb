"""The listener gets bad input, beside a canary that goes on working.

Each case is a row: its name, what is sent, and what becomes of the connection.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgpack
import pytest
import pytest_asyncio

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.metadata import MetadataHandler
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.quotas import READ_BYTES_MIN, SMALL_BYTES, PoolMember
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol import limits as wire
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import RebootstrapRequiredError, UnsupportedVersionError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.produce import ProduceResponse
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.schema import Span
from oncelog_runtime.channel import RequestChannel
from support.room_settings import connection_settings
from support.server import HELLO, Canary, Parked, RawPeer, ServerUnderTest, frame, request_head
from support.waiting import eventually

LIMITS = connection_settings(
    handshake_s=0.4,
    frame_s=0.4,
    stall_s=0.4,
    sweep_s=0.02,
    unsent_bytes_max=256 * 1024,
    log_interval_s=60.0,
)
METADATA = ApiKey.METADATA
TLS_HELLO = bytes.fromhex("16030102000100") + b"\x01\xfc\x03\x03" + b"\x5a" * 60
PREFIX = struct.Struct(">II")


def serving(**options: Any) -> ServerUnderTest:
    handler = MetadataHandler(MetadataImage("cluster"), AllowAllAuthorizer(), None)
    options.setdefault("limits", LIMITS)
    return ServerUnderTest({METADATA: handler, ApiKey.FETCH: Parked()}, **options)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ServerUnderTest]:
    async with serving() as running:
        yield running


def metadata(body: Any, **head: Any) -> bytes:
    return frame(request_head(METADATA, body, **head))


def produce(payload: bytes, *spans: tuple[int, int]) -> bytes:
    """Return a Produce whose batches lie at ``spans`` of the payload, or fill it."""
    partitions = [[i, list(span)] for i, span in enumerate(spans or [(0, len(payload))])]
    return frame(request_head(ApiKey.PRODUCE, [None, -1, 1000, [["t", partitions]]]), payload)


def raw_head(packed: bytes) -> bytes:
    """Return a frame whose head is these bytes."""
    return frame(packed)


def nested(depth: int, opening: bytes) -> bytes:
    return opening * depth + b"\xc0"


_WELL = msgpack.packb(request_head(METADATA, [["a-topic"], False]))

CLOSED: list[tuple[str, bytes]] = [
    ("length 0", PREFIX.pack(0, 0)),
    ("length 2^31", PREFIX.pack(2**31, 10)),
    ("length negative", PREFIX.pack(2**32 - 1, 10)),
    ("length max+1", PREFIX.pack(wire.FRAME_BYTES_MAX + 1, 10)),
    ("length smaller than the head", PREFIX.pack(8, 100) + b"x" * 100),
    ("head of no bytes", PREFIX.pack(4, 0)),
    ("head above its limit", PREFIX.pack(wire.FRAME_BYTES_MAX // 2, wire.HEAD_BYTES_MAX + 1)),
    ("TLS ClientHello", TLS_HELLO),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("SMTP", b"EHLO example.org\r\n"),
    ("random bytes", bytes((i * 197 + 31) % 256 for i in range(512))),
    ("two values in one head", raw_head(_WELL + b"\xc0")),
    ("client id of 64 KiB", metadata([None, False], client_id="x" * 65536)),
    ("client id with NUL", metadata([None, False], client_id="a\0b")),
    ("client id not UTF-8", raw_head(_WELL.replace(b"\xa3raw", b"\xa3\xff\xfe\xfd"))),
    ("client id is no text", metadata([None, False], client_id=7)),
    ("arrays 10^5 deep", raw_head(nested(100_000, b"\x91"))),
    ("maps 10^5 deep", raw_head(nested(100_000, b"\x81\xa1k"))),
    ("array32 of 2^32-1", raw_head(b"\xdd\xff\xff\xff\xff" + b"\xc0" * 15)),
    ("map32 of 2^32-1", raw_head(b"\xdf\xff\xff\xff\xff" + b"\xc0" * 15)),
    ("array32 of 2^32-1 inside", raw_head(b"\x95\x03\x00\x00\xa1r\xdd\xff\xff\xff\xff")),
    ("str longer than the head", raw_head(b"\xdb\xff\xff\xff\xffabc")),
    ("bin longer than the head", raw_head(b"\xc6\x7f\xff\xff\xffabc")),
    ("map with duplicate keys", raw_head(b"\x82\xa1a\x01\xa1a\x02")),
    ("map as body", metadata({"topics": None})),
    ("unknown ext type", raw_head(b"\xd4\x05\x00")),
    ("timestamp out of range", raw_head(b"\xc7\x0c\xff" + b"\xff" * 12)),
    ("ext of 2^31 bytes", raw_head(b"\xc9\x80\x00\x00\x00\x05abc")),
    ("text not UTF-8", raw_head(_WELL.replace(b"a-topic", b"\xff-topic"))),
    ("NaN for an integer", frame([METADATA, 0, float("nan"), "c", [None, False]])),
    ("float for an integer", frame([METADATA, 0.0, 1, "c", [None, False]])),
    ("bool for an integer", frame([METADATA, False, 1, "c", [None, False]])),
    ("integer for a bool", metadata([None, 0])),
    ("uint64 for an int32", metadata([None, False], correlation_id=2**64 - 1)),
    ("nil for a required field", metadata([None, None])),
    ("a field missing", metadata([None])),
    ("a field too many", metadata([None, False, 1])),
    ("head too short", frame([METADATA, 0, 1])),
    ("reserved byte", raw_head(b"\x95\x03\x00\x00\xa1r\xc1")),
    ("lone surrogate", raw_head(_WELL.replace(b"a-topic", b"\xed\xa0\x80topi"))),
    ("head is no array", raw_head(b"\x07")),
    (
        "payload where none belongs, then rubbish",
        metadata([[], False]) + b"\xff" * 9,
    ),
    ("payload where none belongs", frame(request_head(METADATA, [[], False]), b"\xff" * 9)),
    ("a length that swallows the next", frame(_WELL, frame(_WELL))),
    ("bytes before a batch", produce(b"xxbatch", (2, 5))),
    ("bytes behind a batch", produce(b"batchxx", (0, 5))),
    ("bytes between batches", produce(b"batchxxbatch", (0, 5), (7, 5))),
]


@pytest.mark.parametrize(("name", "data"), CLOSED, ids=[c[0] for c in CLOSED])
@pytest.mark.parametrize("greeted", [False, True], ids=["first", "later"])
async def test_broken_input_closes_its_connection_only(
    server: ServerUnderTest, name: str, data: bytes, greeted: bool
) -> None:
    """It comes as the first thing said, and after a handshake."""
    async with Canary(await server.channel(), MetadataRequest(None)) as canary:
        peer = await server.peer(hello=greeted)
        peer.send(data)
        assert await peer.closed_within(1.0)
        await canary.still_sings()
        assert server.listener.counters.broken == 1
        await peer.close()


async def test_a_message_cut_at_every_byte(server: ServerUnderTest) -> None:
    """A head that ends too early is refused wherever it ends."""
    async with Canary(await server.channel(), MetadataRequest(None)) as canary:
        for cut in range(1, len(_WELL)):
            peer = await server.peer(hello=True)
            peer.send(raw_head(_WELL[:cut]))
            assert await peer.closed_within(1.0), cut
            await peer.close()
        await canary.still_sings()


async def test_longer_spellings_of_small_numbers_are_accepted(server: ServerUnderTest) -> None:
    """Consistently: every integer may be spelled longer than needed."""
    peer = await server.peer(hello=True)
    head = b"\x95\xcf" + struct.pack(">Q", METADATA) + b"\xd3" + bytes(8) + b"\xcd\x00\x2a\xa1r"
    peer.send(raw_head(head + msgpack.packb([[], False])))
    assert (await peer.response())[0] == 42
    await peer.close()


UNSUPPORTED = [
    ("unknown API", 999, 0),
    ("negative API", -7, 0),
    ("version too high", METADATA, 99),
    ("version too low", METADATA, -1),
]


@pytest.mark.parametrize(("name", "api_key", "version"), UNSUPPORTED)
async def test_what_is_not_spoken_is_answered_with_what_is(
    server: ServerUnderTest, name: str, api_key: int, version: int
) -> None:
    peer = await server.peer(hello=True)
    peer.send(frame(request_head(api_key, [None, False], version=version, correlation_id=3)))
    correlation_id, (code, apis), _ = await peer.response()
    assert (correlation_id, code) == (3, UnsupportedVersionError.code)
    assert [a[0] for a in apis] == sorted(REQUESTS)
    assert await peer.closed_within(1.0)
    await peer.close()


async def test_a_version_of_the_handshake_from_the_future(server: ServerUnderTest) -> None:
    peer = await server.peer()
    peer.send(frame(request_head(ApiKey.API_VERSIONS, ["x", "y", "z"], version=9)))
    _, (code, apis), _ = await peer.response()
    assert code == UnsupportedVersionError.code
    assert apis
    assert await peer.closed_within(1.0)
    await peer.close()


HERE = Identity("cluster", 2)


async def test_who_meant_another_broker_gets_one_answer_and_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(identity=HERE, internal=True) as server:
        meant = Identity("other", 2)
        for _ in range(3):
            machine = ClientConnection("broker-5", meant=meant, own_broker_id=5)
            with pytest.raises(RebootstrapRequiredError, match="expected broker 2 of cluster 'oth"):
                await RequestChannel.open(*server.address, machine)
        peer = await server.peer()
        hello = ["test", "1", "cluster", 7, -1]
        metadata = frame(request_head(METADATA, [None, False], correlation_id=1))
        peer.send(frame(request_head(ApiKey.API_VERSIONS, hello, version=1)) + metadata)
        _, (code, _, cluster_id, broker_id), _ = await peer.response()
        assert (code, cluster_id, broker_id) == (RebootstrapRequiredError.code, "cluster", 2)
        assert await peer.closed_within(1.0), "and what was sent behind it is not served"
        assert server.listener.counters.misled == 4
        assert server.dispatcher.stats.of(METADATA).started == 0
    lines = [r.getMessage() for r in caplog.records if "expected" in r.getMessage()]
    assert len(lines) == 1
    assert "expected broker 2 of cluster 'other', found broker 2 of clus" in lines[0]


async def test_between_brokers_version_0_is_refused_and_clients_may_use_it() -> None:
    hello = frame(request_head(ApiKey.API_VERSIONS, ["test", "1"]))
    async with serving(identity=HERE) as server:
        peer = await server.peer()
        peer.send(hello)
        _, (code, apis), _ = await peer.response()
        assert (code, len(apis)) == (0, len(REQUESTS))
    async with serving(identity=HERE, internal=True) as server:
        peer = await server.peer()
        peer.send(hello)
        _, (code, apis), _ = await peer.response()
        assert (code, len(apis)) == (UnsupportedVersionError.code, len(REQUESTS))
        assert await peer.closed_within(1.0)


async def _nothing(peer: RawPeer) -> None:
    """Say nothing."""


async def _one_byte_of_much(peer: RawPeer) -> None:
    """Claim the largest frame, which is legal, and send one byte of it."""
    peer.send(PREFIX.pack(wire.FRAME_BYTES_MAX - 4, 100) + b"x")


async def _slowly(peer: RawPeer) -> None:
    """Send one byte after the other."""
    for byte in HELLO[:-1] * 20:
        if peer.writer.is_closing():
            return
        peer.send(bytes([byte]))
        await asyncio.sleep(0.03)


@pytest.mark.parametrize("behave", [_nothing, _one_byte_of_much, _slowly])
async def test_who_never_completes_a_request_is_closed_in_time(
    server: ServerUnderTest, behave: Callable[[RawPeer], Any]
) -> None:
    async with Canary(await server.channel(), MetadataRequest(None)) as canary:
        peer = await server.peer()
        task = asyncio.create_task(behave(peer))
        assert await peer.closed_within(2.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await canary.still_sings()
        await peer.close()


@pytest.mark.cve("2022-34917")
async def test_a_claim_takes_no_memory_and_its_deadline_holds_after_the_handshake(
    server: ServerUnderTest,
) -> None:
    peer = await server.peer(hello=True)
    (channel,) = server.listener.connections
    peer.send(PREFIX.pack(wire.FRAME_BYTES_MAX - 4, 100) + b"x")
    await eventually(lambda: channel.held_bytes())
    assert channel.machine.buffer_bytes <= 128 * 1024
    assert await peer.closed_within(2.0)
    await peer.close()


async def test_many_small_requests_whose_answers_nobody_reads(server: ServerUnderTest) -> None:
    """The bounds say how much is held; then the peer that takes nothing is closed."""
    async with Canary(await server.channel(), MetadataRequest(None)) as canary:
        peer = await server.peer(hello=True)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        many = b"".join(
            metadata([[f"unknown-{n}-" + "x" * 200], False], correlation_id=n)
            for n in range(10_000)
        )
        for _ in range(4):
            peer.send(many)
        await eventually(
            lambda: server.listener.counters.broken == 1, timeout_s=10, what="closing the peer"
        )
        await canary.still_sings()
        await eventually(lambda: len(server.listener.connections) == 1)
        await peer.close()


async def test_a_reset_in_the_middle_of_an_answer(server: ServerUnderTest) -> None:
    async with Canary(await server.channel(), MetadataRequest(None)) as canary:
        for _ in range(20):
            peer = await server.peer(hello=True)
            peer.send(metadata([["x" * 200], False]) * 50)
            await peer.response()
            sock = peer.writer.get_extra_info("socket")
            sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: close sends RST
            peer.writer.transport.abort()
        await canary.still_sings()
        await eventually(lambda: len(server.listener.connections) == 1)


async def test_broken_input_is_logged_once_a_host_and_interval(
    server: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="oncelog_broker.server.listener"):
        for _ in range(30):
            peer = await server.peer()
            peer.send(b"GET / HTTP/1.1\r\n\r\n")
            assert await peer.closed_within(1.0)
            await peer.close()
    assert server.listener.counters.broken == 30
    lines = [r for r in caplog.records if r.name == "oncelog_broker.server.listener"]
    assert len(lines) == 1
    assert "\n" not in lines[0].getMessage()


async def test_connections_are_bounded_in_all_and_per_host() -> None:
    limits = connection_settings(connections_max=4, connections_per_ip_max=3, sweep_s=0.02)
    async with serving(limits=limits) as server:
        peers = [await server.peer(hello=True) for _ in range(3)]
        refused = await server.peer()
        assert await refused.closed_within(1.0)
        assert server.listener.counters.refused == 1
        await peers[0].close()
        await eventually(lambda: len(server.listener.connections) == 2)
        again = await server.peer(hello=True)
        for peer in (*peers, again, refused):
            await peer.close()


class Taken:
    """It acknowledges every Produce at once."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        respond(ProduceResponse())


class Bulky:
    """It answers every Fetch at once with 64 KiB."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        partition = FetchPartitionResponse(0, records=Span(0, 65536))
        respond(FetchResponse(0, [FetchTopicResponse("t", [partition])]), [bytes(65536)])


async def test_slow_readers_do_not_slow_others_down() -> None:
    """Lines 13 and 109: many peers ask for megabytes and read nothing. Each holds what the bound
    says, all are closed in time, the canary goes on."""
    handler = MetadataHandler(MetadataImage("cluster"), AllowAllAuthorizer(), None)
    handlers = {METADATA: handler, ApiKey.FETCH: Bulky()}
    fetches = frame(request_head(ApiKey.FETCH, [-1, -1, 0, 0, 65536, 0, -1, [], []])) * 400
    async with ServerUnderTest(handlers, limits=LIMITS) as server:
        client = await server.channel()
        async with Canary(client, MetadataRequest(None)) as canary:
            for _ in range(25):
                peer = await server.peer(hello=True)
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
                peer.send(fetches)
            worst = 0

            def all_closed() -> bool:
                nonlocal worst
                worst = max(worst, *(c.held_bytes() for c in server.listener.connections))
                return len(server.listener.connections) == 1

            await canary.still_sings()
            await eventually(all_closed, timeout_s=20)
            assert server.listener.counters.broken == 25
            assert 0 < worst <= LIMITS.unsent_bytes_max + 2 * 65536 + 256 * 1024
            await canary.still_sings()


async def test_many_that_read_when_the_pool_gets_full_do_not_overrun_it() -> None:
    """Each had room when it was told to go on, and all have much to read by then."""
    size = 1024 * 1024
    pool_bytes, kept = 4 * 1024 * 1024, 100 * 1024
    async with ServerUnderTest({ApiKey.PRODUCE: Taken()}, pool_bytes=pool_bytes) as server:
        worst, update = 0, server.pool.update

        def noting(member: PoolMember, held: int) -> None:
            nonlocal worst
            update(member, held)
            worst = max(worst, server.pool.used)

        server.pool.update = noting  # type: ignore[method-assign]
        peers = [await server.peer(hello=True) for _ in range(pool_bytes // kept)]
        whole = produce(bytes(size))
        for peer in peers:
            peer.send(whole[:kept])
        await eventually(lambda: server.pool.used == len(peers) * kept)
        for peer in peers:
            peer.send(whole[kept:])
        for peer in peers:
            await peer.response(timeout_s=60)
        assert pool_bytes < worst <= pool_bytes + size + len(peers) * READ_BYTES_MIN
        await eventually(lambda: server.pool.used == 0)
        for peer in peers:
            await peer.close()


async def test_frames_of_all_connections_together_are_bounded() -> None:
    """Peers each send a large part of a frame: the pool makes them wait in line, the canary is
    served, and the frames get through one after the other."""
    handler = MetadataHandler(MetadataImage("cluster"), AllowAllAuthorizer(), None)
    size = 2 * 1024 * 1024
    pool_bytes = 4 * 1024 * 1024
    async with (
        ServerUnderTest(
            {METADATA: handler, ApiKey.PRODUCE: Taken()},
            limits=connection_settings(sweep_s=0.02),
            pool_bytes=pool_bytes,
        ) as server,
        Canary(await server.channel(), MetadataRequest(None)) as canary,
    ):
        peers = [await server.peer(hello=True) for _ in range(12)]
        whole = produce(bytes(size))
        for peer in peers:
            peer.send(whole[: size - 1000])
        await eventually(lambda: server.pool.exhausted_count > 0)
        worst = 0
        for peer in peers:
            peer.send(whole[size - 1000 :])
        answered = 0
        for peer in peers:
            await peer.response(timeout_s=20)
            answered += 1
            worst = max(worst, server.pool.used)
        assert answered == 12
        assert worst <= pool_bytes + size + len(peers) * (SMALL_BYTES + READ_BYTES_MIN)
        await eventually(lambda: server.pool.used == 0)
        assert canary.error is None
        for peer in peers:
            await peer.close()


async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    parked = Parked()
    limits = connection_settings(idle_s=0.3, sweep_s=0.02)
    async with ServerUnderTest({METADATA: parked}, limits=limits) as server:
        idle = await server.peer(hello=True)
        waiting = await server.peer(hello=True)
        waiting.send(metadata([None, False]))
        assert await idle.closed_within(2.0)
        assert server.listener.counters.idle_closed == 1
        assert len(server.listener.connections) == 1
        await idle.close()
        await waiting.close()


FD_PROGRAM = """
import asyncio, resource, socket, sys
sys.path[:0] = {path!r}
from support.room_settings import connection_settings
from support.server import ServerUnderTest, RawPeer, HELLO

async def main():
    async with ServerUnderTest(limits=connection_settings(sweep_s=0.05)) as server:
        first = await server.peer(hello=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        socks = []
        try:
            while True:
                sock = socket.socket()
                sock.setblocking(False)
                socks.append(sock)
                try:
                    sock.connect(server.address)
                except BlockingIOError:
                    pass
        except OSError:
            pass
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(10):
            first.send(HELLO)
            await first.response()
            await asyncio.sleep(0.05)
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for sock in socks:
            sock.close()
        fresh = await server.peer(hello=True)
        print("CPU", round(spent, 3), flush=True)
        await fresh.close()
        await first.close()

loop = {loop}
loop.set_exception_handler(lambda loop, context: None)
loop.run_until_complete(asyncio.wait_for(main(), 20))
"""


@pytest.mark.parametrize(
    "loop", ["asyncio.new_event_loop()", "__import__('uvloop').new_event_loop()"]
)
@pytest.mark.slow
def test_without_file_descriptors_others_are_served_and_nothing_spins(loop: str) -> None:
    program = FD_PROGRAM.format(path=sys.path, loop=loop)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    cpu = float(done.stdout.split("CPU")[1])
    assert cpu < 0.25, "ten answers in half a second took a busy loop"
