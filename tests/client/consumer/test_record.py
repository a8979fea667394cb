"""Columns become records without losing anything."""

from __future__ import annotations

from oncelog.consumer.columns import make_batch
from oncelog.consumer.record import Record
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch


def test_bare_values() -> None:
    columns = decode_batch(encode_batch([b"a", None], timestamps=7, base_offset=10))
    records = make_batch("t", 1, columns).records()
    assert records == [
        Record("t", 1, 10, 7, None, b"a", ()),
        Record("t", 1, 11, 7, None, None, ()),
    ]
    assert type(records[0]) is Record


def test_every_column_and_gaps() -> None:
    batch = encode_batch(
        [b"a", b"b"],
        keys=[b"k", None],
        timestamps=[5, 6],
        headers=[[("h", b"1")], None],
        base_offset=100,
        offset_deltas=[1, 4],
    )
    records = make_batch("t", 0, decode_batch(batch)).records()
    assert records[0] == ("t", 0, 101, 5, b"k", b"a", (("h", b"1"),))
    assert records[1].value == b"b"
    assert records[1] == ("t", 0, 104, 6, None, b"b", ())
