"""Packed values come through or are refused, at a bounded cost in memory."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import packing
from oncelog_protocol.packing import MalformedError, Packed, pack, unpack
from oncelog_protocol.types import Buffer

MIB = 2**20

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)


def loaded(data: Buffer, *, items: int = 100_000, arrays: int = 500_000) -> Any:
    return unpack(data, array_count_max=items, list_count_max=arrays)


def peak_bytes_of_refusing(data: bytes, *, items: int = 100_000, arrays: int = 500_000) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedError):
            loaded(data, items=items, arrays=arrays)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5), max_leaves=20))
def test_round_trip(value: Any) -> None:
    assert loaded(pack(value)) == value


def test_views_are_read_where_they_are() -> None:
    data = bytearray(b"xx") + pack([1, b"two"]) + b"yy"
    assert loaded(memoryview(data)[2:-2]) == [1, b"two"]


@pytest.mark.parametrize("value", [object(), 2**64, -(2**63) - 1, "\ud800", [[{1}]]])
def test_what_cannot_travel_is_refused_when_sent(value: object) -> None:
    with pytest.raises(MalformedError):
        pack(value)


def test_a_value_within_itself_is_refused_when_sent() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(MalformedError):
        pack(endless)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01\x02", id="two values"),
        pytest.param(b"\xc1", id="the reserved byte"),
        pytest.param(b"\x81\x01\x01", id="a map"),
        pytest.param(b"\xdf\xff\xff\xff\xff", id="a map of 4 billion"),
        pytest.param(b"\xd4\x05\x00", id="an unknown extension"),
        pytest.param(b"\xd6\xff\x00\x00\x00\x00", id="a timestamp"),
        pytest.param(b"\xd7\xff" + b"\xff" * 8, id="a timestamp out of range"),
        pytest.param(b"\xc9\x80\x00\x00\x00\x05", id="an extension of 2^31 bytes"),
        pytest.param(b"\xa2\xc3\x28", id="invalid UTF-8"),
        pytest.param(b"\xa3\xed\xa0\x80", id="a lone surrogate"),
        pytest.param(b"\xdb\xff\xff\xff\xffabc", id="text longer than what is left"),
        pytest.param(b"\xc6\xff\xff\xff\xffabc", id="bytes longer than what is left"),
        pytest.param(b"\xc4\x05abc", id="bytes cut off"),
        pytest.param(b"\x91" * 10**5, id="10^5 arrays deep"),
        pytest.param(b"\x91" * 10**5 + b"\xc0", id="10^5 arrays deep, and whole"),
        pytest.param(b"\x81" * 10**5, id="10^5 maps deep"),
    ],
)
def test_malformed_bytes(data: bytes) -> None:
    with pytest.raises(MalformedError):
        loaded(data)


def test_line_23_a_value_cut_off_anywhere() -> None:
    whole = pack([1, -7, 2**40, "text", b"bytes" * 100, [None, True, 1.5], "x" * 300])
    for end in range(len(whole)):
        with pytest.raises(MalformedError):
            loaded(whole[:end])
    assert loaded(whole)


def test_line_29_a_flood_of_keys_is_never_hashed() -> None:
    flood = b"\xdf" + struct.pack(">I", 10**6) + b"".join(b"\xa1%c\x01" % 97 for _ in range(10**5))
    assert peak_bytes_of_refusing(flood) < MIB


@pytest.mark.parametrize("kind", [b"\xdd", b"\xdf"], ids=["array32", "map32"])
def test_line_25_a_claim_of_4_billion_items_in_20_bytes(kind: bytes) -> None:
    data = kind + b"\xff\xff\xff\xff" + b"\x00" * 15
    assert len(data) == 20
    assert peak_bytes_of_refusing(data) < 64 * 1024


def test_a_claim_at_the_limit_within_a_claim_at_the_limit() -> None:
    # 64 KiB of array headers, each claiming as many items as there are bytes: 500 MiB if believed.
    data = (b"\xdd" + struct.pack(">I", 60_000)) * (64 * 1024 // 5)
    assert peak_bytes_of_refusing(data) < MIB


def test_small_claims_within_each_other_cost_no_more_than_said() -> None:
    data = (b"\xdc" + struct.pack(">H", packing.UNVERIFIED_COUNT_MAX)) * 682
    assert len(data) <= packing.UNVERIFIED_COUNT_MAX
    assert peak_bytes_of_refusing(data) < 17 * MIB


def test_empty_arrays_are_counted_in_large_values() -> None:
    # One byte each on the wire, and all of them there: 576 MiB if built.
    column = b"\xdd" + struct.pack(">I", 100_000) + b"\x90" * 100_000
    data = b"\xdc" + struct.pack(">H", 80) + column * 80
    assert peak_bytes_of_refusing(data, arrays=100_000) < 20 * MIB


def test_as_many_arrays_as_allowed_come_through() -> None:
    value = [[i] for i in range(40_000)]
    assert loaded(pack(value), arrays=40_001) == value
    with pytest.raises(MalformedError, match="more than 40000 arrays"):
        loaded(pack(value), arrays=40_000)


def test_more_items_than_allowed() -> None:
    assert loaded(pack([0] * 10), items=10) == [0] * 10
    with pytest.raises(MalformedError):
        loaded(pack([0] * 11), items=10)


@pytest.mark.parametrize(
    "data", [b"\x05", b"\xcc\x05", b"\xcd\x00\x05", b"\xcf" + b"\x00" * 7 + b"\x05"]
)
def test_line_37_longer_spellings_of_a_number_are_accepted(data: bytes) -> None:
    assert loaded(data) == 5


def test_the_library_really_makes_lists_before_it_reads_them() -> None:
    # The reason for the pass over large values; when this fails, that pass may go.
    data = (b"\xdd" + struct.pack(">I", 50_000)) * 500
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            msgpack.unpackb(data, max_array_len=50_000)
        assert tracemalloc.get_traced_memory()[1] > 16 * MIB
    finally:
        tracemalloc.stop()


def test_what_is_packed_already_stands_for_itself() -> None:
    plain = [1, "a", [True, [[1, "x"], [2, "y"]], None]]
    packed = [1, "a", [True, Packed(pack([[1, "x"], [2, "y"]])), None]]
    assert pack(packed) == pack(plain)
    assert pack(Packed(pack(7))) == pack(7)


def test_something_packed_in_a_place_of_its_own_is_refused() -> None:
    with pytest.raises(MalformedError):
        pack([[[Packed(b"")]]])
    with pytest.raises(MalformedError):
        pack([1, [object()]])
