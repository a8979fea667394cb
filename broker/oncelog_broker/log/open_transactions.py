"""The undecided transactions of one log are known here, and where the first of them begins.

Pure: a function of the log's batches, in their order, and of the high watermark. Rules:

- a transaction is undecided from its first batch on until its marker is *committed*: a marker at or
  above the high watermark may be truncated yet, with what it decided;
- nothing at or past the first batch of an undecided one is stable: the last stable offset stops
  there [I15], and retention and compaction with it;
- a start goes by the high watermark that was checkpointed last, which lags behind: so snapshots
  also name those with a marker above that one, as long as that is few;
- first batches come in the order of offsets, so the first of those that are left is the least.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

SETTLED_MAX = 65_536
"""So many that are committed are remembered for a start; of more, the oldest are not."""

NONE_UNDECIDED = 2**63 - 1
"""It stands for an offset when all that the log holds is decided."""


class EndedTransaction(NamedTuple):
    """The marker of such a transaction is in the log."""

    first_offset: int
    marker_offset: int


class AbortedRow(NamedTuple):
    """It is one aborted transaction in one log."""

    producer_id: int
    first_offset: int
    marker_offset: int
    stable_offset: int
    """Every transaction below this offset was decided when the marker came; -1 means that it is not
    known."""


class OpenTransactions:
    """It knows the transactions of one log. All offsets are those of batches in it."""

    __slots__ = ("_ended", "_open", "_settled", "_undecided", "first_undecided")

    def __init__(self) -> None:
        self._open: OrderedDict[int, None] = OrderedDict()
        """These are the first offsets of those without a marker."""
        self._undecided: OrderedDict[int, None] = OrderedDict()
        """These are the first offsets of those and of the ones in ``_ended``."""
        self._ended: deque[EndedTransaction] = deque()
        """Their markers are not known to be committed; they are in the order of the markers."""
        self._settled: deque[EndedTransaction] = deque(maxlen=SETTLED_MAX)
        """Their markers are committed, but lie above the high watermark that a start would find."""
        self.first_undecided = NONE_UNDECIDED
        """The first undecided transaction begins here."""

    def began(self, first_offset: int) -> None:
        """Note that the first batch of a transaction is in the log."""
        self._open[first_offset] = None
        self._undecided[first_offset] = None
        if self.first_undecided == NONE_UNDECIDED:
            self.first_undecided = first_offset

    def ended(self, first_offset: int, marker_offset: int) -> None:
        """Note that the marker of an open one is in the log."""
        del self._open[first_offset]
        self._ended.append(EndedTransaction(first_offset, marker_offset))

    def committed(self, high_watermark: int) -> None:
        """Note that everything below ``high_watermark`` is there for good."""
        ended = self._ended
        if not ended or ended[0].marker_offset >= high_watermark:
            return
        while ended and ended[0].marker_offset < high_watermark:
            self._settled.append(ended[0])
            del self._undecided[ended.popleft().first_offset]
        self.first_undecided = next(iter(self._undecided), NONE_UNDECIDED)

    def checkpointed(self, high_watermark: int) -> None:
        """Note that a start would find this high watermark."""
        settled = self._settled
        while settled and settled[0].marker_offset < high_watermark:
            settled.popleft()

    def first_open(self, otherwise: int) -> int:
        """Return where the first transaction without a marker begins; ``otherwise`` when there is
        none."""
        return next(iter(self._open), otherwise)

    @property
    def open_count(self) -> int:
        """Return how many have no marker."""
        return len(self._open)

    def snapshot(self) -> list[EndedTransaction]:
        """Return those with a marker that a start may not know to be committed, in the markers'
        order."""
        return [*self._settled, *self._ended]

    def first_uncommitted_marker(self) -> int:
        """Return the offset of the first marker that is not known to be committed."""
        return self._ended[0].marker_offset if self._ended else NONE_UNDECIDED

    def reset(self, opened: Iterable[int], ended: Iterable[EndedTransaction]) -> None:
        """Take over what a snapshot says: first offsets of those without a marker, in any order,
        and those with one, which may not be committed yet."""
        self._settled.clear()
        self._ended = deque(sorted(ended, key=attrgetter("marker_offset")))
        self._recount(opened)

    def truncate(self, end: int, opened: Iterable[int]) -> None:
        """Follow a truncation of the log to ``end``; ``opened`` are first offsets of those without
        a marker."""
        kept = [each for each in self._settled if each.marker_offset < end]
        self._settled = deque(kept, maxlen=SETTLED_MAX)
        self._ended = deque([each for each in self._ended if each.marker_offset < end])
        self._recount(opened)

    def _recount(self, opened: Iterable[int]) -> None:
        self._open = OrderedDict.fromkeys(sorted(opened))
        firsts = [*self._open, *[each.first_offset for each in self._ended]]
        self._undecided = OrderedDict.fromkeys(sorted(firsts))
        self.first_undecided = next(iter(self._undecided), NONE_UNDECIDED)
