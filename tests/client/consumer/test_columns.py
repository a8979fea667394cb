"""Column batches are read as they are and as Arrow."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from oncelog.consumer.columns import arrow_schema, make_batch
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch

BARE: dict[str, Any] = {"values": [b"a", b"b", b"c"], "timestamps": 1000, "base_offset": 10}
FULL: dict[str, Any] = {
    "values": [b"a", None, b"c"],
    "keys": [b"k", None, b""],
    "timestamps": [1000, 2000, 1500],
    "headers": [[("h", b"1"), ("h", None)], None, [("x", b"")]],
    "base_offset": 10,
    "offset_deltas": [0, 3, 9],
}


@pytest.mark.parametrize("spec", [BARE, FULL])
def test_rows_of_a_batch_are_its_records(spec: dict[str, Any]) -> None:
    columns = decode_batch(encode_batch(**spec))
    batch = make_batch("t", 2, columns)
    keys = batch.keys or [None] * 3
    headers = batch.headers or [()] * 3
    columns_of = (batch.offsets, batch.timestamps, keys, batch.values, headers)
    assert batch.records() == [("t", 2, *row) for row in zip(*columns_of, strict=True)]
    assert len(batch) == 3
    assert batch.next_offset == batch.offsets[-1] + 1


def test_columns_that_differ_in_length_have_no_records() -> None:
    batch = make_batch("t", 2, decode_batch(encode_batch(**FULL)))
    with pytest.raises(ValueError, match="shorter"):
        replace(batch, keys=[b"k"]).records()


@pytest.mark.parametrize("spec", [BARE, FULL])
def test_arrow_says_the_same(spec: dict[str, Any]) -> None:
    batch = make_batch("t", 2, decode_batch(encode_batch(**spec)))
    table = batch.to_arrow()
    assert table.schema == arrow_schema()
    table.validate(full=True)
    for row, record in zip(table.to_pylist(), batch.records(), strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == record[:3]
        assert (row["key"], row["value"]) == (record.key, record.value)
        stamped = datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC)
        assert row["timestamp"] == stamped
        headers = row["headers"]
        assert [tuple(h.values()) for h in headers or []] == list(record.headers)
    bare = spec is BARE
    assert (table["headers"].null_count == 3) is bare
