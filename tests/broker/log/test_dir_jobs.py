"""Jobs of one directory return values, and others go on without them when the disk hangs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncelog_broker.log.dir_jobs import WORK_THREADS, DirJobs
from oncelog_testing.memory.files import MemoryFiles
from support.waiting import eventually


async def test_jobs_return_and_raise() -> None:
    jobs = DirJobs("/d", MemoryFiles("/d"))
    assert await jobs.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await jobs.run(divmod, 7, 0)
    assert len(jobs) == 0
    jobs.close()


async def test_a_file_is_replaced_durably() -> None:
    files = MemoryFiles("/d")
    jobs = DirJobs("/d", files)
    for data in (b"longer than the next", b"new"):
        await jobs.write_atomic("/d/a", data)
    assert files.durable_contents("/d") == {"/d/a": b"new"}
    jobs.close()


async def test_removals_are_not_waited_for_and_may_fail() -> None:
    files = MemoryFiles("/d")
    jobs = DirJobs("/d", files)
    files.open("/d/a", create=True).close()
    jobs.remove(["/d/missing", "/d/a"])
    await eventually(lambda: not files.exists("/d/a"))
    jobs.close()


async def test_who_waits_for_a_disk_that_hangs_is_let_go() -> None:
    jobs = DirJobs("/d", MemoryFiles("/d"))
    gate = threading.Event()
    stuck = [jobs.run(gate.wait, 30) for _ in range(WORK_THREADS + 2)]
    assert len(jobs) == len(stuck)
    jobs.abandon("it does not answer")
    for waiting in stuck:
        with pytest.raises(OSError, match="it does not answer"):
            await waiting
    with pytest.raises(OSError, match="it does not answer"):
        await jobs.run(divmod, 7, 2)
    jobs.remove(["/d/a"])
    jobs.close()
    gate.set()


async def test_a_directory_that_hangs_holds_up_no_other() -> None:
    hung, sound = DirJobs("/a", MemoryFiles("/a")), DirJobs("/b", MemoryFiles("/b"))
    gate = threading.Event()
    for _ in range(100):
        hung._start(gate.wait, 30)
    assert await sound.run(divmod, 7, 2) == (3, 1)
    assert await asyncio.get_running_loop().run_in_executor(hung.sync_lane, divmod, 7, 2) == (3, 1)
    gate.set()
    hung.close()
    sound.close()
