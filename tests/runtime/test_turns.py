"""Long turns of any loop are counted and named; a loop that waits is left alone"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
import uvloop

from oncelog_runtime import turns
from oncelog_runtime.turns import LongTurn, TurnWatch
from support.waiting import eventually, in_thread

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    uvloop.new_event_loop,
]


def hold_the_loop(watch: TurnWatch, seconds: float) -> None:
    """Hold it until it was seen, and for so long."""
    end = time.perf_counter() + seconds
    while not (watch.has_seen and time.perf_counter() > end):
        sum(range(1000))


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_long_turn_is_counted_and_named(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> None:
        found: list[LongTurn] = []
        watch = TurnWatch(found.append)
        watch.start()
        await asyncio.sleep(0)
        hold_the_loop(watch, 0.1)
        await eventually(lambda: watch.held > 0)
        watch.stop()
        (held, *_) = found
        assert held.seconds >= 0.05
        assert watch.held_s >= held.seconds
        assert 0 < held.cpu_s <= held.seconds + 0.05
        assert "test_turns." in held.ran
        assert "hold_the_loop" in held.ran
        assert "run_until_complete" not in held.ran

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(work())


async def test_an_idle_loop_is_seldom_looked_at_and_a_long_turn_is_still_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    sleep = time.sleep

    def slept(seconds: float) -> None:
        pauses.append(seconds)
        sleep(min(seconds, 0.001))

    monkeypatch.setattr(time, "sleep", slept)
    watch = TurnWatch(lambda held: None, bound_s=0.0)
    watch.start()

    def until_seldom() -> None:
        while turns.IDLE_LOOK_S not in pauses:
            sleep(0.01)

    await in_thread(until_seldom)
    seldom = pauses.index(turns.IDLE_LOOK_S)
    assert seldom >= turns.IDLE_LOOKS
    held = watch.held

    def found() -> bool:
        end = time.perf_counter() + 0.05
        while time.perf_counter() < end:  # holds the loop
            sum(range(1000))
        return watch.held > held

    await eventually(found)
    watch.stop()


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_a_loop_that_waits_is_not_asked(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> int:
        loop = asyncio.get_running_loop()
        watch = TurnWatch(lambda held: None)
        asked = 0
        turned = watch._turned

        def counted() -> None:
            nonlocal asked
            asked += 1
            turned()

        watch._turned = counted  # type: ignore[method-assign]
        watch.start()
        await loop.run_in_executor(None, time.sleep, 0.5)
        watch.stop()
        return asked

    with asyncio.Runner(loop_factory=make_loop) as runner:
        asked = runner.run(work())
    assert asked < 15  # of 25 looks; the first turns of a loop may be seen


async def test_short_turns_are_nobodys_business_and_stopping_ends_the_thread() -> None:
    threads = threading.active_count()
    found: list[LongTurn] = []
    watch = TurnWatch(found.append, bound_s=3600.0)
    watch.start()
    hold_the_loop(watch, 0.0)
    await eventually(lambda: not watch.has_seen or not watch._asked_s)
    watch.stop()
    assert not found
    assert watch.held == 0
    watch.stop()
    await eventually(lambda: threading.active_count() <= threads)
