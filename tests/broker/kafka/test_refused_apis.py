"""A refusal is logged once for each software, and in bounded memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.kafka.refused_apis import REMEMBERED_MAX, RefusedApis
from oncelog_broker.kafka.versions import OFFERED
from oncelog_broker.kafka.wire.codec import encode
from oncelog_broker.kafka.wire.connection import BARE, BEFORE_AUTHENTICATION, KafkaConnection
from oncelog_broker.kafka.wire.declaration import KafkaRequest
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from oncelog_broker.kafka.wire.messages.sasl_handshake import KafkaSaslHandshakeRequest
from oncelog_broker.kafka.wire.messages.table import REQUESTS
from oncelog_protocol.connection import IncomingRequest
from oncelog_protocol.errors import RemoteProtocolError


def framed(api_key: int, version: int, rest: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, 1, 3) + b"app"
    return struct.pack(">i", len(head) + len(rest)) + head + rest


def of(request: KafkaRequest, version: int) -> bytes:
    """Return a request on the wire."""
    body = b"".join(bytes(each) for each in encode(request, version, []))
    tags = b"\0" if version >= request.flexible_since else b""
    return framed(request.api_key, version, tags + body)


def feed(connection: KafkaConnection, data: bytes) -> list[IncomingRequest]:
    """Return the requests in ``data``."""
    found: list[IncomingRequest] = []
    while data:
        buffer = connection.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        found += connection.received(count)
    return found


@pytest.mark.parametrize(("api_key", "version"), [(71, 0), (3, 99)])
def test_the_machine_tells_what_it_refuses(api_key: int, version: int) -> None:
    told: list[tuple[int, int, str]] = []

    def refuse(*what: object) -> None:
        told.append(what)  # type: ignore[arg-type]

    for hello, name in ((KafkaApiVersionsRequest("java\n", "4.1"), "java? 4.1"), (None, "app")):
        machine = KafkaConnection(REQUESTS, OFFERED, refused=refuse)
        if hello is not None:
            feed(machine, of(hello, 3))
        with pytest.raises(RemoteProtocolError, match="not offered here"):
            feed(machine, framed(api_key, version, b""))
        assert told[-1] == (api_key, version, name)
    assert len(told) == 2


def test_each_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    refused = RefusedApis()
    with caplog.at_level("INFO"):
        for _ in range(3):
            refused.note(71, 0, "java 4.1")
            refused.note(71, 1, "java 4.1")
            refused.note(71, 0, "go 1.22")
        lines = [each.getMessage() for each in caplog.records]
        assert len(lines) == 3
        assert "kafka_api_refused" in lines[0]
        for number in range(REMEMBERED_MAX * 2):
            refused.note(71, 0, f"client {number}")
    assert len(caplog.records) == REMEMBERED_MAX


@given(data=st.lists(st.binary(min_size=1, max_size=60), max_size=5), bare=st.booleans())
def test_a_client_that_is_not_known_is_served_little(data: list[bytes], bare: bool) -> None:
    """Nothing is read but what leads to authentication, whatever comes."""
    machine = KafkaConnection(REQUESTS, OFFERED, authenticates=True)
    if bare:
        feed(machine, of(KafkaSaslHandshakeRequest("PLAIN"), 0))
    try:
        for frame in data:
            for request in feed(machine, struct.pack(">i", len(frame)) + frame):
                assert request.api_key in BEFORE_AUTHENTICATION
                assert (request.api_version == BARE) == bare
    except RemoteProtocolError:
        refused = True
    else:
        refused = False
    assert not (refused and bare)
    assert not machine.known
