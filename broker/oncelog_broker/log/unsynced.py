"""A log keeps here what of it is written and not yet synced.

Owns the bookkeeping between appends and sync rounds, and asks for the rounds. Rules:

- a segment is dirty from its first unsynced write until a round that saw all of it has ended;
- the name of a file must be durable before an offset in it counts [D5]: the first write into a
  segment, and every change of the list of segments, makes its directory dirty;
- what a round proves, it proves of the log as it was: a truncation in between makes the proof void.
"""

from __future__ import annotations

from oncelog_broker.log.flusher import Flusher, Syncable, SyncJob
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.segment import Segment
from oncelog_runtime.files import File


class Unsynced:
    """It knows the dirty segments, new files and changed directories of one log."""

    __slots__ = (
        "_directory_changed",
        "_flusher",
        "_generation",
        "_held",
        "_log",
        "_new_files",
        "_parent_changed",
        "_segments",
        "queued",
    )

    def __init__(self, log: Syncable, flusher: Flusher) -> None:
        self._log = log
        self._flusher = flusher
        self._segments: tuple[Segment, ...] = ()
        self._new_files: tuple[File, ...] = ()
        """These small files are closed once they are synced."""
        self._directory_changed = False
        self._parent_changed = False
        self._generation = 0
        self._held = False
        """It tells whether no round may begin with the log."""
        self.queued = False
        """It tells whether the flusher knows of the log."""

    @property
    def truncations(self) -> int:
        """Return how often the log was truncated."""
        return self._generation

    # ---- what is dirty

    def wrote(self, segment: Segment, size_bytes: int) -> None:
        """Note that so many bytes were written at the end of a segment that was not dirty."""
        segment.wrote_unsynced()
        self._segments += (segment,)
        if segment.size_bytes == size_bytes:
            self._directory_changed = True

    def names_changed(self) -> None:
        """Note that files have come or gone in the directory of the log."""
        self._directory_changed = True

    def created(self, meta: File) -> None:
        """Note that the log itself is new, with a first small file."""
        self._new_files += (meta,)
        self._directory_changed = self._parent_changed = self.queued = True
        self._flusher.mark_new(self._log)

    def truncated(self, active: Segment) -> None:
        """Note a truncation: size, names and content of the log's end are to be synced again."""
        self._generation += 1
        self._directory_changed = True
        self.drop_gone()
        if not active.dirty:
            active.wrote_unsynced()
            self._segments += (active,)

    def drop_gone(self) -> None:
        """Forget segments that were removed; a removed one is not dirty."""
        self._segments = tuple([segment for segment in self._segments if segment.dirty])

    # ---- rounds

    def sync_soon(self) -> None:
        """Have what is dirty synced as soon as possible."""
        if not self.queued or self._new_files:  # with such files it is queued as only new
            self.queued = True
            self._flusher.mark(self._log)

    def sync_later(self) -> None:
        """Have what is dirty synced within the interval."""
        if not self.queued:
            self.queued = True
            self._flusher.mark_later(self._log)

    def hurry(self) -> None:
        """Sync soon what waits for the interval."""
        if self.queued and not self._held:
            self._flusher.mark(self._log)

    @property
    def is_new(self) -> bool:
        """Return whether the log was made, and no round has seen it yet."""
        return bool(self._new_files)

    def hold(self) -> None:
        """Let no round begin with the log from now on; one may be under way."""
        self._held = self.queued = True
        self._flusher.forget(self._log)

    def let_go(self) -> None:
        """Have a round begin with the log again, soon."""
        self._held, self.queued = False, True
        self._flusher.mark(self._log)

    def rehouse(self, flusher: Flusher, segments: list[Segment]) -> None:
        """Go on in another directory, in which these segments, and all names, are not synced. No
        round with the log is under way."""
        self._flusher = flusher
        for segment in segments:
            segment.wrote_unsynced()
        self._segments = tuple(segments)
        self._directory_changed = self._parent_changed = True

    def begin(self, end_offset: int, directory: str, parent: str) -> SyncJob:
        """Move what is dirty of a log that ends at ``end_offset`` into a job. Raises OSError."""
        self.queued = False
        segments, self._segments = self._segments, ()
        job = SyncJob(self._log, end_offset, self._generation, dirty_bytes=0)
        for segment in segments:
            job.dirty_bytes += segment.begin_sync()
            job.segments.append((segment, segment.size_bytes))
            job.files.append(segment.open())
        job.once, self._new_files = [*self._new_files], ()
        if self._directory_changed:
            job.dirs.append(directory)
            self._directory_changed = False
        if self._parent_changed:
            job.dirs.append(parent)
            self._parent_changed = False
        return job

    def finish(self, job: SyncJob) -> bool:
        """Note that the job is durable; return whether that says something of the log as it is
        now."""
        current = job.generation == self._generation
        for segment, size_bytes in job.segments:
            if segment.dirty and segment not in self._segments:
                if current and segment.size_bytes == size_bytes:
                    segment.synced()
                else:
                    self._segments += (segment,)
        return current

    def close(self, pool: OpenSegments) -> None:
        """Forget everything, as the log is closed and syncs nothing any more."""
        self._flusher.forget(self._log)
        for file in self._new_files:
            pool.close_file(file)
        self._new_files = ()
