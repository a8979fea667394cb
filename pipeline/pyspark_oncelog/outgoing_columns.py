"""Arrow record batches are cut into the columns that the SDK sends. Pure.

Rules
-----
* The SDK's own partitioner chooses partitions: what is handed over here has a partition only where
  a column says one. So a key lands where every other producer would put it.
* No loop in Python runs over rows, but for headers where there are any: Arrow's own functions sort
  rows by topic and partition, and make the lists that the SDK takes.
* Rows of one topic and partition column keep their order. (A row whose partition is NULL has no
  order among those that name one.)
* What no record can be is refused with the column's name and the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_oncelog.sink_schema import Layout

Headers = list[tuple[str, bytes | None]]

_SHIFT = 2**32
"""The number is above that of a topic's partitions: topic and partition become one number."""


class SinkRowError(ValueError):
    """A row cannot be a record; says which column is wrong and in how many rows."""


class Outgoing(NamedTuple):
    """Records of one topic go out together.

    ``partition`` None: the partitioner chooses; ``timestamps_ms`` None: the time of sending.
    """

    topic: str
    partition: int | None
    values: list[bytes | None]
    keys: list[bytes | None] | None
    headers: list[Headers | None] | None
    timestamps_ms: list[int] | None


def outgoing(
    batch: pa.RecordBatch, layout: Layout, *, topic: str | None, now_ms: int
) -> Iterator[Outgoing]:
    """Yield the rows of ``batch``, by topic and partition.

    :param topic: of all rows; None: the column says it.
    :param now_ms: milliseconds since 1970, for rows whose timestamp is NULL.
    :raises SinkRowError: a row cannot be a record; nothing of the batch was handed out.
    """
    if layout.topic is None and layout.partition is None:
        assert topic is not None
        yield _columns(batch, layout, topic, None, now_ms)
        return
    groups = list(_groups(batch, layout, topic))
    for named, partition, rows in groups:
        part = batch if rows is None else batch.take(rows)
        yield _columns(part, layout, named, partition, now_ms)


def _groups(
    batch: pa.RecordBatch, layout: Layout, topic: str | None
) -> Iterator[tuple[str, int | None, pa.Array | None]]:
    """Yield (topic, partition or None, rows in order or None for all)."""
    names, codes = _topics(batch, layout, topic)
    if layout.partition is not None:
        numbers = _partitions(batch.column(layout.partition))
        codes = numbers if codes is None else pc.add(pc.multiply(codes, _SHIFT), numbers)
        shift = _SHIFT
    else:
        shift = 1
    assert codes is not None
    if pc.count_distinct(codes).as_py() == 1:
        yield *_group(codes[0].as_py(), names, shift), None
        return
    order = pc.sort_indices(codes)  # stable: rows keep their order within a group
    runs = pc.run_end_encode(codes.take(order))
    start = 0
    for stop, code in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield *_group(code, names, shift), order.slice(start, stop - start)
        start = stop


def _group(code: int, names: list[str], shift: int) -> tuple[str, int | None]:
    """Return topic and partition of ``index * shift + partition + 1``, or of the index alone."""
    if shift == 1:
        return names[code], None
    index, partition = divmod(code, shift)
    return names[index], (partition - 1 if partition else None)


def _topics(
    batch: pa.RecordBatch, layout: Layout, topic: str | None
) -> tuple[list[str], pa.Array | None]:
    """Return the topics' names, and per row the index of its own; None means all have the first."""
    if layout.topic is None:
        assert topic is not None
        return [topic], None
    column = batch.column(layout.topic)
    if column.null_count:
        raise SinkRowError(
            f"the column 'topic' is NULL in {column.null_count} rows: fill it, or give the option"
            " topic for all"
        )
    encoded = pc.dictionary_encode(column)
    return encoded.dictionary.to_pylist(), encoded.indices.cast(pa.int64())


def _partitions(column: pa.Array) -> pa.Array:
    """Return per row its partition and 1, or 0 where the partitioner chooses."""
    numbers = column.cast(pa.int64())
    bounds = pc.min_max(numbers)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if least is not None and (least < 0 or most >= _SHIFT - 1):
        raise SinkRowError(
            f"the column 'partition' has {least if least < 0 else most}: must be from 0 on, or NULL"
            " where the partitioner shall choose"
        )
    return pc.add(pc.fill_null(numbers, -1), 1)


def _columns(
    batch: pa.RecordBatch, layout: Layout, topic: str, partition: int | None, now_ms: int
) -> Outgoing:
    keys = None if layout.key is None else batch.column(layout.key)
    return Outgoing(
        topic,
        partition,
        _bytes(batch.column(layout.value)),
        None if keys is None or keys.null_count == len(keys) else _bytes(keys),
        None if layout.headers is None else _headers(batch.column(layout.headers)),
        None if layout.timestamp is None else _milliseconds(batch.column(layout.timestamp), now_ms),
    )


def _bytes(column: pa.Array) -> list[bytes | None]:
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def _milliseconds(column: pa.Array, now_ms: int) -> list[int] | None:
    """Return per row the milliseconds since 1970, or None if it is NULL in all."""
    if column.null_count == len(column):
        return None
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    millis = pc.divide(micros, 1000)
    least = pc.min(millis).as_py()
    if least < 0:
        early = pc.sum(pc.less(millis, 0)).as_py()
        raise SinkRowError(f"the column 'timestamp' is before 1970 in {early} rows")
    if millis.null_count:
        millis = pc.fill_null(millis, now_ms)
    stamps: list[int] = millis.to_pylist()
    return stamps


def _headers(column: pa.Array) -> list[Headers | None] | None:
    """Return per row its headers, or None if no row has any."""
    items = column.flatten()
    if not len(items):
        return None
    names, values = _flat(items, "key").to_pylist(), _bytes(_flat(items, "value"))
    if items.null_count or None in names:
        raise SinkRowError("the column 'headers' has one whose key is NULL")
    pairs: list[Any] = list(zip(names, values, strict=True))
    counts = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    headers: list[Headers | None] = []
    start = 0
    for count in counts:
        headers.append(pairs[start : start + count] or None)
        start += count
    return headers


def _flat(items: pa.StructArray, name: str) -> pa.Array:
    names = [field.name.lower() for field in items.type]
    return (
        items.field(names.index(name)) if not items.offset else items.flatten()[names.index(name)]
    )
