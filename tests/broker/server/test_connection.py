"""One connection keeps answers in order, holds back, closes half, and leaves some work running."""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import Any

import pytest

from oncelog_broker.server import listener
from oncelog_broker.server.connection import ServerChannel
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataResponse
from oncelog_protocol.messages.produce import ProduceRequest, ProduceResponse
from oncelog_protocol.schema import Span
from support.room_settings import connection_settings
from support.server import Parked, ServerUnderTest, frame, request_head
from support.waiting import eventually
from unsafe.quotas import DropsOverQuota

METADATA = [None, False]
FETCH_BODY = [-1, -1, 500, 1, 1024, 0, -1, [], []]


def metadata_frame(correlation_id: int) -> bytes:
    return frame(request_head(ApiKey.METADATA, METADATA, correlation_id=correlation_id))


def fetch_frame(correlation_id: int) -> bytes:
    return frame(request_head(ApiKey.FETCH, FETCH_BODY, correlation_id=correlation_id))


def bulk(size: int) -> tuple[FetchResponse, list[bytes]]:
    partition = FetchPartitionResponse(0, records=Span(0, size))
    return FetchResponse(0, [FetchTopicResponse("t", [partition])]), [bytes(size)]


def more_than(parked: Parked, count: int) -> bool:
    return len(parked.requests) > count


class Bulky:
    """It answers every Fetch at once with this many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        self.count += 1
        respond(*bulk(self.size))


async def test_answers_leave_in_the_order_of_requests() -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.METADATA: parked}) as server:
        peer = await server.peer(hello=True)
        for n in range(1, 4):
            peer.send(metadata_frame(n))
        await eventually(lambda: len(parked.requests) == 3)
        for n in (2, 1, 0):
            parked.requests[n][3](MetadataResponse(f"answer {n + 1}", -1))
        answers = [await peer.response() for _ in range(3)]
        assert [(a[0], a[1][0]) for a in answers] == [
            (1, "answer 1"),
            (2, "answer 2"),
            (3, "answer 3"),
        ]
        await peer.close()


async def test_a_request_without_response_does_not_hold_up_the_next() -> None:
    class Silent:
        def handle(
            self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
        ) -> None:
            respond(None)

    parked = Parked()
    async with ServerUnderTest({ApiKey.PRODUCE: Silent(), ApiKey.METADATA: parked}) as server:
        channel = await server.channel()
        channel.send_oneway(ProduceRequest(None, 0, 1000, []))
        peer = await server.peer(hello=True)
        peer.send(frame(request_head(ApiKey.PRODUCE, [None, 0, 1000, []])) + metadata_frame(7))
        await eventually(lambda: parked.requests)
        parked.requests[0][3](MetadataResponse("c", -1))
        assert (await peer.response())[0] == 7
        channel.close()
        await peer.close()


async def test_what_is_aborted_ends_its_connection_and_nothing_behind_it_begins() -> None:
    class Abort:
        def handle(
            self, context: RequestContext, request: Any, payload: memoryview, respond: Any
        ) -> None:
            respond.abort("the test says so")

    parked = Parked()
    handlers = {ApiKey.FETCH: Abort(), ApiKey.METADATA: parked}
    async with ServerUnderTest(handlers) as server:
        peer = await server.peer(hello=True)
        peer.send(fetch_frame(1) + metadata_frame(2))
        await eventually(lambda: not server.listener.connections)
        assert not parked.requests
        await peer.close()


async def test_answering_twice_is_a_bug_that_raises() -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.METADATA: parked}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(1))
        await eventually(lambda: parked.requests)
        respond = parked.requests[0][3]
        respond(MetadataResponse("c", -1))
        with pytest.raises(RuntimeError, match="answered twice"):
            respond(MetadataResponse("c", -1))
        await peer.close()


async def test_in_flight_requests_are_bounded_exactly() -> None:
    """Also when many arrive in one read: those beyond the bound are not started."""
    parked = Parked()
    limits = connection_settings(in_flight_max=4, sweep_s=0.02)
    async with ServerUnderTest({ApiKey.METADATA: parked}, limits=limits) as server:
        peer = await server.peer(hello=True)
        peer.send(b"".join(metadata_frame(n) for n in range(20)))
        await eventually(lambda: len(parked.requests) == 4)
        for n in range(20):
            await eventually(partial(more_than, parked, n))
            assert len(parked.requests) <= n + 4
            parked.requests[n][3](MetadataResponse("c", -1))
        assert [(await peer.response())[0] for _ in range(20)] == list(range(20))
        await peer.close()


async def test_a_long_poll_of_a_consumer_holds_back_what_is_behind_it() -> None:
    parked = Parked()
    handlers = {ApiKey.FETCH: parked, ApiKey.METADATA: parked}
    async with ServerUnderTest(handlers) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(0) + fetch_frame(1) + fetch_frame(2) + metadata_frame(3))
        await eventually(lambda: len(parked.requests) == 2)
        await asyncio.sleep(0)
        assert len(parked.requests) == 2
        parked.requests[1][3](FetchResponse())
        await eventually(lambda: len(parked.requests) == 3)
        parked.requests[0][3](MetadataResponse("c", -1))
        parked.requests[2][3](FetchResponse())
        await eventually(lambda: len(parked.requests) == 4)
        parked.requests[3][3](MetadataResponse("c", -1))
        assert [(await peer.response())[0] for _ in range(4)] == [0, 1, 2, 3]
        await peer.close()


async def test_unsent_answers_stop_further_requests() -> None:
    """A peer that asks for megabytes and reads nothing makes the broker hold little of it."""
    size = 256 * 1024
    bulky = Bulky(size)
    limits = connection_settings(unsent_bytes_max=1024 * 1024, stall_s=60, sweep_s=0.02)
    async with ServerUnderTest({ApiKey.FETCH: bulky}, limits=limits) as server:
        peer = await server.peer(hello=True)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = 200
        peer.send(b"".join(fetch_frame(n) for n in range(count)))
        (channel,) = server.listener.connections
        await eventually(lambda: channel.unsent_bytes() >= 1024 * 1024)
        before = bulky.count
        assert channel.unsent_bytes() <= 1024 * 1024 + 2 * size
        assert before < count / 2
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for n in range(count):
            correlation_id, _, payload = await peer.response()
            assert (correlation_id, len(payload)) == (n, size)
        assert bulky.count == count
        await peer.close()


class Holding:
    """It holds the connection for so many seconds with each request, and answers at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.count = 0

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        self.count += 1
        context.connection.hold(asyncio.get_running_loop().time() + self.seconds)
        respond(MetadataResponse("c", 1))


HEARTBEAT = frame(request_head(ApiKey.HEARTBEAT, ["g", 1, "m", None], correlation_id=9))


async def test_an_answer_says_for_how_long_its_connection_is_held() -> None:
    async with ServerUnderTest({ApiKey.METADATA: Holding(20)}) as server:
        channel = await server.channel()
        try:
            reply = await channel.call(MetadataRequest(None), timeout_s=5)
            assert 19_000 < reply.throttle_ms <= 20_000
            assert channel.held
        finally:
            channel.close()


async def test_older_clients_are_held_and_not_told() -> None:
    async with ServerUnderTest({ApiKey.METADATA: Holding(0.05)}) as server:
        loop = asyncio.get_running_loop()
        peer = await server.peer(hello=True)
        begun = loop.time()
        for number in range(3):
            peer.send(metadata_frame(number))
        assert [(await peer.response())[0] for _ in range(3)] == [0, 1, 2]
        assert loop.time() - begun >= 2 * 0.049


@pytest.mark.ablation("throttle_not_drop")
@pytest.mark.parametrize(
    ("kind", "served"), [(ServerChannel, [0, 1, 2, 3]), (DropsOverQuota, [0, 3])]
)
async def test_what_exceeds_a_quota_is_served_later_unless_it_is_dropped(
    monkeypatch: pytest.MonkeyPatch, kind: type[ServerChannel], served: list[int]
) -> None:
    monkeypatch.setattr(listener, "ServerChannel", kind)
    holding = Holding(0.05)
    async with ServerUnderTest({ApiKey.METADATA: holding}) as server:
        peer = await server.peer(hello=True)
        (channel,) = server.listener.connections
        peer.send(b"".join(metadata_frame(number) for number in range(3)))
        await eventually(lambda: holding.count == len(served) - 1 and not channel.state.held_until)
        peer.send(metadata_frame(3))
        assert [(await peer.response())[0] for _ in served] == served


@pytest.mark.hostile(50)
async def test_a_client_that_goes_on_sending_while_it_is_held_is_not_read() -> None:
    holding = Holding(30)
    async with ServerUnderTest({ApiKey.METADATA: holding}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(0))
        await peer.response()
        peer.send(metadata_frame(1) * 400_000)
        (channel,) = server.listener.connections
        await eventually(lambda: "reading=False" in repr(channel))
        assert holding.count == 1
        assert peer.writer.transport.get_write_buffer_size() > 0
        assert server.pool.used == 0


async def test_of_a_large_frame_little_is_read_while_its_connection_is_held() -> None:
    async with ServerUnderTest({ApiKey.METADATA: Holding(30)}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(0))
        await peer.response()
        size = 16 * 1024 * 1024
        peer.send(struct.pack(">II", size, 16) + bytes(size))
        (channel,) = server.listener.connections
        await eventually(lambda: "reading=False" in repr(channel))
        assert channel.held_bytes() < size // 8


async def test_heartbeats_go_on_while_a_connection_is_held() -> None:
    beats = Parked()
    handlers = {ApiKey.METADATA: Holding(30), ApiKey.HEARTBEAT: beats}
    async with ServerUnderTest(handlers) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(0))
        await peer.response()
        peer.send(HEARTBEAT)
        await eventually(lambda: len(beats.requests) == 1)


async def test_a_held_connection_ends_like_any_other() -> None:
    async with ServerUnderTest({ApiKey.METADATA: Holding(30)}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(0))
        await peer.response()
        await peer.close()
        await eventually(lambda: not server.listener.connections)


async def test_half_close_ends_the_connection_after_what_is_written() -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.METADATA: parked}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(5) + metadata_frame(6))
        await eventually(lambda: len(parked.requests) == 2)
        parked.requests[0][3](MetadataResponse("c", -1))
        peer.writer.write_eof()
        assert (await peer.response())[0] == 5
        assert await peer.closed_within(2)
        assert parked.requests[1][0].connection.closed
        await peer.close()


async def test_handlers_hear_of_the_end_and_late_answers_are_dropped() -> None:
    parked = Parked()
    async with ServerUnderTest({ApiKey.METADATA: parked}) as server:
        peer = await server.peer(hello=True)
        peer.send(metadata_frame(1))
        await eventually(lambda: parked.requests)
        context, _, _, respond = parked.requests[0]
        heard: list[str] = []

        def fails() -> None:
            raise ValueError("a bug in a callback")

        context.connection.on_close += [lambda: heard.append("one"), fails]
        context.connection.on_close.append(lambda: heard.append("two"))
        peer.writer.transport.abort()
        await eventually(lambda: context.connection.closed)
        assert heard == ["one", "two"]
        assert not server.listener.connections
        respond(MetadataResponse("c", -1))


async def test_the_buffer_goes_with_its_connection() -> None:
    """The objects of a connection refer to each other, so they wait for the garbage collector.
    Megabytes of half a frame must not."""
    async with ServerUnderTest({ApiKey.METADATA: Parked()}) as server:
        peer = await server.peer(hello=True)
        peer.send(frame(request_head(ApiKey.METADATA, [None, False]), bytes(1 << 20))[:-1])
        (channel,) = server.listener.connections
        await eventually(lambda: channel.machine.buffer_bytes >= 1 << 20)
        await peer.close()
        await eventually(lambda: not server.listener.connections)
        assert channel.machine.buffer_bytes == 0


async def test_the_payload_reaches_the_handler_whole_and_writable() -> None:
    seen: list[bytes] = []

    class Writes:
        def handle(
            self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
        ) -> None:
            span = request.topics[0].partitions[0].batch
            view = payload[span.offset : span.offset + span.length]
            view[:1] = b"!"
            seen.append(bytes(view))
            respond(ProduceResponse())

    async with ServerUnderTest({ApiKey.PRODUCE: Writes()}) as server:
        peer = await server.peer(hello=True)
        size = 3 * 1024 * 1024
        body = [None, 1, 1000, [["t", [[0, [0, size]]]]]]
        peer.send(frame(request_head(ApiKey.PRODUCE, body, correlation_id=9), b"x" * size))
        assert (await peer.response())[0] == 9
        assert seen == [b"!" + b"x" * (size - 1)]
        await peer.close()
