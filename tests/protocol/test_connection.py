"""These tests connect both ends with each other and with peers that misbehave."""

from __future__ import annotations

import re
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits, schema
from oncelog_protocol.connection import ClientConnection, IncomingRequest, Reply, ServerConnection
from oncelog_protocol.errors import (
    LocalProtocolError,
    RebootstrapRequiredError,
    RemoteProtocolError,
    UnsupportedVersionError,
)
from oncelog_protocol.frame import encode_frame
from oncelog_protocol.identity import UNKNOWN, Identity, Introduction
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.messages.groups import HeartbeatRequest
from oncelog_protocol.messages.handshake import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from oncelog_protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from oncelog_protocol.registry import supported_ranges
from oncelog_protocol.schema import Span
from support.messages import a_third, apis, buffer_bytes, feed, messages

METADATA = MetadataRequest(None)
METADATA_ANSWER = MetadataResponse("cluster", 1)


def produce(*spans: tuple[int, int]) -> ProduceRequest:
    partitions = [ProducePartition(i, Span(*span)) for i, span in enumerate(spans)]
    return ProduceRequest(None, -1, 1000, [ProduceTopic("orders", partitions)])


def pair(
    ranges: list[ApiVersionRange] | None = None, *, reuse: bool = False
) -> tuple[ClientConnection, ServerConnection]:
    """Return a client and a server that have shaken hands."""
    client, server = ClientConnection("client-1", reuse=reuse), ServerConnection(reuse=reuse)
    _, buffers = client.handshake()
    (incoming,) = feed(server, buffer_bytes(buffers))
    answer = ApiVersionsResponse(0, supported_ranges() if ranges is None else ranges)
    feed(client, buffer_bytes(server.encode_response(incoming, answer)))
    return client, server


def ask(
    client: ClientConnection, server: ServerConnection, request: Request, payload: bytes = b""
) -> IncomingRequest:
    _, buffers = client.encode(request, [payload] if payload else [])
    (incoming,) = feed(server, buffer_bytes(buffers))
    assert isinstance(incoming, IncomingRequest)
    return incoming


def answer(
    client: ClientConnection,
    server: ServerConnection,
    incoming: IncomingRequest,
    message: Any,
    payload: bytes = b"",
) -> Reply:
    buffers = server.encode_response(incoming, message, [payload] if payload else [])
    (reply,) = feed(client, buffer_bytes(buffers))
    assert isinstance(reply, Reply)
    return reply


# ---------------------------------------------------------------------------- handshake


def test_the_handshake_fills_the_table_of_versions() -> None:
    client, _ = pair()
    assert client.versions == {r.api_key: r.version_max for r in supported_ranges()}
    assert client.in_flight == 0


def test_the_handshake_itself_is_answered_with_a_reply() -> None:
    client, server = ClientConnection("c"), ServerConnection()
    correlation_id, buffers = client.handshake()
    assert client.in_flight == 1
    incoming = feed(server, buffer_bytes(buffers))[0]
    assert (incoming.api_key, incoming.api_version) == (ApiKey.API_VERSIONS, 2)
    assert isinstance(incoming.message, ApiVersionsRequest)
    reply = answer(client, server, incoming, ApiVersionsResponse(0, supported_ranges()))
    assert reply.correlation_id == correlation_id


def test_line_20_a_broker_of_another_release() -> None:
    newer = [
        ApiVersionRange(ApiKey.METADATA, 0, 7),
        ApiVersionRange(ApiKey.FETCH, 5, 9),
        ApiVersionRange(999, 0, 0),
    ]
    client, server = pair(newer)
    assert client.versions == {ApiKey.METADATA: 0}
    assert ask(client, server, METADATA).message == METADATA
    with pytest.raises(UnsupportedVersionError, match="FETCH"):
        client.encode(FetchRequest(-1, -1, 0, 0, 0, 0, -1, []))
    with pytest.raises(UnsupportedVersionError, match="PRODUCE"):
        client.encode(produce())
    assert client.in_flight == 1


def test_a_request_before_the_handshake_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="handshake"):
        ClientConnection("c").encode(METADATA)


def test_a_later_api_versions_answer_does_not_change_the_table() -> None:
    client, server = pair()
    before = dict(client.versions)
    incoming = ask(client, server, ApiVersionsRequest())
    answer(client, server, incoming, ApiVersionsResponse(0, []))
    assert client.versions == before


def test_the_first_request_must_be_api_versions() -> None:
    client, _ = pair()
    _, buffers = client.encode(METADATA)
    with pytest.raises(RemoteProtocolError, match="before ApiVersions"):
        feed(ServerConnection(), buffer_bytes(buffers))


HERE = Identity("cluster", 2)


def hello_of(
    client: ClientConnection, server: ServerConnection
) -> tuple[IncomingRequest, list[Reply]]:
    """Return the first request as the server got it, and the replies of its answer."""
    _, buffers = client.handshake()
    (incoming,) = feed(server, buffer_bytes(buffers))
    code = 0
    if incoming.error is not None or incoming.misfit is not None:
        code = (incoming.error or incoming.misfit).code
    response = ApiVersionsResponse(code, supported_ranges(), HERE.cluster_id, HERE.broker_id)
    return incoming, feed(client, buffer_bytes(server.encode_response(incoming, response)))


def test_both_ends_learn_who_the_other_is() -> None:
    client = ClientConnection("c", meant=HERE, own_broker_id=3)
    server = ServerConnection(identity=HERE, between_brokers=True)
    assert server.introduction == Introduction()
    hello_of(client, server)
    assert client.found == HERE
    assert server.introduction == Introduction(3, addressed=True)
    ask(client, server, METADATA)


@pytest.mark.parametrize("meant", [UNKNOWN, Identity("cluster"), Identity("", 2)])
def test_a_client_may_not_know_yet_whom_it_asks(meant: Identity) -> None:
    client, server = ClientConnection("c", meant=meant), ServerConnection(identity=HERE)
    hello_of(client, server)
    assert client.found == HERE
    assert server.introduction == Introduction(-1, addressed=False)


@pytest.mark.parametrize(
    "meant", [Identity("other"), Identity("cluster", 1), Identity("other", 2), Identity("", 7)]
)
def test_who_meant_somebody_else_is_refused_before_anything_is_served(meant: Identity) -> None:
    client, server = ClientConnection("c", meant=meant), ServerConnection(identity=HERE)
    neighbour, _ = pair()
    _, hello = client.handshake()
    _, behind = neighbour.encode(METADATA)
    (incoming,) = feed(server, buffer_bytes([*hello, *behind]))
    expected = f"expected {meant}, found {HERE}"
    assert incoming.is_last
    assert str(incoming.misfit) == expected
    assert feed(server, buffer_bytes(behind)) == [], "nothing more is read"
    response = ApiVersionsResponse(RebootstrapRequiredError.code, [], "cluster", 2)
    with pytest.raises(RebootstrapRequiredError, match=re.escape(expected)):
        feed(client, buffer_bytes(server.encode_response(incoming, response)))


def test_a_client_notices_what_a_server_let_pass() -> None:
    client = ClientConnection("c", meant=Identity("other"))
    server = ServerConnection()  # does not know who it is
    with pytest.raises(RebootstrapRequiredError, match="found broker 2 of cluster 'cluster'"):
        hello_of(client, server)
    assert client.versions == {}


def test_a_later_api_versions_changes_nothing_of_who_asked() -> None:
    client = ClientConnection("c", meant=HERE, own_broker_id=3)
    server = ServerConnection(identity=HERE)
    hello_of(client, server)
    ask(client, server, ApiVersionsRequest("x", "1", "cluster", 2, 1))
    assert server.introduction == Introduction(3, addressed=True)
    incoming = ask(client, server, ApiVersionsRequest("x", "1", "cluster", 9, 1))
    assert incoming.misfit is not None


def raw_hello(version: int, *fields: object) -> bytes:
    head = [int(ApiKey.API_VERSIONS), version, 0, "c", ["software", "1", *fields]]
    return buffer_bytes(encode_frame(head, ()))


def test_version_0_names_nobody_and_is_refused_between_brokers() -> None:
    clients, brokers = ServerConnection(identity=HERE), ServerConnection(between_brokers=True)
    (incoming,) = feed(clients, raw_hello(0))
    assert incoming.message == ApiVersionsRequest("software", "1")
    assert clients.introduction == Introduction()
    (incoming,) = feed(brokers, raw_hello(0) + raw_hello(1, "", -1, -1))
    assert incoming.is_last
    assert incoming.error is not None
    assert "names nobody" in str(incoming.error)
    answer = brokers.encode_response(incoming, ApiVersionsResponse(35, supported_ranges()))
    (size,) = struct.unpack(">I", buffer_bytes(answer)[4:8])
    body = msgpack.unpackb(buffer_bytes(answer)[8 : 8 + size])[1]
    assert len(body) == 2, "encoded as version 0"


class Older:
    """It is a broker of a release whose newest ApiVersions is ``version``, by hand."""

    def __init__(self, version: int) -> None:
        self.version = version

    def answer(self, hello: bytes) -> tuple[int, bytes]:
        (size,) = struct.unpack(">I", hello[4:8])
        _, asked, correlation_id, _, _ = msgpack.unpackb(hello[8 : 8 + size])
        apis = [[int(ApiKey.API_VERSIONS), 0, self.version], [int(ApiKey.METADATA), 0, 0]]
        body = [0, apis] if asked == 0 else [0, apis, "cluster", 2]
        if asked > self.version:
            body = [UnsupportedVersionError.code, apis]
        return asked, buffer_bytes(encode_frame([correlation_id, body], ()))


@pytest.mark.parametrize("over_a_new_connection", [False, True])
def test_an_older_broker_is_asked_once_more_with_version_0(over_a_new_connection: bool) -> None:
    client, older = ClientConnection("c", meant=Identity("cluster", 2)), Older(0)
    asked, data = older.answer(buffer_bytes(client.handshake()[1]))
    assert asked == 2
    feed(client, data)
    assert client.asks_again
    assert client.versions == {}
    if over_a_new_connection:
        client.reconnect()
    asked, data = older.answer(buffer_bytes(client.handshake()[1]))
    assert asked == 0
    feed(client, data)
    assert client.found == UNKNOWN
    assert client.versions[ApiKey.METADATA] == 0


def test_a_broker_of_version_1_is_asked_again_and_says_who_it_is() -> None:
    client, older = ClientConnection("c", meant=Identity("cluster", 2)), Older(1)
    feed(client, older.answer(buffer_bytes(client.handshake()[1]))[1])
    asked, data = older.answer(buffer_bytes(client.handshake()[1]))
    assert asked == 1
    feed(client, data)
    assert client.found == Identity("cluster", 2)
    correlation_id, _ = client.encode(METADATA)
    head = [correlation_id, schema.encode(METADATA_ANSWER, 0), 5]
    with pytest.raises(RemoteProtocolError, match="not of 2"):
        feed(client, buffer_bytes(encode_frame(head)))


def test_who_does_not_take_version_0_either_is_given_up() -> None:
    client, older = ClientConnection("c"), Older(0)
    feed(client, older.answer(buffer_bytes(client.handshake()[1]))[1])
    older.version = -1
    _, data = older.answer(buffer_bytes(client.handshake()[1]))
    with pytest.raises(UnsupportedVersionError, match="no version of ApiVersions"):
        feed(client, data)


def test_a_client_may_pipeline_behind_its_handshake() -> None:
    _, hello = ClientConnection("client-1").handshake()
    client, _ = pair()
    _, metadata = client.encode(METADATA)
    server = ServerConnection()
    requests = feed(server, buffer_bytes([*hello, *metadata]))
    assert [r.api_key for r in requests] == [ApiKey.API_VERSIONS, ApiKey.METADATA]


@pytest.mark.parametrize(
    ("api_key", "version", "words"),
    [
        pytest.param(999, 0, "API 999", id="unknown API key"),
        pytest.param(-1, 0, "API -1", id="negative API key"),
        pytest.param(ApiKey.FETCH, 99, "FETCH version 99 .* 0 to 1", id="version too high"),
        pytest.param(ApiKey.FETCH, -1, "FETCH version -1 .* 0 to 1", id="version too low"),
    ],
)
def test_what_is_not_spoken_here_can_be_answered(api_key: int, version: int, words: str) -> None:
    _, server = pair()
    data = buffer_bytes(encode_frame([int(api_key), version, 7, "c", ["whatever", 1, None]]))
    (incoming,) = feed(server, data)
    assert incoming.message is None
    assert isinstance(incoming.error, UnsupportedVersionError)
    with pytest.raises(UnsupportedVersionError, match=words):
        raise incoming.error
    message = ApiVersionsResponse(incoming.error.code, supported_ranges())
    response = server.encode_response(incoming, message)
    assert buffer_bytes(response) == buffer_bytes(encode_frame([7, schema.encode(message, 0)]))
    with pytest.raises(LocalProtocolError):
        server.encode_response(incoming, METADATA_ANSWER)


def test_api_versions_itself_in_a_newer_version_is_answered_in_version_0() -> None:
    server = ServerConnection()
    (incoming,) = feed(server, buffer_bytes(encode_frame([ApiKey.API_VERSIONS + 0, 9, 0, "c", 5])))
    assert incoming.error is not None
    answered = server.encode_response(incoming, ApiVersionsResponse(35, supported_ranges()))
    assert answered


# ---------------------------------------------------------------------------- exchange


@pytest.mark.parametrize("api", apis(), ids=lambda api: api.__name__)
@a_third
@given(data=st.data())
def test_any_request_and_any_answer(api: type[Request], data: st.DataObject) -> None:
    client, server = pair()
    request, response = data.draw(messages(api)), data.draw(messages(api.response))
    incoming = ask(client, server, request)
    assert incoming.message == request
    assert incoming.client_id == "client-1"
    assert answer(client, server, incoming, response).message == response


@pytest.mark.parametrize(("version", "told"), [(0, False), (1, False), (2, True)])
def test_a_throttle_time_is_told_to_those_that_take_it(version: int, told: bool) -> None:
    server = ServerConnection()
    feed(server, raw_hello(version, *(("", -1, -1) if version else ())))
    asked = buffer_bytes(encode_frame([int(ApiKey.METADATA), 0, 7, "c", [None, False]], ()))
    (incoming,) = feed(server, asked)
    for throttle_ms in (0, 1234):
        data = server.encode_response(incoming, METADATA_ANSWER, throttle_ms=throttle_ms)
        head = [7, schema.encode(METADATA_ANSWER, 0)]
        if told and throttle_ms:
            head.append(throttle_ms)
        assert buffer_bytes(data) == buffer_bytes(encode_frame(head))


def test_a_reply_says_how_long_to_wait() -> None:
    client, server = pair()
    for throttle_ms in (0, limits.THROTTLE_MS_MAX):
        incoming = ask(client, server, METADATA)
        data = server.encode_response(incoming, METADATA_ANSWER, throttle_ms=throttle_ms)
        (reply,) = feed(client, buffer_bytes(data))
        assert isinstance(reply, Reply)
        assert (reply.message, reply.throttle_ms) == (METADATA_ANSWER, throttle_ms)


def test_heartbeats_are_never_held() -> None:
    client, _ = pair()
    assert client.may_be_held(METADATA)
    assert not client.may_be_held(HeartbeatRequest("g", 1, "m", None))


@pytest.mark.parametrize("reuse", [True, False])
def test_payloads_both_ways(reuse: bool) -> None:
    client, server = pair(reuse=reuse)
    incoming = ask(client, server, produce((0, 3), (3, 4)), b"onetwo!")
    assert bytes(incoming.payload) == b"onetwo!"
    assert isinstance(incoming.message, ProduceRequest)
    spans = [p.batch for p in incoming.message.topics[0].partitions]
    assert [bytes(s.of(incoming.payload)) for s in spans] == [b"one", b"two!"]
    assert answer(client, server, incoming, ProduceResponse()).payload.nbytes == 0

    incoming = ask(client, server, FetchRequest(-1, -1, 0, 0, 0, 0, -1, []))
    fetched = FetchResponse(
        0, [FetchTopicResponse("t", [FetchPartitionResponse(0, records=Span(0, 5))])]
    )
    reply = answer(client, server, incoming, fetched, b"batch")
    assert (reply.message, bytes(reply.payload)) == (fetched, b"batch")


def test_replies_are_matched_in_the_order_of_requests() -> None:
    client, server = pair()
    requests = [METADATA, DescribeClusterRequest(), METADATA]
    ids, data = [], b""
    for request in requests:
        correlation_id, buffers = client.encode(request)
        ids.append(correlation_id)
        data += buffer_bytes(buffers)
    assert client.in_flight == 3
    incoming = feed(server, data)
    answers = [METADATA_ANSWER, DescribeClusterResponse(0), METADATA_ANSWER]
    data = b"".join(
        buffer_bytes(server.encode_response(i, a)) for i, a in zip(incoming, answers, strict=True)
    )
    replies = feed(client, data)
    assert [r.correlation_id for r in replies] == ids
    assert [r.message for r in replies] == answers
    assert client.in_flight == 0


def test_a_request_that_is_never_answered() -> None:
    client, server = pair()
    first, _ = client.encode(produce(), expect_response=False)
    assert client.in_flight == 0
    second, buffers = client.encode(METADATA)
    assert second == first + 1
    (incoming,) = feed(server, buffer_bytes(buffers))
    assert answer(client, server, incoming, METADATA_ANSWER).correlation_id == second


def test_a_request_that_could_not_be_encoded_leaves_no_trace() -> None:
    client, server = pair()
    with pytest.raises(LocalProtocolError):
        client.encode(MetadataRequest(["x" * 5000]))
    assert client.in_flight == 0
    incoming = ask(client, server, METADATA)
    assert incoming.correlation_id == 1


def test_correlation_ids_start_again_before_they_leave_their_field() -> None:
    client, server = pair()
    client._last_correlation_id = 2**31 - 2
    ids = []
    for _ in range(3):
        incoming = ask(client, server, METADATA)
        ids.append(incoming.correlation_id)
        answer(client, server, incoming, METADATA_ANSWER)
    assert ids == [2**31 - 1, 0, 1]


def test_unanswered_requests_are_bounded() -> None:
    client, _ = pair()
    for _ in range(limits.UNANSWERED_REQUESTS_MAX):
        client.encode(METADATA)
    with pytest.raises(LocalProtocolError, match="unanswered"):
        client.encode(METADATA)


def test_partial_is_passed_on() -> None:
    client, server = pair()
    _, buffers = client.encode(METADATA)
    data = buffer_bytes(buffers)
    feed(server, data[:6])
    owed = [server.partial]
    (incoming,) = feed(server, data[6:])
    owed.append(server.partial)
    assert owed == [True, False]
    response = buffer_bytes(server.encode_response(incoming, METADATA_ANSWER))
    feed(client, response[:-1])
    assert client.partial


# ---------------------------------------------------------------------------- misbehaviour


def test_the_wrong_answer_is_our_own_mistake() -> None:
    client, server = pair()
    incoming = ask(client, server, METADATA)
    with pytest.raises(LocalProtocolError, match="does not answer METADATA"):
        server.encode_response(incoming, ProduceResponse())


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 8)],
        [(8, 0)],
        [(0, 4), (3, 4)],
        [(4, 3), (0, 4)],
        [(0, 7), (0, 7)],
        [(1, 6)],
        [(0, 6)],
        [(0, 3), (4, 3)],
    ],
)
def test_spans_are_checked_on_both_sides(spans: list[tuple[int, int]]) -> None:
    client, server = pair()
    with pytest.raises(LocalProtocolError, match="span"):
        client.encode(produce(*spans), [b"7 bytes"])
    head = [0, 0, 1, "client-1", schema.encode(produce(*spans), 0)]
    with pytest.raises(RemoteProtocolError, match="span"):
        feed(server, buffer_bytes(encode_frame(head, [b"7 bytes"])))


def test_a_length_that_swallows_the_next_request_is_refused() -> None:
    _, server = pair()
    swallowed = buffer_bytes(
        encode_frame([int(ApiKey.METADATA), 0, 8, "client-1", schema.encode(METADATA, 0)])
    )
    head = [int(ApiKey.METADATA), 0, 7, "client-1", schema.encode(METADATA, 0)]
    with pytest.raises(RemoteProtocolError, match="nothing accounts for"):
        feed(server, buffer_bytes(encode_frame(head, [swallowed])))


def test_spans_of_an_answer_are_checked_too() -> None:
    client, server = pair()
    incoming = ask(client, server, FetchRequest(-1, -1, 0, 0, 0, 0, -1, []))
    lies = FetchResponse(
        0, [FetchTopicResponse("t", [FetchPartitionResponse(0, records=Span(0, 99))])]
    )
    with pytest.raises(LocalProtocolError, match="span"):
        server.encode_response(incoming, lies, [b"batch"])
    data = encode_frame(
        [incoming.correlation_id, schema.encode(lies, incoming.api_version)], [b"batch"]
    )
    with pytest.raises(RemoteProtocolError, match="span"):
        feed(client, buffer_bytes(data))


@pytest.mark.parametrize(
    "head",
    [
        pytest.param([], id="empty"),
        pytest.param([1], id="too short"),
        pytest.param([1, schema.encode(METADATA_ANSWER, 0), 0, 0], id="too long"),
        pytest.param([1, schema.encode(METADATA_ANSWER, 0), -1], id="a throttle time below 0"),
        pytest.param([1, schema.encode(METADATA_ANSWER, 0), 30_001], id="held for too long"),
        pytest.param([1, schema.encode(METADATA_ANSWER, 0), True], id="a bool for a time"),
        pytest.param([1, schema.encode(METADATA_ANSWER, 0), None], id="nil for a time"),
        pytest.param([2, schema.encode(METADATA_ANSWER, 0)], id="out of turn"),
        pytest.param([True, schema.encode(METADATA_ANSWER, 0)], id="a bool for an id"),
        pytest.param([1.0, schema.encode(METADATA_ANSWER, 0)], id="a float for an id"),
        pytest.param([1, None], id="no body"),
        pytest.param([1, [0]], id="the body of another message"),
    ],
)
def test_illegal_responses(head: list[Any]) -> None:
    client, _ = pair()
    client.encode(METADATA)
    with pytest.raises(RemoteProtocolError):
        feed(client, buffer_bytes(encode_frame(head)))


def test_a_response_that_nobody_asked_for() -> None:
    client, _ = pair()
    with pytest.raises(RemoteProtocolError, match="nothing was asked"):
        feed(client, buffer_bytes(encode_frame([0, []])))


@pytest.mark.parametrize(
    "head",
    [
        pytest.param([], id="empty"),
        pytest.param([3, 0, 1, "c"], id="too short"),
        pytest.param([3, 0, 1, "c", [None, False], 0], id="too long"),
        pytest.param([3.0, 0, 1, "c", [None, False]], id="a float for an API key"),
        pytest.param([3, True, 1, "c", [None, False]], id="a bool for a version"),
        pytest.param(["3", 0, 1, "c", [None, False]], id="text for an API key"),
        pytest.param([2**15, 0, 1, "c", [None, False]], id="an API key beyond its field"),
        pytest.param([3, -(2**15) - 1, 1, "c", [None, False]], id="a version beyond its field"),
        pytest.param([3, 0, -1, "c", [None, False]], id="a negative correlation id"),
        pytest.param([3, 0, 2**31, "c", [None, False]], id="a correlation id beyond its field"),
        pytest.param([3, 0, None, "c", [None, False]], id="nil for a correlation id"),
        pytest.param([3, 0, 1, None, [None, False]], id="nil for a client id"),
        pytest.param([3, 0, 1, b"c", [None, False]], id="bytes for a client id"),
        pytest.param([3, 0, 1, ["c"], [None, False]], id="a list for a client id"),
        pytest.param([3, 0, 1, "c" * 65536, [None, False]], id="a client id of 64 KiB"),
        pytest.param([3, 0, 1, "a\0b", [None, False]], id="NUL in a client id"),
        pytest.param([3, 0, 1, "a\nERROR b", [None, False]], id="a forged log line"),
        pytest.param([3, 0, 1, "\u202ecba", [None, False]], id="right-to-left"),
        pytest.param([3, 0, 1, "c", None], id="nil for a body"),
        pytest.param([3, 0, 1, "c", []], id="missing fields"),
        pytest.param([3, 0, 1, "c", [None, False, 0]], id="an extra field"),
    ],
)
def test_illegal_requests(head: list[Any]) -> None:
    _, server = pair()
    with pytest.raises(RemoteProtocolError):
        feed(server, buffer_bytes(encode_frame(head)))


@pytest.mark.parametrize("client_id", ["", "billing 7", "\N{SNOWMAN}", "c" * limits.NAME_CHARS_MAX])
def test_legal_client_ids(client_id: str) -> None:
    client, server = ClientConnection(client_id), ServerConnection()
    _, buffers = client.handshake()
    assert feed(server, buffer_bytes(buffers))[0].client_id == client_id


@pytest.mark.parametrize("client_id", ["a\0b", "a\nb", "c" * (limits.NAME_CHARS_MAX + 1), "\ud800"])
def test_illegal_client_ids_are_refused_at_home(client_id: str) -> None:
    with pytest.raises(LocalProtocolError):
        ClientConnection(client_id)


def test_before_authentication_only_small_requests_are_read() -> None:
    data = large_request()
    server = ServerConnection(authenticates=True)
    assert feed(server, hello_bytes())
    assert not server.known
    with pytest.raises(RemoteProtocolError, match="frame prefix"):
        feed(server, data)
    server = ServerConnection(authenticates=True)
    assert feed(server, hello_bytes())
    server.trust()
    assert server.known
    assert server.frame_bytes_max == limits.FRAME_BYTES_MAX
    assert len(feed(server, data)) == 1


def hello_bytes() -> bytes:
    return buffer_bytes(ClientConnection("client-1").handshake()[1])


def large_request() -> bytes:
    client, _ = pair()
    return buffer_bytes(client.encode(produce((0, 100_000)), [bytes(100_000)])[1])


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_where_nobody_authenticates_the_greeting_lets_large_requests_in(piece: int) -> None:
    server = ServerConnection()
    assert len(feed(server, hello_bytes() + large_request(), piece)) == 2
    assert server.known


def test_a_large_request_at_once_is_refused_before_it_is_there() -> None:
    server = ServerConnection()
    with pytest.raises(RemoteProtocolError, match="frame prefix"):
        feed(server, large_request()[:4])
    assert server.opening == large_request()[:4]


def test_who_must_authenticate_gains_nothing_from_what_is_behind_the_greeting() -> None:
    server = ServerConnection(authenticates=True)
    with pytest.raises(RemoteProtocolError, match="frame prefix"):
        feed(server, hello_bytes() + large_request())


def test_before_authentication_all_requests_together_are_bounded() -> None:
    request = buffer_bytes(pair()[0].encode(produce((0, 50_000)), [bytes(50_000)])[1])
    server = ServerConnection(authenticates=True)
    feed(server, hello_bytes())
    for _ in range(5):
        assert len(feed(server, request)) == 1
        assert server.buffer_bytes <= limits.FRAME_BYTES_MAX_UNAUTHENTICATED
    with pytest.raises(RemoteProtocolError, match="before the peer is known"):
        feed(server, request)


def test_before_authentication_two_hellos_are_enough() -> None:
    server = ServerConnection(authenticates=True)
    feed(server, hello_bytes())
    feed(server, hello_bytes())
    with pytest.raises(RemoteProtocolError, match="3 ApiVersions"):
        feed(server, hello_bytes())


def test_who_is_known_may_say_hello_as_often_as_he_likes() -> None:
    server = ServerConnection()
    for _ in range(5):
        assert feed(server, hello_bytes())


def test_a_request_that_is_released_holds_on_to_nothing() -> None:
    payload = memoryview(bytearray(b"records"))
    incoming = IncomingRequest(0, 0, 7, "c", MetadataRequest(None), payload)
    incoming.release()
    assert incoming.message is None
    assert len(incoming.payload) == 0
    assert incoming.correlation_id == 7, "it can be answered still"
