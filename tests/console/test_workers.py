"""Programs run beside the console, not too many, and none outlives its use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from oncelog_console import workers as workers_module
from oncelog_console.workers import TooManyWorkersError, Workers
from support.waiting import eventually


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def all_children() -> list[int]:
    """Return the processes that this one has started, and that are there."""
    return [
        int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    ]


OTHERS: set[int] = set()
"""Other tests of this process have started these: a browser or ZooKeeper serve many tests."""


@pytest.fixture(autouse=True)
def only_own() -> None:
    """Leave out what ran before the test."""
    OTHERS.clear()
    OTHERS.update(all_children())


def children() -> list[int]:
    """Return the processes that this test has started, and that are there."""
    return [pid for pid in all_children() if pid not in OTHERS]


async def test_no_more_than_so_many() -> None:
    workers = Workers(1, "searches")
    worker = workers.take()
    with pytest.raises(TooManyWorkersError, match="1 searches are running"):
        workers.take()
    async with worker.running("json.tool", b"") as said:
        assert workers.running == 1
        del said
    assert workers.running == 0
    workers.take()


async def test_what_a_program_says_and_why_it_failed() -> None:
    worker = Workers(1, "searches").take()
    async with worker.running("oncelog_console.search_worker", b"nonsense\n") as said:
        assert await said.read() == b""
        code, complaint = await worker.result()
    assert code == 1
    assert "JSONDecodeError" in complaint


async def test_a_program_is_ready_before_its_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(2, "searches")
    workers.prepare("code")
    workers.prepare("code")
    await eventually(lambda: len(children()) == 1)
    (ready,) = children()
    async with workers.take().running("code", b"print(6 * 7)\n") as said:
        assert children() == [ready], "no other one was started"
        assert await said.readuntil(b"42") is not None
    await eventually(lambda: not children())
    async with workers.take().running("code", b""):
        assert children() != [ready]
    monkeypatch.setattr(workers_module, "READY_S", 0.01)
    workers.prepare("code")
    await eventually(lambda: len(children()) == 1)
    await eventually(lambda: not children())
    workers.prepare("code")
    await workers.close()
    assert not children()


async def test_a_program_is_kept_ready_while_it_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = Workers(1, "searches")
    monkeypatch.setattr(workers_module, "READY_S", 0.01)
    workers.prepare("code")
    monkeypatch.setattr(workers_module, "READY_S", 60.0)
    workers.prepare("code")  # its time begins again
    await eventually(lambda: len(children()) == 1)
    (ready,) = children()
    async with workers.take().running("code", b""):
        workers.prepare("code")
        await asyncio.sleep(0)
        assert children() == [ready], "there is no place for another one"
    await workers.close()


async def test_leaving_ends_the_program() -> None:
    worker = Workers(1, "searches").take()
    began = asyncio.Event()
    pids: list[int] = []

    async def use() -> None:
        async with worker.running("code", b""):
            pids.extend(children())
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(use())
    await began.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert pids
    await eventually(lambda: not any(map(is_there, pids)))
