"""A future log is a copy of a log in another directory, byte for byte, in the making.

Owns the files in ``T-P.ID-future``, and how far each of them is copied and synced. Rules:

- it is made of whole batches whose checksums and offsets hold, read and written in the threads of
  the two directories, a piece at a time; so neither disk holds up the loop, nor the other disk;
- it follows the log: what is appended meanwhile is copied, what retention or compaction drops or
  replaces goes here too. A truncation is told, and takes back what was copied behind it; a piece
  that was under way then does not count;
- indexes and snapshots are caches. Those of sealed segments are copied as they are, unsynced; what
  does not fit is made anew, as at a start;
- a copy is synced by the descriptor that wrote it, which is kept open until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, TypeVar

from oncelog_broker.log import checkpoint
from oncelog_broker.log.index_file import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.lost_indexes import LARGE_BYTES
from oncelog_broker.log.move_marks import SwapMark, write_swap
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.producer_snapshots import SNAPSHOT_SUFFIX
from oncelog_broker.log.scan import Scan
from oncelog_broker.log.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name
from oncelog_runtime.files import File, Files

P = ParamSpec("P")
T = TypeVar("T")

CACHES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
"""Files with these names of a sealed segment can be made of its log anew."""
REST_BYTES_MAX = 1024 * 1024
"""So much may be copied on the loop at the end: some hundred microseconds."""


@dataclass(slots=True, eq=False)
class _Copied:
    """So far is one segment copied."""

    segment: Segment
    size_bytes: int = 0
    end_offset: int = 0
    file: File | None = None
    """It is open while something of it is not synced."""
    exact: bool = False
    """It tells whether the file is there, and has no more than ``size_bytes``."""
    caches: bool = False
    """It tells whether the caches of the segment, which was sealed, are copied."""


class _NextPiece(NamedTuple):
    """This is to be read of the log next."""

    copied: _Copied
    path: str
    position: int
    end: int
    next_offset: int
    cuts: int


class FutureLog:
    """It is the copy of ``log`` in ``directory``, a directory in ``target``."""

    def __init__(self, log: PartitionLog, target: LogDir, directory: str) -> None:
        self.log = log
        self.target = target
        self.directory = directory
        self._copied: dict[int, _Copied] = {}
        self._unsynced: dict[_Copied, None] = {}
        self._cuts = 0
        """The log was truncated so often since the copy began."""
        self._gone: list[str] = []
        """Files with these names are to be removed."""
        self._looked_at = -1
        """All segments of the log were looked at when its list had changed so often."""
        self.size_bytes = 0
        """So much is copied of what the log has now."""

    def begin(self) -> None:
        """Follow what happens to the log from now on."""
        self.log.tell_truncations_to(self._truncated)

    def close(self) -> None:
        """Let go of the files, and of the log."""
        self.log.tell_truncations_to(None)
        for copied in self._unsynced:
            if not self.target.hangs:  # a thread may be using it, and never let go
                _close(copied)
        self._unsynced.clear()

    # ---- what is to be copied

    @property
    def bytes_left(self) -> int:
        """Return how many bytes the log has that the copy lacks."""
        return max(0, self.log.size_bytes - self.size_bytes)

    @property
    def end_offset(self) -> int:
        """Return up to where the copy goes without a gap."""
        end = self.log.segments[0].base_offset
        for segment in self.log.segments:
            copied = self._copied.get(segment.base_offset)
            if copied is None or copied.segment is not segment:
                return end
            end = copied.end_offset
            if copied.size_bytes < segment.size_bytes:
                return end
        return end

    def _truncated(self) -> None:
        """Take back what was copied of what the log has no more."""
        self._cuts += 1
        active = self.log.segments.active
        copied = self._copied.get(active.base_offset)
        if copied is not None and copied.segment is active:
            if copied.size_bytes > active.size_bytes:
                copied.size_bytes, copied.end_offset = active.size_bytes, active.next_offset
                copied.exact = False
            if copied.caches:
                copied.caches = False
                self._gone += _names(active.base_offset, CACHES)
        self._looked_at = -1

    def _look(self) -> None:
        """Forget what is of segments that the log has no more, and know all that it has."""
        segments = self.log.segments
        if self._looked_at != segments.changes:
            for base, copied in list(self._copied.items()):
                if not segments.has(copied.segment):
                    self._forget(base, copied)
            for segment in segments:
                if segment.base_offset not in self._copied:
                    self._copied[segment.base_offset] = _Copied(
                        segment, end_offset=segment.base_offset
                    )
            self._looked_at = segments.changes
        self.size_bytes = sum([copied.size_bytes for copied in self._copied.values()])

    def _forget(self, base: int, copied: _Copied) -> None:
        _close(copied)
        self._unsynced.pop(copied, None)
        del self._copied[base]
        self._gone += _names(base, (*CACHES, LOG_SUFFIX))

    def _next_piece(self) -> _NextPiece | None:
        self._look()
        active = self.log.segments.active
        for segment in self.log.segments:
            copied = self._copied[segment.base_offset]
            if copied.size_bytes < segment.size_bytes or not (copied.caches or segment is active):
                return _NextPiece(
                    copied,
                    segment.path,
                    copied.size_bytes,
                    segment.size_bytes,
                    copied.end_offset,
                    self._cuts,
                )
        return None

    # ---- copying

    async def copy_piece(self, max_bytes: int) -> int:
        """Copy one piece; return its size in bytes, at least one batch, and -1 when the log has no
        more. Raises CopyError, CorruptBatchError."""
        piece = self._next_piece()
        await self._remove_gone()
        if piece is None:
            return -1
        copied, source = piece.copied, self.log.log_dir
        if piece.position == piece.end:
            await self._copy_caches(piece)
            return 0
        data, next_offset = await on_disk(source, _read, source.files, piece, max_bytes)
        if not self._stands(piece):
            return 0
        self._unsynced[copied] = None
        path = self._path(copied)
        await on_disk(self.target, _write, self.target.files, copied, path, piece.position, data)
        if self._stands(piece):
            copied.size_bytes, copied.end_offset = piece.position + len(data), next_offset
            copied.exact = True
            self.size_bytes += len(data)
        return len(data)

    def _path(self, copied: _Copied) -> str:
        return f"{self.directory}/{file_name(copied.segment.base_offset, LOG_SUFFIX)}"

    def _stands(self, piece: _NextPiece) -> bool:
        """Return whether what was read is in the log yet."""
        return piece.cuts == self._cuts and self.log.segments.has(piece.copied.segment)

    async def _copy_caches(self, piece: _NextPiece) -> None:
        """Sync a sealed segment that is copied whole, and copy what can be made of it anew."""
        copied, source = piece.copied, self.log.log_dir
        await self._sync([copied])
        names = _names(copied.segment.base_offset, CACHES)
        found = await on_disk(source, _read_small, source.files, self.log.directory, names)
        await on_disk(self.target, _write_small, self.target.files, self.directory, found)
        if self._stands(piece):
            copied.caches = True
        else:
            self._gone += names

    async def _sync(self, some: list[_Copied]) -> None:
        files = [copied.file for copied in some if copied.file is not None]
        sizes = [copied.size_bytes for copied in some]
        await on_disk(self.target, _sync_files, files)
        for copied, size_bytes in zip(some, sizes, strict=True):
            if copied.exact and copied.size_bytes == size_bytes and copied in self._unsynced:
                del self._unsynced[copied]
                _close(copied)

    async def _remove_gone(self) -> None:
        gone, self._gone = self._gone, []
        if gone:
            await on_disk(self.target, _remove, self.target.files, self.directory, gone)

    async def copy_snapshots(self) -> None:
        """Copy what was written down of producers; what does not fit, a start does not believe."""
        source, target = self.log.log_dir, self.target
        here, there = self.log.directory, self.directory
        names = await on_disk(source, _snapshots, source.files, here)
        found = await on_disk(source, _read_small, source.files, here, names)
        old = await on_disk(target, _snapshots, target.files, there)
        await on_disk(target, _remove, target.files, there, old)
        await on_disk(target, _write_small, target.files, there, found)

    # ---- taking the log's place

    async def sync(self) -> int:
        """Make all that is copied durable, with its names; return up to where the copy went when
        this began. Raises CopyError."""
        await self._remove_gone()
        end = self.end_offset
        await self._sync(list(self._unsynced))
        await on_disk(self.target, self.target.files.sync_dir, self.directory)
        return end

    @property
    def has_changed(self) -> bool:
        """Return whether the log has other segments than when it was last looked at."""
        return self._looked_at != self.log.segments.changes

    @property
    def cuts(self) -> int:
        """Return how often the log was truncated since the copy began."""
        return self._cuts

    async def write_swap(self, mark: SwapMark) -> int:
        """Write what the copy is to say of itself; return the revision of the epoch history that
        it has. Raises CopyError."""
        revision, epochs = self.log.encode_epochs()
        await on_disk(self.target, _write_marks, self.target.files, self.directory, epochs, mark)
        return revision

    @property
    def is_near(self) -> bool:
        """Return whether so little is left that it may be copied on the loop, and no index is
        lost that would take long to make."""
        self._look()
        active = self.log.segments.active
        return self.bytes_left <= REST_BYTES_MAX and all(
            copied.caches or copied.segment is active or copied.segment.size_bytes <= LARGE_BYTES
            for copied in self._copied.values()
        )

    def append_rest(self) -> None:
        """Copy what is left, here and now; it is not synced. Raises OSError, and then the log has
        not changed."""
        files = self.target.files
        self._look()
        _remove(files, self.directory, self._gone)
        self._gone = []
        for segment in self.log.segments:
            copied, size_bytes = self._copied[segment.base_offset], segment.size_bytes
            if copied.size_bytes < size_bytes or not copied.exact:
                left_bytes = size_bytes - copied.size_bytes
                data = segment.open().read_at(copied.size_bytes, left_bytes) if left_bytes else b""
                self._unsynced[copied] = None
                _write(files, copied, self._path(copied), copied.size_bytes, data)
                copied.size_bytes, copied.end_offset = size_bytes, segment.next_offset
                copied.exact = True
        self.size_bytes = self.log.size_bytes

    def moved_segments(self, directory: str) -> tuple[list[Segment], list[Segment]]:
        """Return the segments of the log as they are in ``directory``, which is the name of this
        one by now, and those of them that are not synced."""
        segments: list[Segment] = []
        unsynced: list[Segment] = []
        for segment in self.log.segments:
            moved = segment.moved_to(self.target.pool, directory)
            segments.append(moved)
            if self._copied[segment.base_offset] in self._unsynced:
                unsynced.append(moved)
        return segments, unsynced


class CopyError(Exception):
    """It says that a disk refused something that a move wanted of it."""

    def __init__(self, log_dir: LogDir, error: OSError) -> None:
        super().__init__(f"{log_dir.path}: {error}")
        self.log_dir = log_dir
        self.error = error


async def on_disk(log_dir: LogDir, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a job in a thread of a directory returns. If cancelled, it ends when the job has
    ended, or was given up: the job would go on with files that are being closed. Raises
    CopyError."""
    running = log_dir.jobs.run(job, *args, **kwargs)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.gather(running, return_exceptions=True)
        raise
    except OSError as error:
        raise CopyError(log_dir, error) from error


def _names(base_offset: int, suffixes: Iterable[str]) -> list[str]:
    return [file_name(base_offset, suffix) for suffix in suffixes]


def _close(copied: _Copied) -> None:
    file, copied.file = copied.file, None
    if file is not None:
        file.close()


def _read(files: Files, piece: _NextPiece, max_bytes: int) -> tuple[bytes, int]:
    """Return whole batches that hold, and the offset that follows them. Runs in a thread."""
    file = files.open(piece.path)
    try:
        end, next_offset = piece.position, piece.next_offset
        scan = Scan(
            file,
            piece.position,
            piece.end,
            next_offset=next_offset,
            verify=True,
            chunk_bytes=max(max_bytes, 1),
        )
        for position, header in scan:
            if end > piece.position and position + header.size_bytes - piece.position > max_bytes:
                break
            end, next_offset = position + header.size_bytes, header.next_offset
        return file.read_at(piece.position, end - piece.position), next_offset
    finally:
        file.close()


def _write(files: Files, copied: _Copied, path: str, position: int, data: bytes) -> None:
    """Write at the end of a copied file; what lies behind ``position`` goes. In a thread, but for
    the rest; nobody else has ``copied`` meanwhile."""
    copied.exact = False
    if copied.file is None:
        copied.file = files.open(path, create=True)
    if copied.file.size() > position:
        copied.file.truncate(position)
    if data:
        copied.file.append([data])


def _read_small(files: Files, directory: str, names: list[str]) -> list[tuple[str, bytes]]:
    found = []
    for name in names:
        path = f"{directory}/{name}"
        if files.exists(path):
            found.append((name, files.read_bytes(path)))
    return found


def _write_small(files: Files, directory: str, found: list[tuple[str, bytes]]) -> None:
    for name, data in found:
        file = files.open(f"{directory}/{name}", create=True)
        try:
            file.truncate(0)
            file.append([data])
        finally:
            file.close()


def _sync_files(files: list[File]) -> None:
    for file in files:
        file.sync()


def _remove(files: Files, directory: str, names: list[str]) -> None:
    for name in names:
        path = f"{directory}/{name}"
        if files.exists(path):
            files.remove(path)


def _snapshots(files: Files, directory: str) -> list[str]:
    return [name for name in files.list_dir(directory) if name.endswith(SNAPSHOT_SUFFIX)]


def _write_marks(files: Files, directory: str, epochs: bytes, mark: SwapMark) -> None:
    files.write_atomic_now(f"{directory}/{checkpoint.LEADER_EPOCH}", epochs)
    write_swap(files, directory, mark)
