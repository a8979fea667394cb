"""Batches are read into columns, and bodies made to hurt are refused."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest

from oncelog_protocol import limits
from oncelog_protocol.packing import pack
from oncelog_protocol.records.batch import (
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    CorruptBatchError,
    assemble,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec, compress
from oncelog_protocol.records.decode import RecordColumns, decode_batch

MIB = 2**20
NIL = None


def batch_of(
    body: bytes, count: int, *, delta: int | None = None, attributes: int = 0, timestamp: int = 100
) -> bytearray:
    """Return a batch with a right header and CRC around any body."""
    last = count - 1 if delta is None else delta
    header = BatchHeader(10, 0, 3, 1, 0, attributes, last, timestamp, timestamp, -1, -1, -1, count)
    return assemble(header, body)


def columns(*column: Any, count: int = 2, **options: Any) -> RecordColumns:
    return decode_batch(batch_of(pack(list(column)), count, **options))


def test_only_what_is_there() -> None:
    read = columns([b"a", NIL], NIL, NIL, NIL, NIL)
    assert read.values == [b"a", None]
    assert read.keys is None
    assert read.timestamps is None
    assert read.headers is None
    assert read.offset_deltas is None
    assert read.offsets() == range(10, 12)
    assert read.timestamp_list() == [100, 100]
    assert (read.base_offset, read.base_timestamp, len(read)) == (10, 100, 2)


def test_everything() -> None:
    read = columns(
        [b"a", b"b"], [b"k", NIL], [0, -5], [NIL, ["h", b"1", "h", NIL]], [0, 4], delta=4
    )
    assert read.keys == [b"k", None]
    assert read.timestamps == read.timestamp_list() == [100, 95]
    assert read.headers == [(), (("h", b"1"), ("h", None))]
    assert list(read.offsets()) == [10, 14]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([["a", b"1"], ["b", NIL]], [(("a", b"1"),), (("b", None),)]),
        ([["a", b"1"], NIL], [(("a", b"1"),), ()]),
        ([[], ["a", b"1"]], [(), (("a", b"1"),)]),
        ([["a", b"1", "b", b"2"]] * 2, [(("a", b"1"), ("b", b"2"))] * 2),
        ([NIL, NIL], [(), ()]),
    ],
)
def test_headers_however_they_are_spread(headers: Any, expected: Any) -> None:
    assert columns([b"", b""], NIL, NIL, headers, NIL).headers == expected


def test_the_brokers_time_outweighs_differences_in_the_body() -> None:
    read = columns([b"a", b"b"], NIL, [1, 2], NIL, NIL, attributes=TIMESTAMP_TYPE_BIT)
    assert read.timestamps is None
    assert read.timestamp_list() == [100, 100]


def test_a_batch_that_compaction_emptied() -> None:
    read = columns([], NIL, NIL, NIL, [], count=0, delta=4)
    assert read.values == []
    assert list(read.offsets()) == []
    assert read.header.last_offset == 14


def test_the_input_may_be_a_view() -> None:
    batch = encode_batch([b"a"], timestamps=1)
    assert decode_batch(memoryview(b"xx" + batch)[2:]).values == [b"a"]


def test_verification_can_be_left_out() -> None:
    batch = encode_batch([b"abc"], timestamps=1)
    batch[-6] ^= 1
    with pytest.raises(CorruptBatchError, match="CRC"):
        decode_batch(batch)
    assert decode_batch(batch, verify=False).values != [b"abc"]


@pytest.mark.parametrize(
    "column",
    [
        pytest.param([[b"a"], NIL, NIL, NIL, NIL], id="fewer values than the header says"),
        pytest.param([[b"a"] * 3, NIL, NIL, NIL, NIL], id="more values"),
        pytest.param([NIL, NIL, NIL, NIL, NIL], id="no values"),
        pytest.param([b"ab", NIL, NIL, NIL, NIL], id="bytes for values"),
        pytest.param([["a", b"b"], NIL, NIL, NIL, NIL], id="text for a value"),
        pytest.param([[1, b"b"], NIL, NIL, NIL, NIL], id="a number for a value"),
        pytest.param([[True, b"b"], NIL, NIL, NIL, NIL], id="a bool for a value"),
        pytest.param([[[], b"b"], NIL, NIL, NIL, NIL], id="an array for a value"),
        pytest.param([[b"a", b"b"], [b"k"], NIL, NIL, NIL], id="fewer keys"),
        pytest.param([[b"a", b"b"], ["k", NIL], NIL, NIL, NIL], id="text for a key"),
        pytest.param([[b"a", b"b"], 5, NIL, NIL, NIL], id="a number for keys"),
        pytest.param([[b"a", b"b"], NIL, [0], NIL, NIL], id="fewer timestamps"),
        pytest.param([[b"a", b"b"], NIL, [0, NIL], NIL, NIL], id="nil for a timestamp"),
        pytest.param([[b"a", b"b"], NIL, [0, True], NIL, NIL], id="a bool for a timestamp"),
        pytest.param([[b"a", b"b"], NIL, [0, 1.0], NIL, NIL], id="a float for a timestamp"),
        pytest.param([[b"a", b"b"], NIL, [0, 2**63 - 1], NIL, NIL], id="beyond 64 bits"),
        pytest.param([[b"a", b"b"], NIL, [0, 2**64 - 1], NIL, NIL], id="uint64"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL], NIL], id="fewer headers"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, ["k"]], NIL], id="a key alone"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, [NIL, b""]], NIL], id="key nil"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, [b"k", b""]], NIL], id="key bytes"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, ["k", "v"]], NIL], id="text for a value"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, ["k", []]], NIL], id="an array for a value"),
        pytest.param([[b"a", b"b"], NIL, NIL, [NIL, "kv"], NIL], id="text for headers"),
        pytest.param(
            [[b"a", b"b"], NIL, NIL, [NIL, ["k", NIL] * (limits.HEADER_COUNT_MAX + 1)], NIL],
            id="too many headers",
        ),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [0]], id="fewer offsets"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [0, 2]], id="beyond the last offset"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [-1, 1]], id="before the first offset"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [1, 1]], id="offsets that stand"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [1, 0]], id="offsets that fall"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, [0, True]], id="a bool for an offset"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL], id="four columns"),
        pytest.param([[b"a", b"b"], NIL, NIL, NIL, NIL, NIL], id="six columns"),
    ],
)
def test_columns_that_do_not_hold(column: list[Any]) -> None:
    with pytest.raises(CorruptBatchError):
        columns(*column)


def test_line_54_offsets_are_missing_where_there_are_gaps() -> None:
    with pytest.raises(CorruptBatchError, match="no offsets"):
        columns([b"a", b"b"], NIL, NIL, NIL, NIL, delta=2)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc0\xc0\xc0", id="not an array"),
        pytest.param(b"\x85" + b"\xc0" * 10, id="a map"),
        pytest.param(pack([[b"a"], NIL, NIL, NIL, NIL]) + b"\0", id="a trailing byte"),
        pytest.param(b"\x91" * 10**5, id="10^5 arrays deep"),
        pytest.param(b"\xdd\xff\xff\xff\xff", id="2^32-1 columns"),
        pytest.param(b"\x95\xdd\xff\xff\xff\xff", id="2^32-1 values"),
        pytest.param(b"\x95\x91\xc6\xff\xff\xff\xffabc", id="a value of 4 GiB"),
    ],
)
def test_bodies_that_are_not_columns(body: bytes) -> None:
    with pytest.raises(CorruptBatchError):
        decode_batch(batch_of(body, 1))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda c: c.name)
def test_line_59_a_body_that_is_not_of_its_codec(codec: Codec) -> None:
    body = pack([[b"a"], NIL, NIL, NIL, NIL])
    good = compress(codec, body)
    assert decode_batch(batch_of(good, 1, attributes=codec)).values == [b"a"]
    for bad in (body, good[:-1], good + b"\0", b"", compress(codec, good)):
        with pytest.raises(CorruptBatchError):
            decode_batch(batch_of(bad, 1, attributes=codec))


@pytest.mark.parametrize("attributes", [2, 5, 6, 7])
def test_line_59_an_unknown_codec(attributes: int) -> None:
    with pytest.raises(CorruptBatchError, match="codec"):
        decode_batch(batch_of(pack([[b"a"], NIL, NIL, NIL, NIL]), 1, attributes=attributes))


@pytest.mark.parametrize("cut", [1, 12, 61, 70])
def test_a_batch_that_is_not_whole_or_not_alone(cut: int) -> None:
    batch = encode_batch([b"a" * 20], timestamps=1)
    with pytest.raises(CorruptBatchError):
        decode_batch(batch[:-cut])
    with pytest.raises(CorruptBatchError):
        decode_batch(batch + batch[:cut])
    with pytest.raises(CorruptBatchError):
        decode_batch(batch + batch)


def peak_bytes_of_refusing(batch: bytearray) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError):
            decode_batch(batch)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda c: c.name)
def test_line_58_a_compressed_flood_of_empty_arrays(codec: Codec) -> None:
    # 512 KiB of one-byte arrays behind a few hundred bytes: 36 MiB if they were all built.
    flood = b"\x95" + b"\xdd" + struct.pack(">I", 500_000) + b"\x90" * 500_000
    batch = batch_of(compress(codec, flood), 1000, attributes=codec)
    assert peak_bytes_of_refusing(batch) < 8 * MIB


def test_line_52_a_count_that_the_body_cannot_hold() -> None:
    count = limits.BATCH_RECORD_COUNT_MAX
    body = b"\x95\xdd" + struct.pack(">I", count) + bytes(100)
    assert peak_bytes_of_refusing(batch_of(body, count)) < 64 * 1024


def test_claims_within_claims() -> None:
    count = 300_000
    body = (b"\xdd" + struct.pack(">I", count)) * (count // 5 + 1)
    assert peak_bytes_of_refusing(batch_of(body, count)) < 4 * MIB


def test_line_61_a_million_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_HEADER_COUNT_MAX", 3)
    with pytest.raises(CorruptBatchError, match="headers"):
        columns([b"", b""], NIL, NIL, [["k", NIL] * 2] * 2, NIL)


def test_line_64_a_million_records_of_one_byte() -> None:
    values: list[bytes | None] = [b"x"] * limits.BATCH_RECORD_COUNT_MAX
    read = decode_batch(encode_batch(values, timestamps=1))
    assert len(read) == limits.BATCH_RECORD_COUNT_MAX
