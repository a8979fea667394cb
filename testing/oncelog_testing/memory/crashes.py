"""A crash leaves something of a disk in memory: tests choose from these styles, or draw one.

Owns the model of a machine that stops. Rules:

- a killed process loses nothing: its writes are the kernel's;
- a power cut leaves every file anything between what was synced and what was written: operations
  from the oldest on, with the next one torn at any byte; any choice of its unsynced sectors, with
  zeros in the holes; or the new length with zeros in all of it (metadata without data); or the old
  length, also where a failed sync has dropped what was appended;
- what no unsynced operation touched is never changed, but for the block in which an unsynced
  truncation ended: the kernel may have written that one before the new length;
- each directory keeps its unsynced changes from the oldest on; a journal of the whole file system
  keeps those of all directories up to one moment;
- what is found after a power cut is durable.

A style is a ``Crash``; ``draw_crash`` draws one from a stream of chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from oncelog_testing.memory.disk import Directory, Inode, NameChange

__all__ = [
    "BLOCK_BYTES",
    "KILL",
    "SECTOR_BYTES",
    "Crash",
    "CrashView",
    "Keep",
    "NamesView",
    "Random",
    "draw_crash",
    "draw_power_cut",
    "first_operations",
    "length_only",
    "some_sectors",
    "survivor",
]

SECTOR_BYTES = 512
BLOCK_BYTES = 4096


class Random(Protocol):
    """This is drawn from: ``oncelog_runtime.entropy.Entropy`` and ``random.Random`` both fit."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def randint(self, low: int, high: int, /) -> int:
        """Return an integer in [low, high]."""
        ...


class CrashView:
    """It is one file at the moment of a crash, for a function that decides what is left of it."""

    __slots__ = ("_inode", "path")

    def __init__(self, path: str, inode: Inode) -> None:
        self.path = path
        self._inode = inode

    @property
    def operations(self) -> int:
        """Return the number of unsynced appends and truncations, and of lost bytes that were
        written again."""
        return len(self._inode.undo)

    @property
    def durable(self) -> bytes:
        """Return what was synced."""
        return self._inode.after(0)

    @property
    def current(self) -> bytes:
        """Return what the process had written; zeros where a failed sync has dropped pages."""
        return self._inode.after(self.operations)

    def after(self, count: int) -> bytes:
        """Return the content when the first ``count`` unsynced operations had been done."""
        return self._inode.after(count)

    @property
    def common(self) -> int:
        """Return the number of bytes from the start that ``durable`` and ``current`` share, as
        nothing touched them."""
        return self._inode.common()

    @property
    def shortened(self) -> bytes:
        """Return what was synced, without what a failed sync has dropped at its end."""
        return self.durable[: self._inode.lost_from()]

    @property
    def was_cut(self) -> bool:
        """Return whether an unsynced truncation is among the operations."""
        return any(isinstance(step, bytes) for step in self._inode.undo)

    @property
    def kept(self) -> bytes:
        """Return what is there in any case, but for what an unsynced truncation changes."""
        return self.durable[: self.common] if self.was_cut else self.durable

    @property
    def boundaries(self) -> tuple[int, ...]:
        """Return where in ``current`` the unsynced appends end, ascending: places for a clean
        cut."""
        return tuple(self._inode.boundaries())


@dataclass(frozen=True, slots=True)
class NamesView:
    """It is one directory at the moment of a crash, for a function that says how much of it is
    left."""

    path: str
    unsynced: tuple[NameChange, ...]
    """Changes since its last sync, oldest first; their numbers grow over the whole disk."""


KeepData = Literal["all", "none"] | Callable[[CrashView], bytes]
KeepNames = bool | Callable[[NamesView], int]


@dataclass(frozen=True, slots=True)
class Crash:
    """It says what one crash leaves."""

    data: KeepData = "none"
    names: KeepNames = False
    """All, none, or a function that says how many of a directory's unsynced changes are left."""
    killed: bool = False
    """Only the process died: all is kept, and what was unsynced still is."""
    label: str = ""

    def __str__(self) -> str:
        return self.label or "a crash"


Keep = KeepData | Crash

KILL = Crash("all", True, killed=True, label="kill")


def crash_of(keep: Keep, keep_names: bool | None) -> Crash:
    """Return the style that a short form stands for."""
    if isinstance(keep, Crash):
        return keep
    if keep_names is None:
        keep_names = keep != "none"
    if keep == "all" and keep_names:
        return KILL
    return Crash(keep, keep_names, label=keep if isinstance(keep, str) else "")


def survivor(node: Directory, path: str, crash: Crash) -> Directory:
    """Return a directory as it is found after a power cut, with all below it; all of it is
    durable."""
    left = Directory()
    if callable(crash.names):
        count = crash.names(NamesView(path or "/", tuple(node.unsynced))) if node.unsynced else 0
    else:
        count = len(node.unsynced) if crash.names else 0
    for name, child in node.after(count).items():
        child_path = f"{path}/{name}"
        if isinstance(child, Directory):
            left.names[name] = survivor(child, child_path, crash)
        elif crash.data == "none":
            left.names[name] = Inode(child.after(0))
        elif crash.data == "all" or not (child.undo or child.lost):
            left.names[name] = Inode(child.after(len(child.undo)))
        else:
            left.names[name] = Inode(crash.data(CrashView(child_path, child)))
    left.durable = dict(left.names)
    return left


# ---- what is left of one file


def first_operations(view: CrashView, count: int, torn_bytes: int = 0) -> bytes:
    """Return the first so many operations, and so many bytes of the next one if it is an append."""
    content = view.after(count)
    if torn_bytes and count < view.operations:
        following = view.after(count + 1)
        if len(following) > len(content):
            content = following[: len(content) + torn_bytes]
    return content


def length_only(view: CrashView) -> bytes:
    """Metadata without data: the length has grown, all that is new in it is zeros."""
    current, kept = view.current, view.kept
    return kept + bytes(len(current) - len(kept))


def some_sectors(
    view: CrashView,
    keep: Callable[[int], bool],
    *,
    sector_bytes: int = SECTOR_BYTES,
    length: int | None = None,
    cut: bool = True,
) -> bytes:
    """Return the unsynced sectors that ``keep`` says, by number, up to ``length`` bytes (None:
    all).

    ``cut`` says whether an unsynced truncation has reached the disk; if it has not, of the new
    sectors only those in the block where it ended can be there.
    """
    current, common, kept = view.current, view.common, view.kept
    if view.was_cut and not cut:
        left = bytearray(view.durable)
        end = min(len(left), (common // BLOCK_BYTES + 1) * BLOCK_BYTES)
    else:
        end = len(current) if length is None else max(len(kept), min(length, len(current)))
        left = bytearray(kept) + bytes(end - len(kept))
    for start in range(common - common % sector_bytes, end, sector_bytes):
        if keep(start // sector_bytes):
            stop = min(start + sector_bytes, end)
            piece = current[start:stop]
            left[start:stop] = piece + bytes(stop - start - len(piece))
    return bytes(left)


# ---- drawing


def draw_crash(random: Random, *, kills: float = 0.5) -> Crash:
    """Draw a crash: a kill with a probability of ``kills``, else a power cut."""
    return KILL if random.random() < kills else draw_power_cut(random)


def draw_power_cut(random: Random) -> Crash:
    """Draw what a power cut leaves, of each file and each directory; the label says the style."""
    data, data_label = _draw_data(random)
    names, names_label = _draw_names(random)
    return Crash(data, names, label=f"power cut: {data_label}, {names_label}")


def _draw_data(random: Random) -> tuple[KeepData, str]:
    style = random.randint(0, 7)
    if style == 0:
        return "none", "nothing unsynced"
    if style == 7:
        return lambda view: view.shortened, "nothing unsynced, files shortened"
    if style == 1:
        return "all", "everything written"
    if style == 2:
        return lambda view: _drawn_prefix(random, view), "torn prefixes"
    if style == 3:
        return lambda view: _drawn_sectors(random, view, SECTOR_BYTES), "some sectors"
    if style == 4:
        return lambda view: _drawn_sectors(random, view, BLOCK_BYTES), "some blocks"
    if style == 5:
        return length_only, "lengths without data"
    return lambda view: _drawn_mixture(random, view), "each file its way"


def _drawn_prefix(random: Random, view: CrashView) -> bytes:
    count = random.randint(0, view.operations)
    grown = 0
    if count < view.operations:
        grown = max(0, len(view.after(count + 1)) - len(view.after(count)))
    return first_operations(view, count, random.randint(0, grown))


def _drawn_sectors(random: Random, view: CrashView, sector_bytes: int) -> bytes:
    length = None
    if random.random() < 0.5:
        length = random.randint(view.common, max(view.common, len(view.current)))
    likely = random.random()
    return some_sectors(
        view,
        lambda _: random.random() < likely,
        sector_bytes=sector_bytes,
        length=length,
        cut=random.random() < 0.5,
    )


def _drawn_mixture(random: Random, view: CrashView) -> bytes:
    style = random.randint(0, 5)
    if style == 0:
        return view.durable
    if style == 5:
        return view.shortened
    if style == 1:
        return view.current
    if style == 2:
        return length_only(view)
    if style == 3:
        return _drawn_prefix(random, view)
    return _drawn_sectors(random, view, SECTOR_BYTES)


def _draw_names(random: Random) -> tuple[KeepNames, str]:
    style = random.randint(0, 3)
    if style == 0:
        return False, "no new name"
    if style == 1:
        return True, "every name"
    if style == 2:
        return lambda view: random.randint(0, len(view.unsynced)), "some names"
    share = random.random()
    return _JournalUpTo(share), "names up to a moment"


class _JournalUpTo:
    """It has the changes of all directories up to one moment: the journal of one file system.

    The moment is a share of the first directory's changes; which of the others are older follows.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._last: int | None = None

    def __call__(self, view: NamesView) -> int:
        numbers = [change.number for change in view.unsynced]
        if self._last is None:
            count = int(self._share * (len(numbers) + 1))
            self._last = numbers[count - 1] if count else numbers[0] - 1
        return sum([number <= self._last for number in numbers])
