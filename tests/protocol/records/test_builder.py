"""Making batches: what goes in comes out, sizes, and what is refused before it is sent."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.records.batch import HEADER_BYTES, parse_header, verify_crc
from oncelog_protocol.records.builder import encode_batch, estimate_bytes
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from oncelog_protocol.records.decode import decode_batch

BYTES = st.none() | st.binary(max_size=50)
TIMES = st.integers(-1, 2**48)
HEADERS = st.none() | st.lists(st.tuples(st.text("abcé", max_size=5), BYTES), max_size=3)


def columns_of(batch: bytearray) -> list[Any]:
    unpacked: list[Any] = msgpack.unpackb(batch[HEADER_BYTES:])
    return unpacked


@given(data=st.data())
def test_what_goes_in_comes_out(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 20))

    def column(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(items, min_size=count, max_size=count)

    values = data.draw(column(BYTES))
    keys = data.draw(st.none() | column(BYTES))
    timestamps = data.draw(TIMES | column(TIMES))
    headers = data.draw(st.none() | column(HEADERS))
    codec = data.draw(st.sampled_from(NATIVE_CODECS))
    batch = encode_batch(
        values, keys=keys, timestamps=timestamps, headers=headers, codec=codec, base_offset=7
    )
    verify_crc(batch)
    columns = decode_batch(batch)
    assert columns.values == values
    assert columns.keys == keys
    assert columns.timestamp_list() == (
        timestamps if isinstance(timestamps, list) else [timestamps] * count
    )
    assert list(columns.offsets()) == list(range(7, 7 + count))
    expected = [tuple(items or ()) for items in headers or []]
    assert columns.headers == (expected if any(expected) else None)
    header = columns.header
    assert (header.record_count, header.codec) == (count, codec)
    assert header.max_timestamp == max(columns.timestamp_list())


def test_fields_of_the_header() -> None:
    header = parse_header(
        encode_batch(
            [b"v"],
            timestamps=5,
            base_offset=1,
            leader_epoch=2,
            producer_id=3,
            producer_epoch=4,
            base_sequence=5,
        )
    )
    assert header.base_offset == 1
    assert header.leader_epoch == 2
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 4, 5)


def test_columns_that_say_nothing_are_nil() -> None:
    batch = encode_batch([b"a", None], timestamps=[5, 5], headers=[None, []])
    assert columns_of(batch) == [[b"a", None], None, None, None, None]


def test_timestamps_are_kept_as_differences_from_the_earliest() -> None:
    batch = encode_batch([b"a", b"b", b"c"], timestamps=[1005, 1000, 1009])
    assert columns_of(batch)[2] == [5, 0, 9]
    header = parse_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1009)


def test_headers_are_flat() -> None:
    batch = encode_batch([b"a", b"b"], timestamps=1, headers=[[("k", b"v"), ("k", None)], None])
    assert columns_of(batch)[3] == [["k", b"v", "k", None], None]


def test_offsets_with_gaps() -> None:
    batch = encode_batch([b"a", b"b"], timestamps=1, offset_deltas=[1, 5], base_offset=100)
    columns = decode_batch(batch)
    assert list(columns.offsets()) == [101, 105]
    assert columns.header.last_offset == 105


def test_offsets_without_gaps_take_no_room() -> None:
    plain = encode_batch([b"a", b"b"], timestamps=1)
    assert encode_batch([b"a", b"b"], timestamps=1, offset_deltas=[0, 1]) == plain


def test_small_records_take_at_most_65_percent_of_a_format_with_a_header_a_message() -> None:
    # The older way to lay a log out puts 34 bytes of header before every message.
    values = [b"0123456789"] * 7
    assert len(encode_batch(values, timestamps=1_700_000_000_000)) <= 0.65 * 7 * (34 + 10)


def test_constant_data_goes_out_uncompressed_where_decoders_would_refuse_the_ratio() -> None:
    values = [bytes(10_000)] * 1000
    batch = encode_batch(values, timestamps=1, codec=Codec.ZSTD)
    header = parse_header(batch)
    assert header.codec is Codec.NONE
    assert decode_batch(batch).values == values


@given(
    values=st.lists(BYTES, min_size=1, max_size=30),
    keyed=st.booleans(),
    times=st.booleans(),
)
def test_the_estimate_is_an_upper_bound(
    values: list[bytes | None], keyed: bool, times: bool
) -> None:
    keys = values if keyed else None
    timestamps = [i * 2**40 for i in range(len(values))] if times else 1
    batch = encode_batch(values, keys=keys, timestamps=timestamps)
    assert len(batch) <= estimate_bytes(values, keys)


def test_the_estimate_is_near_for_records_of_some_size() -> None:
    values = [b"x" * 100] * 1000
    assert estimate_bytes(values) < 1.15 * len(encode_batch(values, timestamps=1))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"values": []}, id="no records"),
        pytest.param({"values": [None] * (limits.BATCH_RECORD_COUNT_MAX + 1)}, id="too many"),
        pytest.param({"values": ["text", b""]}, id="text for a value"),
        pytest.param({"values": [5, b""]}, id="a number for a value"),
        pytest.param({"keys": [b"one"]}, id="fewer keys"),
        pytest.param({"keys": ["k", None]}, id="text for a key"),
        pytest.param({"timestamps": [1]}, id="fewer timestamps"),
        pytest.param({"timestamps": [1, 2.0]}, id="a float for a timestamp"),
        pytest.param({"timestamps": [1, None]}, id="nil for a timestamp"),
        pytest.param({"timestamps": 2**63}, id="a timestamp beyond 64 bits"),
        pytest.param({"headers": [None]}, id="fewer headers"),
        pytest.param({"headers": [[(b"k", b"v")], None]}, id="bytes for a header key"),
        pytest.param({"headers": [[(None, b"v")], None]}, id="nil for a header key"),
        pytest.param({"headers": [[("k", "v")], None]}, id="text for a header value"),
        pytest.param(
            {"headers": [[("k", None)] * (limits.HEADER_COUNT_MAX + 1), None]},
            id="too many headers",
        ),
        pytest.param({"headers": [[("\ud800", b"")], None]}, id="a lone surrogate"),
        pytest.param({"offset_deltas": [0]}, id="fewer offsets"),
        pytest.param({"offset_deltas": [1, 1]}, id="offsets that stand"),
        pytest.param({"offset_deltas": [1, 0]}, id="offsets that fall"),
        pytest.param({"offset_deltas": [-1, 0]}, id="negative offsets"),
        pytest.param({"offset_deltas": [0, 1.5]}, id="a float for an offset"),
        pytest.param({"offset_deltas": [0, 2**31]}, id="offsets too far apart"),
        pytest.param({"producer_epoch": 2**15}, id="a number beyond its field"),
        pytest.param({"values": [bytes(limits.BATCH_BYTES_MAX), b""]}, id="too large"),
    ],
)
def test_what_is_refused(changes: dict[str, Any]) -> None:
    options: dict[str, Any] = {"values": [b"a", b"b"], "timestamps": 1, **changes}
    with pytest.raises(LocalProtocolError):
        encode_batch(options.pop("values"), **options)


def test_headers_of_a_whole_batch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_HEADER_COUNT_MAX", 3)
    headers = [[("k", None)] * 2] * 2
    with pytest.raises(LocalProtocolError, match="headers"):
        encode_batch([b"a", b"b"], timestamps=1, headers=headers)
