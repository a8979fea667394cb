"""A loop in a thread gives results and errors, keeps order and deadlines, is interrupted, and
ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from oncelog import loop_thread
from oncelog.errors import ClosedError
from oncelog.loop_thread import LoopThread


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise KeyError("why")


def test_calls_return_and_raise() -> None:
    thread = LoopThread("oncelog-test")
    try:
        assert thread.running
        assert thread.call(double(4)) == 8
        with pytest.raises(KeyError, match="why"):
            thread.call(fail())
        assert thread.submit(double(5)).result(10) == 10
    finally:
        thread.stop()
    ended = not thread.running
    assert ended
    with pytest.raises(ClosedError):
        thread.call(double(1))
    thread.stop()


def test_what_was_submitted_first_begins_first() -> None:
    thread = LoopThread("oncelog-test")
    begun: list[int] = []

    async def begin(number: int) -> None:
        begun.append(number)

    try:
        for future in [thread.submit(begin(number)) for number in range(100)]:
            future.result(10)
        assert begun == list(range(100))
    finally:
        thread.stop()


def test_who_gives_up_cancels() -> None:
    thread = LoopThread("oncelog-test")
    cancelled: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def look() -> None:
        while not cancelled:
            await asyncio.sleep(0)

    try:
        with pytest.raises(TimeoutError):
            thread.call(wait(), 0.01)
        thread.call(look(), 10)
    finally:
        thread.stop()


def test_the_loop_does_not_wait_for_itself_and_takes_errands() -> None:
    thread = LoopThread("oncelog-test")

    async def call_from_within() -> None:
        thread.call(double(1))

    async def visit() -> int:
        return await thread.visit(lambda: 7)

    told: list[int] = []

    async def look() -> None:
        while not told:
            await asyncio.sleep(0)

    try:
        with pytest.raises(RuntimeError, match="wait for ever"):
            thread.call(call_from_within())
        assert asyncio.run(visit()) == 7
        thread.tell(lambda: told.append(1))
        thread.call(look(), 10)
    finally:
        thread.stop()


@pytest.mark.parametrize("ending", [True, False])
def test_tasks_that_are_left_end_with_the_loop(
    ending: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that nobody closed leaves some: without an end they are "destroyed but pending"."""
    if not ending:

        async def nothing() -> None:
            pass

        monkeypatch.setattr(loop_thread, "_end_tasks", nothing)
    thread = LoopThread("oncelog-test")
    ended: list[str] = []
    kept: list[asyncio.Task[None]] = []

    async def background() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("background")

    async def begin() -> None:
        kept.append(asyncio.get_running_loop().create_task(background()))

    thread.call(begin())
    thread.call(double(1))
    thread.stop()
    assert ended == (["background"] if ending else [])
    kept.clear()
    gc.collect()
    assert ("destroyed" in caplog.text) is not ending
