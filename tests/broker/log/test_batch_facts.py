"""A batch is told by its header, and a marker by how the transaction ended."""

from __future__ import annotations

import pytest

from oncelog_broker.log.batch_facts import (
    MARKER_BYTES_MAX,
    codec_name,
    described_batch,
    read_marker,
)
from oncelog_protocol.records.batch import CorruptBatchError, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_runtime.files import File
from oncelog_testing.memory.files import MemoryFiles


def file_of(data: bytes | bytearray) -> File:
    files = MemoryFiles("/log")
    file = files.open("/log/f", create=True)
    file.append([data])
    return file


def test_a_batch_of_records() -> None:
    data = encode_batch(
        [b"a", b"b"],
        timestamps=[5, 9],
        codec=Codec.GZIP,
        base_offset=40,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=2,
        base_sequence=11,
        transactional=True,
    )
    told = described_batch(file_of(data), 30, 0, parse_header(data))
    assert (told.segment, told.position, told.base_offset, told.last_offset) == (30, 0, 40, 41)
    assert (told.record_count, told.size_bytes, told.leader_epoch) == (2, len(data), 3)
    assert (told.codec, told.timestamp_type) == ("gzip", "create_time")
    assert (told.base_timestamp, told.max_timestamp) == (5, 9)
    assert (told.producer_id, told.producer_epoch, told.base_sequence) == (7, 2, 11)
    assert (told.transactional, told.marker) == (True, "")


@pytest.mark.parametrize("kind", ControlType)
def test_a_marker(kind: ControlType) -> None:
    data = encode_marker(
        kind, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp_ms=1, first_offset=3
    )
    assert len(data) <= MARKER_BYTES_MAX
    file, header = file_of(data), parse_header(data)
    assert described_batch(file, 0, 0, header).marker == kind.name.lower()
    assert read_marker(file, 0, header).first_offset == 3


def test_a_control_batch_that_is_no_marker() -> None:
    small = encode_batch([b"x"], timestamps=1, keys=[b"k"], transactional=True, control=True)
    large = encode_batch([b"x" * 300], timestamps=1, transactional=True, control=True)
    for data in (small, large):
        file, header = file_of(data), parse_header(data)
        assert described_batch(file, 0, 0, header).marker == "unknown"
        with pytest.raises(CorruptBatchError, match="marker"):
            read_marker(file, 0, header)


def test_a_codec_without_a_name() -> None:
    header = parse_header(encode_batch([b"x"], timestamps=1))
    assert codec_name(header) == "none"
    assert codec_name(header._replace(attributes=7)) == "unknown (7)"
