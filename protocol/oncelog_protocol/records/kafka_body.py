"""The body of Kafka's record batches (magic 2) is read and written here, by columns. Pure.

The header of such a batch is ours, field by field; its body has one record after the other (KIP-98,
KIP-82)::

    length:varint  attributes:i8  timestamp_delta:varlong  offset_delta:varint
    key_length:varint  key  value_length:varint  value
    header_count:varint  (key_length:varint  key  value_length:varint  value)*

Lengths of -1 stand for null. Numbers are zigzag, in groups of seven bits, the lowest first.

Rules
-----
* A length is believed only within the bytes that are there: nothing is taken on its word.
* What does not hold raises :class:`~oncelog_protocol.records.batch.CorruptBatchError`, and nothing
  else.
* Records of one shape, which is what most producers of small records without keys send, are cut
  out by strides; no loop of Python runs over their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from oncelog_protocol import limits
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.types import Buffer

T = TypeVar("T")

RECORD_BYTES_MIN = 7
"""A record without key, value and headers takes so many bytes."""
KEYLESS_MAX = 10_000
"""So many records without a key are named; clients send no more in a batch unless they are told
to."""
WORK_BYTES = 256
"""To take so many bytes costs a scan as much as to look at one record."""
_VARINT_BYTES = 5
_VARLONG_BYTES = 10
_NO_KEY = 1
"""This is -1 in zigzag."""
_OFFSET_WIDTHS = ((1, 0, 64), (2, 64, 8192), (3, 8192, limits.BATCH_RECORD_COUNT_MAX))
"""Offset deltas from and to take so many bytes."""


class BodyColumns(NamedTuple):
    """They are the columns of a body; one that says nothing is None."""

    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamp_deltas: list[int] | None
    """Against the base timestamp of the header; None: all are 0."""
    headers: list[tuple[tuple[str, bytes | None], ...]] | None
    offset_deltas: list[int] | None
    """None: they are 0, 1, 2 and so on."""


# ------------------------------------------------------------------------------ reading


def decode_body(body: Buffer, count: int) -> BodyColumns:
    """Return the ``count`` records of an uncompressed body, by column.

    :raises CorruptBatchError: it holds anything else; a header's key that is no UTF-8.
    """
    data = bytes(body)
    if count * RECORD_BYTES_MIN > len(data):
        raise CorruptBatchError(f"batch: {count} records in a body of {len(data)} bytes")
    values = _alike(data, count)
    if values is not None:
        return BodyColumns(values, None, None, None, None)
    try:
        return _records(data, count)
    except IndexError:
        raise CorruptBatchError("batch body: a record is cut off") from None


def _records(data: bytes, count: int) -> BodyColumns:
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    timestamps: list[int] = []
    offsets: list[int] = []
    headers: list[tuple[tuple[str, bytes | None], ...]] = []
    header_count = pos = 0
    for _ in range(count):
        length, pos = _number(data, pos, _VARINT_BYTES)
        end = pos + length
        if end > len(data):
            raise CorruptBatchError("batch body: a record is cut off")
        timestamp, pos = _number(data, pos + 1, _VARLONG_BYTES)
        offset, pos = _number(data, pos, _VARINT_BYTES)
        key, pos = _blob(data, pos)
        value, pos = _blob(data, pos)
        items: tuple[tuple[str, bytes | None], ...] = ()
        if data[pos]:
            items, pos = _headers(data, pos)
            header_count += len(items)
            if header_count > limits.BATCH_HEADER_COUNT_MAX:
                raise CorruptBatchError(f"batch body: {header_count} headers")
        else:
            pos += 1
        if pos != end:
            raise CorruptBatchError(f"batch body: a record of {length} bytes has others")
        values.append(value)
        keys.append(key)
        timestamps.append(timestamp)
        offsets.append(offset)
        headers.append(items)
    if pos != len(data):
        raise CorruptBatchError(f"batch body: {len(data) - pos} bytes after the last record")
    return BodyColumns(
        values,
        keys if any(key is not None for key in keys) else None,
        timestamps if any(timestamps) else None,
        headers if header_count else None,
        None if offsets == list(range(count)) else offsets,
    )


def check_first_record(body: Buffer, count: int) -> None:
    """Check that the first record, by its length, leaves room for the others and no more.

    :raises CorruptBatchError: it does not.
    """
    data = bytes(body[:_VARINT_BYTES])
    try:
        length, pos = _number(data, 0, _VARINT_BYTES)
    except IndexError:
        length, pos = -1, 0
    rest = len(body) - pos - length
    if length < RECORD_BYTES_MIN - 1 or rest < (count - 1) * RECORD_BYTES_MIN:
        raise CorruptBatchError(f"batch body: a first record of {length} bytes in {len(body)}")
    if count == 1 and rest:
        raise CorruptBatchError(f"batch body: {rest} bytes after the last record")


class KeyScan:
    """It looks for records without a key in an uncompressed body, some of them at a time.

    Nothing but lengths is read. The body comes in pieces, of which only the newest is held.
    """

    __slots__ = ("_data", "_left", "_number", "_pieces", "_pos", "done", "keyless", "keyless_count")

    def __init__(self, pieces: Iterable[Buffer], count: int) -> None:
        """Look at ``count`` records; of ``pieces`` one is taken when the last has been read."""
        self._pieces = iter(pieces)
        self._data = b""
        self._left = count
        self._number = self._pos = 0
        self.done = False
        """Whether all records have been looked at, and nothing came behind them."""
        self.keyless: list[int] = []
        """These records have no key, by number from 0: the first :data:`KEYLESS_MAX` of them."""
        self.keyless_count = 0
        """So many have none."""

    def step(self, work: int) -> int:
        """Go on for so much work, and for one piece at least; return how much was left of it. A
        record is a unit of work, and so are :data:`WORK_BYTES` of a piece that is taken.

        :raises CorruptBatchError: the body holds anything else than the records. Whatever the
            pieces raise goes through.
        """
        while work > 0 and not self.done:
            work = self._look(work)
            if work > 0:
                work -= self._take()
        return work

    def _look(self, work: int) -> int:
        """Look at records until one goes on in the next piece."""
        data, pos, first = self._data, self._pos, self._number
        number = first
        end = first + min(work, self._left)
        try:
            while number < end:
                length, start = _number(data, pos, _VARINT_BYTES)
                _, at = _number(data, start + 1, _VARLONG_BYTES)
                _, at = _number(data, at, _VARINT_BYTES)
                if not at < start + length:
                    raise CorruptBatchError("batch body: a record is cut off")
                if data[at] == _NO_KEY:
                    self._note(number)
                pos = start + length
                number += 1
        except IndexError:
            pass  # the rest of it is in the next piece, if it is anywhere
        self._pos, self._number = pos, number
        self._left -= number - first
        return work - (number - first)

    def _note(self, number: int) -> None:
        self.keyless_count += 1
        if self.keyless_count <= KEYLESS_MAX:
            self.keyless.append(number)

    def _take(self) -> int:
        """Take the next piece; return how much work that was."""
        rest = len(self._data) - self._pos
        if not self._left and rest > 0:
            raise CorruptBatchError(f"batch body: {rest} bytes after the last record")
        piece = next(self._pieces, None)
        if piece is None:
            if self._left or rest:
                raise CorruptBatchError("batch body: a record is cut off")
            self.done = True
            self._data = b""
            return 0
        self._data = self._data[self._pos :] + bytes(piece)
        self._pos = max(-rest, 0)
        return len(piece) // WORK_BYTES + 1


def _number(data: bytes, pos: int, bytes_max: int) -> tuple[int, int]:
    """Return a zigzag number and the position after it. IndexError: it is cut off."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    second = data[pos + 1]
    if second < 0x80:
        value = byte & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), pos + 2
    value = shift = 0
    for at in range(pos, pos + bytes_max):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
    raise CorruptBatchError(f"batch body: a number of more than {bytes_max} bytes")


def _blob(data: bytes, pos: int) -> tuple[bytes | None, int]:
    """Return bytes with their length before them, None for -1, and the position after them."""
    length, pos = _number(data, pos, _VARINT_BYTES)
    if length < 0:
        if length < -1:
            raise CorruptBatchError(f"batch body: a length of {length}")
        return None, pos
    return data[pos : pos + length], pos + length


def _headers(data: bytes, pos: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, pos = _number(data, pos, _VARINT_BYTES)
    if not 0 <= count <= limits.HEADER_COUNT_MAX:
        raise CorruptBatchError(f"batch body: {count} headers on one record")
    items: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, pos = _blob(data, pos)
        value, pos = _blob(data, pos)
        if key is None:
            raise CorruptBatchError("batch body: a header without a key")
        try:
            items.append((key.decode(), value))
        except UnicodeDecodeError:
            raise CorruptBatchError("batch body: a header's key is not UTF-8") from None
    return tuple(items), pos


def _alike(data: bytes, count: int) -> list[bytes | None] | None:
    """Return the values when all records have the length and the timestamp of the first one, no
    key, no headers, and offsets without gaps; None when one differs in anything but its value."""
    try:
        _, start = _number(data, 0, _VARINT_BYTES)
        timestamp, after = _number(data, start + 1, _VARLONG_BYTES)
        size, value_start = _number(data, after + 2, _VARINT_BYTES)
        if timestamp or data[after] or data[after + 1] != _NO_KEY or size < 0:
            return None
    except (IndexError, CorruptBatchError):
        return None
    lengths = data[after + 1 : value_start]
    values: list[bytes | None] = []
    pos = 0
    for width, first, end in _OFFSET_WIDTHS:
        records = min(count, end) - first
        if records <= 0:
            break
        rest = b"\0\0" + bytes(width) + lengths
        length = _zigzag(len(rest) + size + 1)
        head = length + rest
        stride = len(head) + size + 1
        block = data[pos : pos + records * stride]
        deltas = [_zigzag(delta) for delta in range(first, first + records)]
        if not _repeats(block, head, len(length) + 2, deltas, stride):
            return None
        values += [block[at : at + size] for at in range(len(head), len(block), stride)]
        pos += len(block)
    return values if pos == len(data) else None


def _repeats(
    block: bytes, head: bytes, deltas_at: int, deltas: Sequence[bytes], stride: int
) -> bool:
    """Return whether a block is records that have this head, with their own offset deltas in it,
    and no headers at their ends."""
    records = len(deltas)
    columns = [bytes([byte]) * records for byte in head]
    for at in range(len(deltas[0])):
        columns[deltas_at + at] = bytes([delta[at] for delta in deltas])
    return (
        len(block) == records * stride
        and block[stride - 1 :: stride] == bytes(records)
        and all(block[at::stride] == column for at, column in enumerate(columns))
    )


# ------------------------------------------------------------------------------ writing


def encode_body(columns: BodyColumns) -> bytes:
    """Return the uncompressed body of records; columns are equally long, or None."""
    values, keys, timestamps, headers, offsets = columns
    count = len(values)
    pieces: list[bytes] = []
    for value, key, timestamp, items, offset in zip(
        values,
        _or(keys, None, count),
        _or(timestamps, 0, count),
        _or(headers, (), count),
        range(count) if offsets is None else offsets,
        strict=True,
    ):
        record = (
            b"\0"
            + _zigzag(timestamp)
            + _zigzag(offset)
            + _sized(key)
            + _sized(value)
            + (_sized_headers(items) if items else b"\0")
        )
        pieces.append(_zigzag(len(record)))
        pieces.append(record)
    return b"".join(pieces)


def _or(column: Sequence[T] | None, item: T, count: int) -> Sequence[T]:
    return [item] * count if column is None else column


def _sized(blob: bytes | None) -> bytes:
    return _zigzag(-1) if blob is None else _zigzag(len(blob)) + blob


def _sized_headers(items: Sequence[tuple[str, bytes | None]]) -> bytes:
    pieces = [_zigzag(len(items))]
    for key, value in items:
        pieces += (_sized(key.encode()), _sized(value))
    return b"".join(pieces)


def _zigzag(number: int) -> bytes:
    if -64 <= number < 64:
        return _SHORT[number]
    value = number << 1 if number >= 0 else (-number << 1) - 1
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


_SHORT = tuple(
    bytes([number << 1 if number < 64 else ((128 - number) << 1) - 1]) for number in range(128)
)
"""Numbers of one byte: 0 to 63, and then -64 to -1, which count from the end."""
