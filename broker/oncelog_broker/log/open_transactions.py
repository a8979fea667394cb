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
from collections.abc import Collection, Iterable
from dataclasses import dataclass
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


@dataclass(slots=True)
class _Known:
    """It has the transactions of one log."""

    open: OrderedDict[int, None]
    """These are the first offsets of those without a marker."""
    undecided: OrderedDict[int, None]
    """These are the first offsets of those and of the ones in ``ended``."""
    ended: deque[EndedTransaction]
    """Their markers are not known to be committed; they are in the order of the markers."""
    settled: deque[EndedTransaction]
    """Their markers are committed, but lie above the high watermark that a start would find."""

    @classmethod
    def of(
        cls,
        opened: Collection[int],
        ended: Iterable[EndedTransaction],
        settled: Iterable[EndedTransaction] = (),
    ) -> _Known:
        """Put together what is known, in any order but that of ``settled``."""
        ordered = deque(sorted(ended, key=attrgetter("marker_offset")))
        firsts = [*opened, *[each.first_offset for each in ordered]]
        return cls(
            OrderedDict.fromkeys(sorted(opened)),
            OrderedDict.fromkeys(sorted(firsts)),
            ordered,
            deque(settled, maxlen=SETTLED_MAX),
        )


class OpenTransactions:
    """It knows the transactions of one log. All offsets are those of batches in it."""

    __slots__ = ("_known", "first_undecided")

    def __init__(self) -> None:
        self._known: _Known | None = None
        """It is None while there is none: 2 KB less for each log that is at rest."""
        self.first_undecided = NONE_UNDECIDED
        """The first undecided transaction begins here."""

    def _some(self) -> _Known:
        if self._known is None:
            self._known = _Known.of((), ())
        return self._known

    def began(self, first_offset: int) -> None:
        """Note that the first batch of a transaction is in the log."""
        known = self._some()
        known.open[first_offset] = None
        known.undecided[first_offset] = None
        if self.first_undecided == NONE_UNDECIDED:
            self.first_undecided = first_offset

    def ended(self, first_offset: int, marker_offset: int) -> None:
        """Note that the marker of an open one is in the log."""
        known = self._some()
        del known.open[first_offset]
        known.ended.append(EndedTransaction(first_offset, marker_offset))

    def committed(self, high_watermark: int) -> None:
        """Note that everything below ``high_watermark`` is there for good."""
        known = self._known
        if known is None or not known.ended or known.ended[0].marker_offset >= high_watermark:
            return
        while known.ended and known.ended[0].marker_offset < high_watermark:
            known.settled.append(known.ended[0])
            del known.undecided[known.ended.popleft().first_offset]
        self.first_undecided = next(iter(known.undecided), NONE_UNDECIDED)

    def checkpointed(self, high_watermark: int) -> None:
        """Note that a start would find this high watermark."""
        known = self._known
        if known is None:
            return
        while known.settled and known.settled[0].marker_offset < high_watermark:
            known.settled.popleft()
        if not known.undecided and not known.settled:
            self._known = None

    def first_open(self, otherwise: int) -> int:
        """Return where the first transaction without a marker begins; ``otherwise`` when there is
        none."""
        return next(iter(self._known.open), otherwise) if self._known is not None else otherwise

    @property
    def open_count(self) -> int:
        """Return how many have no marker."""
        return len(self._known.open) if self._known is not None else 0

    def snapshot(self) -> list[EndedTransaction]:
        """Return those with a marker that a start may not know to be committed, in the markers'
        order."""
        known = self._known
        return [*known.settled, *known.ended] if known is not None else []

    def first_uncommitted_marker(self) -> int:
        """Return the offset of the first marker that is not known to be committed."""
        known = self._known
        return known.ended[0].marker_offset if known and known.ended else NONE_UNDECIDED

    def reset(self, opened: Iterable[int], ended: Iterable[EndedTransaction]) -> None:
        """Take over what a snapshot says: first offsets of those without a marker, in any order,
        and those with one, which may not be committed yet."""
        self._take(_Known.of(tuple(opened), ended))

    def truncate(self, end: int, opened: Iterable[int]) -> None:
        """Follow a truncation of the log to ``end``; ``opened`` are first offsets of those without
        a marker."""
        before = self._some()
        ended = [each for each in before.ended if each.marker_offset < end]
        settled = [each for each in before.settled if each.marker_offset < end]
        self._take(_Known.of(tuple(opened), ended, settled))

    def _take(self, known: _Known) -> None:
        self._known = known if known.undecided or known.settled else None
        self.first_undecided = next(iter(known.undecided), NONE_UNDECIDED)
