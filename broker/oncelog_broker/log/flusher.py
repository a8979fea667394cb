"""The flusher commits by groups: one sync round at a time takes all that is dirty in a directory.

It owns when files are synced. Rules:

- an append while nothing is syncing starts a round right behind the callbacks that it caused, so
  that followers are sent the data before this disk is busy with it: no timer, no task. Whatever
  becomes dirty during a round goes into the next, which starts when the round ends;
- a round captures how far each log reached, syncs its files and new directory entries in a thread
  of its directory, and only then, back on the loop, lets the logs move their synced offsets;
- a small round on a quick disk is synced on the loop itself: handing a sync of 0.1 ms to a thread
  and back costs 0.3 ms and two wake-ups of a sleeping core. A slow sync ends that for a while, so
  that slow ones take a hundredth of the loop's time at most;
- a round syncs many files side by side: a disk does dozens for about the price of one, and one
  after the other each waits for it alone. A quick disk is served by few threads, since each that
  is woken costs more than such a sync. Names are synced when all data is;
- a round takes a bounded number of logs, those first that have waited longest, and few that are
  only new while others have records to acknowledge: thousands of new partitions hold up nobody;
- a log that may wait (``flush=interval``) joins the next round, or gets one when the interval is
  over;
- a sync that failed proves nothing and is never repeated: the directory stops for good (fsyncgate).
  So does one that has not ended after ``timeout_ms``: the round is given up, whatever comes of it.
  One that takes a third of that stalls: leaders here may give way to replicas on other disks;
- a process that stood still (it was stopped, its machine slept) has not heard yet what its disk has
  done meanwhile. The last part of the time-out is a timer of its own, so that it hears that first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.segment import Segment
from oncelog_runtime.files import File, Files
from oncelog_runtime.lanes import Lane
from oncelog_runtime.observe import Histogram, Stopwatch
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

T = TypeVar("T")
_Share = tuple[list[File], list[str]]
"""One thread syncs these files and directories."""

INLINE_BYTES_MAX = 64 * 1024
"""A round with at most so many dirty bytes may be synced on the loop."""
INLINE_FILES_MAX = 2
INLINE_SECONDS_MAX = 0.004
"""A sync on the loop that took longer shows a busy disk."""
INLINE_PAUSE_RATIO = 100
"""After such a sync rounds go to the executor for so many times as long as it took ..."""
INLINE_PAUSE_MAX_S = 5.0
"""... and for no longer than this."""
UNKNOWN_BYTES = 2**62
ROUND_LOGS_MAX = 512
"""One round takes so many logs: the work on the loop for them takes some milliseconds."""
ROUND_NEW_LOGS_MAX = 64
"""So many of them may be new ones without records to acknowledge, while there are others with
such."""
FILES_PER_CALL = 4
"""A thread syncs so many files at least before it takes others: for fewer it is not worth to wake
another."""
FILES_PER_CALL_MAX = 16
"""On a quick disk a thread syncs up to so many ..."""
CALL_S = 0.008
"""... which take it no longer than about this."""
SYNC_TIMEOUT_MS = 10_000
"""A disk that does not answer for so long counts as failed."""
LAST_SHARE = 0.1
"""This share of that time is counted when the rest is over."""
STALL_SHARE = 1 / 3
"""A round stalls after this share of that time."""


class SyncTimeoutError(OSError):
    """The disk hangs: a sync has not ended in time, and may never."""


@dataclass(slots=True)
class SyncJob:
    """It is one log's wish for a sync. The log knows what the sync proves."""

    log: Syncable
    end_offset: int
    generation: int = 0
    """It grows with each truncation: a job of an older one proves nothing."""
    segments: list[tuple[Segment, int]] = field(default_factory=list)
    """They come with their sizes when the job was made."""
    files: list[File] = field(default_factory=list)
    once: list[File] = field(default_factory=list)
    """These files are closed after the round."""
    dirs: list[str] = field(default_factory=list)
    dirty_bytes: int = UNKNOWN_BYTES
    """So many bytes were written since the job before this one."""


class Syncable(Protocol):
    """The flusher sees a log through this."""

    def begin_sync(self) -> SyncJob:
        """Capture what is dirty; nothing is dirty afterwards."""
        ...

    def finish_sync(self, job: SyncJob) -> None:
        """Move the synced offset: the job is durable."""
        ...


class Flusher:
    """It runs the sync rounds of one log directory."""

    def __init__(
        self,
        pool: OpenSegments,
        *,
        lane: Lane,
        interval_ms: int,
        on_failure: Callable[[OSError], None],
        inline_bytes_max: int = INLINE_BYTES_MAX,
        timeout_ms: int = SYNC_TIMEOUT_MS,
    ) -> None:
        self._pool = pool
        self._lane = lane
        self._interval_s = interval_ms / 1000
        self._on_failure = on_failure
        self._inline_bytes_max = inline_bytes_max
        self._timeout_s = timeout_ms / 1000
        self._deadline: asyncio.TimerHandle | None = None
        """It gives the round up that runs in a thread."""
        self._handed_over_s = 0.0
        """It is the loop time when the last round went to a thread."""
        self._inline_from = 0.0
        """A round may be synced on the loop from this loop time on."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dirty: dict[Syncable, None] = {}
        self._new: dict[Syncable, None] = {}
        self._waiting: dict[Syncable, None] = {}
        self._scheduled = False
        self._running = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._round_waiters: list[asyncio.Future[None]] = []
        self.rounds = 0
        """It counts the rounds so far, for tests and metrics."""
        self._stopwatch: Stopwatch | None = None
        self.seconds = Histogram()
        """It tells how long rounds took."""
        self._began = 0.0
        self._on_round: Callable[[float, float], None] | None = None
        self._round_began_s = 0.0
        self._file_s = CALL_S
        """One file of the last large round took so long in its thread. The disk passes for a slow
        one at first."""

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work on this loop; what is dirty already is synced at once."""
        self._loop = loop
        self._schedule()

    def measure_with(self, stopwatch: Stopwatch) -> None:
        """Note from now on how long rounds take."""
        self._stopwatch = stopwatch

    def tell_rounds(self, on_round: Callable[[float, float], None]) -> None:
        """Call this from now on with the seconds that each round took, and with the loop's time at
        which it ended."""
        self._on_round = on_round

    def mark(self, log: Syncable) -> None:
        """Sync this log as soon as possible."""
        self._dirty[log] = None
        if not self._scheduled and not self._running:
            self._schedule()

    def mark_new(self, log: Syncable) -> None:
        """Sync this log, of which only files and names are new, as soon as others let it."""
        self._new[log] = None
        if not self._scheduled and not self._running:
            self._schedule()

    def mark_later(self, log: Syncable) -> None:
        """Sync this log within the interval."""
        self._waiting[log] = None
        if self._timer is None and self._loop is not None and not self._stopped:
            self._timer = self._loop.call_later(self._interval_s, self._interval_over)

    @property
    def stalled_since(self) -> float | None:
        """Return the loop time when the round began that has been under way for too long; None if
        there is none."""
        if self._deadline is None or self._loop is None:
            return None
        late = self._loop.time() - self._handed_over_s >= self._timeout_s * STALL_SHARE
        return self._handed_over_s if late else None

    def forget(self, log: Syncable) -> None:
        """Do not sync a log again that goes away. A running round is not waited for."""
        self._dirty.pop(log, None)
        self._new.pop(log, None)
        self._waiting.pop(log, None)

    async def idle(self) -> None:
        """Return when no round runs and none is due at once."""
        while self._running or (self._is_dirty and not self._stopped and self._loop is not None):
            waiter = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    async def round_over(self) -> None:
        """Return when the round that runs now has ended; later ones are not waited for, or under a
        steady load there would be no end to it."""
        if self._running:
            waiter = asyncio.get_running_loop().create_future()
            self._round_waiters.append(waiter)
            await waiter

    async def drain(self) -> None:
        """Sync everything, also what may wait."""
        self._dirty.update(self._waiting)
        self._waiting.clear()
        if self._is_dirty and not self._scheduled and not self._running:
            self._schedule()
        await self.idle()

    @property
    def _is_dirty(self) -> bool:
        return bool(self._dirty or self._new)

    def sync_now(self) -> None:
        """Carry out rounds on the spot until nothing is dirty: without a loop, or at the very
        end."""
        self._dirty.update(self._waiting)
        self._waiting.clear()
        while self._is_dirty and not self._stopped and not self._running:
            jobs = self._begin()
            try:
                _sync(self._pool.files, *_work(jobs))
            except OSError as error:
                self._end(jobs, error)
                return
            self._end(jobs, None)

    @property
    def stopped(self) -> bool:
        """Return whether it begins no more rounds: its directory has failed or is closed."""
        return self._stopped

    def stop(self) -> None:
        """Begin no more rounds."""
        self._stopped = True
        self._dirty.clear()
        self._new.clear()
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- one round

    def _schedule(self) -> None:
        if self._loop is not None and self._is_dirty and not self._stopped:
            self._scheduled = True
            # Twice: behind what the append itself has put in line.
            self._loop.call_soon(self._loop.call_soon, self._run)

    def _interval_over(self) -> None:
        self._timer = None
        self._dirty.update(self._waiting)
        self._waiting.clear()
        if not self._scheduled and not self._running:
            self._schedule()

    def _run(self) -> None:
        self._scheduled = False
        if self._running or self._stopped or self._loop is None or not self._is_dirty:
            self._wake_idle()
            return
        jobs = self._begin()
        files, dirs = _work(jobs)
        if self._is_small(jobs, files, dirs):
            self._sync_inline(jobs, files)
            return
        self._handed_over_s = self._loop.time()
        first_s = (1 - LAST_SHARE) * self._timeout_s
        self._deadline = self._loop.call_later(first_s, self._nearly_over)
        if len(files) <= FILES_PER_CALL:
            return self._hand_over([(files, dirs)], lambda error: self._ended(jobs, error))
        size = min(_files_per_call(self._file_s), len(files))
        shares: list[_Share] = [(share, []) for share in _shares(files, size)]
        self._hand_over(shares, lambda error: self._data_synced(jobs, dirs, size, error))

    def _data_synced(
        self, jobs: list[SyncJob], dirs: list[str], size: int, error: BaseException | None
    ) -> None:
        if self._loop is not None:
            self._file_s = (self._loop.time() - self._handed_over_s) / size
        if error is not None or not dirs or self._stopped:
            return self._ended(jobs, error)
        shares: list[_Share] = [([], share) for share in _shares(dirs, FILES_PER_CALL)]
        self._hand_over(shares, lambda error: self._ended(jobs, error))

    def _hand_over(
        self, shares: list[_Share], then: Callable[[BaseException | None], None]
    ) -> None:
        """Sync in threads; ``then`` is called when all have ended, with the first failure or
        None."""
        assert self._loop is not None
        left = len(shares)
        first: BaseException | None = None

        def ended(done: asyncio.Future[None]) -> None:
            nonlocal left, first
            left -= 1
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            first = first or error
            if not left:
                then(first)

        for files, dirs in shares:
            future = self._loop.run_in_executor(self._lane, _sync, self._pool.files, files, dirs)
            future.add_done_callback(ended)

    def _is_small(self, jobs: list[SyncJob], files: list[File], dirs: list[str]) -> bool:
        return (
            not dirs
            and len(files) <= INLINE_FILES_MAX
            and sum(job.dirty_bytes for job in jobs) <= self._inline_bytes_max
            and self._loop is not None
            and self._loop.time() >= self._inline_from
        )

    def _sync_inline(self, jobs: list[SyncJob], files: list[File]) -> None:
        assert self._loop is not None
        began = self._loop.time()
        error: OSError | None = None
        try:
            _sync(self._pool.files, files, [])
        except OSError as failure:
            error = failure
        ended = self._loop.time()
        took_s = ended - began
        if took_s > INLINE_SECONDS_MAX:
            self._inline_from = ended + min(INLINE_PAUSE_RATIO * took_s, INLINE_PAUSE_MAX_S)
        self._end(jobs, error)

    def _begin(self) -> list[SyncJob]:
        self._dirty.update(self._waiting)
        self._waiting.clear()
        jobs = [log.begin_sync() for log in self._next_logs()]
        self._running = True
        self.rounds += 1
        if self._stopwatch is not None:
            self._began = self._stopwatch()
        if self._loop is not None:
            self._round_began_s = self._loop.time()
        self._pool.sync_began()
        return jobs

    def _nearly_over(self) -> None:
        assert self._loop is not None
        self._deadline = self._loop.call_later(LAST_SHARE * self._timeout_s, self._give_up)

    def _give_up(self) -> None:
        """Give up a round that takes too long. Its files stay open until it ends, if it ever
        does."""
        self._deadline = None
        self._running = False
        self.stop()
        self._wake_round()
        self._on_failure(SyncTimeoutError(f"no sync ended within {self._timeout_s:g} s"))
        self._wake_idle()

    def _ended(self, jobs: list[SyncJob], error: BaseException | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._end(jobs, error)

    def _next_logs(self) -> list[Syncable]:
        """Return the logs of the next round, and take them out of what is dirty."""
        logs = list(islice(self._dirty, ROUND_LOGS_MAX))
        for log in logs:
            del self._dirty[log]
            self._new.pop(log, None)
        new = list(islice(self._new, ROUND_NEW_LOGS_MAX if logs else ROUND_LOGS_MAX))
        for log in new:
            del self._new[log]
        return logs + new

    def _end(self, jobs: list[SyncJob], error: BaseException | None) -> None:
        self._running = False
        if self._stopwatch is not None:
            self.seconds.observe(self._stopwatch() - self._began)
        if self._on_round is not None and self._loop is not None:
            now = self._loop.time()
            self._on_round(now - self._round_began_s, now)
        self._pool.sync_ended()
        self._wake_round()
        for job in jobs:
            for file in job.once:
                file.close()
        if error is not None:
            if self._stopped:
                return self._wake_idle()
            self.stop()
            failure = error if isinstance(error, OSError) else OSError(f"sync failed: {error!r}")
            self._on_failure(failure)
        elif not self._stopped:
            for job in jobs:
                try:
                    job.log.finish_sync(job)
                except Exception:
                    logger.exception("sync_callback_failed")
            self._pool.trim()
        if self._is_dirty and not self._scheduled and not self._stopped:
            self._schedule()
        self._wake_idle()

    def _wake_round(self) -> None:
        waiters, self._round_waiters = self._round_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _wake_idle(self) -> None:
        if not self._running and (not self._is_dirty or self._stopped):
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _files_per_call(file_s: float) -> int:
    """Return how many files one thread syncs, on a disk that takes ``file_s`` seconds for each."""
    if file_s * FILES_PER_CALL_MAX <= CALL_S:
        return FILES_PER_CALL_MAX
    return max(FILES_PER_CALL, int(CALL_S / file_s))


def _shares(items: list[T], size: int) -> list[list[T]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def _work(jobs: list[SyncJob]) -> tuple[list[File], list[str]]:
    files = [file for job in jobs for file in (*job.files, *job.once)]
    dirs = dict.fromkeys(directory for job in jobs for directory in job.dirs)
    return files, list(dirs)


def _sync(files_port: Files, files: list[File], dirs: list[str]) -> None:
    """Make data durable first, then the names that lead to it. This runs in a thread."""
    for file in files:
        file.sync()
    for directory in dirs:
        files_port.sync_dir(directory)
