"""An offset index maps the offsets of one segment to positions, sparsely but for its tail. Pure.

Owns two parallel arrays of batch starts. Rules:

- every entry is the start of a batch; offsets are relative to the segment's base, so that an entry
  takes 8 bytes; both columns increase strictly;
- the first batch has an entry, and so has each batch that would end more than the index interval
  after the last entry: between two entries lie at most that many bytes of further batches, which a
  reader walks;
- :class:`TailIndex` knows every batch of the recent past, where most readers are, so they walk
  nothing;
- an index without entries has no arrays of its own: there are many such, of empty segments and of
  sealed ones, whose indexes are on disk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from itertools import islice
from operator import lt
from typing import Final

from oncelog_broker.log.index_file import column_bytes, column_from

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = 2**31 - 1
"""A segment rolls before its offsets pass this, as in Kafka."""

_TAIL_COUNT = 256
"""A tail index keeps at least so many batches; it holds up to twice as many."""

_NO_ENTRIES: Final = array("I")
"""It is the column of every index without entries. Nobody adds to it."""


class OffsetIndex:
    """It is the sparse map of one segment, in memory."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets: array[int] = _NO_ENTRIES
        self.positions: array[int] = _NO_ENTRIES

    def append(self, relative_offset: int, position: int) -> None:
        """Add the start of a batch, above all others."""
        if not self.offsets:
            self.offsets, self.positions = array("I"), array("I")
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def floor_offset(self, relative_offset: int) -> tuple[int, int]:
        """Return a pair (offset, position), the last entry at or below an offset; (0, 0) if
        none."""
        index = bisect_right(self.offsets, relative_offset) - 1
        return (self.offsets[index], self.positions[index]) if index >= 0 else (0, 0)

    def floor_position(self, position: int) -> int:
        """Return the last entry's position at or below ``position``; 0 if none."""
        index = bisect_right(self.positions, position) - 1
        return self.positions[index] if index >= 0 else 0

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        del self.offsets[count:], self.positions[count:]

    def payload(self, first: int) -> bytes:
        """Encode the entries from number ``first`` on: a column of offsets, one of positions."""
        return column_bytes(self.offsets[first:]) + column_bytes(self.positions[first:])

    def extend(self, payload: bytes, count: int) -> bool:
        """Take over encoded entries; return False, and take nothing, unless both columns
        increase."""
        offsets = column_from("I", payload[: count * 4])
        positions = column_from("I", payload[count * 4 :])
        if (
            self.offsets
            and count
            and not (offsets[0] > self.offsets[-1] and positions[0] > self.positions[-1])
        ):
            return False
        if not (_increases(offsets) and _increases(positions)):
            return False
        if self.offsets:
            self.offsets.extend(offsets)
            self.positions.extend(positions)
        else:
            self.offsets, self.positions = offsets, positions
        return True

    def __len__(self) -> int:
        return len(self.offsets)


class TailIndex:
    """It knows every batch start of the newest part of a segment: an unbroken run up to its end."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets: array[int] = _NO_ENTRIES
        self._positions: array[int] = _NO_ENTRIES

    def append(self, relative_offset: int, position: int) -> None:
        """Add the start of the batch that was appended; the oldest are dropped by and by."""
        if not self._offsets:
            self._offsets, self._positions = array("I"), array("I")
        offsets = self._offsets
        offsets.append(relative_offset)
        self._positions.append(position)
        if len(offsets) >= 2 * _TAIL_COUNT:
            del offsets[:_TAIL_COUNT], self._positions[:_TAIL_COUNT]

    def floor_offset(self, relative_offset: int) -> int:
        """Return the position of the batch that holds an offset; -1 when it is not in the run."""
        index = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[index] if index >= 0 else -1

    def floor_position(self, position: int) -> int:
        """Return the last batch start at or below ``position``; -1 when it is not in the run."""
        index = bisect_right(self._positions, position) - 1
        return self._positions[index] if index >= 0 else -1

    def clear(self) -> None:
        """Forget everything: after a truncation, or to save memory."""
        self._offsets = self._positions = _NO_ENTRIES

    def __len__(self) -> int:
        return len(self._offsets)


def _increases(column: array[int]) -> bool:
    # A list is quicker: a 1 GB segment has 250,000 entries, and an array makes each twice.
    items = column.tolist()
    return all(map(lt, items, islice(items, 1, None)))
