"""A segment list holds the segments of one log, in order of offsets.

Owns the list, the lookup of the segment that holds an offset or a timestamp, and the moves that
change the list. Rules:

- there is always a last one, the *active* segment; only it is written;
- each begins where the one before it ends;
- compaction replaces a run of them by one that begins and ends with the run, never the active one;
- removal goes from the outside: oldest first for retention, newest first for truncation, so that a
  crash between two steps leaves an unbroken run;
- what is removed is renamed at once and returned as trash, to be unlinked off the loop.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.segment import DELETED_SUFFIX, Segment

_FILE_NAME = re.compile(r"\d{20}\.(log|index|timeindex|txnindex)")


class SegmentList:
    """It keeps all segments of one log; ``active`` is the last."""

    __slots__ = ("_bases", "_directory", "_newest", "_pool", "_segments", "active", "changes")

    def __init__(self, pool: OpenSegments, directory: str, segments: list[Segment]) -> None:
        """Take over at least one segment, in order."""
        self._pool = pool
        self._directory = directory
        self._segments = segments
        self.changes = 0
        """It counts how often the list has changed."""
        self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._bases = tuple([segment.base_offset for segment in self._segments])
        self.active = self._segments[-1]
        self._newest: list[int] | None = None

    def date(self, now_ms: int) -> None:
        """Correct the times of segments that were noted when the time was not known."""
        for segment in self._segments:
            segment.date(now_ms)

    def find(self, offset: int) -> Segment:
        """Return the segment that holds ``offset``; the active one when it is the log end."""
        index = bisect_right(self._bases, offset) - 1
        segment = self._segments[max(0, index)]
        if offset >= segment.next_offset and segment is not self.active:
            return self._segments[index + 1]
        return segment

    def run_from(self, offset: int, count: int) -> list[Segment]:
        """Return at most so many, in order, from the one that holds ``offset`` on."""
        first = max(0, bisect_right(self._bases, offset) - 1)
        return self._segments[first : first + count]

    def batch_start(self, offset: int) -> int:
        """Return the base offset of the batch that holds ``offset``. Raises as a read does."""
        return self.find(offset).header_at(offset)[1].base_offset

    def since(self, timestamp: int) -> Iterator[Segment]:
        """Yield, in order, the segments from the first that holds so new a timestamp on."""
        if self._newest is None:
            # Running maximum over the sealed segments: with it the lookup is a bisection.
            newest = -1
            self._newest = []
            for segment in self._segments[:-1]:
                newest = max(newest, segment.max_timestamp)
                self._newest.append(newest)
        yield from self._segments[bisect_left(self._newest, timestamp) :]

    def newest_timestamp(self) -> int:
        """Return the largest timestamp that any record has had; -1 when none has one."""
        return max(segment.max_timestamp for segment in self._segments)

    def roll(self, base_offset: int, interval_bytes: int) -> Segment:
        """Seal the active segment and begin another. Raises OSError, and then changes nothing."""
        segment = Segment(self._pool, self._directory, base_offset, interval_bytes)
        segment.create()
        self.active.persist_index()
        self._segments.append(segment)
        self._changed()
        return segment

    def drop_oldest(self, count: int) -> list[str]:
        """Remove so many, but never the active one. Raises OSError."""
        trash: list[str] = []
        count = min(count, len(self._segments) - 1)
        try:
            for _ in range(count):
                trash += self._segments[0].discard()
                del self._segments[0]
        finally:
            self._changed()
        return trash

    def truncate_to(self, offset: int, now_ms: int) -> list[str]:
        """Keep the batches that end at or below ``offset``. Raises OSError."""
        trash: list[str] = []
        try:
            while len(self._segments) > 1 and self.active.base_offset >= offset:
                trash += self.active.discard()
                del self._segments[-1]
                self._changed()
        finally:
            self._changed()
        self.active.truncate_to(offset, now_ms)
        return trash

    def restart_at(self, offset: int, interval_bytes: int) -> list[str]:
        """Remove everything and begin with an empty segment at ``offset``. Raises OSError."""
        trash: list[str] = []
        for segment in reversed(self._segments):
            trash += segment.discard()
        segment = Segment(self._pool, self._directory, offset, interval_bytes)
        segment.create()
        self._segments = [segment]
        self._changed()
        return trash

    def holds(self, run: Sequence[Segment]) -> bool:
        """Return whether these are neighbours in the list, the active one not among them."""
        first = bisect_left(self._bases, run[0].base_offset)
        here = self._segments[first : first + len(run)]
        return len(here) == len(run) < len(self._segments) - first and all(
            one is other for one, other in zip(here, run, strict=True)
        )

    def has(self, segment: Segment) -> bool:
        """Return whether this segment is in the list."""
        first = bisect_left(self._bases, segment.base_offset)
        return first < len(self._segments) and self._segments[first] is segment

    def replace(self, run: Sequence[Segment], segment: Segment) -> None:
        """Put one segment in the place of a run, which must be in the list; no file is touched."""
        first = bisect_left(self._bases, run[0].base_offset)
        self._segments[first : first + len(run)] = [segment]
        self._changed()

    def rehouse(self, pool: OpenSegments, directory: str, segments: list[Segment]) -> None:
        """Go on with the same segments in another directory. The map of the active one goes along;
        the others have theirs on disk."""
        segments[-1].take_index(self.active)
        for segment in self._segments:
            segment.synced()
            segment.release()
        self._pool, self._directory, self._segments = pool, directory, segments
        self._changed()

    def strays(self) -> list[str]:
        """Rename the files of segments behind a damage, which the list does not hold."""
        files = self._pool.files
        trash: list[str] = []
        for name in files.list_dir(self._directory):
            path = f"{self._directory}/{name}"
            if _FILE_NAME.fullmatch(name) and int(name[:20]) not in self._bases:
                files.rename(path, path + DELETED_SUFFIX)
                trash.append(path + DELETED_SUFFIX)
        return trash

    def size_bytes(self) -> int:
        """Return the sum of the segments' sizes."""
        return sum([segment.size_bytes for segment in self._segments])

    def bytes_from(self, offset: int) -> int:
        """Return how many bytes lie at ``offset`` and beyond, about; nothing is read."""
        first, *others = self.run_from(offset, len(self._segments))
        return first.bytes_from(offset) + sum([segment.size_bytes for segment in others])

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    def __len__(self) -> int:
        return len(self._segments)
