"""A batch is handed out as columns, or as Arrow: no object is made for a record.

Rules: pyarrow is imported when ``to_arrow`` is first called, never before; the SDK does not need
it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from oncelog.consumer.record import Record, RecordHeaders
from oncelog_protocol.records.decode import RecordColumns

if TYPE_CHECKING:
    import pyarrow


@dataclass(slots=True, frozen=True)
class ColumnBatch:
    """The batch has records of one partition in order; all its columns are equally long."""

    topic: str
    partition: int
    offsets: Sequence[int]
    """The offsets are a range, unless compaction left gaps."""
    timestamps: Sequence[int]
    """They are in milliseconds since 1970."""
    keys: Sequence[bytes | None] | None
    """None means that no record has a key."""
    values: Sequence[bytes | None]
    headers: Sequence[RecordHeaders] | None
    """None means that no record has headers."""
    timestamp_type: int = 0
    """The timestamps were set by 0 the producer (CreateTime), or 1 the broker (LogAppendTime)."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def next_offset(self) -> int:
        """Return the offset after the last record."""
        return self.offsets[-1] + 1

    def records(self) -> list[Record]:
        """Return the batch as a list of records.

        :raises ValueError: the columns are not equally long.
        """
        return list(records_of_values(self, iter(self.values), strict=True))

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return an Arrow record batch with Kafka's columns.

        They are topic, partition, offset, timestamp, key, value, headers (a list of key and value).

        :raises ImportError: pyarrow is not installed; the extra ``oncelog[arrow]`` brings it.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow() needs pyarrow: install oncelog[arrow]") from error
        count = len(self)
        binary = pa.binary()
        nothing = pa.nulls(count, binary)
        columns = [
            _constant(pa, self.topic, pa.string(), count),
            _constant(pa, self.partition, pa.int32(), count),
            _int64(pa, self.offsets, pa.int64()),
            _timestamps(pa, self.timestamps),
            nothing if self.keys is None else pa.array(self.keys, binary),
            pa.array(self.values, binary),
            _headers(pa, self.headers, count),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())


@cache
def arrow_schema() -> pyarrow.Schema:
    """Return the schema of :meth:`ColumnBatch.to_arrow`."""
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", _headers_type(pa)),
        ]
    )


def make_batch(topic: str, partition: int, columns: RecordColumns) -> ColumnBatch:
    """Make the batch that the application gets from the decoded columns."""
    return ColumnBatch(
        topic,
        partition,
        columns.offsets(),
        columns.timestamp_list(),
        columns.keys,
        columns.values,
        columns.headers,
        int(columns.header.timestamp_type),
    )


def records_of_values(
    batch: ColumnBatch, values: Iterator[bytes | None], *, strict: bool = False
) -> Iterator[Record]:
    """Make the records of ``batch`` one by one; for speed everything in here runs in C.

    :param values: a new iterator over the values of ``batch``. What is left in it is not made yet,
        and whoever empties it ends this iterator as well.
    :param strict: raise ValueError at the end where one column is longer than another; nobody may
        empty the values then.
    """
    count = len(batch)
    rows: Iterator[tuple[object, ...]] = zip(
        repeat(batch.topic, count),
        repeat(batch.partition, count),
        batch.offsets,
        batch.timestamps,
        batch.keys or repeat(None, count),
        values,
        batch.headers or repeat((), count),
        strict=strict,
    )
    return map(tuple.__new__, repeat(Record), rows)


def cut(batch: ColumnBatch, first: int, end: int | None = None) -> ColumnBatch:
    """Return the records from index ``first`` up to, not including, ``end``."""
    if first == 0 and (end is None or end >= len(batch)):
        return batch
    part = slice(first, end)
    return replace(
        batch,
        offsets=batch.offsets[part],
        timestamps=batch.timestamps[part],
        keys=None if batch.keys is None else batch.keys[part],
        values=batch.values[part],
        headers=None if batch.headers is None else batch.headers[part],
    )


def _headers_type(pa: Any) -> Any:
    # Entries of a list with fields key and value: Spark's kafka source has the same shape.
    entry = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return pa.list_(entry)


def _constant(pa: Any, value: object, kind: Any, count: int) -> Any:
    return pa.repeat(pa.scalar(value, kind), count)


def _timestamps(pa: Any, timestamps: Sequence[int]) -> Any:
    kind = pa.timestamp("ms", tz="UTC")
    if timestamps and timestamps.count(timestamps[0]) == len(timestamps):
        return _constant(pa, timestamps[0], kind, len(timestamps))
    return _int64(pa, timestamps, kind)


def _int64(pa: Any, numbers: Sequence[int], kind: Any) -> Any:
    """Make an Arrow array of integers, which Arrow takes over without looking at each."""
    if isinstance(numbers, range) and numbers.step == 1 and hasattr(pa, "arange"):
        return pa.arange(numbers.start, numbers.stop)
    buffer = pa.py_buffer(array("q", numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def _headers(pa: Any, headers: Sequence[RecordHeaders] | None, count: int) -> Any:
    kind = _headers_type(pa)
    if headers is None:
        return pa.nulls(count, kind)
    return pa.array([[{"key": k, "value": v} for k, v in items] for items in headers], kind)
