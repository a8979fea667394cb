"""An application reads records of this form."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

from oncelog_protocol.records.decode import RecordColumns

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """An application reads this; ``timestamp`` is in ms since 1970, and headers may repeat."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()


def make_records(topic: str, partition: int, columns: RecordColumns) -> list[Record]:
    """Make the records of one batch; for speed every loop in here runs in C."""
    rows: Iterator[tuple[object, ...]] = zip(
        repeat(topic, len(columns.values)),
        repeat(partition),
        columns.offsets(),
        repeat(columns.base_timestamp) if columns.timestamps is None else columns.timestamps,
        repeat(None) if columns.keys is None else columns.keys,
        columns.values,
        repeat(()) if columns.headers is None else columns.headers,
        strict=False,
    )
    return list(map(tuple.__new__, repeat(Record), rows))
