"""The batch header has fields and a CRC; some are stamped in place, and some bytes are no batch."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatchError,
    TimestampType,
    assemble,
    iter_headers,
    parse_header,
    stamp,
    stamp_append_time,
    verify_crc,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.decode import decode_batch


def one_batch(**options: Any) -> bytearray:
    return encode_batch([b"a", b"bb", None], timestamps=[5, 6, 9], **options)


def edited(**changes: int) -> bytes:
    """A header with some fields set, wrong or not, and no body."""
    good = parse_header(assemble(parse_header(one_batch()), b""))
    return HEADER.pack(*good._replace(**changes))


def test_the_layout() -> None:
    assert HEADER_BYTES == 61
    header = BatchHeader(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    packed = HEADER.pack(*header)
    assert packed[0:8] == (1).to_bytes(8, "big")
    assert packed[8:12] == (2).to_bytes(4, "big")
    assert packed[12:16] == (3).to_bytes(4, "big")
    assert packed[16] == 4
    assert packed[17:21] == (5).to_bytes(4, "big")
    assert packed[21:23] == (6).to_bytes(2, "big")
    assert packed[57:61] == (13).to_bytes(4, "big")


def test_what_a_header_says() -> None:
    batch = one_batch(base_offset=100, leader_epoch=7, producer_id=8, producer_epoch=9)
    header = parse_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert header.size_bytes == len(batch)
    assert header.record_count == 3
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch) == (7, 8, 9)
    assert header.base_sequence == -1
    assert header.codec is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_attributes(codec: Codec) -> None:
    header = parse_header(one_batch(codec=codec, transactional=True, control=True))
    assert header.codec is codec
    assert header.codec_id == codec
    assert header.is_transactional
    assert header.is_control
    assert header.attributes == codec | TRANSACTIONAL_BIT | CONTROL_BIT


@pytest.mark.parametrize("codec_id", [2, 5, 6, 7])
def test_line_59_an_unknown_codec_can_be_told_from_a_broken_header(codec_id: int) -> None:
    header = parse_header(edited(attributes=codec_id))
    assert header.codec_id == codec_id
    with pytest.raises(CorruptBatchError, match=f"codec {codec_id}"):
        _ = header.codec


def test_a_header_within_a_larger_buffer() -> None:
    batch = one_batch(base_offset=5)
    assert parse_header(b"\xff" * 10 + batch, 10) == parse_header(memoryview(batch))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"magic": 0}, id="magic of another format"),
        pytest.param({"magic": 3}, id="magic of a format to come"),
        pytest.param({"batch_length": 0}, id="no length"),
        pytest.param({"batch_length": 48}, id="shorter than its header"),
        pytest.param({"batch_length": limits.BATCH_BYTES_MAX - 11}, id="longer than any batch"),
        pytest.param({"batch_length": 2**32 - 1}, id="4 GiB"),
        pytest.param({"record_count": -1}, id="count -1"),
        pytest.param({"record_count": 2**31 - 1}, id="count 2^31-1"),
        pytest.param(
            {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
            id="count 2^31-1 with a delta to match",
        ),
        pytest.param({"record_count": 4}, id="more records than offsets"),
        pytest.param({"last_offset_delta": 1}, id="fewer offsets than records"),
        pytest.param({"last_offset_delta": -1, "record_count": 0}, id="delta -1"),
        pytest.param({"base_offset": -1}, id="offset -1"),
        pytest.param({"base_offset": 2**63 - 1}, id="offsets beyond 63 bits"),
    ],
)
def test_headers_that_cannot_be(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptBatchError):
        parse_header(edited(**changes))


def test_the_last_offset_that_can_be() -> None:
    assert parse_header(edited(base_offset=2**63 - 4)).next_offset == 2**63 - 1


@pytest.mark.parametrize("size", [0, 1, 60])
def test_too_few_bytes_for_a_header(size: int) -> None:
    with pytest.raises(CorruptBatchError, match="of 61"):
        parse_header(bytes(size))


@pytest.mark.parametrize("pos", [-1, 1, 10**6])
def test_a_position_outside_the_buffer(pos: int) -> None:
    with pytest.raises(CorruptBatchError):
        parse_header(edited(), pos)


def test_line_51_every_byte_is_covered_or_stamped() -> None:
    batch = one_batch()
    verify_crc(batch)
    for at in range(len(batch)):
        broken = bytearray(batch)
        broken[at] ^= 0x01
        stamped = at < 8 or 12 <= at < 17  # base offset, leader epoch, magic
        if stamped:
            verify_crc(broken)
        else:
            with pytest.raises(CorruptBatchError):
                verify_crc(broken)


@pytest.mark.parametrize("cut", [1, 10, 70])
def test_the_crc_of_something_that_is_not_one_batch(cut: int) -> None:
    batch = one_batch()
    with pytest.raises(CorruptBatchError):
        verify_crc(batch[:-cut])
    with pytest.raises(CorruptBatchError):
        verify_crc(batch + bytes(cut))


@given(offset=st.integers(0, 2**62), epoch=st.integers(-1, 2**31 - 1))
def test_a_stamp_changes_offset_and_epoch_and_nothing_else(offset: int, epoch: int) -> None:
    batch = one_batch()
    before = decode_batch(batch)
    buf = bytearray(b"xx") + batch + b"yy"
    stamp(memoryview(buf), 2, offset, epoch)
    stamped = buf[2:-2]
    verify_crc(stamped)
    header = parse_header(stamped)
    assert header == before.header._replace(base_offset=offset, leader_epoch=epoch)
    assert decode_batch(stamped).values == before.values
    assert bytes(buf[:2] + buf[-2:]) == b"xxyy"


def test_the_brokers_time_stands_for_all_records() -> None:
    buf = bytearray(b"xx") + one_batch() + b"yy"
    stamp_append_time(memoryview(buf), 2, 1_000)
    columns = decode_batch(buf[2:-2])
    assert columns.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert columns.header.max_timestamp == 1_000
    assert columns.timestamp_list() == [1_000] * 3
    assert columns.timestamps is None
    assert columns.base_timestamp == 1_000
    assert bytes(buf[:2] + buf[-2:]) == b"xxyy"


def test_headers_of_several_batches() -> None:
    batches = [one_batch(base_offset=i * 3) for i in range(4)]
    found = list(iter_headers(memoryview(b"".join(batches))))
    assert [h.base_offset for _, h in found] == [0, 3, 6, 9]
    assert [pos for pos, _ in found] == [i * len(batches[0]) for i in range(4)]


def test_a_batch_cut_off_at_the_end_is_passed_over() -> None:
    batch = one_batch()
    for end in range(len(batch)):
        assert len(list(iter_headers(batch + batch[:end]))) == 1
    assert list(iter_headers(b"")) == []


def test_what_a_log_gives_ends_with_a_whole_batch() -> None:
    batch = one_batch()
    assert len(list(iter_headers(batch + batch, whole=True))) == 2
    assert list(iter_headers(b"", whole=True)) == []
    for end in range(1, len(batch)):
        headers = iter_headers(batch + batch[:end], whole=True)
        assert next(headers)[0] == 0
        with pytest.raises(CorruptBatchError, match=f"{end} bytes at the end"):
            next(headers)


def test_damage_among_several_batches() -> None:
    batch = one_batch()
    damaged = bytearray(batch)
    damaged[16] = 77
    headers = iter_headers(batch + damaged)
    assert next(headers)[0] == 0
    with pytest.raises(CorruptBatchError, match="magic 77"):
        next(headers)


def test_assembling_again_gives_the_same_batch() -> None:
    batch = one_batch(base_offset=4, leader_epoch=2)
    assert assemble(parse_header(batch), batch[HEADER_BYTES:]) == batch


def test_assembling_sets_length_magic_and_crc() -> None:
    odd = parse_header(one_batch())._replace(batch_length=1, magic=9, crc=1)
    batch = assemble(odd, b"body")
    header = parse_header(batch)
    assert header.size_bytes == len(batch) == HEADER_BYTES + 4
    assert struct.unpack(">I", batch[17:21])[0] == crc32c(bytes(batch[21:]))


def test_what_cannot_be_assembled() -> None:
    header = parse_header(one_batch())
    with pytest.raises(LocalProtocolError, match="at most"):
        assemble(header, bytes(limits.BATCH_BYTES_MAX - HEADER_BYTES + 1))
    with pytest.raises(LocalProtocolError, match="batch header"):
        assemble(header._replace(producer_epoch=2**15), b"")
