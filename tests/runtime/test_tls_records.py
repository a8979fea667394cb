"""Bounds of records are found however their bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_runtime.tls_records import RecordBounds


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2) + b"x" * size


@pytest.mark.parametrize("size", [1, 2, 255, 256, 16_384 + 256])
def test_a_record_ends_with_its_last_byte_and_not_before(size: int) -> None:
    bounds = RecordBounds()
    assert not bounds.within
    data = memoryview(record(size))
    for at in range(len(data) - 1):
        assert bounds.take(data[at : at + 1]) == 0
        assert bounds.within
    assert bounds.take(data[-1:]) == 1
    assert not bounds.within


def test_a_record_without_a_body_ends_with_its_header() -> None:
    bounds = RecordBounds()
    assert bounds.take(memoryview(record(0) * 3)) == 3
    assert not bounds.within


@given(
    sizes=st.lists(st.integers(0, 40), max_size=8),
    cuts=st.lists(st.integers(1, 60), max_size=8),
    more=st.integers(0, 3),
)
def test_it_does_not_matter_how_bytes_come(sizes: list[int], cuts: list[int], more: int) -> None:
    data = memoryview(b"".join(map(record, sizes)) + record(9)[:more])
    bounds, ended, at = RecordBounds(), 0, 0
    for cut in [*cuts, len(data)]:
        ended += bounds.take(data[at : at + cut])
        at += cut
    assert ended == len(sizes)
    assert bounds.within == bool(more)
