"""A bounded set of segments holds descriptors.

Owns the rule that a broker with thousands of partitions needs memory and descriptors only for
those in use. Rules:

- past the bound, the segment that was not used for longest goes first (second chance: using a
  segment sets a flag, nothing more). The look-out goes on where it stopped, so that it costs the
  same however many are open;
- when all are in use none is looked at again before a sync has ended: with more partitions that
  are written than may be open, each write would look at all of them;
- a segment with unsynced bytes is never closed here: an error of its sync must reach the descriptor
  that wrote;
- while a sync runs in the executor no file is closed under it: it is kept aside until the round
  ends.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from oncelog_runtime.files import File, Files


class Evictable(Protocol):
    """A segment is known here by this."""

    used: bool
    """It is set by each use, and cleared by a first look of the evictor."""
    dirty: bool
    """It tells that the segment holds bytes that no sync has covered."""

    def park(self) -> None:
        """Give up the descriptor, which comes back when it is needed."""
        ...


class OpenSegments:
    """It keeps the open segments of one log directory."""

    def __init__(self, files: Files, open_max: int) -> None:
        self.files = files
        self._open_max = max(4, open_max)
        self._segments: OrderedDict[Evictable, None] = OrderedDict()
        self._all_dirty = False
        """It tells whether the last look found nothing that may be closed."""
        self._retired: list[File] = []
        self._syncing = False
        self._ask: Callable[[Any], None] | None = None

    def ask_before_reading(self, ask: Callable[[Any], None]) -> None:
        """Call ``ask`` with each closed segment that is to be read; it may raise StorageError."""
        self._ask = ask

    def before_reading(self, segment: Evictable) -> None:
        """Ask before a closed segment is read. Raises StorageError while it may not be."""
        if self._ask is not None:
            self._ask(segment)

    def open(self, segment: Evictable, path: str, *, create: bool) -> File:
        """Open a file for a segment; others may be closed for it. Raises OSError."""
        if len(self._segments) >= self._open_max:
            self._evict(self._open_max - 1)
        try:
            file = self.files.open(path, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            # The process may hold fewer than was thought: make do with half, from now on.
            self._open_max = max(4, len(self._segments) // 2)
            self._evict(self._open_max - 1)
            file = self.files.open(path, create=create)
        self._segments[segment] = None
        return file

    def retire(self, segment: Evictable, file: File) -> None:
        """Close the file of a segment, now or when the running sync has ended."""
        self._segments.pop(segment, None)
        self.close_file(file)

    def close_file(self, file: File) -> None:
        """Close any file that a sync may be using."""
        if self._syncing:
            self._retired.append(file)
        else:
            file.close()

    def sync_began(self) -> None:
        """Let closing wait from now on."""
        self._syncing = True

    def sync_ended(self) -> None:
        """Close the files that waited."""
        self._syncing = False
        self._all_dirty = False
        retired, self._retired = self._retired, []
        for file in retired:
            file.close()

    def trim(self) -> None:
        """Go back to the bound, now that less is dirty."""
        if len(self._segments) > self._open_max:
            self._evict(self._open_max)

    def __len__(self) -> int:
        return len(self._segments)

    def _evict(self, keep: int) -> None:
        if self._all_dirty:
            return
        segments = self._segments
        for _ in range(2 * len(segments)):  # the first round takes away the second chance
            if len(segments) <= keep:
                return
            segment = next(iter(segments))
            if segment.dirty:
                segments.move_to_end(segment)
            elif segment.used:
                segment.used = False
                segments.move_to_end(segment)
            else:
                segment.park()
        self._all_dirty = len(segments) > keep
