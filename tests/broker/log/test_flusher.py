"""Group commit: when rounds begin, what they cover, and how they end."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog_broker.log.flusher import (
    INLINE_PAUSE_S,
    INLINE_SECONDS_MAX,
    Flusher,
    SyncJob,
)
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_runtime.files import File
from oncelog_testing.memory.files import MemoryFiles
from support.waiting import eventually


class OneFile:
    """A log that is one file; it counts how far it was synced."""

    def __init__(self, files: MemoryFiles, flusher: Flusher, name: str) -> None:
        self.file: File = files.open(f"/d/{name}", create=True)
        self.flusher = flusher
        self.synced = 0
        self.finished: list[int] = []
        self.on_finish: Callable[[], None] | None = None

    def append(self, size: int = 1, *, later: bool = False) -> None:
        self.file.append([b"x" * size])
        if later:
            self.flusher.mark_later(self)
        else:
            self.flusher.mark(self)

    def begin_sync(self) -> SyncJob:
        return SyncJob(self, self.file.size(), files=[self.file], dirs=["/d"])

    def finish_sync(self, job: SyncJob) -> None:
        self.synced = job.end_offset
        self.finished.append(job.end_offset)
        if self.on_finish is not None:
            self.on_finish()


def make(interval_ms: int = 10) -> tuple[MemoryFiles, Flusher, list[OSError]]:
    files = MemoryFiles("/d")
    failures: list[OSError] = []
    pool = OpenSegments(files, 10)
    return files, Flusher(pool, interval_ms=interval_ms, on_failure=failures.append), failures


@pytest.mark.asyncio
async def test_an_append_when_idle_is_synced_at_once_and_without_a_timer() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append()
    assert log.synced == 0
    await eventually(lambda: log.synced == 1)
    assert files.durable_bytes("/d/a") == b"x"
    assert flusher.rounds == 1


@pytest.mark.asyncio
async def test_appends_of_one_iteration_share_a_round() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    logs = [OneFile(files, flusher, f"f{number}") for number in range(20)]
    for log in logs:
        log.append()
        log.append()
    await flusher.idle()
    assert [log.finished for log in logs] == [[2]] * 20
    assert flusher.rounds == 1


@pytest.mark.asyncio
async def test_what_comes_during_a_round_goes_into_the_next() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")

    def more() -> None:
        if log.file.size() < 5:
            log.append()

    log.on_finish = more
    log.append()
    await flusher.idle()
    assert log.finished == [1, 2, 3, 4, 5]
    assert flusher.rounds == 5


@pytest.mark.asyncio
async def test_what_may_wait_waits_for_the_interval_or_for_a_round() -> None:
    files, flusher, _ = make(interval_ms=20)
    flusher.start(asyncio.get_running_loop())
    patient, urgent = OneFile(files, flusher, "a"), OneFile(files, flusher, "b")
    patient.append(later=True)
    await flusher.idle()
    assert flusher.rounds == 0
    await eventually(lambda: patient.synced == 1)
    patient.append(later=True)
    urgent.append()
    await flusher.idle()
    assert (patient.synced, urgent.synced) == (2, 1)


@pytest.mark.asyncio
async def test_drain_waits_for_nothing_else() -> None:
    files, flusher, _ = make(interval_ms=3_600_000)
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append(later=True)
    await flusher.drain()
    assert log.synced == 1
    flusher.stop()


@pytest.mark.asyncio
async def test_a_failed_sync_stops_for_good() -> None:
    files, flusher, failures = make()
    flusher.start(asyncio.get_running_loop())
    log, other = OneFile(files, flusher, "a"), OneFile(files, flusher, "b")
    files.fail("sync", "/d/a")
    log.append()
    other.append()
    await eventually(lambda: failures)
    log.append()
    await flusher.idle()
    await flusher.drain()
    assert len(failures) == 1
    assert (log.synced, other.synced) == (0, 0)
    assert flusher.rounds == 1


@pytest.mark.asyncio
async def test_a_failed_directory_sync_counts_as_one() -> None:
    files, flusher, failures = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    files.fail("sync_dir", "/d")
    log.append()
    await eventually(lambda: failures)
    assert log.synced == 0


@pytest.mark.asyncio
async def test_a_callback_that_fails_does_not_stop_the_others() -> None:
    files, flusher, failures = make()
    flusher.start(asyncio.get_running_loop())
    bad, good = OneFile(files, flusher, "a"), OneFile(files, flusher, "b")

    def fail() -> None:
        raise RuntimeError("a bug elsewhere")

    bad.on_finish = fail
    bad.append()
    good.append()
    await flusher.idle()
    assert good.synced == 1
    good.append()
    await flusher.idle()
    assert good.synced == 2
    assert failures == []


@pytest.mark.asyncio
async def test_a_forgotten_log_is_not_synced() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append()
    flusher.forget(log)
    await flusher.idle()
    await asyncio.sleep(0)
    assert log.finished == []


@pytest.mark.asyncio
async def test_after_stop_a_round_under_way_reports_nothing() -> None:
    files, flusher, failures = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    files.fail("sync", "/d/a")
    log.append()
    await asyncio.sleep(0)
    flusher.stop()
    await flusher.idle()
    assert failures == []
    assert log.finished == []


def test_without_a_loop_rounds_run_on_demand() -> None:
    files, flusher, failures = make()
    log = OneFile(files, flusher, "a")
    log.append()
    log.append(later=True)
    assert log.synced == 0
    flusher.sync_now()
    assert log.synced == 2
    files.fail("sync", "/d/a")
    log.append()
    flusher.sync_now()
    assert len(failures) == 1
    assert log.synced == 2


@pytest.mark.asyncio
async def test_files_synced_once_are_closed_after_the_round() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    once = files.open("/d/once", create=True)
    once.append([b"meta"])
    begin = log.begin_sync

    def begin_with_more() -> SyncJob:
        job = begin()
        job.once.append(once)
        return job

    log.begin_sync = begin_with_more  # type: ignore[method-assign]
    log.append()
    await flusher.idle()
    assert files.durable_bytes("/d/once") == b"meta"
    with pytest.raises(OSError):
        once.append([b"x"])


class SmallWrites(OneFile):
    """A log that tells how little is dirty."""

    def begin_sync(self) -> SyncJob:
        return SyncJob(self, self.file.size(), files=[self.file], dirty_bytes=1)


class CountingLoop:
    """A running loop that counts what goes to its executor, with a clock set by hand."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.handed_over = 0
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def call_soon(self, *arguments: Any) -> asyncio.Handle:
        return self._loop.call_soon(*arguments)

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[None]:
        self.handed_over += 1
        return self._loop.run_in_executor(*arguments)


def small(files: MemoryFiles, flusher: Flusher) -> tuple[CountingLoop, SmallWrites]:
    loop = CountingLoop()
    flusher.start(cast(asyncio.AbstractEventLoop, loop))
    return loop, SmallWrites(files, flusher, "small")


@pytest.mark.asyncio
async def test_a_small_round_is_synced_on_the_loop_after_what_the_append_put_in_line() -> None:
    files, flusher, _ = make()
    loop, log = small(files, flusher)
    log.append()
    seen: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: seen.append(log.synced))
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (1, 0)
    assert seen == [0]
    assert files.durable_bytes("/d/small") == b"x"


@pytest.mark.asyncio
async def test_a_slow_disk_is_left_to_the_executor_for_a_while() -> None:
    files, flusher, _ = make()
    loop, log = small(files, flusher)

    def stall(operation: str, _path: str) -> None:
        if operation == "sync":
            loop.now += 2 * INLINE_SECONDS_MAX

    log.append()
    files.before_change = stall
    await flusher.idle()
    files.before_change = None
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (2, 1)
    loop.now += INLINE_PAUSE_S + 1
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (3, 1)


@pytest.mark.asyncio
async def test_a_sync_that_fails_on_the_loop_stops_the_directory_too() -> None:
    files, flusher, failures = make()
    _, log = small(files, flusher)
    log.append()
    files.fail("sync", "/d/small", error=errno.EIO)
    await flusher.idle()
    log.append()
    await flusher.idle()
    assert log.synced == 0
    assert [failure.errno for failure in failures] == [errno.EIO]


@pytest.mark.asyncio
async def test_nothing_is_synced_on_the_loop_when_that_is_switched_off() -> None:
    files = MemoryFiles("/d")
    failures: list[OSError] = []
    flusher = Flusher(
        OpenSegments(files, 10), interval_ms=10, on_failure=failures.append, inline_bytes_max=0
    )
    loop, log = small(files, flusher)
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (1, 1)
