"""A file system in memory that forgets what was not synced, and fails when told to.

What it models, for crash tests and for the simulator:

- each file has its bytes and, apart from them, what would survive a power cut; each directory has
  its names and, apart from them, those that ``sync_dir`` made durable;
- ``crash`` keeps everything (the process was killed), only the durable part (power cut), or what a
  function says for each file (torn and reordered tails);
- a failed sync drops the pages for good: the next one "succeeds", a power cut leaves zeros there;
- faults are armed with ``fail`` for an operation under a path, ``set_free_bytes`` gives ENOSPC
  after so many bytes, ``corrupt`` flips bits at rest;
- ``before_change`` is called before each change: raise from it to crash at exactly that step.

Handles and locks die with a crash. The object itself goes on as the next incarnation's; ``reborn``
gives the next incarnation an object of its own and leaves the old one dead, for components of the
old one that still run. Paths are absolute, with "/" between names; "." and ".." are not understood.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Literal

from oncelog_runtime.files import Buffer, DiskSpace, File, FileLock, FileLockedError

__all__ = ["CrashView", "Keep", "MemoryFile", "MemoryFiles"]

Operation = Literal[
    "append", "sync", "truncate", "read", "open", "rename", "remove", "make_dirs", "sync_dir"
]


@dataclass(frozen=True, slots=True)
class CrashView:
    """One file at the moment of a crash, for a function that decides what is left of it."""

    path: str
    durable: bytes
    """What was synced."""
    current: bytes
    """What the process had written."""
    boundaries: tuple[int, ...]
    """Where in ``current`` the unsynced appends end, ascending: places for a clean cut."""


Keep = Literal["all", "none"] | Callable[[CrashView], bytes]


class _Inode:
    """The content of one file, shared by its handles and by every name it has."""

    __slots__ = ("boundaries", "cut_tail", "data", "lost", "synced")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.synced = len(data)
        """Bytes of ``data`` from its start that are durable."""
        self.cut_tail = b""
        """Durable bytes beyond ``synced`` that a truncation cut, but not yet durably."""
        self.boundaries: list[int] = []
        """Ends of unsynced appends, ascending."""
        self.lost: list[tuple[int, int]] = []
        """Ranges that a failed sync dropped: readable, durable never."""

    def durable(self) -> bytes:
        content = bytearray(self.data[: self.synced]) + self.cut_tail
        for start, end in self.lost:
            end = min(end, len(content))
            if start < end:
                content[start:end] = bytes(end - start)
        return bytes(content)

    def cut(self, size: int) -> None:
        if size < self.synced:
            self.cut_tail = bytes(self.data[size : self.synced]) + self.cut_tail
            self.synced = size
        del self.data[size:]
        while self.boundaries and self.boundaries[-1] > size:
            self.boundaries.pop()
        if self.lost:
            self.lost = [(a, min(b, size)) for a, b in self.lost if a < size]

    def sync(self) -> None:
        self.synced = len(self.data)
        self.cut_tail = b""
        self.boundaries = []

    def drop_dirty_pages(self) -> None:
        if self.synced < len(self.data):
            self.lost.append((self.synced, len(self.data)))


class _Directory:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}


@dataclass(slots=True)
class _Fault:
    operation: str
    prefix: str
    error: int
    times: int | None
    keep_bytes: int


class _Disk:
    """What outlives an incarnation: content, names, room, armed faults."""

    __slots__ = ("faults", "free_bytes", "incarnation", "locked", "root", "total_bytes")

    def __init__(self, total_bytes: int) -> None:
        self.root = _Directory()
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self.faults: list[_Fault] = []
        self.incarnation = 0
        self.locked: dict[str, int] = {}


_lock_numbers = count(1)


class MemoryFiles:
    """The fake of ``oncelog_runtime.files.Files``; it passes the same contract suite."""

    def __init__(self, *dirs: str, total_bytes: int = 1 << 40, _disk: _Disk | None = None) -> None:
        """Make an empty disk on which ``dirs`` exist durably."""
        self._disk = _disk or _Disk(total_bytes)
        self._incarnation = self._disk.incarnation
        self._sync_lock = Lock()
        self.before_change: Callable[[Operation, str], None] | None = None
        """Called with (operation, path) before each change of the disk."""
        self._armed = False
        if _disk is None:
            for path in dirs:
                self.make_dirs(path)
            _make_durable(self._disk.root)

    # ---- what a test does to the disk

    def crash(self, keep: Keep = "none", *, keep_names: bool | None = None) -> None:
        """Stop the machine: unsynced bytes and names are kept or forgotten, handles and locks die.

        ``keep_names`` says whether names that no ``sync_dir`` made durable survive; by default they
        do unless ``keep`` is "none".
        """
        disk = self._disk
        disk.incarnation += 1
        disk.locked.clear()
        self._incarnation = disk.incarnation
        if keep_names is None:
            keep_names = keep != "none"
        disk.root = _survivor(disk.root, "", keep, keep_names)
        # Dead handles hold the inodes of before; what survived is a copy, out of their reach.

    def reborn(self, keep: Keep = "none", *, keep_names: bool | None = None) -> MemoryFiles:
        """Crash, and give the next incarnation a view of its own; this one is dead from now on."""
        dead = self._incarnation
        self.crash(keep, keep_names=keep_names)
        self._incarnation = dead
        successor = MemoryFiles(_disk=self._disk)
        successor._armed = bool(self._disk.faults)
        return successor

    def fail(
        self,
        operation: Operation,
        prefix: str = "/",
        *,
        error: int = errno.EIO,
        times: int | None = 1,
        keep_bytes: int = 0,
    ) -> None:
        """Let the next ``times`` such operations under a path fail (None: all from now on).

        A failed append leaves the first ``keep_bytes`` bytes in the file. A failed sync drops the
        unsynced bytes as kernels do: a later sync succeeds without them.
        """
        self._disk.faults.append(_Fault(operation, prefix, error, times, keep_bytes))
        self._armed = True

    def heal(self) -> None:
        """Disarm every fault; give the disk its room back."""
        self._disk.faults.clear()
        self._disk.free_bytes = self._disk.total_bytes
        self._armed = False

    def set_free_bytes(self, free_bytes: int) -> None:
        """Let appends fail with ENOSPC after so many more bytes, the part that fits written."""
        self._disk.free_bytes = free_bytes

    def corrupt(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Flip bits of one byte at rest, durably."""
        self._file(path).data[offset] ^= mask

    def durable_bytes(self, path: str) -> bytes:
        """What a power cut would leave of a file, were its name durable."""
        return self._file(path).durable()

    # ---- hot calls of the port

    def open(self, path: str, *, create: bool = False) -> File:
        self._check("open", path)
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            self._changing("open", path)
            node = parent.names[name] = _Inode()
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._directory(path).names)

    def make_dirs(self, path: str) -> None:
        self._check("make_dirs", path)
        node = self._disk.root
        for name in _names(path):
            child = node.names.get(name)
            if child is None:
                self._changing("make_dirs", path)
                child = node.names[name] = _Directory()
            if isinstance(child, _Inode):
                raise _error(errno.EEXIST, path)
            node = child

    def rename(self, source: str, target: str) -> None:
        self._check("rename", source)
        parent, name = self._parent(source)
        target_parent, target_name = self._parent(target)
        node = parent.names.get(name)
        if node is None:
            raise _error(errno.ENOENT, source)
        taken = target_parent.names.get(target_name)
        if taken is not None and taken is not node:
            if isinstance(taken, _Directory):
                if isinstance(node, _Inode):
                    raise _error(errno.EISDIR, target)
                if taken.names:
                    raise _error(errno.ENOTEMPTY, target)
            elif isinstance(node, _Directory):
                raise _error(errno.ENOTDIR, target)
        self._changing("rename", source)
        del parent.names[name]
        target_parent.names[target_name] = node

    def remove(self, path: str) -> None:
        self._check("remove", path)
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        self._changing("remove", path)
        del parent.names[name]

    def read_bytes(self, path: str) -> bytes:
        self._check("read", path)
        return bytes(self._file(path).data)

    def sync_dir(self, path: str) -> None:
        self._check("sync_dir", path)
        directory = self._directory(path)
        self._changing("sync_dir", path)
        directory.durable = dict(directory.names)

    def disk_space(self, path: str) -> DiskSpace:
        if self._find(path) is None:
            raise _error(errno.ENOENT, path)
        return DiskSpace(self._disk.total_bytes, max(0, self._disk.free_bytes))

    def lock(self, path: str) -> FileLock:
        if path in self._disk.locked:
            raise FileLockedError(errno.EWOULDBLOCK, "held by another process", path)
        self.open(path, create=True)
        number = next(_lock_numbers)
        self._disk.locked[path] = number
        return _MemoryLock(self._disk, path, number)

    def is_writable(self, path: str) -> bool:
        return self._find(path) is not None

    def write_atomic_now(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.append([data])
            file.sync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_dir(os.path.dirname(path))

    # ---- cold calls of the port: each gives the loop a turn, as the real ones do

    async def write_atomic(self, path: str, data: bytes) -> None:
        await asyncio.sleep(0)
        self.write_atomic_now(path, data)
        await asyncio.sleep(0)

    async def read_file(self, path: str) -> bytes:
        await asyncio.sleep(0)
        return self.read_bytes(path)

    async def remove_tree(self, path: str) -> None:
        await asyncio.sleep(0)
        self._check("remove", path)
        if self._find(path) is None:
            return
        parent, name = self._parent(path)
        self._changing("remove", path)
        del parent.names[name]

    # ---- inside

    def _check(self, operation: Operation, path: str) -> None:
        """Raise what is armed for this operation, or that this incarnation is over."""
        if self._incarnation != self._disk.incarnation:
            raise _error(errno.EBADF, path, "the machine this belonged to has crashed")
        if self._armed:
            fault = self._fault(operation, path)
            if fault is not None:
                raise _error(fault.error, path)

    def _fault(self, operation: str, path: str) -> _Fault | None:
        for fault in self._disk.faults:
            if fault.operation == operation and path.startswith(fault.prefix):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times == 0:
                        self._disk.faults.remove(fault)
                return fault
        return None

    def _changing(self, operation: Operation, path: str) -> None:
        if self.before_change is not None:
            self.before_change(operation, path)

    def _find(self, path: str) -> _Inode | _Directory | None:
        if self._incarnation != self._disk.incarnation:
            raise _error(errno.EBADF, path, "the machine this belonged to has crashed")
        node: _Inode | _Directory = self._disk.root
        for name in _names(path):
            child = node.names.get(name) if isinstance(node, _Directory) else None
            if child is None:
                return None
            node = child
        return node

    def _file(self, path: str) -> _Inode:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _Inode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        names = _names(path)
        if not names:
            raise _error(errno.EBUSY, path)
        return self._directory(path.rpartition("/")[0] or "/"), names[-1]


class MemoryFile:
    """A handle on one file of a ``MemoryFiles``."""

    __slots__ = ("_disk", "_files", "_incarnation", "_inode", "_path")

    def __init__(self, files: MemoryFiles, path: str, inode: _Inode) -> None:
        self._files = files
        self._disk = files._disk
        self._path = path
        self._inode = inode
        self._incarnation = files._incarnation

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._inode.data)

    def append(self, data: Sequence[Buffer]) -> int:
        files = self._files
        disk = self._disk
        if self._incarnation != disk.incarnation:
            raise _error(errno.EBADF, self._path, "the handle is dead")
        if files.before_change is not None:
            files.before_change("append", self._path)
        if files._armed:
            fault = files._fault("append", self._path)
            if fault is not None:
                self._extend(b"".join(data)[: fault.keep_bytes])
                raise _error(fault.error, self._path)
        content = self._inode.data
        before = len(content)
        for piece in data:
            content += piece
        after = len(content)
        disk.free_bytes -= after - before
        if disk.free_bytes < 0:
            del content[after + disk.free_bytes :]
            self._inode.boundaries.append(len(content))
            disk.free_bytes = 0
            raise _error(errno.ENOSPC, self._path)
        self._inode.boundaries.append(after)
        return after - before

    def _extend(self, data: bytes) -> None:
        self._inode.data += data
        self._disk.free_bytes -= len(data)
        self._inode.boundaries.append(len(self._inode.data))

    def read_at(self, offset: int, length: int) -> bytes:
        if self._incarnation != self._disk.incarnation:
            raise _error(errno.EBADF, self._path, "the handle is dead")
        if self._files._armed:
            fault = self._files._fault("read", self._path)
            if fault is not None:
                raise _error(fault.error, self._path)
        if offset < 0 or length < 0:
            raise _error(errno.EINVAL, self._path)
        # A view, so that the bytes are copied once; it is gone before the next append resizes.
        return bytes(memoryview(self._inode.data)[offset : offset + length])

    def truncate(self, size: int) -> None:
        self._check("truncate")
        if not 0 <= size <= len(self._inode.data):
            raise ValueError(f"{self._path}: cannot cut {len(self._inode.data)} bytes to {size}")
        with self._files._sync_lock:
            self._disk.free_bytes += len(self._inode.data) - size
            self._inode.cut(size)

    def sync(self) -> None:
        files = self._files
        if self._incarnation != self._disk.incarnation:
            raise _error(errno.EBADF, self._path, "the handle is dead")
        if files.before_change is not None:
            files.before_change("sync", self._path)
        # Production syncs in a worker thread, and so do tests on a real loop.
        with files._sync_lock:
            fault = files._fault("sync", self._path) if files._armed else None
            if fault is not None:
                self._inode.drop_dirty_pages()
                raise _error(fault.error, self._path)
            self._inode.sync()

    def _check(self, operation: Operation) -> None:
        if self._incarnation != self._disk.incarnation:
            raise _error(errno.EBADF, self._path, "the handle is dead")
        self._files._changing(operation, self._path)
        if self._files._armed:
            fault = self._files._fault(operation, self._path)
            if fault is not None:
                raise _error(fault.error, self._path)

    def close(self) -> None:
        self._incarnation = -1

    def __repr__(self) -> str:
        return f"<MemoryFile {self._path} {self.size()} bytes, {self._inode.synced} synced>"


class _MemoryLock:
    __slots__ = ("_disk", "_number", "_path")

    def __init__(self, disk: _Disk, path: str, number: int) -> None:
        self._disk = disk
        self._path = path
        self._number = number

    def release(self) -> None:
        if self._disk.locked.get(self._path) == self._number:
            del self._disk.locked[self._path]


def _survivor(node: _Directory, path: str, keep: Keep, keep_names: bool) -> _Directory:
    """The directory as the next incarnation finds it."""
    left = _Directory()
    names = node.names if keep_names else node.durable
    for name, child in names.items():
        child_path = f"{path}/{name}"
        if isinstance(child, _Directory):
            left.names[name] = _survivor(child, child_path, keep, keep_names)
        elif keep == "all":
            left.names[name] = _killed(child)
        elif keep == "none":
            left.names[name] = _Inode(child.durable())
        else:
            view = CrashView(
                child_path, child.durable(), bytes(child.data), tuple(child.boundaries)
            )
            left.names[name] = _Inode(keep(view))
    # After a power cut what is found is what is on the disk; after a kill the page cache lives on.
    if keep == "all":
        left.durable = {name: left.names[name] for name in node.durable if name in left.names}
    else:
        left.durable = dict(left.names)
    return left


def _killed(inode: _Inode) -> _Inode:
    """A copy with its unsynced part still unsynced: the process died, the machine did not."""
    copy = _Inode()
    copy.data = bytearray(inode.data)
    copy.synced = inode.synced
    copy.cut_tail = inode.cut_tail
    copy.boundaries = list(inode.boundaries)
    copy.lost = list(inode.lost)
    return copy


def _make_durable(directory: _Directory) -> None:
    directory.durable = dict(directory.names)
    for child in directory.names.values():
        if isinstance(child, _Directory):
            _make_durable(child)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


def _error(code: int, path: str, text: str = "") -> OSError:
    return OSError(code, text or os.strerror(code), path)
