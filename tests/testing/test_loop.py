"""These tests set a cluster's time forward and run jobs on its loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import pairwise
from typing import Any

import pytest

from oncelog_testing.loop import STEPS_MAX, ClusterLoop

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def loop() -> Iterator[ClusterLoop]:
    loop = ClusterLoop(inline_jobs=True)
    yield loop
    loop.close()


def test_time_passes_from_timer_to_timer_in_their_order(loop: ClusterLoop) -> None:
    seen: list[tuple[str, int]] = []

    async def main() -> None:
        began = loop.time()

        async def sleeper(name: str, *pauses: float) -> None:
            for pause_s in pauses:
                await asyncio.sleep(pause_s)
                seen.append((name, round(loop.time() - began)))

        tasks = [
            loop.create_task(sleeper("a", 100, 100, 100)),
            loop.create_task(sleeper("b", 250)),
        ]
        await loop.advance(299)
        assert seen == [("a", 100), ("a", 200), ("b", 250)]
        await loop.advance(2)
        assert seen[3:] == [("a", 300)]
        await asyncio.gather(*tasks)

    loop.run_until_complete(main())


def test_it_takes_no_time_of_the_machine(loop: ClusterLoop) -> None:
    async def main() -> tuple[float, int]:
        began, rounds = loop.time(), 0

        async def often() -> None:
            nonlocal rounds
            while True:
                await asyncio.sleep(0.01)
                rounds += 1

        task = loop.create_task(often())
        await loop.advance(86_400)
        task.cancel()
        return loop.time() - began, rounds

    before = time.monotonic()
    passed, rounds = loop.run_until_complete(main())
    assert 86_400 <= passed < 86_500
    assert time.monotonic() - before < 60
    assert rounds <= STEPS_MAX + 10, "a bounded number of steps, however short the timers"


def test_no_step_is_longer_than_allowed(loop: ClusterLoop) -> None:
    ahead: list[float] = []

    async def main() -> None:
        async def watch() -> None:
            while True:
                ahead.append(loop.ahead_s)
                await asyncio.sleep(0)

        task = loop.create_task(watch())
        began = loop.time()
        await loop.advance(10, step_s_max=0.5)
        assert loop.time() - began >= 10
        task.cancel()

    loop.run_until_complete(main())
    assert max(after - before for before, after in pairwise(ahead)) <= 0.5 + 1e-6


def test_what_is_under_way_is_done_before_time_goes_on(loop: ClusterLoop) -> None:
    """A question travels over a socket and back: no time passes for who waits."""

    async def main() -> float:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.readline():
                await asyncio.sleep(5)
                writer.write(data)
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        began = loop.time()

        async def ask() -> float:
            writer.write(b"hello\n")
            await reader.readline()
            return loop.time() - began

        asked = loop.create_task(ask())
        await loop.advance(1000)
        took = await asked
        writer.close()
        await writer.wait_closed()
        await loop.settled()  # the server has heard of it
        server.close()
        return took

    assert 5 <= loop.run_until_complete(main()) < 20


def test_a_busy_loop_goes_on_in_time_all_the_same(loop: ClusterLoop) -> None:
    async def main() -> None:
        async def busy() -> None:
            while True:
                await asyncio.sleep(0)

        task = loop.create_task(busy())
        await loop.advance(1)
        task.cancel()

    loop.run_until_complete(main())


def test_jobs_run_on_the_loop_later_and_tell_what_came_of_them(loop: ClusterLoop) -> None:
    order: list[str] = []

    def job(name: str) -> str:
        order.append(name)
        if name == "bad":
            raise OSError("as told")
        return name

    async def main() -> None:
        good = loop.run_in_executor(None, job, "good")
        bad = loop.run_in_executor(None, job, "bad")
        given_up = loop.run_in_executor(None, job, "given up")
        given_up.cancel()
        order.append("asked")
        assert await good == "good"
        with pytest.raises(OSError, match="as told"):
            await bad

    loop.run_until_complete(main())
    assert order == ["asked", "good", "bad"]


def test_a_job_that_is_slow_takes_time_of_this_clock(loop: ClusterLoop) -> None:
    async def main() -> None:
        loop.delay_jobs_by(lambda: 30.0)
        began = loop.time()
        done = loop.run_in_executor(None, lambda: "synced")
        await loop.advance(29)
        assert not done.done()
        await loop.advance(2)
        assert await done == "synced"
        assert loop.time() - began >= 30

    loop.run_until_complete(main())


def test_slow_jobs_can_be_ended(loop: ClusterLoop) -> None:
    async def main() -> None:
        loop.delay_jobs_by(lambda: 3600.0)
        done = [loop.run_in_executor(None, abs, n) for n in range(3)]
        await loop.settled()
        assert not any(each.done() for each in done)
        loop.end_jobs()
        assert await asyncio.gather(*done) == [0, 1, 2]
        await loop.advance(7200)

    loop.run_until_complete(main())


def test_jobs_may_have_threads() -> None:
    loop = ClusterLoop(inline_jobs=False)

    async def main() -> bool:
        import threading

        here = threading.get_ident()
        return await loop.run_in_executor(None, threading.get_ident) != here

    try:
        assert loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
