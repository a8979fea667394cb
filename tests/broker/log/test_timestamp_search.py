"""Offsets by time agree with a scan over all records."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.log.timestamp_search import find_timestamp
from oncelog_protocol.records.batch import CRC_END, CRC_OFFSET, CorruptBatchError
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, batch, make_log, topic_config

CONFIG = topic_config(
    segment_bytes=1024, index_interval_bytes=150, message_timestamp_after_max_ms=10**9
)


@settings(max_examples=settings().max_examples * 4 // 5)
@given(
    st.lists(st.lists(st.integers(-1, 60), min_size=1, max_size=5), min_size=1, max_size=40),
    st.integers(0, 62),
    st.integers(0, 60),
    st.booleans(),
)
def test_agrees_with_a_scan(
    batches: list[list[int]], sought: int, start: int, closed: bool
) -> None:
    log = make_log(MemoryFiles(), CONFIG)
    records: list[tuple[int, int, int]] = []
    for epoch, stamps in enumerate(batches):
        stamps = [stamps[0], *[max(0, stamp) for stamp in stamps[1:]]]
        if stamps[0] < 0:
            stamps = [-1]
        for stamp in stamps:
            records.append((stamp, len(records), epoch))
        log.append_as_leader(batch(*[b"v"] * len(stamps), timestamps=stamps), epoch)
    start = min(start, len(records))
    log.advance_log_start(start)
    if closed:
        log.close()
    expected = next((r for r in records[start:] if r[0] >= sought), None)
    assert find_timestamp(log.segments, sought, start) == expected


def test_append_time_is_the_time_of_every_record() -> None:
    log = make_log(MemoryFiles(), topic_config(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(batch(b"a", b"b", timestamps=[1, 2]), 0)
    assert find_timestamp(log.segments, NOW_MS, 0) == (NOW_MS, 0, 0)
    assert find_timestamp(log.segments, NOW_MS, 1) == (NOW_MS, 1, 0)
    assert find_timestamp(log.segments, NOW_MS + 1, 0) is None


def test_a_body_that_does_not_decode_is_answered_with_its_batch() -> None:
    log = make_log(MemoryFiles())
    data = bytearray(encode_batch([b"x" * 500] * 3, timestamps=NOW_MS, codec=Codec.GZIP))
    data[-10:] = bytes(10)
    data[CRC_OFFSET:CRC_END] = crc32c(bytes(data[CRC_END:])).to_bytes(4, "big")
    log.append_as_leader(memoryview(data), 3)
    assert find_timestamp(log.segments, 5, 0) == (NOW_MS, 0, 3)
    assert find_timestamp(log.segments, 5, 2) == (NOW_MS, 2, 3)


def test_an_empty_log_has_no_record_of_any_time() -> None:
    assert find_timestamp(make_log(MemoryFiles()).segments, 0, 0) is None


def test_a_time_that_rotted_has_no_record_passed_over() -> None:
    files = MemoryFiles()
    log = make_log(files)
    for time_ms in (1, 5, 9):
        log.append_as_leader(batch(b"x", timestamps=[time_ms]), 0)
    assert find_timestamp(log.segments, 5, 0) == (5, 1, 0)
    path = log.segments[0].path
    start, header = log.segments[0].header_at(1)
    for position in range(start + CRC_OFFSET, start + header.size_bytes):
        for bit in range(8):
            files.corrupt(path, position, 1 << bit)
            with pytest.raises(CorruptBatchError):
                find_timestamp(log.segments, 5, 0)
            files.corrupt(path, position, 1 << bit)
    assert find_timestamp(log.segments, 5, 0) == (5, 1, 0)
