"""A log remembers which of its ranges were aborted: readers of committed records drop them.

Owns the rows, one a transaction that was aborted, in the order of their markers, and the
``.txnindex`` files. Rules:

- the row is here, in memory, from the moment the marker is in the log: long before the last stable
  offset can pass it [I15]. So a file that cannot be written exposes nothing (KAFKA-7866);
- rows belong to the segment that holds their marker and go with it;
- the files are caches [D11], written lazily and unsynced, so that rows need not stay in memory and
  a start need not read the log. What a file must hold (count and checksum) is in the producers'
  snapshot; one that differs is made anew from the markers of its segment. So one that a power cut
  took, or brought back, is noticed;
- a row also says up to where all was decided when it came: who looks for ranges below that need
  look no further, wherever later transactions begin.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog_broker.log.batch_facts import MARKER_BYTES_MAX
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.index_file import (
    Summary,
    column_bytes,
    column_from,
    decode_blocks,
    encode_blocks,
)
from oncelog_broker.log.open_transactions import AbortedRow
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import TXN_INDEX_SUFFIX, Segment, file_name
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.records.batch import CorruptBatchError, verify_crc
from oncelog_protocol.records.control import ControlType, decode_marker
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

LOADED_MAX = 4
"""Rows of so many segments, besides the newest, are kept in memory."""

READ_PER_PAGE = 16
"""A page of rows is made of the files of so many segments at most."""

_MAGIC = b"OLa1"
_WIDTH = 4
_ROW_BYTES = 8 * _WIDTH
_NO_SUMMARY = Summary(0, 0, 0, 0, 0)


@dataclass(slots=True, eq=False)
class _Rows:
    """These are the rows of one segment."""

    base: int
    count: int = 0
    checksum: int = 0
    """It is the checksum of all rows, encoded."""
    first_offset: int = 2**63 - 1
    """It is the least first offset of the transactions."""
    last_marker: int = -1
    loaded: array[int] | None = field(default_factory=lambda: array("q"))
    """Each row takes four numbers."""
    on_disk: int = 0
    """So many rows are in the file; -1: it holds something else."""

    def add(self, row: AbortedRow) -> None:
        assert self.loaded is not None
        cells = array("q", row)
        self.loaded.extend(cells)
        self.count += 1
        self.checksum = zlib.crc32(column_bytes(cells), self.checksum)
        self.first_offset = min(self.first_offset, row.first_offset)
        self.last_marker = row.marker_offset


class AbortedTransactions:
    """It has the aborted ranges of each producer in one log."""

    __slots__ = ("_directory", "_files", "_find_segment", "_segments")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._segments: tuple[_Rows, ...] = ()
        """They are in order; only segments that have rows are listed."""
        self._find_segment: Callable[[int], Segment] | None = None

    def __len__(self) -> int:
        return sum([rows.count for rows in self._segments])

    def __bool__(self) -> bool:
        return bool(self._segments)

    # ---- filling

    def read_from(self, find_segment: Callable[[int], Segment]) -> None:
        """Find rows that the files lack again in the log. ``find_segment`` gives the segment that
        holds an offset."""
        self._find_segment = find_segment

    def add(self, segment_base: int, row: AbortedRow) -> None:
        """Add the row of a marker that is in the log, in the segment that begins at
        ``segment_base``, the last one. Raises OSError, CorruptMessageError when older rows of the
        segment cannot be had."""
        if not self._segments or self._segments[-1].base != segment_base:
            self._segments += (_Rows(segment_base),)
            self._unload()
        rows = self._segments[-1]
        self._load(rows)
        rows.add(row)

    def truncate(self, end: int) -> None:
        """Forget the markers behind ``end``, where the log ends now. Raises as :meth:`add`."""
        while self._segments and self._segments[-1].last_marker >= end:
            rows = self._segments[-1]
            self._segments = self._segments[:-1]
            kept: list[AbortedRow] = []
            if rows.base < end:
                kept = [row for row in self._all(rows) if row.marker_offset < end]
            self._remove_file(rows.base)
            if kept:
                self._segments += (_made(rows.base, kept),)
                break

    def drop_below(self, segment_base: int) -> None:
        """Drop the rows of segments below, which went with their files."""
        self._segments = tuple([rows for rows in self._segments if rows.base >= segment_base])

    def replaced(self, bases: Sequence[int], gone: Collection[int]) -> None:
        """Make one of the rows of the segments that begin at ``bases``, which are one now, the
        first of them, without the markers in ``gone``. :meth:`preload` was called before the old
        ones went."""
        chunk = [rows for rows in self._segments if rows.base in bases]
        if not chunk:
            return
        kept = [r for rows in chunk for r in self._all(rows) if r.marker_offset not in gone]
        others = [rows for rows in self._segments if rows.base not in bases]
        if kept:
            others.append(_made(bases[0], kept))
            others[-1].on_disk = -1
        else:
            self._remove_file(bases[0])
        self._segments = tuple(sorted(others, key=lambda rows: rows.base))

    def preload(self, bases: Sequence[int]) -> None:
        """Have the rows of these segments in memory. Raises as :meth:`find`."""
        for rows in self._segments:
            if rows.base in bases:
                self._load(rows)

    # ---- asking

    def find(self, start: int, upto: int) -> list[AbortedTransaction]:
        """Return the ranges that reach into ``[start, upto)``. Raises OSError and
        CorruptMessageError when rows cannot be had: then nothing of it may be read as committed."""
        found: list[AbortedTransaction] = []
        for rows in self._segments:
            if rows.last_marker < start or rows.first_offset >= upto:
                continue
            table = self._load(rows)
            for cell in _cells_from(table, start):
                if table[cell + 1] < upto:
                    found.append(AbortedTransaction(table[cell], table[cell + 1]))
                if table[cell + 3] >= upto:
                    return found
        self._unload()
        return found

    def ranges(self, start: int, upto: int) -> dict[int, list[tuple[int, int]]]:
        """Return, by producer, (first offset, marker's offset) of the transactions that reach into
        ``[start, upto)``. Raises as :meth:`find`."""
        found: dict[int, list[tuple[int, int]]] = {}
        for rows in self._segments:
            if rows.last_marker >= start and rows.first_offset < upto:
                for row in self._all(rows):
                    if row.marker_offset >= start and row.first_offset < upto:
                        ends = row.first_offset, row.marker_offset
                        found.setdefault(row.producer_id, []).append(ends)
        self._unload()
        return found

    def page(self, start: int, count_max: int) -> tuple[list[AbortedRow], int]:
        """Return at most so many rows with their markers at ``start`` or above, in order, and up to
        where they are all: -1 when there are no others. Few files are read at a time. Raises as
        :meth:`find`."""
        found: list[AbortedRow] = []
        read = 0
        try:
            for rows in self._segments:
                if rows.last_marker < start:
                    continue
                if rows.loaded is None:
                    if read == READ_PER_PAGE:
                        return found, rows.base
                    read += 1
                table = self._load(rows)
                for cell in _cells_from(table, start):
                    if len(found) == count_max:
                        return found, table[cell + 2]
                    found.append(AbortedRow(*table[cell : cell + _WIDTH]))
        finally:
            self._unload()
        return found, -1

    def rows(self) -> list[AbortedRow]:
        """Return all rows, for tools and tests. Raises as :meth:`find`."""
        return [row for rows in self._segments for row in self._all(rows)]

    # ---- on disk

    def persist(self) -> None:
        """Write what is new, unsynced. A failure costs reading a segment and is not raised."""
        for rows in self._segments:
            if rows.on_disk == rows.count or rows.loaded is None:
                continue
            path = self._path(rows.base)
            try:
                if rows.on_disk <= 0:
                    rows.on_disk = -1
                    self._remove_file(rows.base)
                first = max(0, rows.on_disk)
                payload = column_bytes(rows.loaded[first * _WIDTH :])
                block = encode_blocks(_MAGIC, first, rows.count - first, payload, _NO_SUMMARY)
                rows.on_disk = -1
                file = self._files.open(path, create=True)
                try:
                    file.append([block])
                finally:
                    file.close()
                rows.on_disk = rows.count
            except OSError as error:
                logger.warning("aborted_index_not_written", path=path, error=error)
        self._unload()

    def encode(self) -> list[list[int]]:
        """Return what the files must hold, for a snapshot."""
        return [
            [rows.base, rows.count, rows.checksum, rows.first_offset, rows.last_marker]
            for rows in self._segments
        ]

    def restore(self, encoded: Iterable[Sequence[Any]], bases: Sequence[int]) -> None:
        """Take over what :meth:`encode` gave; the log's segments begin at ``bases``. Rows of
        segments that compaction has put into others since are found again in their markers. Raises
        CheckpointError."""
        self._segments = ()
        try:
            for base, count, checksum, first_offset, last_marker in encoded:
                held_by = bisect_right(bases, int(base)) - 1
                if held_by < 0:
                    continue  # gone with its segment
                if not self._segments or self._segments[-1].base != bases[held_by]:
                    self._segments += (_Rows(bases[held_by]),)
                    self._segments[-1].loaded = None
                rows = self._segments[-1]
                known = rows.base == base
                rows.count = rows.on_disk = int(count) if known else -1
                rows.checksum = int(checksum)
                rows.first_offset = min(rows.first_offset, int(first_offset))
                rows.last_marker = int(last_marker)
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"aborted transactions: {error!r}") from None

    def rehouse(self, directory: str) -> None:
        """Go on in another directory. Files may have been copied there; those of rows in memory
        are written anew."""
        self._directory = directory
        for rows in self._segments:
            if rows.loaded is not None:
                rows.on_disk = -1

    def forget(self) -> None:
        """Forget all rows, as the log is to be read from its start. The files are no longer
        trusted."""
        self._segments = ()

    # ---- loading

    def _all(self, rows: _Rows) -> list[AbortedRow]:
        table = self._load(rows)
        return [AbortedRow(*table[cell : cell + _WIDTH]) for cell in range(0, len(table), _WIDTH)]

    def _load(self, rows: _Rows) -> array[int]:
        if rows.loaded is not None:
            return rows.loaded
        table = self._read_file(rows)
        if table is not None:
            rows.loaded = table
            return table
        logger.info("aborted_index_rebuilt", path=self._path(rows.base))
        again = _made(rows.base, self._read_segment(rows))
        rows.count, rows.checksum, rows.loaded = again.count, again.checksum, again.loaded
        rows.on_disk = -1
        assert rows.loaded is not None
        return rows.loaded

    def _read_file(self, rows: _Rows) -> array[int] | None:
        """Return what the file holds, if that is what it must."""
        try:
            data = self._files.read_bytes(self._path(rows.base))
        except OSError:
            return None
        blocks, _ = decode_blocks(_MAGIC, data, _ROW_BYTES)
        payload = b"".join([block.payload for block in blocks])
        if len(payload) != rows.count * _ROW_BYTES or zlib.crc32(payload) != rows.checksum:
            return None
        return column_from("q", payload)

    def _read_segment(self, rows: _Rows) -> list[AbortedRow]:
        """Return the rows as the markers in the segment tell them. Raises OSError,
        CorruptMessageError."""
        if self._find_segment is None:
            raise CorruptMessageError(f"{self._directory}: aborted transactions are not known")
        segment = self._find_segment(rows.base)
        found: list[AbortedRow] = []
        try:
            file = segment.open()
            scan = Scan(file, 0, segment.size_bytes, chunk_bytes=SCAN_CHUNK_BYTES)
            for position, header in scan:
                if header.base_offset > rows.last_marker:
                    break
                if not header.is_control and header.size_bytes > MARKER_BYTES_MAX:
                    continue
                batch = segment.read_batch(position, header)
                verify_crc(
                    batch
                )  # or a marker that has rotted passes for data, and its row is lost
                if header.is_control:
                    marker = decode_marker(batch, verify=False)
                    if marker.control_type is ControlType.ABORT and marker.first_offset >= 0:
                        found.append(
                            AbortedRow(marker.producer_id, marker.first_offset, marker.offset, -1)
                        )
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{segment.path}: {error}") from error
        return found

    def _unload(self) -> None:
        """Give up rows that the files hold, but for those of the newest segments."""
        loaded = [rows for rows in self._segments[:-1] if rows.loaded is not None]
        for rows in loaded[:-LOADED_MAX]:
            if rows.on_disk == rows.count:
                rows.loaded = None

    def _remove_file(self, base: int) -> None:
        path = self._path(base)
        if self._files.exists(path):
            self._files.remove(path)

    def _path(self, base: int) -> str:
        return f"{self._directory}/{file_name(base, TXN_INDEX_SUFFIX)}"


def decode_rows(data: bytes) -> tuple[list[AbortedRow], bool]:
    """Return the rows of a file, for tools, and whether they are all of it."""
    blocks, whole = decode_blocks(_MAGIC, data, _ROW_BYTES)
    table = column_from("q", b"".join([block.payload for block in blocks]))
    cells = range(0, len(table), _WIDTH)
    return [AbortedRow(*table[cell : cell + _WIDTH]) for cell in cells], whole


def _cells_from(table: array[int], start: int) -> range:
    """Return where the rows begin whose markers lie at ``start`` or above."""
    low, high = 0, len(table) // _WIDTH
    while low < high:
        middle = (low + high) // 2
        if table[middle * _WIDTH + 2] < start:
            low = middle + 1
        else:
            high = middle
    return range(low * _WIDTH, len(table), _WIDTH)


def _made(base: int, found: Iterable[AbortedRow]) -> _Rows:
    rows = _Rows(base)
    for row in found:
        rows.add(row)
    rows.on_disk = -1
    return rows
