"""The files of a replica are read behind the broker's back: for the invariants.

Owns the walk over batch headers, incrementally: what was walked is not read again unless the log
was cut. Rules:

- nothing here goes through the broker's reading code or through the calls of the disk that can be
  told to fail: looking must not change the run;
- a batch is known by (base offset, next offset, epoch, CRC, size): the CRC covers the rest;
- *durable* is what a power cut now would leave, names of files and directories included;
- a replica that does not know of its rot yet is to be seen as it was, headers and records alike:
  rot may strike a batch before anybody has looked at it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from oncelog_broker.log.move_marks import MOVED_MARK
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.segment import LOG_SUFFIX, Segment
from oncelog_protocol.records.batch import (
    HEADER_BYTES,
    KAFKA_MAGIC,
    LENGTH_END,
    MAGIC,
    CorruptBatchError,
)
from oncelog_protocol.records.decode import decode_batch
from oncelog_testing.memory.disk import Directory, Inode, names_in
from oncelog_testing.memory.files import MemoryFiles

__all__ = ["Batch", "Canon", "DiskLog", "LogView", "RunningLog", "copies_of", "names_on_disk"]

_HEADER = struct.Struct(">qIiBIHi")
"""The header up to the last offset delta."""


class Batch(NamedTuple):
    """It is one batch, as far as two replicas must agree on it."""

    base: int
    next: int
    epoch: int
    crc: int
    size: int


class _Piece:
    """It has the batches of one segment file."""

    __slots__ = ("first", "path", "size")

    def __init__(self, path: str, first: int) -> None:
        self.path = path
        self.first = first
        """Index of its first batch."""
        self.size = 0
        """Bytes walked."""


Rots = dict[tuple[str, int], tuple[bytes, bytes]]
"""A batch as rot made it, and as it was: by path and position of the batch."""


class LogView:
    """It has the batches of one replica, in order; ``end`` is the offset after the last."""

    def __init__(self, files: MemoryFiles, rots: Rots | None = None) -> None:
        self.files = files
        self._rots: Rots = {} if rots is None else rots
        self.forget(0)

    def forget(self, start: int) -> None:
        """Begin anew: an empty log that begins at ``start``."""
        self.bases: list[int] = []
        self.batches: list[Batch] = []
        self._ends: list[int] = []
        self._pieces: list[_Piece] = []
        self.start = self.end = start
        self.fault = ""
        """Why the walk ended before the log did; empty while it did not."""
        self.matched = start
        """Below it the log was found equal to the canon; see ``Canon.match``."""
        self._durable = 0
        """Batches, counted from the first, that were found durable."""

    @property
    def rotten(self) -> bool:
        """Return whether a batch of it has rotted, at any time."""
        return bool(self._rots)

    def durable_end(self) -> int:
        """Offsets below it would survive a power cut now."""
        index = self._durable
        while index < len(self.batches):
            piece = self._pieces[self._piece_of(index)]
            last = self._last_of(piece)
            durable_bytes = _durable_bytes(self.files, piece.path)
            safe = last  # a file that retention took away since
            if durable_bytes is not None:
                safe = bisect_right(self._ends, durable_bytes, index, last)
            self._durable = safe
            if safe < last:
                break
            index = last
        return self.batches[self._durable - 1].next if self._durable else self.start

    def records_of(self, batch: Batch) -> Iterator[tuple[int, bytes | None]]:
        """Yield (offset, value) of the records of a batch that is here.

        :raises LookupError: it is not, or cannot be read.
        """
        if not self.holds(batch):
            raise LookupError(f"{batch} is not here")
        try:
            columns = decode_batch(self.batch_bytes(self.index(batch)))
        except CorruptBatchError as error:
            raise LookupError(str(error)) from error
        return zip(columns.offsets(), columns.values, strict=True)

    def at(self, offset: int) -> Batch | None:
        """Return the batch that covers an offset, or None."""
        return _covering(self.bases, self.batches, offset)

    def batch_bytes(self, index: int) -> bytes:
        """Return the bytes of a batch, by its number, as they were before they rotted.

        :raises LookupError: the file is gone.
        """
        path, position = self._place(index)
        data = self.bytes_on_disk(index)
        rotten, original = self._rots.get((path, position), (b"", b""))
        return original if data == rotten else data

    def bytes_on_disk(self, index: int) -> bytes:
        """Return the same with whatever rot has made of them. :raises LookupError: the file is
        gone."""
        path, position = self._place(index)
        data = _content(self.files, path)
        if data is None:
            raise LookupError("the file is gone")
        return bytes(data[position : position + self.batches[index].size])

    def index(self, batch: Batch) -> int:
        """Return the number of a batch that is here."""
        return bisect_left(self.bases, batch.base)

    def holds(self, batch: Batch) -> bool:
        """Return whether the very same batch is here."""
        index = self.index(batch)
        return index < len(self.batches) and self.batches[index] == batch

    # ---- walking

    def _place(self, index: int) -> tuple[str, int]:
        """Return the file of a batch, and where in it the batch begins."""
        piece = self._pieces[self._piece_of(index)]
        return piece.path, self._ends[index] - self.batches[index].size

    def _piece_of(self, index: int) -> int:
        return bisect_right([piece.first for piece in self._pieces], index) - 1

    def _last_of(self, piece: _Piece) -> int:
        number = self._pieces.index(piece)
        following = self._pieces[number + 1 :]
        return following[0].first if following else len(self.batches)

    def _walk(self, path: str, upto: int | None) -> bool:
        """Walk on in one file up to ``upto`` bytes (None: as far as it holds); whether it held."""
        if not self._pieces or self._pieces[-1].path != path:
            self._pieces.append(_Piece(path, len(self.batches)))
        piece = self._pieces[-1]
        data = _content(self.files, path)
        if data is None:
            self.fault = f"{path} is not there"
            return False
        size = len(data) if upto is None else upto
        position = piece.size
        while position < size:
            problem = self._take(path, data, position, size)
            if problem:
                self.fault = f"{path} at byte {position}: {problem}"
                return False
            position = piece.size = self._ends[-1]
        return True

    def _take(self, path: str, data: bytearray, position: int, size: int) -> str:
        if position + HEADER_BYTES > len(data):
            return "shorter than its log says"
        header = bytes(data[position : position + HEADER_BYTES])
        rotten, original = self._rots.get((path, position), (b"", b""))
        if header == rotten[:HEADER_BYTES]:
            header = original[:HEADER_BYTES]
        base, length, epoch, magic, crc, _, delta = _HEADER.unpack_from(header)
        end = position + LENGTH_END + length
        if magic not in (MAGIC, KAFKA_MAGIC) or length < HEADER_BYTES - LENGTH_END or delta < 0:
            return "not a batch"
        if end > size or end > len(data):
            return "a batch reaches past the end"
        batches = self.batches
        if batches and (base != self.end or epoch < batches[-1].epoch):
            before = batches[-1]
            return f"offset {base} epoch {epoch} follows offset {before.next} epoch {before.epoch}"
        if not batches:
            self.start = self.matched = base
        self.end = base + delta + 1
        self.bases.append(base)
        batches.append(Batch(base, self.end, epoch, crc, end - position))
        self._ends.append(end)
        return ""


class RunningLog(LogView):
    """It is the log of a running broker."""

    def __init__(self, files: MemoryFiles, log: PartitionLog, rots: Rots | None = None) -> None:
        super().__init__(files, rots)
        self.log = log
        self._generation = -1
        self._swaps = log.swap.count
        self._directory = log.directory
        self._former: DiskLog | None = None
        """What was durable where the log lay before; a power cut may bring it back."""
        self._checked_epochs = 0
        self.resets = 0
        """How often the log was cut, compacted or begun anew since it is watched."""

    def update(self) -> None:
        """Walk what is new; everything, when the log was cut or compacted meanwhile."""
        log = self.log
        if log.directory != self._directory:
            self._former = DiskLog(self.files, self._rots)
            self._former.load(self._directory)
            self._directory = log.directory
            self._generation = -1
        generation = log.unsynced._generation
        changed = (generation, log.swap.count) != (self._generation, self._swaps)
        if changed or log.log_end_offset < self.end:
            self._generation, self._swaps = generation, log.swap.count
            self.forget(log.segments[0].base_offset)
            self._checked_epochs = 0
            self.resets += 1
        if log.log_end_offset == self.end or self.fault:
            return
        for segment in self._unwalked():
            if segment.size_bytes and not self._walk(segment.path, segment.size_bytes):
                return
            if self.end != segment.next_offset and segment.size_bytes:
                self.fault = f"{segment.path} ends at {self.end}, its log says otherwise"
                return
        if not self.batches:
            self.start = self.end = self.matched = log.log_end_offset
        elif self.end != log.log_end_offset:
            self.fault = f"files end at {self.end}, the log at {log.log_end_offset}"
        self._check_epochs()

    def durable_end(self) -> int:
        """Return the same, also while the name of a log that has moved is not durable yet: what the
        log was before is there then."""
        end, former = super().durable_end(), self._former
        if former is None:
            return end
        if _is_durable(self.files, self._directory):
            self._former = None
            return end
        return max(end, former.durable_end())

    def _unwalked(self) -> list[Segment]:
        found: list[Segment] = []
        segments = self.log.segments
        last = self._pieces[-1].path if self._pieces else ""
        for index in range(len(segments) - 1, -1, -1):
            found.append(segments[index])
            if segments[index].path == last:
                break
        return found[::-1]

    def _check_epochs(self) -> None:
        """Batches and epoch history say the same."""
        log = self.log
        for batch in self.batches[self._checked_epochs :]:
            known = log.epochs.epoch_at(batch.base)
            if batch.base >= log.log_start_offset and known != batch.epoch:
                self.fault = f"offset {batch.base} has epoch {batch.epoch}, history says {known}"
                return
        self._checked_epochs = len(self.batches)


class DiskLog(LogView):
    """It lies in a directory, of a broker that does not run."""

    def load(self, directory: str) -> None:
        """Walk what is there, up to the first damage. Segments that a compacted one in front of
        them reaches over were replaced by it; a start removes them."""
        for name in names_on_disk(self.files, directory):
            base = name.removesuffix(LOG_SUFFIX)
            if not (name.endswith(LOG_SUFFIX) and base.isdecimal()):
                continue
            if self.batches and int(base) < self.end:
                continue
            if not self._walk(f"{directory}/{name}", None):
                break
        self.fault = ""


class Canon:
    """It has the committed batches of one partition, as its leaders committed them."""

    def __init__(self) -> None:
        self.bases: list[int] = []
        self.batches: list[Batch] = []
        self.start = self.end = 0

    def extend(self, view: LogView, upto: int) -> None:
        """Take over what ``view`` holds up to an offset; it must match as far as the canon goes."""
        if not self.batches and view.batches:
            self.start = self.end = view.start
        for index in range(bisect_left(view.bases, self.end), len(view.batches)):
            batch = view.batches[index]
            if batch.next > upto:
                break
            self.bases.append(batch.base)
            self.batches.append(batch)
            self.end = batch.next

    def match(self, view: LogView) -> None:
        """Move ``view.matched`` on as far as the two are equal."""
        if view.end <= view.matched or self.end <= view.matched:
            return
        if view.matched < self.start:
            view.matched = min(self.start, view.end)
        mine = bisect_left(self.bases, view.matched)
        for index in range(bisect_left(view.bases, view.matched), len(view.batches)):
            if mine >= len(self.batches) or self.batches[mine] != view.batches[index]:
                break
            view.matched = view.batches[index].next
            mine += 1

    def at(self, offset: int) -> Batch | None:
        """Return the batch that covers an offset, or None."""
        return _covering(self.bases, self.batches, offset)


def _covering(bases: list[int], batches: list[Batch], offset: int) -> Batch | None:
    index = bisect_right(bases, offset) - 1
    return batches[index] if index >= 0 and batches[index].next > offset else None


# ---- the disk, unseen


def _content(files: MemoryFiles, path: str) -> bytearray | None:
    node = _node(files, path)
    return node.data if isinstance(node, Inode) else None


def names_on_disk(files: MemoryFiles, path: str) -> list[str]:
    """Return what is in a directory; nothing if there is none."""
    node = _node(files, path)
    return sorted(node.names) if isinstance(node, Directory) else []


def _node(files: MemoryFiles, path: str) -> Inode | Directory | None:
    node: Inode | Directory | None = files._disk.root
    for name in names_in(path):
        node = node.names.get(name) if isinstance(node, Directory) else None
    return node


def _is_durable(files: MemoryFiles, path: str) -> bool:
    """Return whether the name of a directory would survive a power cut."""
    node: Inode | Directory | None = files._disk.root
    for name in names_in(path):
        if not isinstance(node, Directory) or node.durable.get(name) is not node.names.get(name):
            return False
        node = node.names.get(name)
    return isinstance(node, Directory)


def copies_of(files: MemoryFiles, directory: str) -> list[str]:
    """Return where else on a broker's disks a log may lie that was last seen in ``directory``, that
    first; copies that say that the log has gone elsewhere come last."""
    root, _, name = directory.rpartition("/")
    parent = root.rpartition("/")[0]
    found = [f"{parent}/{other}/{name}" for other in names_on_disk(files, parent)]
    there = [path for path in found if isinstance(_node(files, path), Directory)]
    return sorted(
        there, key=lambda path: (MOVED_MARK in names_on_disk(files, path), path != directory)
    )


def _durable_bytes(files: MemoryFiles, path: str) -> int | None:
    """Return how many bytes of a file, from its start, would survive a power cut; 0 if its name
    would not, None if there is no such file.

    A file that was renamed over another, which would come back: compaction does that, and both say
    the same.
    """
    node: Inode | Directory = files._disk.root
    named = True
    for name in names_in(path):
        child = node.names.get(name) if isinstance(node, Directory) else None
        if child is None:
            return None
        before = node.durable.get(name) if isinstance(node, Directory) else None
        named = named and (before is child or isinstance(before, Inode))
        node = child
    if not isinstance(node, Inode) or not named:
        return 0
    return min([node.common(), *(start for start, _ in node.lost)])
