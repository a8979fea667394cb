"""Rounds of group commit begin, cover so much, and end."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog_broker.log.flusher import (
    FILES_PER_CALL,
    FILES_PER_CALL_MAX,
    INLINE_PAUSE_MAX_S,
    INLINE_PAUSE_RATIO,
    INLINE_SECONDS_MAX,
    ROUND_LOGS_MAX,
    ROUND_NEW_LOGS_MAX,
    Flusher,
    SyncJob,
    SyncTimeoutError,
)
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_runtime.files import File
from oncelog_runtime.lanes import Lane
from oncelog_testing.memory.files import MemoryFiles
from support.waiting import eventually


class OneFile:
    """It is a log that is one file; it counts how far it was synced."""

    def __init__(self, files: MemoryFiles, flusher: Flusher, name: str) -> None:
        self.file: File = files.open(f"/d/{name}", create=True)
        self.flusher = flusher
        self.synced = 0
        self.finished: list[int] = []
        self.rounds: list[int] = []
        """The numbers of the rounds that it was in."""
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
        self.rounds.append(self.flusher.rounds)
        if self.on_finish is not None:
            self.on_finish()


def make(interval_ms: int = 10, threads: int = 1) -> tuple[MemoryFiles, Flusher, list[OSError]]:
    files = MemoryFiles("/d")
    failures: list[OSError] = []
    pool = OpenSegments(files, 10)
    lane = Lane("/d", threads)
    flusher = Flusher(pool, lane=lane, interval_ms=interval_ms, on_failure=failures.append)
    return files, flusher, failures


async def test_an_append_when_idle_is_synced_at_once_and_without_a_timer() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append()
    assert log.synced == 0
    await eventually(lambda: log.synced == 1)
    assert files.durable_bytes("/d/a") == b"x"
    assert flusher.rounds == 1


async def test_who_wants_to_know_is_told_how_long_each_round_took() -> None:
    files, flusher, _ = make()
    told: list[tuple[float, float]] = []
    flusher.tell_rounds(lambda seconds, now: told.append((seconds, now)))
    loop = asyncio.get_running_loop()
    flusher.start(loop)
    log = OneFile(files, flusher, "a")
    for count in (1, 2):
        log.append()
        await flusher.idle()
        assert len(told) == count
    assert min(seconds for seconds, _ in told) >= 0
    assert told[0][1] <= told[1][1] <= loop.time()
    assert flusher.rounds == 2


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


async def test_drain_waits_for_nothing_else() -> None:
    files, flusher, _ = make(interval_ms=3_600_000)
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append(later=True)
    await flusher.drain()
    assert log.synced == 1
    flusher.stop()


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


async def test_a_failed_directory_sync_counts_as_one() -> None:
    files, flusher, failures = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    files.fail("sync_dir", "/d")
    log.append()
    await eventually(lambda: failures)
    assert log.synced == 0


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


async def test_a_forgotten_log_is_not_synced() -> None:
    files, flusher, _ = make()
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append()
    flusher.forget(log)
    await flusher.idle()
    await asyncio.sleep(0)
    assert log.finished == []


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


async def test_many_files_are_synced_side_by_side_and_names_after_all_of_them() -> None:
    threads = 4
    files, flusher, _ = make(threads=threads)
    flusher.start(asyncio.get_running_loop())
    logs = [OneFile(files, flusher, f"f{number}") for number in range(threads * FILES_PER_CALL)]
    together = threading.Barrier(threads)
    done: list[str] = []

    def meet(operation: str, path: str) -> None:
        if operation == "sync" and int(path.removeprefix("/d/f")) % FILES_PER_CALL == 0:
            together.wait(30)  # the first file of each thread: broken if they come one by one
        if operation in ("sync", "sync_dir"):
            done.append(operation)

    files.before_change = meet
    for log in logs:
        log.append()
    await flusher.idle()
    assert [log.synced for log in logs] == [1] * len(logs)
    assert done == ["sync"] * len(logs) + ["sync_dir"]


async def test_a_round_that_fails_in_one_thread_proves_nothing_of_any_file() -> None:
    files, flusher, failures = make(threads=4)
    flusher.start(asyncio.get_running_loop())
    logs = [OneFile(files, flusher, f"f{number}") for number in range(4 * FILES_PER_CALL)]
    files.fail("sync", "/d/f9")
    for log in logs:
        log.append()
    await eventually(lambda: failures)
    await flusher.idle()
    assert len(failures) == 1
    assert not any(log.finished for log in logs)


async def test_a_round_is_of_so_many_logs_those_first_that_wait_longest() -> None:
    files, flusher, _ = make(threads=4)
    flusher.start(asyncio.get_running_loop())
    logs = [OneFile(files, flusher, f"f{number}") for number in range(ROUND_LOGS_MAX + 10)]
    for log in logs:
        log.append()
    await flusher.idle()
    assert [log.rounds for log in logs] == [[1]] * ROUND_LOGS_MAX + [[2]] * 10


async def test_new_logs_do_not_hold_up_those_with_records() -> None:
    files, flusher, _ = make()
    new = [OneFile(files, flusher, f"n{number}") for number in range(5 * ROUND_NEW_LOGS_MAX)]
    log = OneFile(files, flusher, "a")
    for each in new:
        flusher.mark_new(each)
    log.append()
    for each in new[-2:]:
        each.append()  # no longer only new
    flusher.forget(new[0])
    flusher.start(asyncio.get_running_loop())
    await flusher.idle()
    assert log.rounds == [1]
    late = len(new) - 1 - ROUND_NEW_LOGS_MAX - 2
    # Without others, all at once.
    assert [each.rounds for each in new] == (
        [[], *[[1]] * ROUND_NEW_LOGS_MAX, *[[2]] * late, [1], [1]]
    )


def test_without_a_loop_new_logs_are_synced_on_demand() -> None:
    files, flusher, _ = make()
    log = OneFile(files, flusher, "a")
    flusher.mark_new(log)
    flusher.sync_now()
    assert log.finished == [0]


class SmallWrites(OneFile):
    """It tells how little is dirty."""

    def begin_sync(self) -> SyncJob:
        return SyncJob(self, self.file.size(), files=[self.file], dirty_bytes=1)


class CountingLoop:
    """It counts what goes to its executor, and its clock is set by hand."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.handed_over = 0
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def call_soon(self, *arguments: Any) -> asyncio.Handle:
        return self._loop.call_soon(*arguments)

    def call_later(self, *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(*arguments)

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[None]:
        self.handed_over += 1
        return self._loop.run_in_executor(*arguments)


def small(files: MemoryFiles, flusher: Flusher) -> tuple[CountingLoop, SmallWrites]:
    loop = CountingLoop()
    flusher.start(cast(asyncio.AbstractEventLoop, loop))
    return loop, SmallWrites(files, flusher, "small")


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


@pytest.mark.parametrize(
    ("took_s", "pause_s"),
    [
        (2 * INLINE_SECONDS_MAX, 2 * INLINE_SECONDS_MAX * INLINE_PAUSE_RATIO),
        (3.0, INLINE_PAUSE_MAX_S),
    ],
)
async def test_a_slow_disk_is_left_to_the_executor_for_a_while(
    took_s: float, pause_s: float
) -> None:
    files, flusher, _ = make()
    loop, log = small(files, flusher)

    def stall(operation: str, _path: str) -> None:
        if operation == "sync":
            loop.now += took_s

    log.append()
    files.before_change = stall
    await flusher.idle()
    files.before_change = None
    loop.now += 0.9 * pause_s
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (2, 1)
    loop.now += 0.2 * pause_s
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (3, 1)


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


async def test_nothing_is_synced_on_the_loop_when_that_is_switched_off() -> None:
    files = MemoryFiles("/d")
    failures: list[OSError] = []
    flusher = Flusher(
        OpenSegments(files, 10),
        lane=Lane("/d"),
        interval_ms=10,
        on_failure=failures.append,
        inline_bytes_max=0,
    )
    loop, log = small(files, flusher)
    log.append()
    await flusher.idle()
    assert (log.synced, loop.handed_over) == (1, 1)


class HungFiles(MemoryFiles):
    """Directories do not become durable until told so."""

    def __init__(self) -> None:
        super().__init__("/d")
        self.answers = threading.Event()

    def sync_dir(self, path: str) -> None:
        self.answers.wait(30)
        super().sync_dir(path)


async def test_a_sync_that_does_not_end_is_given_up_and_its_files_stay_open() -> None:
    files = HungFiles()
    failures: list[OSError] = []
    pool = OpenSegments(files, 10)
    flusher = Flusher(
        pool, lane=Lane("/d"), interval_ms=10, on_failure=failures.append, timeout_ms=30
    )
    flusher.start(asyncio.get_running_loop())
    log = OneFile(files, flusher, "a")
    log.append()
    await eventually(lambda: bool(failures))
    assert isinstance(failures[0], SyncTimeoutError)
    await flusher.drain()
    await flusher.round_over()
    aside = files.open("/d/b", create=True)
    pool.close_file(aside)
    assert aside.size() == 0
    aside.append([b"open as long as the sync runs"])
    files.answers.set()
    await eventually(lambda: files.open_count == 1)
    log.append()
    await flusher.idle()
    assert (log.synced, len(failures)) == (0, 1), "whatever comes of it"


class StandingLoop(CountingLoop):
    """Its timers run when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[Callable[[], None]] = []

    def call_later(self, _delay_s: float, *arguments: Any) -> asyncio.TimerHandle:
        callback = arguments[0]
        self.timers.append(callback)
        return self._loop.call_later(3600.0, callback)


async def test_a_process_that_stood_still_gives_up_no_round() -> None:
    files, flusher, failures = make()
    loop = StandingLoop()
    flusher.start(cast(asyncio.AbstractEventLoop, loop))
    go_on, ended = threading.Event(), threading.Event()

    def take(operation: str, _path: str) -> None:
        if operation == "sync":
            go_on.wait(30)
        elif operation == "sync_dir":
            ended.set()

    files.before_change = take
    log = OneFile(files, flusher, "a")
    log.append()
    await eventually(lambda: loop.timers)
    # The process stands still here: the disk goes on, and then the time is over.
    go_on.set()
    assert ended.wait(30)
    loop.timers.pop()()
    await flusher.idle()
    assert (log.synced, failures) == (1, [])


async def test_a_round_that_takes_a_third_of_its_time_stalls() -> None:
    files = HungFiles()
    flusher = Flusher(
        OpenSegments(files, 10),
        lane=Lane("/d"),
        interval_ms=10,
        on_failure=lambda _: None,
        timeout_ms=30_000,
    )
    loop = CountingLoop()
    flusher.start(cast(asyncio.AbstractEventLoop, loop))
    log = OneFile(files, flusher, "a")
    loop.now = 100.0
    log.append()
    await eventually(lambda: flusher.rounds == 1)
    seen = []
    for loop.now in (109.9, 110.0):
        seen.append(flusher.stalled_since)
    files.answers.set()
    await flusher.idle()
    assert [*seen, flusher.stalled_since] == [None, 100.0, None]


async def test_a_quick_disk_is_served_by_few_threads_and_a_slow_one_by_many() -> None:
    files, flusher, _ = make(threads=4)
    loop = CountingLoop()
    flusher.start(cast(asyncio.AbstractEventLoop, loop))
    count = 4 * FILES_PER_CALL_MAX
    logs = [OneFile(files, flusher, f"f{number}") for number in range(count)]

    async def calls(round_s: float) -> int:
        before = loop.handed_over

        def take(operation: str, path: str) -> None:
            if (operation, path) == ("sync", "/d/f0"):
                loop.now += round_s

        files.before_change = take
        for log in logs:
            log.append()
        await flusher.idle()
        return loop.handed_over - before - 1  # one is for the directory

    few, many = count // FILES_PER_CALL_MAX, count // FILES_PER_CALL
    assert await calls(0.0004) == many  # nothing is known of the disk yet
    assert await calls(0.0004) == few
    assert await calls(0.1) == few
    assert await calls(0.1) == many
    assert [log.synced for log in logs] == [4] * count
