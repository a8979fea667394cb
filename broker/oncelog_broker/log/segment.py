"""A segment is one file of batches with its two sparse maps.

Owns ``<base>.log``, ``<base>.index`` and ``<base>.timeindex``. Rules:

- a segment is *open* (descriptor and index in memory), *closed* (neither), or *parked*: without a
  descriptor, and with its index as long as that is small, for reading one again costs more than
  keeping it. Every call opens it as needed, ``OpenSegments`` parks those long unused;
- ``size_bytes`` and ``next_offset`` move only after a whole write: what lies beyond is no data;
- the index is kept in memory and written when the segment is closed or rolled, unsynced; whatever
  in the files does not hold is rebuilt from batch headers;
- index files are removed *before* the log is truncated, so that no stale entry can outlive a
  truncation, and the truncation is durable before anything is written behind it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence

from oncelog_broker.log.index_file import (
    INDEX_SUFFIX,
    OFFSET_INDEX_MAGIC,
    TIME_INDEX_MAGIC,
    TIME_INDEX_SUFFIX,
    Summary,
    encode_blocks,
)
from oncelog_broker.log.index_reading import entries_near, read_index, read_summary
from oncelog_broker.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex, TailIndex
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.time_index import TimeIndex
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.messages.log_description import IndexEntry
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import NO_TIMESTAMP
from oncelog_runtime.files import Buffer, File, Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

LOG_SUFFIX = ".log"
TXN_INDEX_SUFFIX = ".txnindex"
"""It ends the file of aborted transactions; see ``aborted_transactions``."""
FILE_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX)
"""A segment may have files with these, the log last."""
DELETED_SUFFIX = ".deleted"
CLEANED_MARK = ".cleaned"
"""It stands in the names of files that compaction is writing, before the suffix: no data yet."""

_LOG_NAME = re.compile(r"\d{20}\.log")

PARKED_ENTRIES_MAX = 256
"""A parked index of at most so many entries stays in memory: 4 KiB, of about 1 MiB of log."""

_HINT_COUNT = 8
"""So many ends of recent reads are remembered, for readers that come back for what follows."""


def file_name(base_offset: int, suffix: str) -> str:
    """Return a file's name: the base offset in 20 digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{suffix}"


def log_sizes(files: Files, directory: str, names: Iterable[str]) -> dict[int, int]:
    """Return how many bytes each segment has whose log is among ``names``, by base offset. Raises
    OSError."""
    logs = [name for name in names if _LOG_NAME.fullmatch(name)]
    return {int(name.removesuffix(LOG_SUFFIX)): files.size(f"{directory}/{name}") for name in logs}


class Segment:
    """It holds batches from ``base_offset`` up to ``next_offset``, not including it."""

    __slots__ = (
        "_file",
        "_hints",
        "_index",
        "_interval_bytes",
        "_last_entry_position",
        "_persisted",
        "_persisted_summary",
        "_pool",
        "_prefix",
        "_size_at_sync_bytes",
        "_tail",
        "_times",
        "base_offset",
        "created_ms",
        "dirty",
        "max_timestamp",
        "next_offset",
        "size_bytes",
        "stamp_ms",
        "used",
    )

    def __init__(
        self, pool: OpenSegments, directory: str, base_offset: int, interval_bytes: int
    ) -> None:
        """Make an empty segment; no file is touched."""
        self._pool = pool
        self._prefix = f"{directory}/{base_offset:020d}"
        self._interval_bytes = interval_bytes
        self._file: File | None = None
        self._index = OffsetIndex()
        self._times = TimeIndex()
        self._tail = TailIndex()
        self._hints: dict[int, int] = {}
        self._last_entry_position = 0
        self._persisted = 0
        """The index files hold so many entries; -1 when the files hold something unknown."""
        self._persisted_summary: Summary | None = None
        """The end of the index file says this."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.stamp_ms = NO_TIMESTAMP
        self.created_ms = NO_TIMESTAMP
        self.used = False
        self.dirty = False
        self._size_at_sync_bytes = 0
        """It had this size when the last sync round began."""

    @classmethod
    def cleaned(
        cls, pool: OpenSegments, directory: str, base_offset: int, interval_bytes: int
    ) -> Segment:
        """Return an empty one for compaction to write, beside the segments that it may replace."""
        segment = cls(pool, directory, base_offset, interval_bytes)
        segment._prefix += CLEANED_MARK
        return segment

    # ---- opening and closing

    @property
    def path(self) -> str:
        return self._prefix + LOG_SUFFIX

    @property
    def summary(self) -> Summary:
        return Summary(
            self.size_bytes, self.next_offset, self.max_timestamp, self.stamp_ms, self.created_ms
        )

    def restore(self, summary: Summary) -> None:
        """Take over the state that an earlier broker left, without touching the file."""
        self.size_bytes, self.next_offset, self.max_timestamp, self.stamp_ms, self.created_ms = (
            summary
        )

    def open(self) -> File:
        """Return the open file. Raises OSError."""
        file = self._file
        if file is None:
            file = self._pool.open(self, self.path, create=self.size_bytes == 0)
            self._file = file
            if self.size_bytes and not len(self._index):
                self._load_index(file)
        self.used = True
        return file

    def create(self) -> None:
        """Make the file of an empty segment, truncating what an older one left."""
        file = self.open()
        if file.size():
            file.truncate(0)
        self.remove_index_files()

    def close(self) -> None:
        """Write the index, give up the descriptor and the memory."""
        if self._file is None and not len(self._index):
            return
        if self.size_bytes:
            self.persist_index()
        self.release()

    def park(self) -> None:
        """Give up the descriptor; a large index is written and given up too."""
        if len(self._index) > PARKED_ENTRIES_MAX:
            self.close()
        else:
            self._give_up_file()

    def release(self) -> None:
        """Give up descriptor and memory, writing nothing."""
        self._index, self._times = OffsetIndex(), TimeIndex()
        self._give_up_file()

    def _give_up_file(self) -> None:
        file, self._file = self._file, None
        self._tail.clear()
        self._hints.clear()
        if file is not None:
            self._pool.retire(self, file)

    # ---- writing

    def must_roll(self, config: TopicConfig, size: int, last_offset: int, now_ms: int) -> bool:
        """Return whether so many more bytes, up to an offset, belong into a new segment."""
        return (
            self.size_bytes + size > config.segment_bytes
            or (self.created_ms >= 0 and now_ms - self.created_ms >= config.segment_ms)
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def write(self, data: Sequence[Buffer]) -> None:
        """Append bytes; :meth:`note` then tells of each batch in them. Raises OSError."""
        file = self._file
        if file is None:
            file = self.open()
        file.append(data)

    def wrote_unsynced(self) -> None:
        """Keep its file open, as some of it is not synced."""
        self.dirty = True

    def synced(self) -> None:
        """Note that all of it is synced."""
        self.dirty = False

    def begin_sync(self) -> int:
        """Begin a sync round; return the bytes that were written since the last one began."""
        written = max(0, self.size_bytes - self._size_at_sync_bytes)
        self._size_at_sync_bytes = self.size_bytes
        return written

    def as_old_as(self, others: Sequence[Segment]) -> None:
        """Let it age as ``others`` do, whose records it holds."""
        self.stamp_ms = max([other.stamp_ms for other in others])
        self.created_ms = min([other.created_ms for other in others])

    def truncate_unnoted(self) -> None:
        """Drop what a failed write left behind the last batch. Raises OSError."""
        file = self._file
        if file is not None and file.size() != self.size_bytes:
            file.truncate(self.size_bytes)

    def note(
        self, base_offset: int, next_offset: int, size_bytes: int, max_timestamp: int, now_ms: int
    ) -> None:
        """Move the end behind a batch that now follows there, and map it."""
        position = self.size_bytes
        relative = base_offset - self.base_offset
        end = position + size_bytes
        if end - self._last_entry_position > self._interval_bytes or not position:
            self._index.append(relative, position)
            self._times.append(self.max_timestamp)
            self._last_entry_position = position
            if not position:
                self.created_ms = now_ms
        self._tail.append(relative, position)
        self.size_bytes = end
        self.next_offset = next_offset
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        stamp_ms = max_timestamp if 0 <= max_timestamp <= now_ms else now_ms
        if stamp_ms > self.stamp_ms:
            self.stamp_ms = stamp_ms

    def date(self, now_ms: int) -> None:
        """Reduce times that were noted later than now, when nobody knew the time."""
        if self.stamp_ms > now_ms:
            self.stamp_ms = now_ms
        if self.created_ms > now_ms:
            self.created_ms = now_ms

    # ---- reading

    def read(self, offset: int, max_bytes: int, upto: int, min_one_batch: bool) -> Buffer:
        """Return whole batches from the one that holds ``offset``, all ending at or below ``upto``.

        ``offset`` lies in the segment. At least one batch when ``min_one_batch``, whatever
        ``max_bytes`` says. Raises OSError, CorruptMessageError where the file does not hold, and
        StorageError as long as a lost index is made anew.
        """
        file = self._file
        if file is None:
            self._pool.before_reading(self)
            file = self.open()
        self.used = True
        start = self._position_of(file, offset)
        end = self.size_bytes
        if upto < self.next_offset:
            end = self._floor_of(upto - self.base_offset)
        if end > start + max_bytes:
            end = self._floor_position(start + max_bytes)
        if end > start:
            data = file.read_at(start, end - start)
            if len(data) != end - start:
                raise CorruptMessageError(f"{self.path}: shorter than {end} bytes")
            return data
        return self._read_by_headers(file, start, max_bytes, upto, min_one_batch)

    def _read_by_headers(
        self, file: File, start: int, max_bytes: int, upto: int, min_one_batch: bool
    ) -> Buffer:
        """Find whole batches one by one, and read less than an index interval."""
        end = start
        next_offset = self.base_offset
        try:
            for position, header in Scan(file, start, self.size_bytes):
                batch_end = position + header.size_bytes
                if header.next_offset > upto:
                    break
                if batch_end - start > max_bytes and not (min_one_batch and position == start):
                    break
                end, next_offset = batch_end, header.next_offset
                if end - start >= max_bytes:
                    break
        except CorruptBatchError as error:
            if end == start:
                raise CorruptMessageError(f"{self.path} at byte {start}: {error}") from error
        if end == start:
            return b""
        if len(self._hints) >= _HINT_COUNT:
            del self._hints[next(iter(self._hints))]
        self._hints[next_offset] = end
        return file.read_at(start, end - start)

    def _position_of(self, file: File, offset: int) -> int:
        """Return where the batch that holds ``offset`` begins."""
        relative = offset - self.base_offset
        position = self._tail.floor_offset(relative)
        if position >= 0:
            return position
        entry, position = self._index.floor_offset(relative)
        if entry == relative:
            return position
        hint = self._hints.get(offset)
        if hint is not None:
            return hint
        try:
            # Unbroken offsets, or a batch whose length in offsets is corrupt would be stepped over.
            first = self.base_offset + entry
            for start, header in Scan(file, position, self.size_bytes, next_offset=first):
                if header.next_offset > offset:
                    return start
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self.path} at byte {position}: {error}") from error
        raise CorruptMessageError(f"{self.path}: offset {offset} is not in the file")

    def bytes_from(self, offset: int) -> int:
        """Return how many bytes lie at ``offset`` and beyond, about; nothing is read."""
        if offset >= self.next_offset:
            return 0
        return self.size_bytes - self._floor_of(max(0, offset - self.base_offset))

    def _floor_of(self, relative: int) -> int:
        """Return a known batch start at or before the batch that holds a relative offset."""
        position = self._tail.floor_offset(relative)
        return position if position >= 0 else self._index.floor_offset(relative)[1]

    def _floor_position(self, position: int) -> int:
        """Return a known batch start at or below ``position``."""
        known = self._tail.floor_position(position)
        return known if known >= 0 else self._index.floor_position(position)

    def header_at(self, offset: int) -> tuple[int, BatchHeader]:
        """Return position and header of the batch that holds ``offset``. Raises as ``read``."""
        file = self.open()
        position = self._position_of(file, offset)
        try:
            return next(iter(Scan(file, position, self.size_bytes)))
        except (CorruptBatchError, StopIteration) as error:
            raise CorruptMessageError(f"{self.path} at byte {position}: {error}") from error

    def batches_since(self, timestamp: int) -> Scan:
        """Walk from an index entry before which everything is older than ``timestamp``."""
        file = self.open()
        entry = self._times.last_before(timestamp)
        position = self._index.positions[entry] if entry >= 0 else 0
        return Scan(file, position, self.size_bytes)

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """Read one batch whose header was found by walking. Raises OSError."""
        return self.open().read_at(position, header.size_bytes)

    # ---- truncation

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Keep the batches that end at or below ``offset``. Raises OSError, CorruptMessageError."""
        file = self.open()
        if offset >= self.next_offset:
            return
        position = self._position_of(file, offset) if offset > self.base_offset else 0
        self.remove_index_files()
        file.truncate(position)
        self._sync_truncation(file)
        self._tail.clear()
        self._hints.clear()
        entries = len(self._index)
        while entries and self._index.positions[entries - 1] >= position:
            entries -= 1
        # The timestamps of the truncated batches must go: count again from the last entry that
        # is kept.
        entries = max(0, entries - 1)
        self._rewind(entries)
        self._rebuild(file, position, now_ms)

    def _sync_truncation(self, file: File) -> None:
        """Sync before anything follows: the kernel may write the new content of the last block
        before the new length, and a crash then leave new batches with old ones behind them."""
        try:
            file.sync()
        except OSError as error:
            # For any reason: a sync that failed proves nothing, and is no passing trouble.
            raise OSError(errno.EIO, f"sync failed: {error}", self.path) from error

    def _rewind(self, entries: int) -> None:
        """Go back to the state before index entry number ``entries`` was added."""
        if entries < len(self._index):
            self.size_bytes = self._index.positions[entries]
            self.next_offset = self.base_offset + self._index.offsets[entries]
            self.max_timestamp = self._times.timestamps[entries]
        else:
            self.size_bytes, self.next_offset = 0, self.base_offset
            self.max_timestamp = NO_TIMESTAMP
        self._index.truncate(entries)
        self._times.truncate(entries)
        self._last_entry_position = self._index.positions[-1] if entries else 0
        self._tail.clear()

    def _rebuild(self, file: File, end: int, now_ms: int) -> None:
        """Map the batches from the current end up to ``end`` bytes. Raises CorruptBatchError."""
        created_ms, stamp_ms = self.created_ms, self.stamp_ms
        scan = Scan(
            file,
            self.size_bytes,
            end,
            next_offset=self.next_offset,
            chunk_bytes=SCAN_CHUNK_BYTES,
        )
        for _, header in scan:
            self.note_header(header, now_ms)
        if created_ms >= 0 and self.size_bytes:
            self.created_ms = created_ms
        self.stamp_ms = max(min(stamp_ms, now_ms), self.stamp_ms)

    def note_header(self, header: BatchHeader, now_ms: int) -> None:
        """Do what :meth:`note` does for a batch that was found in the file."""
        self.note(
            header.base_offset,
            header.next_offset,
            header.size_bytes,
            header.max_timestamp,
            now_ms,
        )

    # ---- index files

    @property
    def unpersisted_entries(self) -> int:
        """Return how many entries in memory the files lack."""
        return max(0, len(self._index) - max(0, self._persisted))

    def persist_index(self) -> None:
        """Write the new entries, unsynced. A failure costs a rebuild and is not raised."""
        summary = self.summary
        if not len(self._index) or (self._persisted >= 0 and self._persisted_summary == summary):
            return  # closing wrote it, or nothing is new
        try:
            if self._persisted < 0:
                self.remove_index_files()
            first = self._persisted
            count = max(0, len(self._index) - first)
            for suffix, magic, payload in (
                (TIME_INDEX_SUFFIX, TIME_INDEX_MAGIC, self._times.payload(first)),
                (INDEX_SUFFIX, OFFSET_INDEX_MAGIC, self._index.payload(first)),
            ):
                if count or suffix == INDEX_SUFFIX:
                    file = self._pool.files.open(self._prefix + suffix, create=True)
                    try:
                        file.append([encode_blocks(magic, first, count, payload, summary)])
                    finally:
                        file.close()
            self._persisted += count
            self._persisted_summary = summary
        except OSError as error:
            logger.warning("segment_index_not_written", path=self.path, error=error)
            self._persisted = -1

    def remove_index_files(self) -> None:
        """Forget what is on disk; the next write begins anew. Raises OSError."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._pool.files.exists(self._prefix + suffix):
                self._pool.files.remove(self._prefix + suffix)
        self._persisted = 0
        self._persisted_summary = None

    def read_summary(self, size_bytes: int) -> Summary | None:
        """Return what the index file says of a log of ``size_bytes``; None if it says nothing."""
        return read_summary(self._pool.files, self._prefix, size_bytes, self.base_offset)

    def load_entries(self, offset_max: int) -> None:
        """Load the entries that hold, up to an offset, and step back to the last of them.

        The segment then ends there; the caller scans on. For recovery, on a segment without state.
        """
        loaded = read_index(self._pool.files, self._prefix)
        self._index, self._times = loaded.offsets, loaded.times
        self._persisted_summary = loaded.summary
        for block in loaded.blocks:
            self.stamp_ms = max(self.stamp_ms, block.summary.stamp_ms)
            self.created_ms = block.summary.created_ms
        entries = len(self._index)
        self._persisted = entries if loaded.whole else -1
        while entries and self._index.offsets[entries - 1] > offset_max - self.base_offset:
            entries -= 1
            self._persisted = -1
        if entries and self._index.positions[0]:
            entries, self._persisted = 0, -1
        self._index.truncate(entries)
        self._times.truncate(entries)
        persisted = self._persisted
        self._rewind(max(0, entries - 1))
        # The last entry is added again by the scan that follows, and counts as written.
        self._persisted = persisted

    @property
    def entries_in_memory(self) -> int:
        """Return how many index entries are in memory: all that there are, or 0."""
        return len(self._index)

    def entries_near(self, offset: int, count: int) -> list[IndexEntry]:
        """Return index entries in memory: the last so many at or below ``offset``, and as many of
        those above it."""
        return entries_near(self._index, self._times, self.base_offset, offset, count)

    def forget(self) -> None:
        """Go back to empty, in memory: the file is going to be mapped from its first byte."""
        self._index.truncate(0)
        self._times.truncate(0)
        self._rewind(0)
        self._persisted = -1

    def _load_index(self, file: File) -> None:
        """Fill the index of a segment whose end is known, when it is opened."""
        summary = self.summary
        self.load_entries(summary.next_offset)
        try:
            if self.size_bytes > summary.size_bytes:
                raise CorruptBatchError("the index points behind the end of the log")
            self._rebuild(file, summary.size_bytes, summary.stamp_ms)
        except CorruptBatchError:
            logger.warning("segment_index_rebuilt", path=self.path)
            self._persisted = -1
            self._rewind(0)
            try:
                self._rebuild(file, summary.size_bytes, summary.stamp_ms)
            except CorruptBatchError as error:
                # Corruption in the log itself. What lies below it can still be read.
                logger.error(
                    "segment_damaged", path=self.path, position=self.size_bytes, error=error
                )
        if self.max_timestamp != summary.max_timestamp or self.size_bytes != summary.size_bytes:
            logger.warning("segment_contradicts_index", path=self.path)
        self._tail.clear()
        self.restore(summary)

    @property
    def lacks_index(self) -> bool:
        """Return whether its index is neither in memory nor on disk, to be made of the log."""
        if self._file is not None or len(self._index) or not self.size_bytes:
            return False
        return self.read_summary(self.size_bytes) is None

    def twin(self) -> Segment:
        """Return an empty one of the same name, to map the log's batches into beside this one."""
        directory = self._prefix.rpartition("/")[0]
        return Segment(self._pool, directory, self.base_offset, self._interval_bytes)

    def take_index(self, twin: Segment) -> None:
        """Take over the map that was made in a twin, if this one has none yet."""
        if self._file is None and not len(self._index):
            self._index, self._times = twin._index, twin._times
            self._last_entry_position = twin._last_entry_position
            self._persisted = -1

    def moved_to(self, pool: OpenSegments, directory: str) -> Segment:
        """Return this segment as it is in another directory, where its file was copied."""
        moved = Segment(pool, directory, self.base_offset, self._interval_bytes)
        moved.restore(self.summary)
        return moved

    # ---- going away

    @property
    def is_cleaned(self) -> bool:
        """Return whether it is beside the log, not part of it."""
        return self._prefix.endswith(CLEANED_MARK)

    def take_place(self) -> None:
        """Take over the name, and so the place, of the segment that has this base offset.

        Both are closed. The index files of the other go before its log does, so that none can
        outlive it. Raises OSError; the other then still has its place.
        """
        files = self._pool.files
        cleaned, prefix = self._prefix, self._prefix.removesuffix(CLEANED_MARK)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            if files.exists(prefix + suffix):
                files.remove(prefix + suffix)
        files.rename(cleaned + LOG_SUFFIX, prefix + LOG_SUFFIX)
        self._prefix = prefix
        try:
            for suffix in (TIME_INDEX_SUFFIX, INDEX_SUFFIX):
                if files.exists(cleaned + suffix):
                    files.rename(cleaned + suffix, prefix + suffix)
        except OSError as error:
            logger.warning("segment_index_lost", path=self.path, error=error)

    def remove(self) -> None:
        """Remove the files of one that takes nobody's place. Raises OSError."""
        self.dirty = False
        self.release()
        self.remove_index_files()
        if self._pool.files.exists(self.path):
            self._pool.files.remove(self.path)

    def discard(self) -> list[str]:
        """Rename the files out of the way; return what is left to remove. Raises OSError."""
        self.release()
        trash = []
        files = self._pool.files
        for suffix in FILE_SUFFIXES:
            path = self._prefix + suffix
            if files.exists(path):
                files.rename(path, path + DELETED_SUFFIX)
                trash.append(path + DELETED_SUFFIX)
        self.dirty = False
        return trash

    def __repr__(self) -> str:
        return f"<Segment {self.path} up to {self.next_offset}, {self.size_bytes} bytes>"
