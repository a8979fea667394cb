"""A cluster lives in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oncelog_testing.thread import ClusterClosedError, ClusterThread


@pytest.fixture
def thread() -> Iterator[ClusterThread]:
    thread = ClusterThread("a-cluster", inline_jobs=True)
    yield thread
    thread.stop()


def test_calls_return_what_was_returned_and_raise_what_was_raised(thread: ClusterThread) -> None:
    async def answer(value: int) -> int:
        await asyncio.sleep(0)
        if value < 0:
            raise ValueError("below 0")
        return value

    assert thread.call(answer(3), "answer") == 3
    with pytest.raises(ValueError, match="below 0"):
        thread.call(answer(-1), "answer")


async def test_a_call_from_inside_of_a_loop_is_refused(thread: ClusterThread) -> None:
    async def never() -> None: ...

    with pytest.raises(RuntimeError, match=r"use await cluster\.aio\.wait\(\.\.\.\)"):
        thread.call(never(), "wait")


def test_the_end_cancels_what_still_runs(thread: ClusterThread) -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    async def begin() -> None:
        tasks.append(asyncio.get_running_loop().create_task(for_ever()))
        await asyncio.sleep(0)

    tasks: list[asyncio.Task[None]] = []
    thread.call(begin(), "begin")
    thread.stop()
    thread.stop()
    assert ended == ["cancelled"]
    with pytest.raises(ClusterClosedError):
        thread.call(for_ever(), "for_ever")
