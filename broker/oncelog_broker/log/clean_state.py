"""A log remembers how far it is compacted, and since when. Pure.

Owns the rows of the cleaner's checkpoint. A row (offset, time) says that at that time no two
records below the offset had one key. Rules:

- both columns increase; the last row says where the dirty part begins;
- a tombstone may go once it lay below the offset of a row for ``delete_retention_ms`` (KIP-534):
  until then a reader that has seen an older value may still come by;
- few rows are kept: two neighbours become the later one, which waits longer, never shorter;
- to forget rows is always safe, to have one too many never: they go down with every truncation of
  the log, and what is written to disk is not ahead of the recovery point that is written with it,
  so that the mark of a truncation takes hold of them too.
"""

from __future__ import annotations

from collections.abc import Iterable

ROWS_MAX = 64


FROM_SCRATCH = 2**63 - 1
"""All of the log was fetched since it was empty."""


class CleanState:
    """One log knows here how far it is compacted."""

    __slots__ = ("_first_tombstone", "_rows", "in_step_ms", "relied_on")

    def __init__(self, rows: Iterable[tuple[int, int]] = (), upto: int | None = None) -> None:
        """Take over rows of (offset, time in ms), as far as they lie at or below ``upto``."""
        self._rows: tuple[tuple[int, int], ...] = ()
        self._first_tombstone = 0
        """Below this offset no tombstone is left in the clean part."""
        for offset, time_ms in sorted(rows):
            self._add(offset, time_ms)
        self.relied_on = self.upto
        """Records have gone because of others below this offset: without these, the log lacks
        values."""
        self.in_step_ms = FROM_SCRATCH
        """It is the time when the log of a follower was last known to reach the high watermark of
        its leader: a tombstone that is younger is in it, or to come. -1 means that it is not
        known."""
        if upto is not None:
            self.truncate(upto)

    @property
    def upto(self) -> int:
        """Return where the dirty part begins."""
        return self._rows[-1][0] if self._rows else 0

    def rows(self, upto: int) -> list[tuple[int, int]]:
        """Return rows of (offset, time in ms) that hold with a log that ends at ``upto``."""
        return [*CleanState(self._rows, upto)._rows]

    def passed(self, upto: int, now_ms: int, first_tombstone: int) -> None:
        """Add a row for a pass over everything below ``upto`` that has ended and has left no
        tombstone below ``first_tombstone``."""
        self._add(max(upto, self.upto), now_ms)
        self.relied_on = max(self.relied_on, upto)
        self._first_tombstone = first_tombstone

    def relies_on(self, offset: int) -> None:
        """Note that records are about to go because of others below ``offset``."""
        self.relied_on = max(self.relied_on, offset)

    def in_step(self, now_ms: int) -> None:
        """Note when the follower's log reached the high watermark of its leader; -1 means that
        nobody knows."""
        self.in_step_ms = now_ms

    def truncate(self, offset: int) -> None:
        """Forget rows above ``offset``, where the log ends now."""
        self.relied_on = min(self.relied_on, offset)
        if self.upto > offset:
            kept = tuple([row for row in self._rows if row[0] <= offset])
            beyond = next(row for row in self._rows if row[0] > offset)
            self._rows = kept
            if offset > 0:
                self._add(offset, beyond[1])

    def tombstones_below(self, now_ms: int, retention_ms: int) -> int:
        """Return up to where tombstones may go."""
        return max([o for o, time_ms in self._rows if time_ms + retention_ms <= now_ms], default=0)

    def tombstones_due(self, now_ms: int, retention_ms: int) -> bool:
        """Return whether there may be tombstones that may go."""
        return self.tombstones_below(now_ms, retention_ms) > self._first_tombstone

    def _add(self, offset: int, time_ms: int) -> None:
        rows = self._rows
        if rows and time_ms < rows[-1][1]:
            time_ms = rows[-1][1]  # the clock went back
        if rows and rows[-1][0] == offset:
            return  # clean for longer already
        self._rows = rows = (*rows, (offset, time_ms))
        if len(rows) > ROWS_MAX:
            # The oldest are due first; thin out the middle.
            middle = rows[2:-1:2]
            self._rows = (rows[0], *middle, rows[-1])
