"""Some records stay, and batches without the others are still batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.compaction import (
    LAST_OFFSET_DELTA_MAX,
    Holes,
    emptied,
    hole,
    is_hole,
    rest_of_hole,
    survivors,
    without,
)
from oncelog_protocol.records.batch import (
    KAFKA_MAGIC,
    MAGIC,
    BatchHeader,
    parse_header,
    stamp,
    stamp_append_time,
    verify_crc,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from oncelog_protocol.records.decode import RecordColumns, decode_batch
from support.logs import NOW_MS


def columns_of(
    keys: list[bytes | None] | None,
    values: list[bytes | None] | None = None,
    base_offset: int = 10,
    **options: object,
) -> RecordColumns:
    count = len(keys) if keys is not None else len(values or [])
    data = encode_batch(
        values or [b"v%d" % number for number in range(count)],
        keys=keys,
        base_offset=base_offset,
        **({"timestamps": NOW_MS} | options),  # type: ignore[arg-type]
    )
    return decode_batch(data)


@pytest.mark.parametrize(
    ("keys", "newest", "upto", "keep"),
    [
        ([b"a", b"b"], {}, 0, None),
        ([b"a", b"b"], {b"a": 10, b"b": 11}, 20, None),
        ([b"a", b"b"], {b"a": 12, b"b": 11}, 20, [False, True]),
        ([b"a", b"a"], {b"a": 11}, 20, [False, True]),
        ([b"a", b"b"], {b"a": 99, b"b": 99}, 100, [False, False]),
        ([b"a", b"a", b"b"], {b"a": 10}, 11, None),  # 11 and 12 are beyond the map
        ([b"a", None, None], {b"a": 10}, 12, [True, False, True]),
    ],
)
def test_survivors(
    keys: list[bytes | None], newest: dict[bytes, int], upto: int, keep: list[bool] | None
) -> None:
    assert survivors(columns_of(keys), newest, upto, 0) == keep


def test_records_without_keys_go_below_the_bound() -> None:
    columns = columns_of(None, [b"a", b"b"])
    assert survivors(columns, {}, 11, 0) == [False, True]


def test_tombstones_go_below_theirs() -> None:
    columns = columns_of([b"a", b"b", b"c"], [None, b"v", None])
    assert survivors(columns, {}, 20, 0) is None
    assert survivors(columns, {}, 20, 10) is None
    assert survivors(columns, {}, 20, 11) == [False, True, True]
    assert survivors(columns, {}, 20, 13) == [False, True, False]
    assert survivors(columns, {b"b": 15}, 20, 13) == [False, False, False]


ITEMS = st.lists(
    st.tuples(
        st.binary(max_size=3),
        st.none() | st.binary(max_size=40),
        st.integers(0, 1000),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


FORMATS = [(MAGIC, codec) for codec in NATIVE_CODECS] + [(KAFKA_MAGIC, codec) for codec in Codec]


@given(ITEMS, st.sampled_from(FORMATS), st.booleans())
def test_what_is_left_is_what_it_was(
    items: list[tuple[bytes, bytes | None, int, list[tuple[str, bytes | None]], bool]],
    form: tuple[int, Codec],
    append_time: bool,
) -> None:
    magic, codec = form
    data = encode_batch(
        [item[1] for item in items],
        keys=[item[0] for item in items],
        timestamps=[NOW_MS + item[2] for item in items],
        headers=[item[3] for item in items],
        codec=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
        magic=magic,
    )
    if append_time:
        stamp_append_time(data, 0, NOW_MS + 5)
    stamp(data, 0, 100, 3)
    for _ in range(2):  # and once more, of what has gaps already
        columns = decode_batch(data)
        rows = rows_of(columns)
        keep = [items[offset - 100][4] or len(rows) == 1 for offset in columns.offsets()]
        expected = [row for row, stays in zip(rows, keep, strict=True) if stays]
        left = without(columns, keep)
        if not expected:
            assert left is None
            return
        assert left is not None
        after = decode_batch(left)
        assert rows_of(after) == expected
        before = columns.header
        assert after.header.max_timestamp == (
            NOW_MS + 5 if append_time else max(row[3] for row in expected)
        )
        changed = {
            "batch_length": after.header.batch_length,
            "crc": after.header.crc,
            "record_count": len(expected),
            "max_timestamp": after.header.max_timestamp,
        }
        assert after.header == before._replace(**changed)
        data = left


def rows_of(
    columns: RecordColumns,
) -> list[tuple[int, bytes | None, bytes | None, int, object]]:
    return list(
        zip(
            columns.offsets(),
            columns.keys or [],
            columns.values,
            columns.timestamp_list(),
            columns.headers or [()] * len(columns),
            strict=True,
        )
    )


def test_what_compresses_too_well_is_not_compressed() -> None:
    values: list[bytes | None] = [b"\0" * 4_000_000, b"x"]
    columns = columns_of([b"a", b"b"], values, codec=Codec.NONE)
    columns.header = columns.header._replace(attributes=Codec.GZIP)
    left = without(columns, [True, False])
    assert left is not None
    assert parse_header(left).codec is Codec.NONE
    assert decode_batch(left).values == values[:1]


def test_a_hole_is_a_batch_without_records() -> None:
    data = hole(5, 100, 3, NOW_MS)
    verify_crc(data)
    header = parse_header(data)
    assert is_hole(header)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (5, 100, 3)
    assert header.max_timestamp == NOW_MS
    columns = decode_batch(data)
    assert (len(columns), list(columns.offsets()), columns.values) == (0, [], [])
    assert len(data) < 70
    rest = parse_header(rest_of_hole(header, 40))
    assert (rest.base_offset, rest.next_offset, rest.leader_epoch) == (40, 100, 3)


def header_of(base_offset: int, count: int, epoch: int = 0) -> BatchHeader:
    made = parse_header(encode_batch([b""] * min(count, 2), timestamps=base_offset))
    return made._replace(base_offset=base_offset, last_offset_delta=count - 1, leader_epoch=epoch)


def test_neighbours_become_one_hole_within_an_epoch() -> None:
    holes = Holes()
    assert holes.take() is None
    assert holes.add(header_of(0, 2)) is None
    assert holes.add(header_of(2, 3)) is None
    first = holes.add(header_of(5, 1, epoch=1))
    assert first is not None
    assert parse_header(first)[0:1] == (0,)
    assert (parse_header(first).next_offset, parse_header(first).max_timestamp) == (5, 2)
    second = holes.take()
    assert second is not None
    assert (parse_header(second).base_offset, parse_header(second).leader_epoch) == (5, 1)
    assert holes.take() is None


def test_a_hole_that_would_be_too_long_is_two() -> None:
    holes = Holes()
    assert holes.add(header_of(0, LAST_OFFSET_DELTA_MAX)) is None
    assert holes.add(header_of(LAST_OFFSET_DELTA_MAX, 1)) is None
    first = holes.add(header_of(LAST_OFFSET_DELTA_MAX + 1, 1))
    assert first is not None
    assert parse_header(first).last_offset_delta == LAST_OFFSET_DELTA_MAX
    second = holes.take()
    assert second is not None
    assert parse_header(second).base_offset == LAST_OFFSET_DELTA_MAX + 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_an_emptied_batch_still_says_whose_it_was(codec: Codec) -> None:
    data = encode_batch(
        [b"a", b"b"],
        keys=[b"k", b"l"],
        timestamps=NOW_MS,
        base_offset=10,
        codec=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=5,
    )
    before = parse_header(data)
    left = emptied(before)
    verify_crc(left)
    header = parse_header(left)
    assert is_hole(header)
    assert (header.base_offset, header.last_offset) == (10, 11)
    assert header[9:12] == before[9:12] == (7, 2, 5)
    assert header.max_timestamp == before.max_timestamp
    assert decode_batch(left).values == []
