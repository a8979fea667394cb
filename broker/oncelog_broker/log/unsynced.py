"""What of one log is written and not yet synced.

Owns the bookkeeping between appends and sync rounds. Rules:

- a segment is dirty from its first unsynced write until a round that saw all of it has ended;
- the name of a file must be durable before an offset in it counts (D5): the first write into a
  segment, and every change of the list of segments, makes its directory dirty;
- what a round proves, it proves of the log as it was: a cut in between makes the proof void.
"""

from __future__ import annotations

from oncelog_broker.log.flusher import SyncJob
from oncelog_broker.log.segment import Segment
from oncelog_runtime.files import File


class Unsynced:
    """Dirty segments, new files and changed directories of one log."""

    __slots__ = (
        "_generation",
        "_parent_changed",
        "directory_changed",
        "new_files",
        "queued",
        "segments",
    )

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.new_files: list[File] = []
        """Small files that are closed once they are synced."""
        self.directory_changed = False
        self._parent_changed = False
        self.queued = False
        """Whether the flusher knows of the log."""
        self._generation = 0

    def wrote(self, segment: Segment, size_bytes: int) -> None:
        """So many bytes were written at the end of a segment that was not dirty."""
        segment.dirty = True
        self.segments.append(segment)
        if segment.size_bytes == size_bytes:
            self.directory_changed = True

    @property
    def cuts(self) -> int:
        """How often the log was cut."""
        return self._generation

    def created(self, meta: File) -> None:
        """The log itself is new, with a first small file."""
        self.new_files.append(meta)
        self.directory_changed = self._parent_changed = True

    def cut(self, active: Segment) -> None:
        """The log was cut: size, names and content of its end are to be synced again."""
        self._generation += 1
        self.directory_changed = True
        self.drop_gone()
        if not active.dirty:
            active.dirty = True
            self.segments.append(active)

    def drop_gone(self) -> None:
        """Segments were removed; a removed one is not dirty."""
        self.segments = [segment for segment in self.segments if segment.dirty]

    def begin(self, job: SyncJob, directory: str, parent: str) -> None:
        """Move what is dirty into a job. Raises OSError."""
        self.queued = False
        job.generation = self._generation
        segments, self.segments = self.segments, []
        job.dirty_bytes = 0
        for segment in segments:
            job.dirty_bytes += max(0, segment.size_bytes - segment.size_at_sync_bytes)
            segment.size_at_sync_bytes = segment.size_bytes
            job.segments.append((segment, segment.size_bytes))
            job.files.append(segment.open())
        job.once, self.new_files = self.new_files, []
        if self.directory_changed:
            job.dirs.append(directory)
            self.directory_changed = False
        if self._parent_changed:
            job.dirs.append(parent)
            self._parent_changed = False

    def finish(self, job: SyncJob) -> bool:
        """The job is durable; return whether that says something of the log as it is now."""
        current = job.generation == self._generation
        for segment, size_bytes in job.segments:
            if segment.dirty and segment not in self.segments:
                if current and segment.size_bytes == size_bytes:
                    segment.dirty = False
                else:
                    self.segments.append(segment)
        return current
