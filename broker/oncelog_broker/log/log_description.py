"""How a log lies on disk is told from here: segments, epochs, batches, index entries.

Rules:

- what memory holds is taken on the loop, a bounded part of it; whatever has to be read is read in
  a thread of the directory, with descriptors of its own, so that nobody waits for the disk;
- each list, and the bytes that are read for one answer, have a bound, which is known before;
- batches are found by walking from a known start of a batch, and each must follow the one before.
  A byte that the asker names would show him what records hold, in the shape of a header;
- what was read counts only if the log was neither truncated nor compacted meanwhile, nor lost the
  segment: then it is read again.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from oncelog_broker.log.batch_facts import described_batch
from oncelog_broker.log.index_reading import count_entries, entries_near, read_index
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_snapshots import ProducerSnapshots
from oncelog_broker.log.scan import Scan
from oncelog_broker.log.segment import LOG_SUFFIX, Segment
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.log_description import (
    AbortedRange,
    DescribedBatch,
    DescribedEpoch,
    DescribedSegment,
    DescribeLogRequest,
    DescribeLogResponse,
    IndexEntry,
)
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_runtime.files import Files

COUNT_MAX = 500
"""An answer has at most so many segments, so many epochs, and so many aborted ranges."""
BATCHES_MAX = 500
READ_BYTES_MAX = 512 * 1024
"""The batches of one answer are told from about so many bytes of the file, but at least one is."""
SKIPPED_BYTES_MAX = 8 * 1024 * 1024
"""So much is read at most to find the first of them. Between two index entries lies less, unless
the index is lost or has a very large interval."""
NEAR_COUNT = 16
"""So many index entries are told at either side of an offset."""
ATTEMPTS = 3


class _Place(NamedTuple):
    """It is a segment as it was when it was looked at."""

    base_offset: int
    path: str
    size_bytes: int
    near: list[IndexEntry] | None
    """These are the index entries that are asked for; None when files have them."""


class _Reading(NamedTuple):
    """A thread is to read this of one log."""

    directory: str
    counted: dict[int, tuple[str, int]]
    """The entries in the index files of these segments, by number in the answer."""
    entries: _Place | None
    at_offset: int
    batches: _Place | None
    batches_from: int
    """It is -1: from the last entry at or below ``at_offset``."""
    count_max: int


class _Found(NamedTuple):
    """A thread has read this."""

    counts: dict[int, int]
    snapshots: list[int]
    entries: list[IndexEntry]
    batches: list[DescribedBatch]
    unreadable: str | None


async def describe_log(log: PartitionLog, request: DescribeLogRequest) -> DescribeLogResponse:
    """Return what a log says of itself; what only replication knows is left out.

    :raises StorageError: the directory is offline or cannot be read, or the log changes faster than
        it is read.
    """
    for _ in range(ATTEMPTS):
        if not log.log_dir.online:
            log.refuse()
        before = _state_of(log)
        try:
            response = _taken(log, request)
            reading = _reading(log, request, response)
            found = await log.log_dir.jobs.run(_read, log.log_dir.files, reading)
        except OSError as error:
            if _state_of(log) == before and error.errno != errno.ENOENT:
                raise StorageError(f"{log.topic_partition}: cannot be read: {error}") from error
            continue
        if _state_of(log) == before:
            _fill(response, found, log.log_end_offset)
            return response
    raise StorageError(f"{log.topic_partition}: changes faster than it can be read")


def _state_of(log: PartitionLog) -> tuple[int, int, int]:
    """Return what differs as soon as a byte of the log lies elsewhere."""
    return log.truncations, log.swap.count, log.segments[0].base_offset


def _taken(log: PartitionLog, request: DescribeLogRequest) -> DescribeLogResponse:
    """Return what memory knows, from the offset that is asked for on."""
    start = max(request.from_offset, 0)
    segments = log.segments.run_from(start, COUNT_MAX + 1)
    entries = log.epochs.entries()
    in_force = sum([1 for _, begin in entries if begin <= start])
    epochs = entries[max(0, in_force - 1) :][: COUNT_MAX + 1]
    aborted, aborted_upto = log.aborted.page(start, COUNT_MAX)
    cuts = [segment.base_offset for segment in segments[COUNT_MAX:]]
    cuts += [begin for _, begin in epochs[COUNT_MAX:]]
    cuts += [aborted_upto] if aborted_upto >= 0 else []
    upto = min(cuts, default=-1)

    def is_told(offset: int) -> bool:
        return upto < 0 or offset < upto

    return DescribeLogResponse(
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        is_damaged=log.needs_refetch,
        log_start_offset=log.log_start_offset,
        synced_offset=log.synced_offset,
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=[_segment(log, each) for each in segments if is_told(each.base_offset)],
        epochs=[DescribedEpoch(epoch, begin) for epoch, begin in epochs if is_told(begin)],
        aborted=[
            AbortedRange(row.producer_id, row.first_offset, row.marker_offset)
            for row in aborted
            if is_told(row.marker_offset)
        ],
        next_offset=upto,
    )


def _segment(log: PartitionLog, segment: Segment) -> DescribedSegment:
    whole = not (log.config.is_compacted or log.clean.upto or log.clean.relied_on)
    return DescribedSegment(
        segment.base_offset,
        segment.next_offset,
        segment.size_bytes,
        segment.next_offset - segment.base_offset if whole else -1,
        segment.max_timestamp,
        segment.stamp_ms,
        segment.created_ms,
        log.epochs.epoch_at(segment.base_offset),
        log.epochs.epoch_at(max(segment.base_offset, segment.next_offset - 1)),
        segment.entries_in_memory,
    )


def _reading(
    log: PartitionLog, request: DescribeLogRequest, response: DescribeLogResponse
) -> _Reading:
    """Return what has to be read from the disk to answer."""
    counted = {
        number: (_prefix(log.segments.find(each.base_offset)), each.size_bytes)
        for number, each in enumerate(response.segments)
        if each.size_bytes and not each.index_entries
    }
    asked = request.at_offset if request.batches_from < 0 else request.batches_from
    count = min(request.batch_count_max, BATCHES_MAX)
    return _Reading(
        log.directory,
        counted,
        _place(log, request.at_offset),
        request.at_offset,
        _place(log, asked) if count > 0 else None,
        max(request.batches_from, log.segments[0].base_offset) if request.batches_from >= 0 else -1,
        count,
    )


def _place(log: PartitionLog, offset: int) -> _Place | None:
    """Return the segment that holds an offset, or where retention has taken it, the first."""
    if not 0 <= offset < log.log_end_offset:
        return None
    segment = log.segments.find(offset)
    near = segment.entries_near(offset, NEAR_COUNT) if segment.entries_in_memory else None
    return _Place(segment.base_offset, segment.path, segment.size_bytes, near)


def _prefix(segment: Segment) -> str:
    return segment.path.removesuffix(LOG_SUFFIX)


def _fill(response: DescribeLogResponse, found: _Found, log_end_offset: int) -> None:
    """Put what was read into the answer."""
    for number, count in found.counts.items():
        response.segments[number].index_entries = count
    response.snapshots = found.snapshots
    response.index = found.entries
    response.batches = found.batches
    response.unreadable = found.unreadable
    if found.batches and found.batches[-1].last_offset + 1 < log_end_offset:
        response.next_batch = found.batches[-1].last_offset + 1


def _read(files: Files, reading: _Reading) -> _Found:
    """Read what is asked for. Runs in a thread. Raises OSError."""
    counts = {number: count_entries(files, *each) for number, each in reading.counted.items()}
    snapshots = sorted(ProducerSnapshots(files, reading.directory).offsets())
    entries: list[IndexEntry] = []
    if reading.entries is not None:
        entries = _entries(files, reading.entries, reading.at_offset)
    if reading.batches is None:
        return _Found(counts, snapshots, entries, [], None)
    begin = reading.batches_from
    offset = reading.at_offset if begin < 0 else begin
    near = _entries(files, reading.batches, offset)
    known = [entry for entry in near if entry.offset <= offset]
    if begin < 0 and known:
        offset = known[-1].offset
    start = known[-1] if known else IndexEntry(reading.batches.base_offset, 0, -1)
    batches, unreadable = _walk(files, reading.batches, start, offset, reading.count_max)
    return _Found(counts, snapshots, entries, batches, unreadable)


def _entries(files: Files, place: _Place, offset: int) -> list[IndexEntry]:
    if place.near is not None or not place.size_bytes:
        return place.near or []
    index = read_index(files, place.path.removesuffix(LOG_SUFFIX))
    return entries_near(index.offsets, index.times, place.base_offset, offset, NEAR_COUNT)


def _walk(
    files: Files, place: _Place, start: IndexEntry, offset: int, count_max: int
) -> tuple[list[DescribedBatch], str | None]:
    """Return batches from the one that holds ``offset`` on, and why there are no more, if that is
    not their number. ``start`` is the known beginning of a batch at or before it."""
    batches: list[DescribedBatch] = []
    file = files.open(place.path)
    try:
        scan = Scan(file, start.position, place.size_bytes, next_offset=start.offset)
        skipped = 0
        try:
            for position, header in scan:
                if header.next_offset <= offset:
                    skipped = scan.read_bytes
                    if skipped > SKIPPED_BYTES_MAX:
                        return batches, f"no index entry is near offset {offset}"
                    continue
                batches.append(described_batch(file, place.base_offset, position, header))
                if len(batches) == count_max or scan.read_bytes - skipped >= READ_BYTES_MAX:
                    break
        except CorruptBatchError:
            # Not in the error's words: what stands there may be anything, also of a record.
            return batches, f"what lies at byte {scan.position} of the segment does not hold"
    finally:
        file.close()
    return batches, None
