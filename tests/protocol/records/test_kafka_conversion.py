"""Our batches become Kafka's for readers that know no other; offsets and producers stay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    KAFKA_MAGIC,
    TRANSACTIONAL_BIT,
    CorruptBatchError,
    assemble,
    iter_headers,
    parse_header,
    stamp_append_time,
    verify_crc,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from oncelog_protocol.records.control import ControlType, decode_marker, encode_marker
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.records.kafka_body import decode_body
from oncelog_protocol.records.kafka_conversion import Conversion, to_kafka

T_MS = 1_700_000_000_000

TRANSACTIONAL = bytes.fromhex(
    "00000000000000000000005500000000026c5515ee0010000000020000018bcfe568000000018bcfe6797000000000"
    "000000070003000000050000000326000000026b0a76616c756504026802310268010c000a020101001000e0c50804"
    "000000"
)
"""kafka-python 3.0.12 wrote these three records, of producer 7 in its epoch 3."""


def converted(batch: bytes | bytearray) -> bytes:
    return bytes(to_kafka(batch, parse_header(batch)))


def test_it_is_what_a_kafka_client_writes() -> None:
    ours = encode_batch(
        [b"value", None, b""],
        keys=[b"k", None, b""],
        timestamps=[T_MS, T_MS + 5, T_MS + 70_000],
        headers=[[("h", b"1"), ("h", None)], None, None],
        leader_epoch=0,
        producer_id=7,
        producer_epoch=3,
        base_sequence=5,
        transactional=True,
        codec=Codec.ZSTD,
    )
    assert converted(ours) == TRANSACTIONAL
    assert converted(TRANSACTIONAL) == TRANSACTIONAL


BLOBS = st.none() | st.binary(max_size=5) | st.binary(min_size=60, max_size=130)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BLOBS), max_size=3)
RECORDS = st.lists(st.tuples(BLOBS, BLOBS, st.integers(0, 2**62), HEADERS), min_size=1, max_size=20)


@given(RECORDS, st.sampled_from(NATIVE_CODECS), st.booleans(), st.integers(0, 3))
def test_nothing_is_lost(
    records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    codec: Codec,
    append_time: bool,
    gap: int,
) -> None:
    values, keys, times, headers = (list(column) for column in zip(*records, strict=True))
    ours = encode_batch(
        values,
        keys=keys,
        timestamps=times,
        headers=headers,
        codec=codec,
        base_offset=1000,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        offset_deltas=[number * (gap + 1) for number in range(len(values))],
    )
    if append_time:
        stamp_append_time(ours, 0, T_MS)
    kafkas = converted(ours)
    verify_crc(kafkas)
    before, after = decode_batch(ours), decode_batch(kafkas)
    assert after.values == before.values
    assert after.keys or [None] * len(values) == before.keys
    assert after.timestamp_list() == before.timestamp_list()
    assert (after.headers or [()] * len(values)) == (before.headers or [()] * len(values))
    assert list(after.offsets()) == list(before.offsets())
    assert after.header == before.header._replace(
        magic=KAFKA_MAGIC,
        attributes=before.header.attributes & ~0x07,
        batch_length=after.header.batch_length,
        crc=after.header.crc,
    )


@pytest.mark.parametrize("kind", list(ControlType))
@pytest.mark.parametrize("first_offset", [-1, 12])
def test_markers_have_the_value_that_kafkas_readers_know(
    kind: ControlType, first_offset: int
) -> None:
    ours = encode_marker(
        kind,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=5,
        timestamp_ms=T_MS,
        base_offset=40,
        leader_epoch=2,
        first_offset=first_offset,
    )
    kafkas = converted(ours)
    verify_crc(kafkas)
    header = parse_header(kafkas)
    assert header.attributes == TRANSACTIONAL_BIT | CONTROL_BIT
    assert (header.base_offset, header.producer_id, header.producer_epoch) == (40, 7, 3)
    body = decode_body(kafkas[HEADER_BYTES:], 1)
    assert body.keys == [b"\0\0\0" + bytes([kind])]
    assert body.values == [b"\0\0\0\0\0\5"]
    assert decode_marker(kafkas) == decode_marker(ours)._replace(first_offset=-1)


def emptied(base_offset: int) -> bytes:
    batch = encode_batch([b"v"] * 3, timestamps=T_MS, base_offset=base_offset, codec=Codec.GZIP)
    body = encode_batch([b"v"], timestamps=T_MS)[HEADER_BYTES:]
    return bytes(assemble(parse_header(batch)._replace(record_count=0, attributes=0), body))


def ours(base_offset: int, size: int = 1) -> bytes:
    return bytes(encode_batch([b"o" * size], timestamps=T_MS, base_offset=base_offset))


def kafkas(base_offset: int, size: int = 1) -> bytes:
    options: dict[str, Any] = {"magic": KAFKA_MAGIC, "base_offset": base_offset}
    return bytes(encode_batch([b"k" * size], timestamps=T_MS, **options))


def all_of(*batches: bytes) -> Conversion:
    conversion = Conversion(b"".join(batches))
    assert conversion.step(1 << 20, 1 << 20)
    assert conversion.size_bytes == sum(map(len, conversion.pieces))
    return conversion


def test_kafkas_batches_go_out_as_they_are_and_neighbours_as_one_piece() -> None:
    conversion = all_of(kafkas(0), kafkas(1), ours(2), kafkas(3), emptied(4), kafkas(7))
    assert [bytes(piece) for piece in conversion.pieces] == [
        kafkas(0) + kafkas(1),
        converted(ours(2)),
        kafkas(3),
        kafkas(7),
    ]


def test_emptied_batches_are_sent_when_there_is_nothing_else() -> None:
    conversion = all_of(emptied(0), emptied(3))
    (only,) = conversion.pieces
    header = parse_header(only)
    verify_crc(only)
    assert (header.base_offset, header.last_offset, header.record_count) == (3, 5, 0)
    assert (header.magic, len(only)) == (KAFKA_MAGIC, HEADER_BYTES)
    assert all_of().pieces == []
    assert [parse_header(piece).base_offset for piece in all_of(emptied(0), ours(3)).pieces] == [3]


def test_an_answer_is_converted_by_turns_and_no_further_than_asked_for() -> None:
    conversion = Conversion(b"".join(ours(number, 1000) for number in range(10)))
    turns = 1
    while not conversion.step(2000, 5000):
        turns += 1
        assert len(conversion.pieces) == 2 * (turns - 1)
    assert (turns, len(conversion.pieces)) == (3, 5)
    first = Conversion(ours(0, 1000) + ours(1))
    assert not first.step(1, 1)
    assert first.step(1, 1), "the next batch is left out"
    assert [parse_header(piece).base_offset for piece in first.pieces] == [0]


def test_kafkas_batches_are_no_part_of_what_may_be_converted() -> None:
    theirs = kafkas(0, 1000) + kafkas(1, 1000)
    whole = Conversion(theirs)
    assert whole.step(1 << 20, 0)
    assert (b"".join(whole.pieces), whole.converted_bytes) == (theirs, 0)
    mixed = Conversion(theirs + ours(2) + kafkas(3, 1000) + ours(4) + kafkas(5))
    assert mixed.step(1 << 20, 1)
    offsets = [header.base_offset for _, header in iter_headers(b"".join(mixed.pieces), whole=True)]
    assert offsets == [0, 1, 2, 3]
    assert mixed.converted_bytes == len(converted(ours(2)))


def test_what_does_not_hold_ends_the_answer_before_it() -> None:
    body = bytearray(ours(1))
    body[HEADER_BYTES] ^= 0xFF
    rotten = bytes(body)
    assert [parse_header(p).base_offset for p in all_of(ours(0), rotten, ours(2)).pieces] == [0]
    assert [parse_header(p).record_count for p in all_of(emptied(0), rotten).pieces] == [0]
    for bad in (rotten, ours(0)[:-1], b"rubbish" * 20):
        with pytest.raises(CorruptBatchError):
            Conversion(bad).step(1 << 20, 1 << 20)


@pytest.mark.slow
def test_what_would_be_too_large_keeps_its_codec() -> None:
    value = bytes(range(256)) * 4096
    batch = encode_batch(
        [b"%d" % number + value for number in range(17)],
        timestamps=T_MS,
        codec=Codec.GZIP,
    )
    large = converted(batch)
    assert len(large) < limits.BATCH_BYTES_MAX
    assert parse_header(large).codec is Codec.GZIP
    assert decode_batch(large).values == decode_batch(batch).values


@given(st.lists(st.sampled_from(["ours", "kafkas", "emptied"]), max_size=8), st.integers(1, 500))
def test_readers_go_on_behind_whatever_lies_there(kinds: list[str], turn_bytes: int) -> None:
    make = {"ours": ours, "kafkas": kafkas, "emptied": emptied}
    data, offset, last = b"", 0, -1
    expected = []
    for kind in kinds:
        batch = make[kind](offset)
        data += batch
        offset = parse_header(batch).next_offset
        last = offset
        if kind != "emptied":
            expected.append(parse_header(batch).base_offset)
    conversion = Conversion(data)
    while not conversion.step(turn_bytes, 1 << 20):
        pass
    sent = [header for _, header in iter_headers(b"".join(conversion.pieces), whole=True)]
    assert [header.base_offset for header in sent if header.record_count] == expected
    assert all(header.magic == KAFKA_MAGIC for header in sent)
    if kinds and not expected:
        assert sent[-1].next_offset == last
