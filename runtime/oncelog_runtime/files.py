"""The file system is a port; the machine's own version of it is here too.

Two temperatures. *Hot* calls are plain functions: an append goes to the page cache and a read
mostly comes from there, both in microseconds, so awaiting them would cost more than doing them.
*Cold* calls (checkpoints, snapshots, recovery, deletion) are coroutines over aiofiles. Only
``sync`` and ``sync_dir`` block for as long as the disk likes: callers run them in an executor.

Rules of durability, which the memory version enforces by forgetting at a crash:

- bytes are durable once ``File.sync`` has returned, and only those appended before it was called;
- a name (create, rename, remove, make_dirs) is durable once ``sync_dir`` of its directory returned;
- a failed ``sync`` proves nothing for ever: the kernel may have dropped the dirty pages and marked
  them clean, so that the next one "succeeds" (fsyncgate). Callers stop using the directory;
- what a process reads that an earlier one wrote may be such clean pages, which the disk never got,
  until the machine restarts. ``File.rewrite`` makes them dirty again, so that a sync proves them.

No mmap: its faults are signals, and cannot be injected.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = [
    "Buffer",
    "DiskSpace",
    "File",
    "FileLock",
    "FileLockedError",
    "Files",
    "SystemFiles",
]

Buffer = bytes | bytearray | memoryview

_VECTOR_MAX = 1024
"""Most pieces of one writev: Linux's IOV_MAX; more is refused by the kernel."""

_REWRITE_BYTES = 1024 * 1024
"""Read and written at once by ``rewrite``."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Linux has the boot's id here; other systems have none that is as good."""

_TEMPORARY = ".tmp"
"""Suffix of a file that is being written; such a file found at start-up may be removed."""


class FileLockedError(OSError):
    """Another process, or another part of this one, holds the lock."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """It tells how much room the device has that holds a path, in bytes."""

    total_bytes: int
    free_bytes: int
    """This process may still use so many bytes: without the part that is kept for root."""


class FileLock(Protocol):
    """It is an exclusive lock on a path, held until released or until the process ends."""

    def release(self) -> None:
        """Give the lock back. May be called twice."""
        ...


class File(Protocol):
    """It is one open file that grows at its end and is read anywhere. Not for two writers."""

    @property
    def path(self) -> str:
        """Return the path it was opened by; a rename does not change it."""
        ...

    def size(self) -> int:
        """Bytes in the file, whether or not they are durable."""
        ...

    def append(self, data: Sequence[Buffer]) -> int:
        """Write all the pieces at the end; return the number of bytes written.

        Raises OSError (ENOSPC, EIO, ...): the file may then hold any part of the data, and the
        caller truncates back or gives the file up.
        """
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Read so many bytes from an offset; fewer only where the file ends. Raises OSError."""
        ...

    def truncate(self, size: int) -> None:
        """Cut to ``size`` bytes; a larger size is refused with ValueError. Raises OSError."""
        ...

    def rewrite(self, offset: int, length: int) -> None:
        """Write the same bytes again in their place, so that the next ``sync`` covers them.

        Whatever an earlier sync that failed has done to them. Nothing is ever cut on the way: a
        crash leaves what was there, or what is. Blocks. Raises OSError, and ValueError for a range
        that is not in the file.
        """
        ...

    def sync(self) -> None:
        """Make durable what was appended, truncated or rewritten before this call. Blocks. Raises
        OSError."""
        ...

    def close(self) -> None:
        """Let go of the file, without syncing. May be called twice; other calls then raise."""
        ...


class Files(Protocol):
    """This port is a file system. Paths are strings; errors are OSError with the errno of POSIX."""

    # ---- hot: plain calls

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for appending and reading; ``create`` makes an empty file where there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this path."""
        ...

    def is_dir(self, path: str) -> bool:
        """Return whether a directory has this path."""
        ...

    def size(self, path: str) -> int:
        """Return the number of bytes in the file of this path."""
        ...

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def make_dirs(self, path: str) -> None:
        """Make a directory and its parents; one that exists is left alone."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory; a file that has the target's name is replaced at once."""
        ...

    def remove(self, path: str) -> None:
        """Remove one file."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """Read a whole small file."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable. Blocks."""
        ...

    def disk_space(self, path: str) -> DiskSpace:
        """Return the room on the device of an existing path."""
        ...

    def lock(self, path: str) -> FileLock:
        """Lock a file, made if absent. Raises FileLockedError at once when it is held."""
        ...

    def is_writable(self, path: str) -> bool:
        """Return whether this process may write to an existing path."""
        ...

    def write_atomic_now(self, path: str, data: bytes) -> None:
        """Do ``write_atomic`` and block meanwhile: for shutdown and command-line tools."""
        ...

    def remove_tree_now(self, path: str) -> None:
        """Do ``remove_tree`` and block meanwhile: for threads and command-line tools."""
        ...

    def boot_id(self) -> str:
        """Return the name of this run of the machine: what a process wrote outlives it, unsynced,
        as long as this stays the same. Empty when nobody can tell."""
        ...

    # ---- cold: coroutines

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a whole file: after any crash it holds the old bytes or the new, durably.

        A temporary file beside it is written, synced and renamed, and the directory synced
        [D4]. One writer a path: the temporary file's name is fixed.
        """
        ...

    async def read_file(self, path: str) -> bytes:
        """Read a whole file."""
        ...

    async def remove_tree(self, path: str) -> None:
        """Remove a directory and all it holds, or a file; nothing happens when it is absent."""
        ...


class SystemFile:
    """It is a file of the operating system, held by its descriptor."""

    __slots__ = ("_fd", "_path", "_size")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def append(self, data: Sequence[Buffer]) -> int:
        try:
            # os.writev of one piece costs what os.write does; most appends are one piece.
            count = os.writev(self._fd, data) if len(data) <= _VECTOR_MAX else 0
            expected = sum(
                [piece.nbytes if type(piece) is memoryview else len(piece) for piece in data]
            )
            if count != expected:
                self._append_rest(data, count)
        except OSError:
            # Some of it may have been written: ask instead of guessing.
            self._size = os.fstat(self._fd).st_size
            raise
        self._size += expected
        return expected

    def _append_rest(self, data: Sequence[Buffer], done: int) -> None:
        """Skip what a short write has written, and go on until all is written."""
        pieces: list[memoryview] = []
        for piece in data:
            view = memoryview(piece).cast("B")
            if done >= view.nbytes:
                done -= view.nbytes
                continue
            pieces.append(view[done:])
            done = 0
        while pieces:
            written = os.writev(self._fd, pieces[:_VECTOR_MAX])
            if written == 0:
                raise OSError(errno.EIO, "write made no progress", self._path)
            index = 0
            while index < len(pieces) and written >= pieces[index].nbytes:
                written -= pieces[index].nbytes
                index += 1
            pieces = pieces[index:]
            if written:
                pieces[0] = pieces[0][written:]

    def read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length or offset + len(data) >= self._size:
            return data
        # A signal or the kernel's 2 GiB limit cut the read short: rare.
        parts = [data]
        position = offset + len(data)
        while position < offset + length:
            data = os.pread(self._fd, offset + length - position, position)
            if not data:
                break
            parts.append(data)
            position += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        if not 0 <= size <= self._size:
            raise ValueError(f"{self._path}: cannot cut {self._size} bytes to {size}")
        os.ftruncate(self._fd, size)
        self._size = size

    def rewrite(self, offset: int, length: int) -> None:
        end = offset + length
        if not 0 <= offset <= end <= self._size:
            raise ValueError(f"{self._path}: {offset} to {end} of {self._size} bytes")
        # Our own descriptor has O_APPEND, and Linux appends what is written with it at any offset.
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            if not os.path.sameopenfile(fd, self._fd):
                raise OSError(errno.ESTALE, "another file has this name now", self._path)
            while offset < end:
                piece = os.pread(self._fd, min(_REWRITE_BYTES, end - offset), offset)
                if not piece:
                    raise OSError(errno.EIO, "shorter than it was", self._path)
                offset += os.pwrite(fd, piece, offset)
        finally:
            os.close(fd)

    def sync(self) -> None:
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        _sync_data(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __repr__(self) -> str:
        return f"<SystemFile {self._path} {self._size} bytes>"


class SystemFileLock:
    """It holds an flock, which the kernel releases when the process dies."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SystemFiles:
    """It is the machine's file system. Files are made with mode 0644, directories with 0755."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        return SystemFile(path, os.open(path, flags | os.O_CREAT if create else flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, mode=0o755, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def disk_space(self, path: str) -> DiskSpace:
        status = os.statvfs(path)
        return DiskSpace(
            total_bytes=status.f_frsize * status.f_blocks,
            free_bytes=status.f_frsize * status.f_bavail,
        )

    def lock(self, path: str) -> FileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise FileLockedError(errno.EWOULDBLOCK, "held by another process", path) from error
        except BaseException:
            os.close(fd)
            raise
        return SystemFileLock(fd)

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK)

    def write_atomic_now(self, path: str, data: bytes) -> None:
        temporary = path + _TEMPORARY
        with open(temporary, "wb", buffering=0) as file:
            written = 0
            while written < len(data):
                written += file.write(memoryview(data)[written:])
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_dir(os.path.dirname(path) or ".")

    def remove_tree_now(self, path: str) -> None:
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def boot_id(self) -> str:
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError):
            return ""

    async def write_atomic(self, path: str, data: bytes) -> None:
        # Imported here: the SDK imports this room and installs without aiofiles.
        import aiofiles
        import aiofiles.os

        loop = asyncio.get_running_loop()
        temporary = path + _TEMPORARY
        async with aiofiles.open(temporary, "wb") as file:
            await file.write(data)
            await file.flush()
            await loop.run_in_executor(None, os.fsync, file.fileno())
        await aiofiles.os.replace(temporary, path)
        await loop.run_in_executor(None, self.sync_dir, os.path.dirname(path) or ".")

    async def read_file(self, path: str) -> bytes:
        import aiofiles

        async with aiofiles.open(path, "rb") as file:
            return await file.read()

    async def remove_tree(self, path: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.remove_tree_now, path)


def _sync_data(fd: int) -> None:
    """Sync data and the size; times of access and the like may wait."""
    if sys.platform == "darwin":  # where fsync alone leaves bytes in the drive's cache
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)
