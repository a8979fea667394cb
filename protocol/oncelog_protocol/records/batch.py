"""A record batch has a fixed header and a CRC, and a broker writes some things into it.

::

    base_offset:i64  batch_length:u32  leader_epoch:i32  magic:u8  crc32c:u32  attributes:u16
    last_offset_delta:i32  base_timestamp:i64  max_timestamp:i64  producer_id:i64
    producer_epoch:i16  base_sequence:i32  record_count:i32  body                  (big-endian)

``batch_length`` counts the bytes after itself. The CRC covers everything after itself, so that a
broker stamps ``base_offset`` and ``leader_epoch`` in place. ``attributes``, as in Kafka: bits 0-2
codec, bit 3 timestamp type, bit 4 transactional, bit 5 control; the others are reserved.

``magic`` says how the body is written: 1 as columns, which is ours, 2 as Kafka's records
(:mod:`~oncelog_protocol.records.kafka_body`). The header is the same for both, field by field, and
one log may hold both.

Rules
-----
* :func:`parse_header` checks structure only: what makes the batch readable at all. Whether a
  *client* may send it (codec, reserved bits, count above zero) is the log validator's question.
* Nothing here reads the body.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError, ProtocolError
from oncelog_protocol.records.compression import NATIVE_CODECS, Codec
from oncelog_protocol.types import Buffer

HEADER = struct.Struct(">qIiBIHiqqqhii")
HEADER_BYTES = limits.BATCH_HEADER_BYTES
MAGIC = 1
"""The body is columns."""
KAFKA_MAGIC = 2
"""The body is records as Kafka writes them."""

MAGIC_OFFSET = 16
"""The byte of ``magic`` stands here, also in Kafka's older formats."""
LENGTH_OFFSET = 8
LENGTH_END = 12
"""``batch_length`` counts from here."""
EPOCH_OFFSET = 12
CRC_OFFSET = 17
CRC_END = 21
"""The CRC covers the batch from here."""

CODEC_MASK = 0x07
_KAFKA_CODECS = tuple(Codec)
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_TIMES = struct.Struct(">qq")
_ATTRIBUTES = struct.Struct(">H")
_ATTRIBUTES_OFFSET = 21
ATTRIBUTES_LOW_OFFSET = 22
"""The byte of ``attributes`` that holds all bits that mean something."""
_TIMES_OFFSET = 27
_PRODUCER = struct.Struct(">qhi")
PRODUCER_OFFSET = 43
"""Producer id, epoch and base sequence stand here."""
_OFFSET_MAX = 2**63 - 1

assert HEADER.size == HEADER_BYTES


class CorruptBatchError(ProtocolError):
    """The bytes are not a record batch, or not the one that was written."""


class TimestampType(IntEnum):
    """It says who set the timestamps of a batch's records."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """It is the fixed part of a batch, as it is on the wire and on disk."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record, also when compaction took it away."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the offset where the next batch may begin."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole batch, header and body."""
        return LENGTH_END + self.batch_length

    @property
    def codec_id(self) -> int:
        """Return the codec's number, known or not."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        """Return the codec of the body.

        :raises CorruptBatchError: a number that no codec of the format has.
        """
        number = self.attributes & CODEC_MASK
        if number not in (_KAFKA_CODECS if self.magic == KAFKA_MAGIC else NATIVE_CODECS):
            raise CorruptBatchError(f"batch: codec {number} is not known")
        return Codec(number)

    @property
    def timestamp_type(self) -> TimestampType:
        """Return whether the producer or the broker set the timestamps."""
        return TimestampType(bool(self.attributes & TIMESTAMP_TYPE_BIT))

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Return whether the batch is a marker and holds no data of users."""
        return bool(self.attributes & CONTROL_BIT)


def assemble(header: BatchHeader, body: Buffer, *, sealed: bool = True) -> bytearray:
    """Return the batch of ``header`` and ``body``; length and CRC of the header are set here, and
    its magic, unless the body is Kafka's.

    :param sealed: without it the batch has no CRC until :func:`identify` is called.

    :raises LocalProtocolError: the batch is larger than ``limits.BATCH_BYTES_MAX``, or a number
        does not fit its field.
    """
    size = HEADER_BYTES + len(body)
    if size > limits.BATCH_BYTES_MAX:
        raise LocalProtocolError(f"batch: {size} bytes, at most {limits.BATCH_BYTES_MAX}")
    magic = KAFKA_MAGIC if header.magic == KAFKA_MAGIC else MAGIC
    header = header._replace(batch_length=size - LENGTH_END, magic=magic, crc=0)
    try:
        batch = bytearray(HEADER.pack(*header))
    except struct.error as exc:
        raise LocalProtocolError(f"batch header: {exc}") from exc
    if sealed:
        crc = crc32c(body, crc32c(memoryview(batch)[CRC_END:]))
        _UINT32.pack_into(batch, CRC_OFFSET, crc)
    batch += body
    return batch


def parse_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at ``pos``. The body need not be there.

    :raises CorruptBatchError: fewer than 61 bytes, another magic, a length, count, delta or offset
        that cannot be.
    """
    if pos < 0 or len(buf) - pos < HEADER_BYTES:
        raise CorruptBatchError(f"batch header: {max(len(buf) - pos, 0)} bytes of {HEADER_BYTES}")
    header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    length, delta, count = header.batch_length, header.last_offset_delta, header.record_count
    if header.magic != MAGIC and header.magic != KAFKA_MAGIC:
        raise CorruptBatchError(f"batch: magic {header.magic}, not {MAGIC} or {KAFKA_MAGIC}")
    if not HEADER_BYTES - LENGTH_END <= length <= limits.BATCH_BYTES_MAX - LENGTH_END:
        raise CorruptBatchError(f"batch: length {length} is out of bounds")
    if not 0 <= count <= limits.BATCH_RECORD_COUNT_MAX or count > delta + 1:
        raise CorruptBatchError(f"batch: {count} records with a last offset delta of {delta}")
    if delta < 0 or header.base_offset < 0 or header.base_offset > _OFFSET_MAX - delta - 1:
        raise CorruptBatchError(f"batch: base offset {header.base_offset}, delta {delta}")
    return header


def verify_crc(batch: Buffer) -> None:
    """Check the CRC of exactly one batch.

    :raises CorruptBatchError: the CRC, or the length, is not that of the header.
    """
    size = len(batch)
    if size < HEADER_BYTES or _UINT32.unpack_from(batch, LENGTH_OFFSET)[0] != size - LENGTH_END:
        raise CorruptBatchError(f"batch: {size} bytes are not what its header says")
    (expected,) = _UINT32.unpack_from(batch, CRC_OFFSET)
    actual = crc32c(memoryview(batch)[CRC_END:])
    if actual != expected:
        raise CorruptBatchError(f"batch: CRC {actual:#010x}, the header says {expected:#010x}")


def identify(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Say whose batch this is and which of theirs (KIP-98), and give it its CRC."""
    _PRODUCER.pack_into(batch, PRODUCER_OFFSET, producer_id, producer_epoch, base_sequence)
    _UINT32.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[CRC_END:]))


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write what the leader decides into the batch at ``pos``; the CRC does not cover it."""
    _INT64.pack_into(buf, pos, base_offset)
    _INT32.pack_into(buf, pos + EPOCH_OFFSET, leader_epoch)


def stamp_append_time(buf: bytearray | memoryview, pos: int, append_time_ms: int) -> None:
    """Give all records of the batch at ``pos`` the broker's time, and the batch a new CRC.

    The base timestamp is set as well as the largest; deltas in the body count no longer.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_OFFSET)
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_OFFSET, attributes | TIMESTAMP_TYPE_BIT)
    _TIMES.pack_into(buf, pos + _TIMES_OFFSET, append_time_ms, append_time_ms)
    (length,) = _UINT32.unpack_from(buf, pos + LENGTH_OFFSET)
    crc = crc32c(memoryview(buf)[pos + CRC_END : pos + LENGTH_END + length])
    _UINT32.pack_into(buf, pos + CRC_OFFSET, crc)


def iter_headers(buf: Buffer, *, whole: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch; a batch cut off at the end is passed over.

    :param whole: nothing is cut off: a log gives whole batches only [D14].

    :raises CorruptBatchError: a header does not hold; the batches before it were yielded.
    """
    pos, end = 0, len(buf)
    while end - pos >= HEADER_BYTES:
        header = parse_header(buf, pos)
        following = pos + LENGTH_END + header.batch_length
        if following > end:
            break
        yield pos, header
        pos = following
    if whole and pos < end:
        raise CorruptBatchError(f"batch: {end - pos} bytes at the end are none")
