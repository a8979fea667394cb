"""Record batches are read here: one batch in, columns out.

The columns stay columns (lists of one kind each): a consumer that hands them to Arrow never makes a
record. Everything in the body is checked against the header, and hostile bodies raise
:class:`~oncelog_protocol.records.batch.CorruptBatchError` and nothing else, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import lt
from typing import Any

from oncelog_protocol import limits
from oncelog_protocol.packing import MalformedError, unpack
from oncelog_protocol.records.batch import (
    HEADER_BYTES,
    KAFKA_MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    CorruptBatchError,
    parse_header,
    verify_crc,
)
from oncelog_protocol.records.compression import (
    PIECE_BYTES,
    Codec,
    CompressionError,
    decompress,
    decompressed,
)
from oncelog_protocol.records.kafka_body import decode_body
from oncelog_protocol.types import Buffer

Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of one record, in order; empty when it has none."""

_COLUMN_COUNT = 5
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NONE: type = type(None)
_BYTES_OR_NONE: frozenset[type] = frozenset({bytes, _NONE})
_LIST_OR_NONE: frozenset[type] = frozenset({list, _NONE})
_INT: frozenset[type] = frozenset({int})
_STR: frozenset[type] = frozenset({str})


@dataclass(slots=True)
class RecordColumns:
    """They are the records of one batch, by column; all columns that are there are equally long."""

    header: BatchHeader
    values: list[bytes | None]
    keys: list[bytes | None] | None
    """None: no record has a key."""
    timestamps: list[int] | None
    """Milliseconds since 1970; None: all are ``base_timestamp``."""
    headers: list[Headers] | None
    """None: no record has headers."""
    offset_deltas: list[int] | None
    """None: offsets have no gaps."""

    @property
    def base_offset(self) -> int:
        """Return what offset deltas count from."""
        return self.header.base_offset

    @property
    def base_timestamp(self) -> int:
        """Return the timestamp of all records when ``timestamps`` is None."""
        return self.header.base_timestamp

    def __len__(self) -> int:
        return len(self.values)

    def offsets(self) -> Sequence[int]:
        """Return the offset of each record: a range, or a list where compaction left gaps."""
        base = self.header.base_offset
        if self.offset_deltas is None:
            return range(base, base + len(self.values))
        return [base + delta for delta in self.offset_deltas]

    def timestamp_list(self) -> list[int]:
        """Return the timestamp of each record, in milliseconds."""
        if self.timestamps is not None:
            return self.timestamps
        return [self.header.base_timestamp] * len(self.values)


def decode_batch(
    buf: Buffer, *, verify: bool = True, header: BatchHeader | None = None
) -> RecordColumns:
    """Return the records of ``buf``, which holds exactly one batch.

    :param verify: check the CRC too.
    :param header: what ``parse_header`` said of ``buf``, if it has been asked.
    :raises CorruptBatchError: anything about the batch that does not hold.
    :raises CodecUnavailableError: the codec's library is not installed.
    """
    if header is None:
        header = parse_header(buf)
    if header.size_bytes != len(buf):
        raise CorruptBatchError(f"batch: {len(buf)} bytes, its header says {header.size_bytes}")
    if verify:
        verify_crc(buf)
    body = plain_body(buf, header)
    return _kafka_columns(header, body) if header.magic == KAFKA_MAGIC else _columns(header, body)


def plain_body(buf: Buffer, header: BatchHeader) -> Buffer:
    """Return the body of the batch ``buf``, decompressed.

    :raises CorruptBatchError: it is not what its codec writes.
    :raises CodecUnavailableError: the codec's library is not installed.
    """
    body: Buffer = memoryview(buf)[HEADER_BYTES:]
    codec = header.codec
    if codec is Codec.NONE:
        return body
    try:
        return decompress(codec, body)
    except CompressionError as exc:
        raise CorruptBatchError(f"batch body: {exc}") from exc


def plain_pieces(buf: Buffer, header: BatchHeader) -> Iterator[bytes]:
    """Yield the body of the batch ``buf`` piece by piece, as ``compression.decompressed`` does.

    :raises CorruptBatchError: it is not what its codec writes.
    :raises CodecUnavailableError: the codec's library is not installed.
    """
    body = memoryview(buf)[HEADER_BYTES:]
    if header.codec is Codec.NONE:
        for start in range(0, len(body), PIECE_BYTES):
            yield bytes(body[start : start + PIECE_BYTES])
        return
    try:
        yield from decompressed(header.codec, body)
    except CompressionError as exc:
        raise CorruptBatchError(f"batch body: {exc}") from exc


def _kafka_columns(header: BatchHeader, body: Buffer) -> RecordColumns:
    values, keys, deltas, headers, offsets = decode_body(body, header.record_count)
    if offsets is None and len(values) <= header.last_offset_delta:
        offsets = list(range(len(values)))  # compaction took the last ones away
    timestamps = None if deltas is None else _timestamps(header, deltas)
    return RecordColumns(header, values, keys, timestamps, headers, _offset_deltas(header, offsets))


def _columns(header: BatchHeader, body: Buffer) -> RecordColumns:
    count = header.record_count
    if count > len(body):
        raise CorruptBatchError(f"batch: {count} records in a body of {len(body)} bytes")
    try:
        columns = unpack(
            body,
            array_count_max=max(count, _COLUMN_COUNT, 2 * limits.HEADER_COUNT_MAX),
            list_count_max=1 + _COLUMN_COUNT + count,
        )
    except MalformedError as exc:
        raise CorruptBatchError(f"batch body: {exc}") from exc
    if type(columns) is not list or len(columns) != _COLUMN_COUNT:
        raise CorruptBatchError(f"batch body: not an array of {_COLUMN_COUNT} columns")
    values, keys, timestamp_deltas, headers, offset_deltas = columns
    _check_column("values", values, count, _BYTES_OR_NONE)
    if keys is not None:
        _check_column("keys", keys, count, _BYTES_OR_NONE)
    return RecordColumns(
        header,
        values,
        keys,
        None if timestamp_deltas is None else _timestamps(header, timestamp_deltas),
        None if headers is None else _headers(headers, count),
        _offset_deltas(header, offset_deltas),
    )


def _check_column(name: str, column: Any, count: int, kinds: frozenset[type]) -> None:
    if type(column) is not list or len(column) != count:
        raise CorruptBatchError(f"batch body: {name} is not an array of {count}")
    if not kinds.issuperset(map(type, column)):
        wrong = next(item for item in column if type(item) not in kinds)
        raise CorruptBatchError(f"batch body: {type(wrong).__name__} among the {name}")


def _timestamps(header: BatchHeader, deltas: Any) -> list[int] | None:
    _check_column("timestamps", deltas, header.record_count, _INT)
    if header.attributes & TIMESTAMP_TYPE_BIT or not deltas:
        # The broker's own time is in the header and stands for all records.
        return None
    base = header.base_timestamp
    if base + min(deltas) < _INT64_MIN or base + max(deltas) > _INT64_MAX:
        raise CorruptBatchError("batch body: a timestamp is beyond 64 bits")
    return [base + delta for delta in deltas]


def _offset_deltas(header: BatchHeader, deltas: Any) -> list[int] | None:
    if deltas is None:
        if header.record_count != header.last_offset_delta + 1:
            raise CorruptBatchError(
                f"batch: {header.record_count} records up to offset delta"
                f" {header.last_offset_delta}, and no offsets"
            )
        return None
    _check_column("offsets", deltas, header.record_count, _INT)
    if deltas and (
        deltas[0] < 0
        or deltas[-1] > header.last_offset_delta
        or not all(map(lt, deltas, deltas[1:]))
    ):
        raise CorruptBatchError("batch body: offsets do not grow, or leave the batch")
    checked: list[int] = deltas
    return checked


def _headers(column: Any, count: int) -> list[Headers]:
    _check_column("headers", column, count, _LIST_OR_NONE)
    sizes = [len(flat) if flat else 0 for flat in column]
    largest = max(sizes, default=0)
    if any(size % 2 for size in sizes) or largest > 2 * limits.HEADER_COUNT_MAX:
        raise CorruptBatchError("batch body: headers are not pairs, or too many on one record")
    if sum(sizes) > 2 * limits.BATCH_HEADER_COUNT_MAX:
        raise CorruptBatchError(f"batch body: {sum(sizes) // 2} headers")
    items = list(chain.from_iterable(filter(None, column)))
    keys, values = items[::2], items[1::2]
    if not _STR.issuperset(map(type, keys)) or not _BYTES_OR_NONE.issuperset(map(type, values)):
        raise CorruptBatchError("batch body: a header is not a pair of str and bytes or nil")
    pairs = zip(keys, values, strict=True)
    if largest == 2 and min(sizes) == 2:
        # One header on every record is the common case, and needs no loop.
        return list(zip(pairs, strict=True))
    return [tuple(islice(pairs, size // 2)) for size in sizes]
