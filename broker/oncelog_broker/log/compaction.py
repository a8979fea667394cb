"""Compaction decides which records of a log stay, and writes batches without the others. Pure.

Rules:

- a record stays while no newer one has its key; everything at or above the end of the stretch whose
  keys are known stays. Offsets never change;
- a tombstone stays until it has been *clean*, that is without an older record of its key before it,
  for ``delete_retention_ms`` (KIP-534);
- a record without key has no newest value: it goes, as in Kafka. Producers of a compacted topic
  cannot write one;
- a batch of which all records stay is kept byte for byte. One that loses some keeps its offsets,
  epoch, producer, format and codec, and says the offsets of those that are left;
- **offsets stay unbroken from batch to batch**: where whole batches go, a *hole* takes their place,
  a batch without records (61 bytes and a few). So scans, recovery, followers and the scrubber tell
  corruption from compaction as before, and the epoch history that a follower reads from batch
  headers is its leader's. Holes that meet are one, within a leader epoch;
- the last batch of a producer stays, if need be without records: its sequences are what the next
  one is held against, also by a follower that begins anew (``producer_state``);
- records of aborted transactions go, and are nobody's newest value. A marker stays while anything
  of its transaction does: else a replay of the log would find the transaction open. Without data it
  goes like a tombstone, unless it is the last that is known of its producer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from operator import le

from oncelog_protocol.packing import pack
from oncelog_protocol.records import compression
from oncelog_protocol.records.batch import (
    CODEC_MASK,
    KAFKA_MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    assemble,
)
from oncelog_protocol.records.builder import encode_columns
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.records.decode import RecordColumns
from oncelog_protocol.records.kafka_body import BodyColumns
from oncelog_protocol.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

LAST_OFFSET_DELTA_MAX = 2**31 - 1
"""One hole spans at most so many offsets; more take several holes."""

_NO_COLUMNS = pack([[], None, None, None, []])


def survivors(
    columns: RecordColumns, newest: Mapping[bytes, int], upto: int, tombstones_below: int
) -> list[bool] | None:
    """Return which records of a batch stay; None means all.

    ``newest`` holds the newest offset of keys below ``upto``; nothing newer is known of keys that
    it lacks. Tombstones below ``tombstones_below`` go.
    """
    offsets, keys = columns.offsets(), columns.keys
    if keys is None:
        keep = [offset >= upto for offset in offsets]
    elif None in keys:
        keep = [
            offset >= upto if key is None else newest.get(key, -1) <= offset
            for key, offset in zip(keys, offsets, strict=True)
        ]
    else:
        keep = list(map(le, map(newest.get, keys, repeat(-1)), offsets))  # type: ignore[arg-type]
    if columns.base_offset < tombstones_below and None in columns.values:
        keep = [
            stays and (value is not None or offset >= tombstones_below)
            for stays, value, offset in zip(keep, columns.values, offsets, strict=True)
        ]
    return None if all(keep) else keep


def without(columns: RecordColumns, keep: Sequence[bool]) -> bytearray | None:
    """Return the batch with those records only; None when none is left.

    Raises CodecUnavailableError, and LocalProtocolError when it would be larger than any batch may.
    """
    header = columns.header
    values = list(compress(columns.values, keep))
    if not values:
        return None
    deltas = columns.offset_deltas
    stamps, max_timestamp = None, header.max_timestamp
    if columns.timestamps is not None:
        times = list(compress(columns.timestamps, keep))
        stamps, max_timestamp = [time - header.base_timestamp for time in times], max(times)
    elif not header.attributes & TIMESTAMP_TYPE_BIT:
        max_timestamp = header.base_timestamp
    body = encode_columns(
        header.magic,
        BodyColumns(
            values,
            None if columns.keys is None else list(compress(columns.keys, keep)),
            stamps,
            None if columns.headers is None else list(compress(columns.headers, keep)),
            list(compress(range(len(keep)) if deltas is None else deltas, keep)),
        ),
    )
    codec, body = _compressed(header.codec, body)
    return assemble(
        header._replace(
            attributes=header.attributes & ~CODEC_MASK | codec,
            max_timestamp=max_timestamp,
            record_count=len(values),
        ),
        body,
    )


def _compressed(codec: Codec, body: bytes) -> tuple[Codec, bytes]:
    if codec is Codec.NONE:
        return codec, body
    compressed = compression.compress(codec, body)
    if len(body) > compression.output_bound(len(compressed)):
        return Codec.NONE, body  # decoders would take it for a bomb
    return codec, compressed


def hole(base_offset: int, next_offset: int, leader_epoch: int, max_timestamp: int) -> bytearray:
    """Return a batch that stands for offsets without records. ``max_timestamp``, in milliseconds,
    is the newest of what was there: retention by time goes by it."""
    return assemble(
        BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=0,
            crc=0,
            attributes=0,
            last_offset_delta=next_offset - base_offset - 1,
            base_timestamp=max_timestamp,
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=0,
        ),
        _NO_COLUMNS,
    )


def emptied(header: BatchHeader) -> bytearray:
    """Return a batch without its records, that still says whose they were and with which
    sequences."""
    attributes = header.attributes & ~CODEC_MASK
    body = b"" if header.magic == KAFKA_MAGIC else _NO_COLUMNS
    return assemble(header._replace(attributes=attributes, record_count=0), body)


def is_hole(header: BatchHeader) -> bool:
    """Return whether a batch is what compaction left of others."""
    return header.record_count == 0


def rest_of_hole(header: BatchHeader, offset: int) -> bytearray:
    """Return the part of a hole from ``offset`` on, for a log that has what lies before."""
    return hole(offset, header.next_offset, header.leader_epoch, header.max_timestamp)


class Holes:
    """It gathers neighbouring offsets without records into as few holes as can be."""

    __slots__ = ("_base_offset", "_leader_epoch", "_max_timestamp", "_next_offset")

    def __init__(self) -> None:
        self._base_offset = self._next_offset = 0
        self._leader_epoch = self._max_timestamp = -1

    def add(self, header: BatchHeader) -> bytearray | None:
        """Take in a batch that goes, or is a hole already; return the hole before it if they cannot
        be one."""
        done = None
        if self._base_offset < self._next_offset and (
            header.leader_epoch != self._leader_epoch
            or header.last_offset - self._base_offset > LAST_OFFSET_DELTA_MAX
        ):
            done = self.take()
        if self._base_offset == self._next_offset:
            self._base_offset, self._max_timestamp = header.base_offset, header.max_timestamp
        self._leader_epoch, self._next_offset = header.leader_epoch, header.next_offset
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        return done

    def take(self) -> bytearray | None:
        """Return the hole before the batch that stays now; None when there is none."""
        if self._base_offset == self._next_offset:
            return None
        made = hole(self._base_offset, self._next_offset, self._leader_epoch, self._max_timestamp)
        self._base_offset = self._next_offset = 0
        return made
