"""This file system in memory forgets what was not synced, and fails when told to.

For crash tests and for the simulator:

- ``crash`` keeps everything (the process was killed), only the durable part (power cut), or what a
  style of ``crashes`` or a function says for each file and directory;
- a failed sync drops the pages: the next one "succeeds", a power cut leaves zeros there, unless
  they were written again in between;
- faults are armed with ``fail`` for an operation under a path; ``set_free_bytes`` gives ENOSPC
  after so many bytes, ``set_open_max`` EMFILE, ``set_read_only`` EROFS; ``corrupt`` flips bits at
  rest; ``stall`` makes operations take seconds, which ``take_delay`` hands to who has the time;
- ``before_change`` is called before each change: raise from it to crash at exactly that step, or
  take an ``image`` of what a crash there would leave.

Handles and locks die with a crash. The object itself goes on as the next incarnation's; ``reborn``
gives the next incarnation an object of its own and leaves the old one dead, for components of the
old one that still run. Paths are absolute, with "/" between names; "." and ".." are not understood.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from typing import Literal

from oncelog_runtime.files import Buffer, DiskSpace, File, FileLock, FileLockedError
from oncelog_testing.memory.crashes import (
    KILL,
    Crash,
    CrashView,
    Keep,
    NamesView,
    crash_of,
    survivor,
)
from oncelog_testing.memory.disk import Directory, Disk, DiskFault, Inode, disk_error, names_in

__all__ = ["KILL", "Crash", "CrashView", "Keep", "MemoryFile", "MemoryFiles", "NamesView"]

Operation = Literal[
    "append",
    "sync",
    "truncate",
    "rewrite",
    "read",
    "open",
    "rename",
    "remove",
    "make_dirs",
    "sync_dir",
]

_DEAD_HANDLE = "the handle is dead"
_lock_numbers = count(1)


class MemoryFiles:
    """It is the fake of ``oncelog_runtime.files.Files``; it passes the same contract suite."""

    def __init__(self, *dirs: str, total_bytes: int = 1 << 40, _disk: Disk | None = None) -> None:
        """Make an empty disk on which ``dirs`` exist durably."""
        self._disk = _disk or Disk(total_bytes)
        self._incarnation = self._disk.incarnation
        self._sync_lock = Lock()
        self.before_change: Callable[[Operation, str], None] | None = None
        """Called with (operation, path) before each change of the disk, syncs included."""
        if _disk is None:
            for path in dirs:
                self.make_dirs(path)
            self._disk.root.make_durable()

    # ---- crashes

    def crash(
        self, keep: Keep = "none", *, keep_names: bool | None = None, remount: str | None = None
    ) -> None:
        """Stop the machine: unsynced bytes and names are kept or forgotten, handles and locks die.

        ``keep`` is "all" (only the process dies), "none", a ``Crash``, or a function that is asked
        for each file with unsynced operations. ``keep_names`` says, unless ``keep`` is a ``Crash``,
        whether names that no ``sync_dir`` made durable survive; by default they do unless ``keep``
        is "none". With ``remount`` only the process dies, and the volume that is mounted at that
        directory is mounted again: the machine runs on, and of the volume is left what ``keep``
        says.
        """
        disk = self._disk
        self._incarnation = disk.end_incarnation()
        crash = crash_of(keep, keep_names)
        if remount is not None:
            self._remount(remount, crash)
        elif not crash.killed:
            # Dead handles hold the inodes of before; what survived is a copy, out of their reach.
            disk.reboot(survivor(disk.root, "", crash), boots=disk.boots + 1)

    def _remount(self, path: str, crash: Crash) -> None:
        disk = self._disk
        parent, name = self._parent(path)
        before = disk.used_bytes()
        parent.change(disk, "mount", (name, survivor(self._directory(path), path, crash)))
        disk.grow(disk.used_bytes() - before)
        parent.sync()

    def reborn(
        self, keep: Keep = "none", *, keep_names: bool | None = None, remount: str | None = None
    ) -> MemoryFiles:
        """Crash, and give the next incarnation a view of its own; this one is dead from now on."""
        dead = self._incarnation
        self.crash(keep, keep_names=keep_names, remount=remount)
        self._incarnation = dead
        return MemoryFiles(_disk=self._disk)

    def image(self, keep: Keep = "none") -> MemoryFiles:
        """Return another disk with what a crash at this moment would leave; this one goes on."""
        crash = crash_of(keep, None)
        if crash.killed:
            return MemoryFiles(_disk=self._disk.copy())
        disk = Disk(self._disk.total_bytes)
        disk.reboot(survivor(self._disk.root, "", crash), boots=self._disk.boots + 1)
        disk.set_free_bytes(self._disk.free_bytes)
        return MemoryFiles(_disk=disk)

    # ---- faults

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
        self._disk.arm(DiskFault(operation, prefix, error, times, keep_bytes))

    def stall(
        self,
        prefix: str,
        seconds: float,
        *,
        operation: Operation = "sync",
        times: int | None = None,
    ) -> None:
        """Let such operations under a path take so long each (a gray failure); see take_delay."""
        self._disk.arm(DiskFault(operation, prefix, 0, times, seconds=seconds))

    def take_delay(self) -> float:
        """Return the seconds that operations took beyond the usual since this was last asked.

        Nothing waits here: who runs a job for the disk asks afterwards, and lets the time pass.
        """
        return self._disk.take_delay()

    def heal(self) -> None:
        """Remove every fault; give the disk its room back."""
        self._disk.heal()

    def set_free_bytes(self, free_bytes: int) -> None:
        """Let appends fail with ENOSPC after so many more bytes, the part that fits written."""
        self._disk.set_free_bytes(free_bytes)

    def set_read_only(self, read_only: bool = True) -> None:
        """Remount: every change fails with EROFS, and so does opening, as files open for both."""
        self._disk.set_read_only(read_only)

    def set_open_max(self, open_max: int | None) -> None:
        """Let ``open`` fail with EMFILE while so many handles are open."""
        self._disk.set_open_max(open_max)

    def corrupt(self, path: str, offset: int, mask: int = 0xFF) -> None:
        """Flip bits of one byte at rest, durably."""
        self._file(path).data[offset] ^= mask

    # ---- looking

    @property
    def open_count(self) -> int:
        """Return the number of handles that are open."""
        return self._disk.open_count

    def durable_bytes(self, path: str) -> bytes:
        """Return what a power cut would leave of a file, were its name durable."""
        return self._file(path).after(0)

    def common_bytes(self, path: str) -> int:
        """Return the number of bytes from the start of a file that no unsynced operation has
        touched: those at rest."""
        return self._file(path).common()

    def paths(self, prefix: str = "/") -> list[str]:
        """Return every file whose path begins so, sorted; of any incarnation."""
        above, _, _ = prefix.rpartition("/")
        node: Inode | Directory | None = self._disk.root
        for name in names_in(above):
            node = node.names.get(name) if isinstance(node, Directory) else None
        if not isinstance(node, Directory):
            return []
        return [path for path, _ in node.files(above) if path.startswith(prefix)]

    def contents(self) -> dict[str, bytes]:
        """Return every file with the bytes that a reader finds; a directory ends in "/" and has
        none."""
        return self._disk.root.contents("")

    def durable_contents(self, path: str = "/") -> dict[str, bytes]:
        """Return every file below a directory that a power cut would leave if it left nothing
        unsynced."""
        node: Inode | Directory | None = self._disk.root
        for name in names_in(path):
            node = node.after(0).get(name) if isinstance(node, Directory) else None
        return node.durable_contents(path.rstrip("/")) if isinstance(node, Directory) else {}

    # ---- hot calls of the port

    def open(self, path: str, *, create: bool = False) -> File:
        self._check("open", path)
        disk = self._disk
        if disk.open_max is not None and disk.open_count >= disk.open_max:
            raise disk_error(errno.EMFILE, path)
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            if not create:
                raise disk_error(errno.ENOENT, path)
            self._changing("open", path)
            node = Inode()
            parent.change(disk, "create", (name, node))
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._directory(path).names)

    def make_dirs(self, path: str) -> None:
        self._check("make_dirs", path)
        node = self._disk.root
        for name in names_in(path):
            child = node.names.get(name)
            if child is None:
                self._changing("make_dirs", path)
                child = Directory()
                node.change(self._disk, "make", (name, child))
            if isinstance(child, Inode):
                raise disk_error(errno.EEXIST, path)
            node = child

    def rename(self, source: str, target: str) -> None:
        self._check("rename", source)
        parent, name = self._parent(source)
        target_parent, target_name = self._parent(target)
        node = parent.names.get(name)
        if node is None:
            raise disk_error(errno.ENOENT, source)
        taken = target_parent.names.get(target_name)
        if taken is node:
            return
        if isinstance(taken, Directory):
            if isinstance(node, Inode):
                raise disk_error(errno.EISDIR, target)
            if taken.names:
                raise disk_error(errno.ENOTEMPTY, target)
        elif taken is not None:
            if isinstance(node, Directory):
                raise disk_error(errno.ENOTDIR, target)
            self._disk.grow(-len(taken.data))
        self._changing("rename", source)
        if parent is target_parent:
            parent.change(self._disk, "rename", (name, None), (target_name, node))
        else:
            target_parent.change(self._disk, "rename", (target_name, node))
            parent.change(self._disk, "rename", (name, None))

    def remove(self, path: str) -> None:
        self._check("remove", path)
        parent, name = self._parent(path)
        node = parent.names.get(name)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        self._remove(path, parent, name, node)

    def _remove(self, path: str, parent: Directory, name: str, node: Inode | Directory) -> None:
        self._changing("remove", path)
        parent.change(self._disk, "remove", (name, None))
        if isinstance(node, Inode):
            self._disk.grow(-len(node.data))

    def read_bytes(self, path: str) -> bytes:
        self._check("read", path)
        return bytes(self._file(path).data)

    def sync_dir(self, path: str) -> None:
        self._check("sync_dir", path)
        directory = self._directory(path)
        self._changing("sync_dir", path)
        with self._sync_lock:
            directory.sync()

    def disk_space(self, path: str) -> DiskSpace:
        if self._find(path) is None:
            raise disk_error(errno.ENOENT, path)
        return DiskSpace(self._disk.total_bytes, max(0, self._disk.free_bytes))

    def lock(self, path: str) -> FileLock:
        if path in self._disk.locked:
            raise FileLockedError(errno.EWOULDBLOCK, "held by another process", path)
        file = self.open(path, create=True)
        number = next(_lock_numbers)
        self._disk.locked[path] = number
        return _MemoryLock(self._disk, path, number, file)

    def is_writable(self, path: str) -> bool:
        return self._find(path) is not None and not self._disk.read_only

    def boot_id(self) -> str:
        return f"boot-{self._disk.boots}"

    def write_atomic_now(self, path: str, data: bytes) -> None:
        file = self._write_temporary(path, data)
        try:
            file.sync()
        finally:
            file.close()
        self.rename(path + ".tmp", path)
        self.sync_dir(os.path.dirname(path))

    def _write_temporary(self, path: str, data: bytes) -> File:
        file = self.open(path + ".tmp", create=True)
        try:
            file.truncate(0)
            file.append([data])
        except BaseException:
            file.close()
            raise
        return file

    # ---- cold calls of the port: what blocks goes to the executor, as with the real ones

    async def write_atomic(self, path: str, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        file = self._write_temporary(path, data)
        try:
            await loop.run_in_executor(None, file.sync)
        finally:
            file.close()
        self.rename(path + ".tmp", path)
        await loop.run_in_executor(None, self.sync_dir, os.path.dirname(path))

    async def read_file(self, path: str) -> bytes:
        await asyncio.sleep(0)
        return self.read_bytes(path)

    async def remove_tree(self, path: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.remove_tree_now, path)

    def remove_tree_now(self, path: str) -> None:
        self._check("remove", path)
        node = self._find(path)
        if node is None:
            return
        parent, name = self._parent(path)
        if isinstance(node, Directory):
            for child in sorted(node.names):
                self.remove_tree_now(f"{path}/{child}")
        self._remove(path, parent, name, node)

    # ---- inside

    def _check(self, operation: Operation, path: str) -> None:
        """Raise what is armed for this operation, or that this incarnation is over."""
        disk = self._disk
        if self._incarnation != disk.incarnation:
            raise disk_error(errno.EBADF, path, "the machine this belonged to has crashed")
        if disk.armed:
            fault = disk.check(operation, path)
            if fault is not None:
                raise disk_error(fault.error, path)

    def _changing(self, operation: Operation, path: str) -> None:
        if self.before_change is not None:
            self.before_change(operation, path)

    def _find(self, path: str) -> Inode | Directory | None:
        if self._incarnation != self._disk.incarnation:
            raise disk_error(errno.EBADF, path, "the machine this belonged to has crashed")
        node: Inode | Directory = self._disk.root
        for name in names_in(path):
            child = node.names.get(name) if isinstance(node, Directory) else None
            if child is None:
                return None
            node = child
        return node

    def _file(self, path: str) -> Inode:
        node = self._find(path)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if isinstance(node, Directory):
            raise disk_error(errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        if isinstance(node, Inode):
            raise disk_error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        names = names_in(path)
        if not names:
            raise disk_error(errno.EBUSY, path)
        return self._directory(path.rpartition("/")[0] or "/"), names[-1]


class MemoryFile:
    """It is a handle on one file of a ``MemoryFiles``."""

    __slots__ = ("_disk", "_files", "_incarnation", "_inode", "_path")

    def __init__(self, files: MemoryFiles, path: str, inode: Inode) -> None:
        self._files = files
        self._disk = files._disk
        self._path = path
        self._inode = inode
        self._incarnation = files._incarnation
        self._disk.opened()

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._inode.data)

    def append(self, data: Sequence[Buffer]) -> int:
        files = self._files
        disk = self._disk
        if self._incarnation != disk.incarnation:
            raise disk_error(errno.EBADF, self._path, _DEAD_HANDLE)
        if files.before_change is not None:
            files.before_change("append", self._path)
        inode = self._inode
        content = inode.data
        before = len(content)
        if disk.armed:
            fault = disk.check("append", self._path)
            if fault is not None:
                content += b"".join(data)[: fault.keep_bytes]
                disk.grow(len(content) - before)
                inode.undo.append(before)
                raise disk_error(fault.error, self._path)
        for piece in data:
            content += piece
        after = len(content)
        inode.undo.append(before)
        disk.grow(after - before)
        if disk.free_bytes < 0:
            del content[max(before, after + disk.free_bytes) :]
            disk.grow(len(content) - after)
            raise disk_error(errno.ENOSPC, self._path)
        return after - before

    def read_at(self, offset: int, length: int) -> bytes:
        if self._incarnation != self._disk.incarnation:
            raise disk_error(errno.EBADF, self._path, _DEAD_HANDLE)
        if self._disk.armed:
            fault = self._disk.check("read", self._path)
            if fault is not None:
                raise disk_error(fault.error, self._path)
        if offset < 0 or length < 0:
            raise disk_error(errno.EINVAL, self._path)
        # A view, so that the bytes are copied once; it is gone before the next append resizes.
        return bytes(memoryview(self._inode.data)[offset : offset + length])

    def truncate(self, size: int) -> None:
        self._check("truncate")
        inode = self._inode
        if not 0 <= size <= len(inode.data):
            raise ValueError(f"{self._path}: cannot cut {len(inode.data)} bytes to {size}")
        with self._files._sync_lock:
            self._disk.grow(size - len(inode.data))
            inode.cut(size)

    def rewrite(self, offset: int, length: int) -> None:
        self._check("rewrite")
        end = offset + length
        if not 0 <= offset <= end <= len(self._inode.data):
            size = len(self._inode.data)
            raise ValueError(f"{self._path}: {offset} to {end} of {size} bytes")
        with self._files._sync_lock:
            self._inode.rewrite(offset, end)

    def sync(self) -> None:
        files = self._files
        if self._incarnation != self._disk.incarnation:
            raise disk_error(errno.EBADF, self._path, _DEAD_HANDLE)
        if files.before_change is not None:
            files.before_change("sync", self._path)
        # Production syncs in a worker thread, and so do tests on a real loop.
        with files._sync_lock:
            fault = self._disk.check("sync", self._path) if self._disk.armed else None
            if fault is not None:
                self._inode.drop_dirty_pages()
                raise disk_error(fault.error, self._path)
            self._inode.undo.clear()

    def _check(self, operation: Operation) -> None:
        if self._incarnation != self._disk.incarnation:
            raise disk_error(errno.EBADF, self._path, _DEAD_HANDLE)
        self._files._changing(operation, self._path)
        if self._disk.armed:
            fault = self._disk.check(operation, self._path)
            if fault is not None:
                raise disk_error(fault.error, self._path)

    def close(self) -> None:
        if self._incarnation == self._disk.incarnation:
            self._disk.closed()
        self._incarnation = -1

    def __repr__(self) -> str:
        unsynced = len(self._inode.undo)
        return f"<MemoryFile {self._path} {self.size()} bytes, {unsynced} operations unsynced>"


class _MemoryLock:
    __slots__ = ("_disk", "_file", "_number", "_path")

    def __init__(self, disk: Disk, path: str, number: int, file: File) -> None:
        self._disk = disk
        self._path = path
        self._number = number
        self._file = file

    def release(self) -> None:
        self._file.close()
        if self._disk.locked.get(self._path) == self._number:
            del self._disk.locked[self._path]
