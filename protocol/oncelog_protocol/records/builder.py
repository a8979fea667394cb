"""Record batches are made here: columns in, one batch out.

The body is a msgpack array of columns, compressed as a whole::

    [values, keys|nil, timestamp_deltas|nil, headers|nil, offset_deltas|nil]

A column that says nothing is nil: no keys, all timestamps equal, no headers, offsets without gaps.
A headers column holds per record nil or a flat array ``[key, value, key, value, ...]``.

Rules
-----
* Kafka's body (``magic`` 2) is made of the same columns, as records.
* Whole columns go through msgpack in one call; no loop in Python runs over records that have
  neither timestamps of their own nor headers.
* What :mod:`~oncelog_protocol.records.decode` would refuse is refused here, before it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import lt

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.packing import MalformedError, pack
from oncelog_protocol.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    KAFKA_MAGIC,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assemble,
)
from oncelog_protocol.records.compression import Codec, compress, output_bound
from oncelog_protocol.records.kafka_body import BodyColumns, encode_body
from oncelog_protocol.types import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

HeaderItems = Sequence[tuple[str, bytes | None]]
"""The headers of one record: (key, value) in order; keys may repeat."""

_BYTES_OR_NONE: frozenset[type] = frozenset({bytes, type(None)})
_INT: frozenset[type] = frozenset({int})
_ITEM_BYTES = 5
"""Most bytes that msgpack adds to one value: bin32."""
_TIMESTAMP_BYTES = 9
_BODY_BYTES = 1 + 5 * 5


def encode_batch(
    values: Sequence[bytes | None],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[HeaderItems | None] | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    offset_deltas: Sequence[int] | None = None,
    magic: int = MAGIC,
    sealed: bool = True,
) -> bytearray:
    """Return one batch of the records whose columns are given.

    :param timestamps: milliseconds since 1970; one number stands for all records.
    :param headers: per record None or its headers.
    :param codec: of the body; ``level`` is the codec's own. A body that would compress beyond the
        ratio that decoders accept (constant data) goes out uncompressed.
    :param offset_deltas: strictly increasing, from 0; None: no gaps. Only compaction makes gaps.
    :param magic: how the body is written: as columns, or as Kafka's records.
    :param sealed: without it the batch is not valid until ``batch.identify`` has been called.
    :raises LocalProtocolError: unequal columns, values that are not bytes, or above ``limits``.
    :raises CodecUnavailableError: the codec's library is not installed.
    """
    count = len(values)
    if not 1 <= count <= limits.BATCH_RECORD_COUNT_MAX:
        raise LocalProtocolError(f"batch: {count} records, of 1 to {limits.BATCH_RECORD_COUNT_MAX}")
    base_timestamp, max_timestamp, timestamp_deltas = _timestamp_column(timestamps, count)
    values = _bytes_column("value", values, count)
    keys = None if keys is None else _bytes_column("key", keys, count)
    flat = None if headers is None else _header_column(headers, count)
    gaps = None if offset_deltas is None else _offset_column(offset_deltas, count)
    if magic == KAFKA_MAGIC:
        plain = _kafka_body(values, keys, timestamp_deltas, headers, gaps)
    else:
        plain = _packed([values, keys, timestamp_deltas, flat, gaps])
    codec, body = _compressed(codec, plain, level, magic)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=magic,
        crc=0,
        attributes=codec | TRANSACTIONAL_BIT * transactional | CONTROL_BIT * control,
        last_offset_delta=count - 1 if offset_deltas is None else offset_deltas[-1],
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return assemble(header, body, sealed=sealed)


def _kafka_body(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    timestamp_deltas: list[int] | None,
    headers: Sequence[HeaderItems | None] | None,
    offset_deltas: list[int] | None,
) -> bytes:
    pairs = None if headers is None else [tuple(items or ()) for items in headers]
    listed = None if keys is None else list(keys)
    return encode_body(BodyColumns(list(values), listed, timestamp_deltas, pairs, offset_deltas))


def encode_columns(magic: int, columns: BodyColumns) -> bytes:
    """Return the uncompressed body of columns that were decoded before, in the format that
    ``magic`` names.

    :raises LocalProtocolError: the body is larger than msgpack allows.
    """
    if magic == KAFKA_MAGIC:
        return encode_body(columns)
    values, keys, timestamps, headers, offsets = columns
    flat = None
    if headers is not None:
        flat = [list(chain.from_iterable(items)) if items else None for items in headers]
    return _packed([values, keys, timestamps, flat, offsets])


def _packed(columns: Sequence[object]) -> bytes:
    try:
        return pack(columns)
    except MalformedError as exc:
        raise LocalProtocolError(f"batch: {exc}") from exc


def estimate_bytes(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> int:
    """Return an upper bound of the uncompressed batch's size, its timestamps included, headers
    not."""
    total = HEADER_BYTES + _BODY_BYTES + (_ITEM_BYTES + _TIMESTAMP_BYTES) * len(values)
    total += sum(map(len, filter(None, values)))
    if keys is not None:
        total += _ITEM_BYTES * len(keys) + sum(map(len, filter(None, keys)))
    return total


def _bytes_column(name: str, column: Sequence[bytes | None], count: int) -> Sequence[bytes | None]:
    if len(column) != count:
        raise LocalProtocolError(f"batch: {len(column)} {name}s for {count} records")
    if not _BYTES_OR_NONE.issuperset(map(type, column)):
        wrong = next(item for item in column if type(item) not in _BYTES_OR_NONE)
        raise LocalProtocolError(f"batch: a {name} is {type(wrong).__name__}, not bytes or None")
    return column if type(column) in (list, tuple) else list(column)


def _timestamp_column(
    timestamps: Sequence[int] | int, count: int
) -> tuple[int, int, list[int] | None]:
    """Return (base, largest, deltas or None when all are equal)."""
    if isinstance(timestamps, int):
        return timestamps, timestamps, None
    if len(timestamps) != count:
        raise LocalProtocolError(f"batch: {len(timestamps)} timestamps for {count} records")
    if not _INT.issuperset(map(type, timestamps)):
        raise LocalProtocolError("batch: a timestamp is not an integer")
    base, largest = min(timestamps), max(timestamps)
    if base == largest:
        return base, base, None
    return base, largest, [timestamp - base for timestamp in timestamps]


def _header_column(
    headers: Sequence[HeaderItems | None], count: int
) -> list[list[str | bytes | None] | None] | None:
    if len(headers) != count:
        raise LocalProtocolError(f"batch: {len(headers)} lists of headers for {count} records")
    if not any(headers):
        return None
    column: list[list[str | bytes | None] | None] = []
    total = 0
    for items in headers:
        if not items:
            column.append(None)
            continue
        total += len(items)
        if len(items) > limits.HEADER_COUNT_MAX or total > limits.BATCH_HEADER_COUNT_MAX:
            raise LocalProtocolError(
                f"batch: {len(items)} headers on one record, at most {limits.HEADER_COUNT_MAX};"
                f" at most {limits.BATCH_HEADER_COUNT_MAX} in a batch"
            )
        flat: list[str | bytes | None] = []
        for key, value in items:
            if type(key) is not str or type(value) not in _BYTES_OR_NONE:
                raise LocalProtocolError("batch: a header is not a pair of str and bytes or None")
            flat += (key, value)
        column.append(flat)
    return column


def _offset_column(offset_deltas: Sequence[int], count: int) -> list[int] | None:
    if len(offset_deltas) != count:
        raise LocalProtocolError(f"batch: {len(offset_deltas)} offsets for {count} records")
    column = list(offset_deltas)
    if not _INT.issuperset(map(type, column)):
        raise LocalProtocolError("batch: an offset delta is not an integer")
    if column[0] < 0 or not all(map(lt, column, column[1:])):
        raise LocalProtocolError("batch: offset deltas do not grow")
    return None if column[-1] == count - 1 else column


def _compressed(codec: Codec, body: bytes, level: int | None, magic: int) -> tuple[Codec, bytes]:
    if codec is Codec.NONE:
        return codec, body
    if codec is Codec.SNAPPY and magic != KAFKA_MAGIC:
        raise LocalProtocolError("batch: snappy is for Kafka's batches only")
    compressed = compress(codec, body, level)
    if len(body) > output_bound(len(compressed)):
        return Codec.NONE, body
    return codec, compressed
