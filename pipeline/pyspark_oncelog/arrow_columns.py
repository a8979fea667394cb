"""The log's columns become Arrow record batches with Spark's columns, without a loop over records.

Rules
-----
* Only the columns of the schema are made. What is the same for all records (topic, partition, the
  broker's time) is repeated by Arrow.
* ``headers`` are never null but empty lists: a null array is quadratic in Spark's own Arrow writer,
  should the rows go on to a Python sink.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_oncelog import zones
from pyspark_oncelog.decoding import Misfits, decode
from pyspark_oncelog.schema import MISFIT

if TYPE_CHECKING:
    from oncelog import ColumnBatch
    from pyspark_oncelog.options import SourceOptions

MICROSECONDS = 1000
"""The microseconds in one of the log's milliseconds."""


@dataclass
class Making:
    """A reader needs this to make columns.

    :param once: whether a text is new to this process; by it each kind of misfit is logged once.
    """

    schema: pa.Schema
    options: SourceOptions
    once: Callable[[str], bool] = lambda text: True
    zone: Callable[[], tzinfo] = zones.session_zone
    misfits: Misfits = field(init=False)

    def __post_init__(self) -> None:
        self.misfits = Misfits(self.once)


def record_batch(batches: Sequence[ColumnBatch], making: Making) -> pa.RecordBatch:
    """Convert batches of one partition, in order, into one of Arrow.

    :raises DecodeError: a key or value is not what its format says, with ``decodeMode=failfast``.
    """
    count = sum(map(len, batches))
    schema = making.schema
    asked = [item for item in schema if item.name != MISFIT]
    made = {item.name: _make(item, batches, count, making) for item in asked}
    misfits = making.misfits.taken(count)
    if MISFIT in schema.names:  # known when all others are made
        made[MISFIT] = pa.array(misfits, pa.string())
    return pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)


def _make(item: pa.Field, batches: Sequence[ColumnBatch], count: int, making: Making) -> pa.Array:
    if item.name in ("key", "value"):
        raw = (_keys if item.name == "key" else _values)(batches, count)
        options = making.options
        kind = options.key_format if item.name == "key" else options.value_format
        if kind == "binary":
            return raw
        mode = options.decode_mode
        return decode(raw, kind, item, mode, batches, making.zone, making.misfits)
    return _MAKERS[item.name](batches, count, item.type)


def _values(batches: Sequence[ColumnBatch], count: int) -> pa.Array:
    return _binary([batch.values for batch in batches])


def _keys(batches: Sequence[ColumnBatch], count: int) -> pa.Array:
    if all(batch.keys is None for batch in batches):
        return pa.nulls(count, pa.binary())
    return _binary([[None] * len(b) if b.keys is None else b.keys for b in batches])


def _binary(columns: Sequence[Sequence[bytes | None]]) -> pa.Array:
    joined = columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))
    return pa.array(joined, pa.binary())


def _offsets(batches: Sequence[ColumnBatch], count: int, kind: pa.DataType) -> pa.Array:
    first, last = batches[0].offsets[0], batches[-1].offsets[-1]
    if last - first + 1 == count:  # without gaps, however many batches
        return _int64(range(first, last + 1), kind)
    return _int64(list(chain.from_iterable(batch.offsets for batch in batches)), kind)


def _timestamps(batches: Sequence[ColumnBatch], count: int, kind: pa.DataType) -> pa.Array:
    import pyarrow.compute as pc

    parts = []
    for batch in batches:
        times = batch.timestamps
        if times.count(times[0]) == len(times):
            parts.append(pa.repeat(pa.scalar(times[0] * MICROSECONDS, pa.int64()), len(times)))
        else:
            parts.append(pc.multiply(_int64(times, pa.int64()), MICROSECONDS))
    return _joined(parts).view(kind)


def _timestamp_types(batches: Sequence[ColumnBatch], count: int, kind: pa.DataType) -> pa.Array:
    return _joined(
        [pa.repeat(pa.scalar(batch.timestamp_type, kind), len(batch)) for batch in batches]
    )


def _joined(parts: list[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _headers(batches: Sequence[ColumnBatch], count: int, kind: pa.DataType) -> pa.Array:
    entry = kind.value_type
    if all(batch.headers is None for batch in batches):
        none = pa.array([], entry)
        return _list_array(kind, pa.repeat(pa.scalar(0, pa.int32()), count + 1), none)
    every = list(
        chain.from_iterable([()] * len(b) if b.headers is None else b.headers for b in batches)
    )
    offsets = pa.array(array("i", accumulate(map(len, every), initial=0)), pa.int32())
    flat = list(chain.from_iterable(every))
    keys = pa.array(list(map(itemgetter(0), flat)), entry.field(0).type)
    values = pa.array(list(map(itemgetter(1), flat)), entry.field(1).type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[entry.field(0), entry.field(1)])
    return _list_array(kind, offsets, entries)


def _list_array(kind: pa.DataType, offsets: pa.Array, entries: pa.Array) -> pa.Array:
    buffer = offsets.buffers()[1]
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, buffer], children=[entries])


def _int64(numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    """Make an Arrow array of integers, which Arrow takes over without looking at each."""
    if isinstance(numbers, range) and hasattr(pa, "arange"):
        return pa.arange(numbers.start, numbers.stop)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(array("q", numbers))])


_MAKERS: dict[str, Any] = {
    "topic": lambda batches, count, kind: pa.repeat(pa.scalar(batches[0].topic, kind), count),
    "partition": lambda batches, count, kind: pa.repeat(
        pa.scalar(batches[0].partition, kind), count
    ),
    "offset": _offsets,
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}
