"""A time index maps timestamps of one segment to where to begin looking. Pure.

Owns one column, parallel to the entries of the segment's offset index: entry ``i`` holds the
newest timestamp of all batches *before* offset entry ``i``. So the column never decreases, one
record from the future cannot spoil lookups (the answer stays "the first record at or after this
time"), and a lookup is one bisection and a walk of at most one index interval to the batch it
seeks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import islice
from operator import le
from typing import Final

from oncelog_broker.log.index_file import column_bytes, column_from

ENTRY_BYTES = 8

_NO_ENTRIES: Final = array("q")
"""It is the column of every index without entries. Nobody adds to it."""


class TimeIndex:
    """It keeps a running maximum of timestamps, one for each entry of the offset index."""

    __slots__ = ("timestamps",)

    def __init__(self) -> None:
        self.timestamps: array[int] = _NO_ENTRIES

    def append(self, max_timestamp_before: int) -> None:
        """Add the newest timestamp of the batches before the new offset entry."""
        if not self.timestamps:
            self.timestamps = array("q")
        self.timestamps.append(max_timestamp_before)

    def last_before(self, timestamp: int) -> int:
        """Return the last entry below which every timestamp is older; -1 when there is none."""
        return bisect_left(self.timestamps, timestamp) - 1

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        del self.timestamps[count:]

    def payload(self, first: int) -> bytes:
        """Encode the entries from number ``first`` on."""
        return column_bytes(self.timestamps[first:])

    def extend(self, payload: bytes) -> bool:
        """Take over encoded entries; return False, and take nothing, if they decrease."""
        column = column_from("q", payload)
        if self.timestamps and column and column[0] < self.timestamps[-1]:
            return False
        items = column.tolist()
        if not all(map(le, items, islice(items, 1, None))):
            return False
        if self.timestamps:
            self.timestamps.extend(column)
        else:
            self.timestamps = column
        return True

    def __len__(self) -> int:
        return len(self.timestamps)
