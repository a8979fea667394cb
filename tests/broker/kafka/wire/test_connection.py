"""The machine of a connection takes bytes in any pieces, and answers in the version asked."""

from __future__ import annotations

import io
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v3.response import ApiVersionsResponse as KioAnswer
from kio.schema.metadata.v12.request import MetadataRequest as KioMetadata
from kio.schema.request_header.v2.header import RequestHeader as KioHeader
from kio.serial import entity_reader, entity_writer

from oncelog_broker.kafka.versions import WITH_NUMBERS
from oncelog_broker.kafka.wire.codec import encode
from oncelog_broker.kafka.wire.connection import KafkaConnection
from oncelog_broker.kafka.wire.messages.api_versions import (
    KafkaApiVersionsRequest,
    KafkaApiVersionsResponse,
    KafkaApiVersionsResponseApiVersion,
)
from oncelog_broker.kafka.wire.messages.heartbeat import (
    KafkaHeartbeatRequest,
    KafkaHeartbeatResponse,
)
from oncelog_broker.kafka.wire.messages.metadata import KafkaMetadataRequest
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceRequestPartitionProduceData,
    KafkaProduceRequestTopicProduceData,
)
from oncelog_broker.kafka.wire.messages.table import REQUESTS
from oncelog_protocol import limits
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.schema import Span
from support.messages import mutated

OFFERED = {0: (3, 12), 3: (0, 12), 12: (0, 4), 18: (0, 4)}


def machine() -> KafkaConnection:
    return KafkaConnection(REQUESTS, OFFERED)


def framed(message: Any, version: int, payload: list[bytes] | None = None, id: int = 7) -> bytes:
    """Return a request of a client that is called "app"."""
    head = struct.pack(">hhih", message.api_key, version, id, 3) + b"app"
    if version >= message.flexible_since:
        head += b"\0"
    body = b"".join(bytes(each) for each in encode(message, version, payload or []))
    return struct.pack(">i", len(head) + len(body)) + head + body


def feed(connection: KafkaConnection, data: bytes, piece: int = 2**30) -> list[IncomingRequest]:
    """Return the requests in ``data``; those of earlier reads have lost their payload."""
    found: list[IncomingRequest] = []
    pos = 0
    while pos < len(data):
        buffer = connection.get_buffer()
        count = min(len(buffer), len(data) - pos, piece)
        buffer[:count] = data[pos : pos + count]
        pos += count
        found += connection.received(count)
    return found


HELLO = framed(KafkaApiVersionsRequest("probe", "1.0"), 3)


@pytest.mark.parametrize("piece", [1, 5, 2**30])
def test_requests_come_in_any_pieces(piece: int) -> None:
    beat = KafkaHeartbeatRequest("group", 4, "member")
    connection = machine()
    requests = feed(connection, HELLO + framed(beat, 3, id=8) + framed(beat, 4, id=9), piece)
    assert [each.correlation_id for each in requests] == [7, 8, 9]
    messages: list[Any] = [each.message for each in requests]
    assert messages == [KafkaApiVersionsRequest("probe", "1.0"), beat, beat]
    assert connection.known
    assert connection.client_id == "app"
    assert not connection.partial


def test_any_request_may_be_the_first() -> None:
    connection = machine()
    frame = framed(KafkaHeartbeatRequest("group", 4, "member"), 0)
    assert feed(connection, frame[:-1]) == []
    known_before = connection.known
    (request,) = feed(connection, frame[-1:])
    assert request.api_key == KafkaHeartbeatRequest.api_key
    assert (known_before, connection.known) == (False, True)


def test_records_lie_in_the_frame_and_can_be_stamped_there() -> None:
    part = KafkaProduceRequestPartitionProduceData(3, Span(0, 5))
    asked = KafkaProduceRequest(
        acks=-1, topic_data=[KafkaProduceRequestTopicProduceData("orders", partition_data=[part])]
    )
    (request,) = feed(machine(), framed(asked, 9, [b"batch"]))
    message: Any = request.message
    span = message.topic_data[0].partition_data[0].records
    records = span.of(request.payload)
    assert bytes(records) == b"batch"
    records[0:1] = b"B"
    assert bytes(span.of(request.payload)) == b"Batch"


def test_a_header_of_another_implementation() -> None:
    out = io.BytesIO()
    kio_header: Any = KioHeader
    header = kio_header(
        request_api_key=3, request_api_version=12, correlation_id=5, client_id="kio"
    )
    entity_writer(KioHeader)(out, header)
    entity_writer(KioMetadata)(
        out, KioMetadata(topics=(), include_topic_authorized_operations=False)
    )
    data = out.getvalue()
    (request,) = feed(machine(), struct.pack(">i", len(data)) + data)
    assert request.client_id == "kio"
    message: Any = request.message
    assert message == KafkaMetadataRequest(topics=[])


@pytest.mark.parametrize(
    ("name", "length", "shown"),
    [(b"", -1, ""), (b"a\nb", 3, "a?b"), (b"\xff", 1, "\ufffd"), (b"x" * 300, 300, "x" * 255)],
)
def test_names_of_clients_are_made_printable(name: bytes, length: int, shown: str) -> None:
    body = struct.pack(">hhih", 18, 0, 1, length) + name
    connection = machine()
    feed(connection, struct.pack(">i", len(body)) + body)
    assert connection.client_id == shown


# ---------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (struct.pack(">i", 3), "a size of 3"),
        (struct.pack(">i", -1), "a size of 4294967295"),
        (struct.pack(">i", limits.FRAME_BYTES_MAX), "a size of 67108864"),
        (struct.pack(">ihhih", 10, 77, 0, 1, -1), "API 77 of Kafka is not offered"),
        (struct.pack(">ihhih", 10, 0, 2, 1, -1), "version 2 is not offered here, 3 to 12"),
        (struct.pack(">ihhih", 10, 0, 13, 1, -1), "version 13 is not offered"),
        (struct.pack(">ihhih", 10, 18, -1, 1, -1), "version -1 is not offered"),
        (struct.pack(">ihhih", 10, 18, 0, 1, -2), "a client id of -2"),
        (struct.pack(">ihhih", 10, 18, 0, 1, 9), "a client id of 9"),
        (struct.pack(">ihhih", 10, 18, 3, 1, -1), "header is cut off"),
    ],
)
def test_what_does_not_hold_ends_the_connection(data: bytes, match: str) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        feed(machine(), data)


def test_a_claimed_frame_takes_nothing() -> None:
    connection = machine()
    tracemalloc.start()
    try:
        feed(connection, struct.pack(">i", limits.FRAME_BYTES_MAX - 4) + bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert connection.partial
    connection.release()


@settings(deadline=None)
@given(data=st.binary(max_size=200), piece=st.sampled_from([1, 7, 2**30]))
def test_any_bytes(data: bytes, piece: int) -> None:
    for bytes_ in (data, struct.pack(">i", len(data)) + data):
        try:
            feed(machine(), bytes_, piece)
        except RemoteProtocolError:
            pass


@settings(deadline=None)
@given(data=st.data())
def test_changed_frames(data: st.DataObject) -> None:
    frame = framed(KafkaHeartbeatRequest("group", 4, "member"), 4)
    try:
        feed(machine(), data.draw(mutated(HELLO + frame)))
    except RemoteProtocolError:
        pass


# ---------------------------------------------------------------------------- answers


def answer(connection: KafkaConnection, request: IncomingRequest, message: Any) -> bytes:
    return b"".join(bytes(each) for each in connection.encode_response(request, message))


def test_a_newer_hello_is_answered_in_version_0() -> None:
    connection = machine()
    body = struct.pack(">hhih", 18, 9, 4, -1) + b"\0what nobody knows yet"
    (request,) = feed(connection, struct.pack(">i", len(body)) + body)
    assert request.message is None
    assert request.error is not None
    assert not request.is_last
    row = KafkaApiVersionsResponseApiVersion(18, 0, 4)
    data = answer(connection, request, KafkaApiVersionsResponse(35, [row]))
    assert data == struct.pack(">iihihhh", 4 + 2 + 4 + 6, 4, 35, 1, 18, 0, 4)


def test_the_answer_to_a_hello_has_a_header_without_tags() -> None:
    connection = machine()
    (request,) = feed(connection, HELLO)
    row = KafkaApiVersionsResponseApiVersion(18, 0, 4)
    data = answer(connection, request, KafkaApiVersionsResponse(0, [row]))
    assert struct.unpack_from(">ii", data) == (len(data) - 4, 7)
    read: Any = entity_reader(KioAnswer)(data, 8)[0]
    assert [(each.api_key, each.max_version) for each in read.api_keys] == [(18, 4)]


def test_headers_of_flexible_answers_have_tags() -> None:
    beat = KafkaHeartbeatRequest("group", 4, "member")
    connection = machine()
    old, new = feed(connection, framed(beat, 3) + framed(beat, 4))
    message = KafkaHeartbeatResponse(error_code=25)
    assert answer(connection, old, message) == struct.pack(">iiih", 10, 7, 0, 25)
    assert answer(connection, new, message) == struct.pack(">iixihx", 12, 7, 0, 25)


def test_a_hold_is_told_where_the_version_has_it() -> None:
    beat = KafkaHeartbeatRequest("group", 4, "member")
    connection = machine()
    oldest, old = feed(connection, framed(beat, 0) + framed(beat, 1))
    message = KafkaHeartbeatResponse()
    told = b"".join(map(bytes, connection.encode_response(old, message, throttle_ms=300)))
    assert told == struct.pack(">iiih", 10, 7, 300, 0)
    untold = connection.encode_response(oldest, message, throttle_ms=300)
    assert b"".join(map(bytes, untold)) == struct.pack(">iih", 6, 7, 0)


def test_a_hold_takes_no_answer_away() -> None:
    """Those of SaslHandshake, SaslAuthenticate and WriteTxnMarkers have no place for it."""
    connection = KafkaConnection(REQUESTS, WITH_NUMBERS)
    silent: set[int] = set()
    for api_key, (first, last) in WITH_NUMBERS.items():
        message = REQUESTS[api_key].response()
        for version in range(first, last + 1):
            incoming = IncomingRequest(api_key, version, 7, "", None, memoryview(b""))
            held = connection.encode_response(incoming, message, throttle_ms=0x01020304)
            data = b"".join(map(bytes, held))
            if version == last and b"\1\2\3\4" not in data:
                silent.add(api_key)
            assert struct.unpack_from(">ii", data) == (len(data) - 4, 7)
    assert silent == {17, ApiKey.AUTHENTICATE, ApiKey.WRITE_TXN_MARKERS}


def test_an_answer_of_another_request_is_refused() -> None:
    connection = machine()
    (request,) = feed(connection, HELLO)
    with pytest.raises(LocalProtocolError, match="does not answer"):
        connection.encode_response(request, KafkaHeartbeatResponse())
