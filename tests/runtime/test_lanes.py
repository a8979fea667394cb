"""Lanes return results, run so many at a time, and let nobody wait for a call that hangs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from oncelog_runtime.lanes import Lane
from support.waiting import eventually

HANGS = """
import asyncio, threading
from oncelog_runtime.lanes import Lane

async def main():
    lane = Lane("hung")
    begun = threading.Event()
    def hang():
        begun.set()
        threading.Event().wait()
    asyncio.get_running_loop().run_in_executor(lane, hang)
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    lane.shutdown(wait=True)

asyncio.run(main())
print("ended")
"""


async def test_results_and_errors_come_back() -> None:
    loop = asyncio.get_running_loop()
    lane = Lane("disk")
    assert await loop.run_in_executor(lane, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await loop.run_in_executor(lane, divmod, 7, 0)
    lane.shutdown()


async def test_so_many_at_a_time_in_threads_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    lane = Lane("disk", 2)
    running: list[str] = []
    gate = threading.Event()

    def work() -> str:
        running.append(threading.current_thread().name)
        gate.wait(10)
        return threading.current_thread().name

    calls = [loop.run_in_executor(lane, work) for _ in range(5)]
    await eventually(lambda: len(running) == 2)
    assert len(running) == 2
    gate.set()
    assert {*await asyncio.gather(*calls)} <= {"disk-1", "disk-2"}
    lane.shutdown()


async def test_a_thread_that_is_free_is_used_again() -> None:
    loop = asyncio.get_running_loop()
    lane = Lane("disk", 8)
    names = []
    for _ in range(3):
        names.append(await loop.run_in_executor(lane, lambda: threading.current_thread().name))
        await eventually(lambda: lane._idle > 0)
    assert names == ["disk-1"] * 3
    lane.shutdown()


def threads_of(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith(f"{name}-")]


async def test_threads_without_work_end_and_are_started_again() -> None:
    loop = asyncio.get_running_loop()
    lane = Lane("burst", 4, idle_s=0.05)
    for _ in range(2):
        together = threading.Barrier(4)
        await asyncio.gather(*(loop.run_in_executor(lane, together.wait, 10) for _ in range(4)))
        await eventually(lambda: not threads_of("burst"))
    lane.shutdown()


async def test_no_call_is_lost_to_a_thread_that_ends() -> None:
    """Calls come just when idle threads give up waiting."""
    loop = asyncio.get_running_loop()
    lane = Lane("edge", 2, idle_s=0.001)
    for number in range(500):
        calls = [loop.run_in_executor(lane, divmod, number, 7) for _ in range(1 + number % 3)]
        assert await asyncio.wait_for(asyncio.gather(*calls), 10) == [divmod(number, 7)] * len(
            calls
        )
        await asyncio.sleep(0.0005 * (number % 5))
    await eventually(lambda: not threads_of("edge"))
    assert lane._idle == lane._threads == 0
    lane.shutdown()


async def test_a_thread_at_work_does_not_end() -> None:
    loop = asyncio.get_running_loop()
    lane = Lane("busy", 2, idle_s=0.01)
    gate = threading.Event()
    long = loop.run_in_executor(lane, gate.wait, 30)
    await loop.run_in_executor(lane, divmod, 7, 2)
    await eventually(lambda: len(threads_of("busy")) == 1)
    gate.set()
    assert await long
    lane.shutdown()


async def test_a_lane_that_hangs_holds_up_no_other() -> None:
    loop = asyncio.get_running_loop()
    hung, other = Lane("hung"), Lane("other")
    gate = threading.Event()
    stuck = loop.run_in_executor(hung, gate.wait, 30)
    behind = loop.run_in_executor(hung, divmod, 7, 2)
    assert await loop.run_in_executor(other, divmod, 7, 2) == (3, 1)
    assert not stuck.done()
    hung.shutdown(wait=True)
    with pytest.raises(asyncio.CancelledError):
        await behind
    with pytest.raises(RuntimeError, match="hung is closed"):
        hung.submit(divmod, 7, 2)
    gate.set()
    assert await stuck
    other.shutdown()


def test_a_call_that_hangs_does_not_keep_the_process_from_ending() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)
