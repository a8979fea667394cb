"""A compacted segment takes the place of those that it was made of.

Owns the order of the steps, in which a crash at any of them leaves the log as it was or as it is to
be, also one of the machine [B26] (Kafka has one more name on the way, because Windows cannot
rename over a file):

1. it is written as ``<base>.cleaned.log``, with indexes, and synced: a start removes such files;
2. the index files of the *first* of the old segments are removed, and in one step the new log is
   renamed over that segment's: it begins at the same offset, and ends where the last of them does;
3. the directory is synced;
4. only then the other old segments are renamed to ``.deleted``, and unlinked after
   ``file_delete_delay_ms``. A start that finds a segment reach over the ones behind it up to one
   that begins where it ends, knows that it has replaced them.

From step 2 on the log in memory has the new segment. Between 2 and 4 the loop goes on, so whoever
truncates the log in that time comes to ``Swap.settle`` first: what was replaced must not be found
behind a truncation.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence

from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.invariants import InvariantError
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList


class Swap:
    """It knows the segments of one log that others have replaced, until their files are out of the
    way."""

    __slots__ = ("_aborted", "_directory", "_log_dir", "_segments", "count", "replaced")

    def __init__(
        self,
        log_dir: LogDir,
        directory: str,
        segments: SegmentList,
        aborted: AbortedTransactions,
        count: int = 0,
    ) -> None:
        self._log_dir = log_dir
        self._directory = directory
        self._segments = segments
        self._aborted = aborted
        self.count = count
        """Compaction has replaced segments so often."""
        self.replaced: tuple[Segment, ...] = ()
        """Files of these segments are there yet."""

    def put_in(
        self,
        run: Sequence[Segment],
        segment: Segment,
        markers_gone: Collection[int],
        delete_delay_ms: int,
    ) -> None:
        """Carry out step 2. ``segment`` is synced and closed, ``run`` is in the log;
        ``markers_gone`` are the offsets of those that the new one lacks. Raises OSError,
        CorruptMessageError, InvariantError, and then the log is as it was."""
        first, last = run[0], run[-1]
        if (segment.base_offset, segment.next_offset) != (first.base_offset, last.next_offset):
            raise InvariantError(f"{segment!r} was to replace {first!r} to {last!r}")
        self.settle(delete_delay_ms)
        bases = [old.base_offset for old in run]
        self._aborted.preload(bases)
        for old in run:
            old.release()  # the name of the first will be another file
        segment.take_place()
        self._segments.replace(run, segment)
        self._aborted.replaced(bases, markers_gone)
        self.count += 1
        self.replaced = tuple(run[1:])

    def settle(self, delete_delay_ms: int) -> None:
        """Carry out steps 3 and 4, here and now, if they are due. Blocks. Raises OSError."""
        if self.replaced:
            self.sync_names()
            self.drop_replaced(delete_delay_ms)

    def sync_names(self) -> None:
        """Carry out step 3. Blocks. Raises OSError, EIO whatever the reason: a sync that failed
        proves nothing, and is no passing trouble."""
        try:
            self._log_dir.files.sync_dir(self._directory)
        except FileNotFoundError:
            raise  # the log is being deleted
        except OSError as error:
            raise OSError(errno.EIO, f"sync failed: {error}", self._directory) from error

    def drop_replaced(self, delete_delay_ms: int) -> None:
        """Carry out step 4. Raises OSError."""
        replaced, self.replaced = self.replaced, ()
        trash: list[str] = []
        for segment in replaced:
            trash += segment.discard()
        self._log_dir.remove_later(trash, delete_delay_ms)
