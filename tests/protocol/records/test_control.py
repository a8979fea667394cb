"""Commit and abort markers."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.records.batch import CorruptBatchError, parse_header, verify_crc
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, Marker, decode_marker, encode_marker


@pytest.mark.parametrize("control_type", list(ControlType))
def test_a_marker_there_and_back(control_type: ControlType) -> None:
    batch = encode_marker(
        control_type,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp_ms=1000,
        base_offset=55,
        leader_epoch=2,
    )
    verify_crc(batch)
    header = parse_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert header.record_count == 1
    assert header.leader_epoch == 2
    assert decode_marker(batch) == Marker(control_type, 7, 3, 12, 55, 1000)


def test_a_marker_may_tell_where_its_transaction_begins() -> None:
    batch = encode_marker(
        ControlType.ABORT,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp_ms=1000,
        base_offset=55,
        first_offset=2**40,
    )
    assert decode_marker(batch) == Marker(ControlType.ABORT, 7, 3, 12, 55, 1000, 2**40)


@pytest.mark.parametrize("first_offset", [-1, 2**40])
def test_a_marker_may_end_a_transaction_by_its_number(first_offset: int) -> None:
    batch = encode_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=3,
        coordinator_epoch=12,
        timestamp_ms=1000,
        base_offset=55,
        first_offset=first_offset,
        number=2**33,
    )
    told = Marker(ControlType.COMMIT, 7, 3, 12, 55, 1000, first_offset, 2**33)
    assert decode_marker(batch) == told


def test_the_bytes_are_kafkas() -> None:
    batch = encode_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=5, timestamp_ms=0
    )
    assert b"\x00\x00\x00\x01" in batch  # version 0, type 1
    assert b"\x00\x00\x00\x00\x00\x05" in batch  # version 0, coordinator epoch 5


def control_batch(key: bytes | None, value: bytes | None, **options: Any) -> bytearray:
    return encode_batch([value], keys=[key], timestamps=0, **{"control": True, **options})


KEY, VALUE = b"\0\0\0\1", b"\0\0\0\0\0\5"


def test_the_smallest_legal_marker() -> None:
    assert decode_marker(control_batch(KEY, VALUE)).coordinator_epoch == 5


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(control_batch(KEY, VALUE, control=False), id="no control bit"),
        pytest.param(control_batch(None, VALUE), id="no key"),
        pytest.param(control_batch(KEY, b"\0\0\0\0\0\5" + b"\0" * 8), id="version 0, longer"),
        pytest.param(control_batch(KEY, b"\0\1\0\0\0\5"), id="version 1, shorter"),
        pytest.param(control_batch(KEY, b"\0\1\0\0\0\5" + b"\0" * 16), id="version 1, longer"),
        pytest.param(control_batch(KEY, b"\0\2\0\0\0\5" + b"\0" * 8), id="version 2, shorter"),
        pytest.param(control_batch(KEY, None), id="no value"),
        pytest.param(control_batch(KEY + b"\0", VALUE), id="a longer key"),
        pytest.param(control_batch(KEY, VALUE[:-1]), id="a shorter value"),
        pytest.param(control_batch(b"\0\1\0\1", VALUE), id="another version of the key"),
        pytest.param(control_batch(KEY, b"\0\1\0\0\0\5"), id="another version of the value"),
        pytest.param(control_batch(b"\0\0\0\2", VALUE), id="an unknown type"),
        pytest.param(encode_batch([VALUE], timestamps=0, control=True), id="no keys at all"),
        pytest.param(
            encode_batch([VALUE] * 2, keys=[KEY] * 2, timestamps=0, control=True), id="two records"
        ),
    ],
)
def test_what_is_no_marker(batch: bytearray) -> None:
    with pytest.raises(CorruptBatchError, match="marker"):
        decode_marker(batch)


def test_damage_is_found() -> None:
    batch = control_batch(KEY, VALUE)
    batch[-6] ^= 1
    with pytest.raises(CorruptBatchError):
        decode_marker(batch)


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(LocalProtocolError):
        encode_marker(
            ControlType.ABORT,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=2**31,
            timestamp_ms=0,
        )
