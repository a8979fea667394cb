"""A disk in memory knows what it holds, what would survive a power cut, and which faults are armed.

Owns the state behind ``files.MemoryFiles``. Rules:

- a file is its bytes and, apart from them, how to undo each operation since its last sync, oldest
  first: any earlier moment can be had back, and a sync only forgets how;
- a directory is its names, those that ``sync_dir`` made durable, and the changes in between, in the
  order of the disk: a journal may have written any number of them, from the oldest on;
- what a failed sync dropped stays readable and becomes durable only once it was written again and
  synced: until then it is zeros after a power cut, or the file ends before it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "Directory",
    "Disk",
    "DiskFault",
    "Inode",
    "NameChange",
    "Node",
    "disk_error",
    "names_in",
]

Ranges = tuple[tuple[int, int], ...]


class Rewritten(NamedTuple):
    """What a failed sync had dropped was written again: how to undo that."""

    start: int
    """The first byte that it concerns."""
    lost: Ranges
    """All that was lost before."""


class Inode:
    """It is the content of one file, shared by its handles."""

    __slots__ = ("data", "lost", "undo")

    def __init__(self, data: bytes | bytearray = b"") -> None:
        self.data = bytearray(data)
        self.undo: list[int | bytes | Rewritten] = []
        """For each unsynced operation, in order: the size before an append, what was cut off, or
        what was lost before it was written again."""
        self.lost: Ranges = ()
        """Ranges that a failed sync dropped: readable, and no sync makes them durable."""

    def after(self, count: int) -> bytes:
        """Return the bytes once the first ``count`` unsynced operations were done: 0 is what is
        durable.

        What a failed sync dropped is zeros.
        """
        content, lost = bytearray(self.data), self.lost
        for step in reversed(self.undo[count:]):
            if isinstance(step, int):
                del content[step:]
            elif isinstance(step, Rewritten):
                lost = step.lost
            else:
                content += step
        for start, end in lost:
            end = min(end, len(content))
            if start < end:
                content[start:end] = bytes(end - start)
        return bytes(content)

    def lost_from(self) -> int:
        """Return where the file ends if the length of what a failed sync dropped was lost with
        it."""
        size = len(self.data)
        for start, end in sorted(self.lost, reverse=True):
            if end >= size:
                size = min(size, start)
        return size

    def common(self) -> int:
        """Return the number of bytes from the start that no unsynced operation has touched."""
        size = common = len(self.data)
        for step in reversed(self.undo):
            if isinstance(step, Rewritten):
                common = min(common, step.start)
                continue
            size = step if isinstance(step, int) else size + len(step)
            common = min(common, size)
        return common

    def boundaries(self) -> list[int]:
        """Return where in ``data`` the unsynced appends end, ascending."""
        ends: list[int] = []
        size = len(self.data)
        for step in reversed(self.undo):
            if isinstance(step, int):
                if size > step and (not ends or size < ends[-1]) and size <= len(self.data):
                    ends.append(size)
                size = step
            elif not isinstance(step, Rewritten):
                size += len(step)
        return ends[::-1]

    def cut(self, size: int) -> None:
        """Truncate."""
        if size < len(self.data):
            self.undo.append(bytes(self.data[size:]))
            del self.data[size:]
        if self.lost:
            self.lost = tuple((a, min(b, size)) for a, b in self.lost if a < size)

    def rewrite(self, start: int, end: int) -> None:
        """Write a range again: what is lost of it is merely unsynced from now on. For the rest
        nothing changes: the disk has it, or will get it."""
        touched = [a for a, b in self.lost if a < end and start < b]
        if touched:
            self.undo.append(Rewritten(max(start, min(touched)), self.lost))
            left = [((a, min(b, start)), (max(a, end), b)) for a, b in self.lost]
            self.lost = tuple(piece for pair in left for piece in pair if piece[0] < piece[1])

    def drop_dirty_pages(self) -> None:
        """A sync failed: what is unsynced now never will be synced."""
        common = self.common()
        if common < len(self.data):
            self.lost = (*self.lost, (common, len(self.data)))

    def copy(self) -> Inode:
        """Return the same, apart."""
        inode = Inode(self.data)
        inode.undo = list(self.undo)
        inode.lost = self.lost
        return inode


class NameChange(NamedTuple):
    """It is one change of a directory: what becomes of each name, None for gone."""

    number: int
    """The number grows over the whole disk."""
    what: str
    names: tuple[tuple[str, Inode | Directory | None], ...]


class Directory:
    """It has names, those of them that are durable, and the changes between the two."""

    __slots__ = ("durable", "names", "unsynced")

    def __init__(self) -> None:
        self.names: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.unsynced: list[NameChange] = []

    def change(self, disk: Disk, what: str, *names: tuple[str, Inode | Directory | None]) -> None:
        """Set or remove names in one step, not yet durably."""
        disk.name_changes += 1
        self.unsynced.append(NameChange(disk.name_changes, what, names))
        apply_change(self.names, names)

    def sync(self) -> None:
        """Make the names durable, and what they stand for now."""
        self.durable = dict(self.names)
        self.unsynced.clear()

    def after(self, count: int) -> dict[str, Inode | Directory]:
        """Return the names once the first ``count`` unsynced changes were done."""
        if count >= len(self.unsynced):
            return self.names
        names = dict(self.durable)
        for change in self.unsynced[:count]:
            apply_change(names, change.names)
        return names

    def files(self, path: str) -> Iterator[tuple[str, Inode]]:
        """Yield every file below, with its path, sorted."""
        for name in sorted(self.names):
            child = self.names[name]
            if isinstance(child, Directory):
                yield from child.files(f"{path}/{name}")
            else:
                yield f"{path}/{name}", child

    def contents(self, path: str) -> dict[str, bytes]:
        """Return every file and directory below, sorted; a directory ends in "/" and has no
        bytes."""
        found: dict[str, bytes] = {}
        for name in sorted(self.names):
            child = self.names[name]
            if isinstance(child, Directory):
                found[f"{path}/{name}/"] = b""
                found.update(child.contents(f"{path}/{name}"))
            else:
                found[f"{path}/{name}"] = bytes(child.data)
        return found

    def durable_contents(self, path: str) -> dict[str, bytes]:
        """Return every file below that a power cut would leave now if it left nothing unsynced,
        sorted."""
        found: dict[str, bytes] = {}
        names = self.after(0)
        for name in sorted(names):
            child = names[name]
            if isinstance(child, Directory):
                found.update(child.durable_contents(f"{path}/{name}"))
            else:
                found[f"{path}/{name}"] = child.after(0)
        return found

    def make_durable(self) -> None:
        """Sync it and all directories below."""
        self.sync()
        for child in self.names.values():
            if isinstance(child, Directory):
                child.make_durable()

    def copy(self, known: dict[int, Node]) -> Directory:
        """Return the same, apart, unsynced changes included. ``known``: copies by id of the
        original."""
        twin = Directory()
        known[id(self)] = twin

        def twin_of(node: Node) -> Node:
            found = known.get(id(node))
            if found is None:
                found = node.copy(known) if isinstance(node, Directory) else node.copy()
                known[id(node)] = found
            return found

        twin.names = {name: twin_of(node) for name, node in self.names.items()}
        twin.durable = {name: twin_of(node) for name, node in self.durable.items()}
        twin.unsynced = [
            NameChange(
                change.number,
                change.what,
                tuple((name, node and twin_of(node)) for name, node in change.names),
            )
            for change in self.unsynced
        ]
        return twin


Node = Inode | Directory


def apply_change(names: dict[str, Node], changes: tuple[tuple[str, Node | None], ...]) -> None:
    """Set or remove names."""
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


@dataclass(slots=True)
class DiskFault:
    """It is an armed fault: an error, or with ``error`` 0 a delay."""

    operation: str
    prefix: str
    error: int
    times: int | None
    keep_bytes: int = 0
    seconds: float = 0.0


class Disk:
    """It outlives an incarnation: content, names, room, armed faults."""

    __slots__ = (
        "armed",
        "boots",
        "delay_s",
        "faults",
        "free_bytes",
        "incarnation",
        "locked",
        "name_changes",
        "open_count",
        "open_max",
        "read_only",
        "root",
        "total_bytes",
    )

    def __init__(self, total_bytes: int) -> None:
        self.root = Directory()
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self.faults: list[DiskFault] = []
        self.read_only = False
        self.armed = False
        """Whether there are faults, or it is read-only: the hot calls ask only this."""
        self.delay_s = 0.0
        """Seconds that operations took beyond the usual, since they were last asked for."""
        self.open_count = 0
        self.open_max: int | None = None
        self.incarnation = 0
        self.boots = 0
        """Power cuts so far."""
        self.name_changes = 0
        self.locked: dict[str, int] = {}

    def check(self, operation: str, path: str) -> DiskFault | None:
        """Take what is armed for an operation: a delay is noted, an error returned."""
        failing = None
        for fault in list(self.faults):
            if fault.operation != operation or not path.startswith(fault.prefix):
                continue
            if fault.error and failing is not None:
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
            if fault.error:
                failing = fault
            else:
                self.delay_s += fault.seconds
        if failing is None and self.read_only and operation != "read":
            failing = DiskFault(operation, path, errno.EROFS, None)
        self.armed = bool(self.faults) or self.read_only
        return failing

    def arm(self, fault: DiskFault) -> None:
        """Let operations fail, or take long."""
        self.faults.append(fault)
        self.armed = True

    def set_read_only(self, read_only: bool) -> None:
        """Mount it again: every change fails with EROFS."""
        self.read_only = read_only
        self.armed = read_only or bool(self.faults)

    def set_open_max(self, open_max: int | None) -> None:
        """Let so many handles be open at once."""
        self.open_max = open_max

    def heal(self) -> None:
        """Remove every fault; give all room back."""
        self.faults.clear()
        self.read_only = self.armed = False
        self.open_max = None
        self.free_bytes = self.total_bytes - self.used_bytes()

    def set_free_bytes(self, free_bytes: int) -> None:
        """Say how much room is left."""
        self.free_bytes = free_bytes

    def grow(self, size_bytes: int) -> None:
        """Files take so much more room; less, when it is negative."""
        self.free_bytes -= size_bytes

    def take_delay(self) -> float:
        """Return the seconds beyond the usual since the last call."""
        delay_s, self.delay_s = self.delay_s, 0.0
        return delay_s

    def opened(self) -> None:
        """Count a handle."""
        self.open_count += 1

    def closed(self) -> None:
        """Count a handle no more."""
        self.open_count -= 1

    def end_incarnation(self) -> int:
        """Let handles and locks die with the process. Returns the number of the next
        incarnation."""
        self.incarnation += 1
        self.locked.clear()
        self.open_count = 0
        self.delay_s = 0.0
        return self.incarnation

    def reboot(self, root: Directory, *, boots: int) -> None:
        """The machine has stopped, and ``root`` is what has survived that."""
        self.free_bytes += self.used_bytes()
        self.root = root
        self.free_bytes -= self.used_bytes()
        self.boots = boots

    def used_bytes(self) -> int:
        """Return the number of bytes in files that have a name."""
        return sum([len(inode.data) for _, inode in self.root.files("")])

    def copy(self) -> Disk:
        """Return the same content, names and room, apart; no faults, nothing open or locked."""
        disk = Disk(self.total_bytes)
        disk.free_bytes = self.free_bytes
        disk.boots = self.boots
        disk.name_changes = self.name_changes
        disk.root = self.root.copy({})
        return disk


@lru_cache(maxsize=4096)
def names_in(path: str) -> tuple[str, ...]:
    """Return the names on a path."""
    return tuple(name for name in path.split("/") if name)


def disk_error(code: int, path: str, text: str = "") -> OSError:
    """Return the error that the system would raise."""
    return OSError(code, text or os.strerror(code), path)
