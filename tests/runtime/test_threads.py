"""Calls in threads give results, run so many at a time, and end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncelog_runtime.threads import Threads
from support.waiting import eventually


async def test_results_and_errors_come_back() -> None:
    threads = Threads(2, "test")
    assert await threads.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.call(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.call(next, iter(()))
    threads.close()


async def test_so_many_at_a_time_and_not_in_the_loops_thread() -> None:
    threads = Threads(3, "test")
    running: list[str] = []
    gate = threading.Event()

    def work() -> str:
        running.append(threading.current_thread().name)
        gate.wait(10)
        return threading.current_thread().name

    calls = [asyncio.create_task(threads.call(work)) for _ in range(5)]
    await eventually(lambda: len(running) == 3)
    assert len(running) == 3
    gate.set()
    names = await asyncio.gather(*calls)
    assert len(names) == 5
    assert threading.current_thread().name not in names
    threads.close()


async def test_closing_leaves_behind_what_has_begun() -> None:
    threads = Threads(1, "test")
    gate, done = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait(10)
        done.set()

    begun = asyncio.create_task(threads.call(work))
    waiting = asyncio.create_task(threads.call(work))
    await asyncio.sleep(0)
    threads.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await begun
    assert done.is_set()
    with pytest.raises(RuntimeError):
        await threads.call(work)
