"""Fuzz: whatever bytes arrive, a connection gives requests or replies, or a RemoteProtocolError."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits, schema
from oncelog_protocol.connection import ClientConnection, ServerConnection
from oncelog_protocol.errors import ApiError, RemoteProtocolError
from oncelog_protocol.frame import FrameReader, encode_frame
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.packing import MalformedError, pack, unpack
from oncelog_protocol.registry import supported_ranges
from support.messages import a_third, apis, buffer_bytes, feed, message_classes, messages, mutated

MIB = 2**20
HELLO = buffer_bytes(ClientConnection("client-1").handshake()[1])

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    | st.binary(max_size=10),
    lambda inner: st.lists(inner, max_size=8),
    max_leaves=30,
)

OPENERS = st.sampled_from(
    [b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\x9f", b"\x91", b"\xdf\xff\xff\xff\xff", b"\x8f"]
)


def greeted_server() -> ServerConnection:
    server = ServerConnection()
    feed(server, HELLO)
    return server


def waiting_client(request: Request) -> ClientConnection:
    client = ClientConnection("client-1")
    client.handshake()
    newest = ApiVersionsRequest.versions[1]  # the first handshake is in this version
    answer = schema.encode(ApiVersionsResponse(0, supported_ranges()), newest)
    feed(client, buffer_bytes(encode_frame([0, answer])))
    client.encode(request)
    return client


def outcome(receiver: Any, data: bytes, piece: int = 2**30) -> list[Any]:
    fault = ""
    try:
        return feed(receiver, data, piece)
    except RemoteProtocolError as exc:
        fault = str(exc)
    assert len(fault) < 1000
    return []


@given(data=st.binary(max_size=300), reuse=st.booleans(), piece=st.sampled_from([1, 5, 1000]))
def test_any_bytes(data: bytes, reuse: bool, piece: int) -> None:
    outcome(FrameReader(frame_bytes_max=limits.FRAME_BYTES_MAX, reuse=reuse), data, piece)
    outcome(ServerConnection(), data, piece)
    outcome(greeted_server(), data, piece)


@given(body=VALUES)
def test_any_answer_to_the_handshake(body: Any) -> None:
    client = ClientConnection("client-1", meant=Identity("cluster", 1))
    client.handshake()
    with contextlib.suppress(ApiError):  # its refusal
        outcome(client, buffer_bytes(encode_frame([0, body])))


@given(data=st.binary(max_size=200))
def test_any_bytes_as_a_head(data: bytes) -> None:
    framed = (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
    outcome(greeted_server(), framed)


@given(head=VALUES, payload=st.binary(max_size=20))
def test_any_value_as_a_head(head: Any, payload: bytes) -> None:
    data = buffer_bytes(encode_frame(head, [payload]))
    outcome(greeted_server(), data)
    outcome(waiting_client(apis()[3](topics=None)), data)  # type: ignore[call-arg]


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
@a_third
@given(body=VALUES)
def test_any_value_as_a_body(cls: type, body: Any) -> None:
    try:
        schema.decode(cls, body, 0)
    except RemoteProtocolError:
        pass


@pytest.mark.parametrize("api", apis(), ids=lambda api: api.__name__)
@a_third
@given(data=st.data())
def test_requests_with_a_few_bytes_changed(api: type[Request], data: st.DataObject) -> None:
    body = schema.encode(data.draw(messages(api)), 0)
    head = [int(api.api_key), 0, 1, "client-1", body]
    original = buffer_bytes(encode_frame(head, [b"payload"]))
    outcome(greeted_server(), data.draw(mutated(original)))


@pytest.mark.parametrize("api", apis(), ids=lambda api: api.__name__)
@a_third
@given(data=st.data())
def test_responses_with_a_few_bytes_changed(api: type[Request], data: st.DataObject) -> None:
    body = schema.encode(data.draw(messages(api.response)), 0)
    original = buffer_bytes(encode_frame([1, body], [b"payload"]))
    client = waiting_client(data.draw(messages(api)))
    outcome(client, data.draw(mutated(original)))


@given(
    openers=st.lists(OPENERS, min_size=1, max_size=50),
    times=st.sampled_from([1, 40, 2000]),
    tail=st.binary(max_size=20),
)
def test_claims_within_claims_cost_bounded_memory(
    openers: list[bytes], times: int, tail: bytes
) -> None:
    data = b"".join(openers) * times + tail
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError):
            unpack(data + b"\xc1", array_count_max=100_000, list_count_max=500_000)
        assert tracemalloc.get_traced_memory()[1] < 17 * MIB + 10 * len(data)
    finally:
        tracemalloc.stop()


@given(value=VALUES, data=st.data())
def test_packed_values_with_a_few_bytes_changed(value: Any, data: st.DataObject) -> None:
    try:
        unpack(data.draw(mutated(pack(value))), array_count_max=100_000, list_count_max=500_000)
    except MalformedError:
        pass
