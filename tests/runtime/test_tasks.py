"""A supervised task is never lost: its failure is heard, and closing waits for its end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from oncelog_runtime.tasks import Tasks, TasksClosedError


async def fail(message: str) -> None:
    raise RuntimeError(message)


async def test_a_result_can_be_awaited() -> None:
    async def answer() -> int:
        return 42

    tasks = Tasks("owner")
    task = tasks.spawn("answer", answer())
    assert task.get_name() == "owner/answer"
    assert await task == 42
    assert len(tasks) == 0
    await tasks.close()


async def test_a_failure_is_logged_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, str]] = []
    tasks = Tasks("owner", lambda name, error: heard.append((name, str(error))))
    task = tasks.spawn("loop", fail("broken"))
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 5)
        await asyncio.sleep(0)
    assert heard == [("loop", "broken")]
    assert [record.getMessage() for record in caplog.records] == [
        "task_failed owner=owner task=loop error='RuntimeError: broken'"
    ]
    await tasks.close()


async def test_close_cancels_newest_first_and_waits() -> None:
    ended: list[str] = []

    async def run(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    heard: list[str] = []
    tasks = Tasks("owner", lambda name, error: heard.append(name))
    for name in ("first", "second", "third"):
        tasks.spawn(name, run(name))
    await asyncio.sleep(0)
    assert repr(tasks) == "<Tasks owner: ['first', 'second', 'third']>"
    await tasks.close()
    assert ended == ["third", "second", "first"]
    assert heard == []
    assert tasks.closed
    assert len(tasks) == 0
    await tasks.close()


async def test_a_failure_while_closing_is_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("cleaning up failed")

    heard: list[str] = []
    tasks = Tasks("owner", lambda name, error: heard.append(f"{name}: {error}"))
    tasks.spawn("loop", run())
    await asyncio.sleep(0)
    await tasks.close()
    assert heard == ["loop: cleaning up failed"]


async def test_a_member_may_close_the_group() -> None:
    tasks = Tasks("owner")
    others = tasks.spawn("other", asyncio.Event().wait())

    async def end_all() -> str:
        await tasks.close()
        return "ended by itself"

    assert await tasks.spawn("closer", end_all()) == "ended by itself"
    assert others.cancelled()


async def test_nothing_starts_after_close() -> None:
    tasks = Tasks("owner")
    await tasks.close()
    with pytest.raises(TasksClosedError, match="owner is closed: late was not started"):
        tasks.spawn("late", fail("never run"))
