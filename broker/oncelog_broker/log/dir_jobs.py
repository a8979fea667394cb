"""A log directory has jobs done in threads, which block for as long as its disk likes.

Rules: every directory has threads of its own, so that a disk that hangs holds up no other [K26];
syncs have one more to themselves, so that nothing else makes an acknowledgement wait. A job that
has begun cannot be stopped. ``abandon`` lets all who wait for one go on without it: they hear an
OSError, and whatever the job still does is ignored.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from oncelog_runtime.files import Files
from oncelog_runtime.lanes import Lane
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SYNC = " sync"
"""It ends the name of a lane of sync rounds."""
SYNC_THREADS = 32
"""One directory syncs so many files of a round at a time. Threads are started when they are
needed."""
WORK_THREADS = 4
"""One directory has so many more: checkpoints, compaction, scrubbing and removals seldom meet."""


class DirJobs:
    """It keeps the threads of one directory, and knows who waits for them."""

    def __init__(self, path: str, files: Files) -> None:
        self.sync_lane = Lane(path + SYNC, SYNC_THREADS)
        """Only sync rounds run in it."""
        self._lane = Lane(path, WORK_THREADS)
        self._files = files
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._abandoned = ""

    def __len__(self) -> int:
        """Return how many jobs somebody waits for."""
        return len(self._waiting)

    def _start(
        self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._lane, lambda: job(*args, **kwargs))

    def run(self, job: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run ``job`` in a thread. The future gets what it returns or raises, and OSError once the
        disk hangs and the job was given up. The job does not end with whoever waits for it."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._abandoned:
            answer.set_exception(_hangs(self._abandoned))
            return answer
        self._waiting[answer] = None
        self._start(job, *args, **kwargs).add_done_callback(lambda done: self._done(answer, done))
        return answer

    def _done(self, answer: asyncio.Future[T], done: asyncio.Future[T]) -> None:
        self._waiting.pop(answer, None)
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if answer.done():
            return
        if error is None:
            answer.set_result(done.result())
        elif done.cancelled():
            answer.cancel()
        else:
            answer.set_exception(error)

    def abandon(self, why: str) -> None:
        """Give up all jobs, as the disk hangs: nobody waits for it any longer, and nobody asks it
        for more."""
        self._abandoned = why
        for answer in list(self._waiting):
            if not answer.done():
                answer.set_exception(_hangs(why))

    async def write_atomic(self, path: str, data: bytes) -> None:
        """Replace a whole file, as ``Files.write_atomic`` does. Raises OSError."""
        await self.run(_write_aside, self._files, path, data)
        await self.run(_put_in_place, self._files, path)

    def remove(self, paths: Iterable[str]) -> None:
        """Unlink files. Nobody waits; files that are left at the end go at the next start."""
        if not self._abandoned:
            self._start(_unlink, self._files, list(paths)).add_done_callback(_forget)

    def close(self) -> None:
        """Take no more jobs. Callers that wait for one hear so; a thread that hangs is left
        behind."""
        self.abandon(self._abandoned or "the directory is closed")
        self.sync_lane.shutdown()
        self._lane.shutdown()


def _hangs(why: str) -> OSError:
    return OSError(errno.EIO, why)


def _forget(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()


def _write_aside(files: Files, path: str, data: bytes) -> None:
    file = files.open(path + ".tmp", create=True)
    try:
        file.truncate(0)
        file.append([data])
        file.sync()
    finally:
        file.close()


def _put_in_place(files: Files, path: str) -> None:
    files.rename(path + ".tmp", path)
    files.sync_dir(path.rpartition("/")[0])


def _unlink(files: Files, paths: list[str]) -> None:
    for path in paths:
        try:
            files.remove(path)
        except OSError as error:
            # Not data any more; the next start tries again.
            logger.debug("file_not_removed", path=path, error=error)
