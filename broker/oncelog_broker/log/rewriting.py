"""A compaction has two halves: it reads what is new, then writes what stays.

This module owns the generators that do it, a slice of a few milliseconds at a time. Rules:

- they run in an executor, one slice after the other, with descriptors of their own for what they
  read; the segment that they write is nobody else's;
- a slice ends by what it did, not by a clock: the same log gives the same slices;
- every batch is held against its checksum, its neighbours and the epoch history before anything is
  made of it: a batch that does not hold is damage, and nothing of it is copied;
- a batch that holds and cannot be decoded (a producer wrote it while the topic was not compacted)
  makes the log uncleanable: what it says of its keys is not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oncelog_broker.log.compaction import Holes, emptied, is_hole, survivors, without
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.key_map import KeyMap
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES
from oncelog_broker.log.segment import Segment
from oncelog_protocol.errors import LocalProtocolError, OncelogError
from oncelog_protocol.limits import BATCH_HEADER_BYTES
from oncelog_protocol.records.batch import (
    BatchHeader,
    CorruptBatchError,
    parse_header,
    verify_crc,
)
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.records.decode import RecordColumns, decode_batch
from oncelog_runtime.files import Buffer, File, Files

SYNC_BYTES = 8 * 1024 * 1024
"""So many bytes are written between two syncs: one sync at the end would have the disk busy for
long while producers wait for theirs."""

_SLICE_COST = 2000
"""One slice costs so much, in units of about a microsecond."""
_BATCH_COST = 14
_RECORD_COST = 0.4
_BYTE_COST = 0.003

NO_TOMBSTONE = 2**63 - 1


class UncleanableError(OncelogError):
    """A log cannot be compacted, though nothing is wrong with its bytes."""


class AbortedRanges:
    """It knows which batches belong to transactions that were aborted: by producer, (first offset,
    marker's offset) in order."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Mapping[int, list[tuple[int, int]]] | None = None) -> None:
        self._ranges = ranges or {}

    def hold(self, header: BatchHeader) -> bool:
        """Return whether a batch of data is in one of them."""
        ranges = self._ranges.get(header.producer_id)
        if ranges is None or not header.is_transactional:
            return False
        number = bisect_right(ranges, (header.base_offset, NO_TOMBSTONE)) - 1
        return number >= 0 and header.base_offset < ranges[number][1]


class SourceSegment(NamedTuple):
    """It is a segment that is to be read."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int

    @classmethod
    def of(cls, segment: Segment) -> SourceSegment:
        """Return the source of a segment as it is now."""
        return cls(segment.path, segment.base_offset, segment.next_offset, segment.size_bytes)


@dataclass(slots=True)
class Known:
    """It holds what the first half finds."""

    keys: KeyMap
    upto: int
    """The keys of all records from where it began up to this offset are known."""
    aborted: AbortedRanges = field(default_factory=AbortedRanges)
    """Keys of records in these ranges do not count."""


@dataclass(frozen=True, slots=True)
class Rule:
    """It decides what stays; see ``compaction.survivors``."""

    newest: Mapping[bytes, int]
    upto: int
    tombstones_below: int
    epochs: EpochHistory
    epochs_from: int
    """Below this offset the history says nothing."""
    last_batches: frozenset[int] = frozenset()
    """These are the base offsets of the last batches and markers of producers."""
    aborted: AbortedRanges = field(default_factory=AbortedRanges)
    with_data: set[int] = field(default_factory=set)
    """Something stays of the transaction of these producers, until its marker comes."""


@dataclass(slots=True)
class Written:
    """It holds what the second half has done."""

    changed: bool = False
    """It tells whether anything went."""
    first_tombstone: int = NO_TOMBSTONE
    """Below this offset no tombstone is left."""
    records: int = 0
    """So many records went."""
    markers: set[int] = field(default_factory=set)
    """These are the offsets of the markers that went."""


def read_keys(files: Files, sources: Sequence[SourceSegment], known: Known) -> Iterator[int]:
    """Fill the map with the keys from ``known.upto`` on, while there is room. Yield the bytes read
    in each slice. Raises OSError, CorruptBatchError, UncleanableError."""
    size, cost = 0, 0.0
    for source in sources:
        for header, batch in _batches(files, source):
            size += len(batch)
            cost += _cost(header, batch)
            if header.next_offset > known.upto:
                if header.record_count and not (header.is_control or known.aborted.hold(header)):
                    columns = _decode(source, batch)
                    keys = columns.keys
                    if keys is not None and not known.keys.add(keys, columns.offsets()):
                        yield size
                        return
                known.upto = header.next_offset
            if cost > _SLICE_COST:
                yield size
                size, cost = 0, 0.0
    yield size


def rewrite(
    files: Files,
    sources: Sequence[SourceSegment],
    rule: Rule,
    segment: Segment,
    written: Written,
    now_ms: int,
) -> Iterator[int]:
    """Write what stays of ``sources`` into ``segment``, which is empty and open. Yield the bytes
    read and written in each slice. Raises OSError, CorruptBatchError, UncleanableError."""
    file, holes = segment.open(), Holes()
    out: list[Buffer] = []
    size, cost, unsynced = 0, 0.0, 0

    def put(batch: Buffer, header: BatchHeader) -> None:
        segment.note_header(header, now_ms)
        out.append(batch)

    for source in sources:
        for header, batch in _batches(files, source):
            _check_epoch(source, rule, header)
            size += len(batch)
            cost += _cost(header, batch)
            kept: Buffer | None
            if header.is_control:
                kept = batch if _marker_stays(header, rule, written) else None
            else:
                kept = _what_stays(source, header, batch, rule, written)
                if kept is not None and header.is_transactional:
                    rule.with_data.add(header.producer_id)
            done = holes.add(header) if kept is None else holes.take()
            if done is not None:
                put(done, parse_header(done))
            if kept is not None:
                put(kept, header if kept is batch else parse_header(kept))
            if cost > _SLICE_COST:
                count = _flush(file, out)
                yield size + count
                size, cost, unsynced = 0, 0.0, unsynced + count
                if unsynced > SYNC_BYTES:
                    file.sync()
                    unsynced = 0
    done = holes.take()
    if done is not None:
        put(done, parse_header(done))
    written.changed = written.changed or segment.size_bytes != sum([s.size_bytes for s in sources])
    yield size + _flush(file, out)


def _flush(file: File, out: list[Buffer]) -> int:
    count = file.append(out) if out else 0
    out.clear()
    return count


def _what_stays(
    source: SourceSegment, header: BatchHeader, batch: memoryview, rule: Rule, written: Written
) -> Buffer | None:
    """Return the batch, what is left of it, or None."""
    last = header.base_offset in rule.last_batches
    if is_hole(header):
        return batch if last else None
    if header.base_offset >= rule.upto:
        return batch
    if rule.aborted.hold(header):
        written.changed = True
        written.records += header.record_count
        return emptied(header) if last else None
    columns = _decode(source, batch)
    keep = survivors(columns, rule.newest, rule.upto, rule.tombstones_below)
    if None in columns.values:
        offsets = columns.offsets()
        for index, value in enumerate(columns.values):
            if value is None and (keep is None or keep[index]):
                written.first_tombstone = min(written.first_tombstone, offsets[index])
                break
    if keep is None:
        return batch
    written.changed = True
    written.records += keep.count(False)
    try:
        left = without(columns, keep)
        return emptied(header) if left is None and last else left
    except (LocalProtocolError, CodecUnavailableError) as error:
        raise UncleanableError(f"{source.path}, offset {header.base_offset}: {error}") from error


def _marker_stays(header: BatchHeader, rule: Rule, written: Written) -> bool:
    """Return whether a marker stays: it does with what it decides, with what its producer is known
    by, and like a tombstone after that."""
    if header.producer_id in rule.with_data:
        rule.with_data.discard(header.producer_id)
        return True
    offset = header.base_offset
    if offset in rule.last_batches or offset >= rule.upto:
        return True
    if offset >= rule.tombstones_below:
        written.first_tombstone = min(written.first_tombstone, offset)
        return True
    written.changed = True
    written.markers.add(offset)
    return False


def _decode(source: SourceSegment, batch: memoryview) -> RecordColumns:
    try:
        return decode_batch(batch, verify=False)
    except (CorruptBatchError, CodecUnavailableError) as error:
        # Its checksum held: this is how it was written.
        offset = parse_header(batch).base_offset
        raise UncleanableError(f"{source.path}, offset {offset}: {error}") from error


def _cost(header: BatchHeader, batch: memoryview) -> float:
    return _BATCH_COST + _RECORD_COST * header.record_count + _BYTE_COST * len(batch)


def _check_epoch(source: SourceSegment, rule: Rule, header: BatchHeader) -> None:
    if header.base_offset >= rule.epochs_from:
        known = rule.epochs.epoch_at(header.base_offset)
        if known >= 0 and header.leader_epoch != known:
            raise CorruptBatchError(
                f"{source.path}, offset {header.base_offset}: leader epoch {header.leader_epoch},"
                f" its history says {known}"
            )


def _batches(files: Files, source: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield every batch of a segment, checked. Raises OSError, CorruptBatchError."""
    file = files.open(source.path)
    position, expected = 0, source.base_offset
    chunk, at = memoryview(b""), 0
    try:
        while position < source.size_bytes:
            room = source.size_bytes - position
            if len(chunk) - at < BATCH_HEADER_BYTES:
                chunk, at = memoryview(file.read_at(position, min(SCAN_CHUNK_BYTES, room))), 0
            header = parse_header(chunk, at)
            size = header.size_bytes
            if header.base_offset != expected:
                raise CorruptBatchError(f"offset {header.base_offset} where {expected} was to come")
            if size > room:
                raise CorruptBatchError(f"{room} bytes of a batch of {size}")
            if len(chunk) - at < size:
                length = min(max(SCAN_CHUNK_BYTES, size), room)
                chunk, at = memoryview(file.read_at(position, length)), 0
            batch = chunk[at : at + size]
            verify_crc(batch)
            yield header, batch
            position, at, expected = position + size, at + size, header.next_offset
        if expected != source.next_offset:
            raise CorruptBatchError(f"ends at offset {expected}, not {source.next_offset}")
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{source.path} at byte {position}: {error}") from error
    finally:
        file.close()
