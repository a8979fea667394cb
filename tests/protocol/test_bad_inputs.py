"""A broker's end of a connection meets bad inputs, line by line.

The numbers are those of the list of bad inputs that this project keeps (framing 1 to 22, msgpack 23
to 38, batches 51 to 65). Here are the lines that a pure decoder can answer; deadlines, buffers and
closed sockets are tested with the server, and what only one function sees stands in its own tests.

For every row, before and after authentication: the connection ends with a
:class:`RemoteProtocolError` (or, where the row says so, a defined error that can be answered),
memory stays bounded by what arrived, and another connection notices nothing.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog_protocol import limits, schema
from oncelog_protocol.connection import ClientConnection, IncomingRequest, ServerConnection
from oncelog_protocol.errors import RemoteProtocolError
from oncelog_protocol.frame import encode_frame
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.packing import pack
from oncelog_protocol.records import CorruptBatchError, decode_batch, encode_batch
from oncelog_protocol.records.batch import CRC_END
from support.messages import buffer_bytes, feed

MIB = 2**20
MAX = limits.FRAME_BYTES_MAX


def hello() -> bytes:
    return buffer_bytes(ClientConnection("client-1").handshake()[1])


def framed(head: bytes, payload: bytes = b"") -> bytes:
    """Put any bytes into the head of a right frame."""
    return struct.pack(">II", 4 + len(head) + len(payload), len(head)) + head + payload


def metadata(body: bytes) -> bytes:
    """Return a Metadata request whose body is any bytes."""
    return framed(b"\x95" + pack(int(ApiKey.METADATA)) + pack(0) + pack(1) + pack("c") + body)


def deep(opener: bytes, depth: int = 10**5) -> bytes:
    return opener * depth + b"\xc0"


FRAMING = {
    "length 0": struct.pack(">I", 0),
    "length 2^31": struct.pack(">I", 2**31),
    "length -1": struct.pack(">i", -1),
    "length one above the limit": struct.pack(">I", MAX - 3),
    "length smaller than its own head field": struct.pack(">II", 3, 0),
    "no head": struct.pack(">II", 4, 0),
    "head longer than the frame": struct.pack(">II", 10, 7) + b"\x90" * 6,
    "head longer than any head": struct.pack(">II", MAX - 4, limits.HEAD_BYTES_MAX + 1),
    "a TLS ClientHello": bytes.fromhex("16030102000100fc0303") + bytes(range(256)),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "SMTP": b"EHLO example.org\r\n",
    "random bytes": bytes(255 - (i * 73) % 256 for i in range(256)),
    "two values in one head": framed(pack([3, 0, 1, "c", [None, False]]) * 2),
    "a client id of 64 KiB": framed(pack([3, 0, 1, "c" * 2**16, [None, False]])),
    "a client id that is not UTF-8": framed(b"\x95\x03\x00\x01\xa2\xc3\x28\x92\xc0\xc2"),
    "NUL in a client id": framed(pack([3, 0, 1, "a\0", [None, False]])),
}

MSGPACK = {
    "arrays 10^5 deep": metadata(deep(b"\x91")),
    "arrays 10^5 deep, without an end": metadata(b"\x91" * 10**5),
    "maps 10^5 deep": metadata(deep(b"\x81\x01")),
    "array32 of 2^32-1": metadata(b"\xdd\xff\xff\xff\xff"),
    "map32 of 2^32-1": metadata(b"\xdf\xff\xff\xff\xff"),
    "text longer than what is left": metadata(b"\xdb\xff\xff\xff\xff"),
    "bytes longer than what is left": metadata(b"\xc6\x7f\xff\xff\xff"),
    "a map with one key twice": metadata(b"\x92\xc0\x82\xa1a\x01\xa1a\x02"),
    "a flood of keys": metadata(
        b"\xde\x75\x30" + b"".join(b"\xa2" + struct.pack(">H", i) for i in range(0x7530)) * 2
    ),
    "an unknown extension": metadata(b"\x92\xc0\xd4\x2a\x00"),
    "a timestamp out of range": metadata(b"\x92\xc0\xd7\xff" + b"\xff" * 8),
    "an extension of no bytes": metadata(b"\x92\xc0\xc7\x00\x05"),
    "an extension of 2^31 bytes": metadata(b"\x92\xc0\xc9\x80\x00\x00\x00\x05"),
    "invalid UTF-8": metadata(b"\x92\x91\xa2\xc3\x28\xc2"),
    "NaN for a flag": metadata(pack([None, float("nan")])),
    "1 for true": metadata(pack([None, 1])),
    "uint64 for an offset": framed(pack([1, 0, 1, "c", [-1, 2**64 - 1, 0, 0, 0, 0, -1, [], []]])),
    "nil for a field that is needed": metadata(pack([None, None])),
    "a field is missing": metadata(pack([None])),
    "a field too many": metadata(pack([None, False, 1])),
    "the reserved byte": metadata(b"\xc1"),
    "a lone surrogate": metadata(b"\x92\x91\xa3\xed\xa0\x80\xc2"),
    "a topic of a million characters": metadata(pack([["t" * 10**6], False])),
    "more partitions than an array may have": metadata(
        pack([[""] * (limits.ARRAY_COUNT_MAX + 1), False])
    ),
    "batches outside the payload": framed(
        pack([0, 0, 1, "c", [None, -1, 0, [["t", [[0, [0, 100]]]]]]]), b"short"
    ),
    "two partitions in the same bytes": framed(
        pack([0, 0, 1, "c", [None, -1, 0, [["t", [[0, [0, 5]], [1, [0, 5]]]]]]]), b"batch"
    ),
    "acks beyond its field": framed(pack([0, 0, 1, "c", [None, 128, 0, []]])),
}

ROWS = {**FRAMING, **MSGPACK}
PHASES = {"before authentication": True, "after authentication": False}


@pytest.fixture
def neighbour() -> Iterator[None]:
    """It has another connection, which must still work after the bad input."""
    server = ServerConnection()
    client = ClientConnection("neighbour")
    assert feed(server, buffer_bytes(client.handshake()[1]))
    yield
    head = [int(ApiKey.METADATA), 0, 1, "neighbour", schema.encode(MetadataRequest(None), 0)]
    (request,) = feed(server, buffer_bytes(encode_frame(head)))
    assert request.message == MetadataRequest(None)


@pytest.mark.usefixtures("neighbour")
@pytest.mark.parametrize("greeted", [False, True], ids=["at once", "after the handshake"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ROWS)
def test_the_connection_ends_with_a_defined_error(row: str, phase: str, greeted: bool) -> None:
    data = ROWS[row]
    tracemalloc.start()
    try:
        server = ServerConnection(authenticates=PHASES[phase])
        if greeted:
            feed(server, hello())
        with pytest.raises(RemoteProtocolError) as caught:
            feed(server, data)
        assert tracemalloc.get_traced_memory()[1] < 24 * len(data) + 2 * MIB
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, 100])
def test_line_4_a_length_of_the_maximum_and_then_nothing(size: int) -> None:
    data = struct.pack(">II", MAX - 4, 100) + bytes(92)
    tracemalloc.start()
    try:
        server = ServerConnection()
        server.trust()
        assert feed(server, data[:size]) == []
        server.get_buffer(-1)
        assert server.partial
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024
    finally:
        tracemalloc.stop()


def test_line_7_one_byte_at_a_time_is_seen_as_a_frame_under_way() -> None:
    server = ServerConnection()
    for byte in hello()[:-1]:
        assert feed(server, bytes([byte])) == []
        assert server.partial


def test_line_8_nothing_sent_is_no_frame_under_way() -> None:
    assert not ServerConnection().partial


def test_line_12_ten_thousand_tiny_requests_in_one_go() -> None:
    server = ServerConnection()
    feed(server, hello())
    requests = feed(server, metadata(pack([[], False])) * 10_000)
    assert len(requests) == 10_000
    assert not server.partial


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        pytest.param(30_000, 0, id="an unknown API key"),
        pytest.param(3, 9, id="a version above"),
        pytest.param(3, -1, id="a version below"),
    ],
)
def test_lines_19_and_20_can_be_answered(api_key: int, version: int) -> None:
    server = ServerConnection()
    feed(server, hello())
    (request,) = feed(server, buffer_bytes(encode_frame([api_key, version, 1, "c", []])))
    assert isinstance(request, IncomingRequest)
    assert request.message is None
    assert request.error is not None
    assert request.error.name == "UNSUPPORTED_VERSION"


def test_line_23_a_request_cut_off_at_every_byte() -> None:
    head = pack([3, 0, 1, "client-1", [["orders", "t" * 40], True]])
    for end in range(len(head)):
        server = ServerConnection()
        feed(server, hello())
        with pytest.raises(RemoteProtocolError):
            feed(server, framed(head[:end]))


def test_line_37_numbers_in_longer_spellings_mean_the_same() -> None:
    short = framed(b"\x95\x03\x00\x01\xa1c\x92\xc0\xc2")
    longer = framed(
        b"\xdd\x00\x00\x00\x05\xcf"
        + bytes(7)
        + b"\x03\xd3"
        + bytes(8)
        + b"\xce\x00\x00\x00\x01\xd9\x01c\xdc\x00\x02\xc0\xc2"
    )
    messages = []
    for data in (short, longer):
        server = ServerConnection()
        feed(server, hello())
        messages.append(feed(server, data)[0].message)
    assert messages[0] == messages[1] == MetadataRequest(None)


def test_line_38_names_are_not_normalised() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    server = ServerConnection()
    feed(server, hello())
    (request,) = feed(server, metadata(pack([[composed, decomposed], False])))
    assert request.message.topics == [composed, decomposed]


def damaged(at: int, value: bytes) -> bytearray:
    batch = encode_batch([b"a", b"b"], timestamps=1)
    batch[at : at + len(value)] = value
    return batch


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(damaged(17, b"\0\0\0\0"), id="CRC 0"),
        pytest.param(damaged(57, (3).to_bytes(4, "big")), id="count above"),
        pytest.param(damaged(57, (1).to_bytes(4, "big")), id="count below"),
        pytest.param(damaged(57, bytes(4)), id="count 0"),
        pytest.param(damaged(57, b"\x7f\xff\xff\xff"), id="count 2^31-1"),
        pytest.param(damaged(23, (7).to_bytes(4, "big")), id="last offset delta"),
        pytest.param(damaged(CRC_END, b"\0\2"), id="codec 2"),
        pytest.param(damaged(CRC_END, b"\0\4"), id="a codec that the body is not of"),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_batches_that_do_not_hold(batch: bytearray, verify: bool) -> None:
    if not verify and batch[17:21] == bytes(4):
        return  # Nobody asked for the CRC.
    with pytest.raises(CorruptBatchError):
        decode_batch(batch, verify=verify)


@pytest.mark.parametrize("timestamp", [-1, 0, 253_402_300_799_000])
def test_line_62_odd_timestamps_are_carried_as_they_are(timestamp: int) -> None:
    # What a topic accepts is the log's decision; the format holds any 64 bits.
    batch = encode_batch([b"a", b"b"], timestamps=[timestamp + 5, timestamp])
    columns: Any = decode_batch(batch)
    assert columns.timestamps == [timestamp + 5, timestamp]
    assert columns.header.max_timestamp == timestamp + 5
