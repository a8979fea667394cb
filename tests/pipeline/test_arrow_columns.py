"""The log's columns become Spark's, by value and by Arrow type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import ColumnBatch
from pyspark_oncelog.arrow_columns import Making, record_batch
from pyspark_oncelog.options import SourceOptions

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
OPTIONS = SourceOptions.parse({"bootstrap.servers": "a:1", "subscribe": "t"})

payloads = st.one_of(st.none(), st.binary(max_size=5))
headers = st.lists(st.tuples(st.text(max_size=3), payloads), max_size=3).map(tuple)
records = st.tuples(payloads, payloads, st.integers(0, 2**40), headers)


@st.composite
def log_batches(draw: st.DrawFn) -> list[ColumnBatch]:
    """Draw batches of a partition, with and without keys, headers, gaps, one time for all."""
    batches: list[ColumnBatch] = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(records, min_size=1, max_size=5))
        keys, values, times, heads = (list(column) for column in zip(*rows, strict=True))
        if draw(st.booleans()):
            times = [times[0]] * len(times)
        offsets: Sequence[int] = range(offset, offset + len(rows))
        if draw(st.booleans()):
            offsets = [offset + 2 * index for index in range(len(rows))]
        batches.append(
            ColumnBatch(
                "orders",
                3,
                offsets,
                times,
                keys if draw(st.booleans()) else None,
                values,
                heads if draw(st.booleans()) else None,
                draw(st.integers(0, 1)),
            )
        )
        offset = batches[-1].next_offset
    return batches


def rows_of(batches: Sequence[ColumnBatch]) -> list[dict[str, Any]]:
    return [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": EPOCH + timedelta(milliseconds=record.timestamp),
            "timestampType": batch.timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for batch in batches
        for record in batch.records()
    ]


@given(log_batches())
def test_every_record_is_there_as_it_was(batches: list[ColumnBatch]) -> None:
    made = record_batch(batches, Making(SCHEMA, OPTIONS))
    made.validate(full=True)
    assert made.schema.equals(SCHEMA)
    assert made.to_pylist() == rows_of(batches)
    assert made.column(made.schema.names.index("headers")).null_count == 0


@given(log_batches(), st.permutations(SCHEMA.names), st.integers(0, 8))
def test_only_what_is_wanted_is_made(
    batches: list[ColumnBatch], names: list[str], count: int
) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names[:count]])
    made = record_batch(batches, Making(schema, OPTIONS))
    assert made.schema.equals(schema)
    if count:
        expected = [{name: row[name] for name in names[:count]} for row in rows_of(batches)]
        assert made.to_pylist() == expected


def test_text_is_decoded() -> None:
    batch = ColumnBatch("t", 0, range(2), [1, 2], None, [b"\xc3\xa9", None], None)
    options = SourceOptions.parse(
        {"bootstrap.servers": "a:1", "subscribe": "t", "valueFormat": "string"}
    )
    made = record_batch([batch], Making(pa.schema([("value", pa.string())]), options))
    assert made.to_pylist() == [{"value": "é"}, {"value": None}]


def test_misfits_are_a_column_and_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    values = [b'{"a": 1}', b'{"a": 1.5}', None, b'{"a": "x"}', b"{"]
    batch = ColumnBatch(
        "t", 3, range(7, 12), [0] * 5, [b"k", b"\xff", b"k", b"k", b"k"], values, None
    )
    options = SourceOptions.parse(
        {"bootstrap.servers": "a:1", "subscribe": "t", "keyFormat": "string"}
        | {"valueFormat": "json", "valueSchema": "a INT"}
    )
    fields = [("misfit", pa.string()), ("key", pa.string())]
    schema = pa.schema([*fields, ("value", pa.struct([("a", pa.int32())]))])
    said: list[str] = []

    def once(text: str) -> bool:
        said.append(text)
        return said.count(text) == 1

    making = Making(schema, options, once=once)
    made = record_batch([batch], making)
    assert made.schema.equals(schema)
    assert made.column("value").to_pylist() == [
        {"a": 1},
        {"a": None},
        None,
        {"a": None},
        {"a": None},
    ]
    first, second, third, fourth, last = made.column("misfit").to_pylist()
    assert (first, third, fourth) == (None, None, "value: a: 'x' is no INT")
    assert second.startswith("key: 'utf-8' codec")
    assert second.endswith("; value: a: 1.5 is no INT")
    assert last == "value: '' at 1 is no field"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert told[1].startswith(
        "the value of t-3 at offset 8 does not fit its schema: a: 1.5 is no INT;"
    )
    again = record_batch([batch], making)
    assert again.column("misfit").equals(made.column("misfit"))
    assert len(caplog.records) == 3
