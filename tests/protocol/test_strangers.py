"""A stranger has few bytes and few greetings."""

from __future__ import annotations

import struct

import pytest

from oncelog_protocol import limits
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import RemoteProtocolError
from oncelog_protocol.strangers import FIRST_BYTES, Stranger, begins_like_kafka, begins_like_ours


def test_bytes_have_a_bound() -> None:
    stranger = Stranger()
    stranger.sends(limits.UNAUTHENTICATED_BYTES_MAX - 1)
    stranger.sends(1)
    with pytest.raises(RemoteProtocolError, match="bytes before the peer is known"):
        stranger.sends(1)


def test_greetings_have_a_bound() -> None:
    stranger = Stranger()
    for _ in range(limits.UNAUTHENTICATED_HELLOS_MAX):
        stranger.greets()
    with pytest.raises(RemoteProtocolError, match="3 ApiVersions before authentication"):
        stranger.greets()


def kafkas(key: int, version: int, client_id: bytes = b"rdkafka") -> bytes:
    body = struct.pack(">hhih", key, version, 1, len(client_id)) + client_id
    return (struct.pack(">i", len(body)) + body)[:FIRST_BYTES]


OURS = b"".join(map(bytes, ClientConnection("app").handshake()[1]))[:FIRST_BYTES]


@pytest.mark.parametrize("first", [kafkas(18, 0), kafkas(18, 4), kafkas(3, 12), kafkas(18, 3, b"")])
def test_a_client_of_kafka_is_known_by_its_first_bytes(first: bytes) -> None:
    assert begins_like_kafka(first)
    assert not begins_like_ours(first)


def test_a_client_of_ours_is_known_by_its_first_bytes() -> None:
    assert begins_like_ours(OURS)
    assert not begins_like_kafka(OURS)


@pytest.mark.parametrize(
    "first",
    [b"", b"\0\0\0\x20", b"\x16\x03\x01\x02" * 4, b"GET / HTTP/1.1\r\n", bytes(16), b"\xff" * 16],
)
def test_other_first_bytes_are_of_neither(first: bytes) -> None:
    assert not begins_like_kafka(first)
    assert not begins_like_ours(first)
