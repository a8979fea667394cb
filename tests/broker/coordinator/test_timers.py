"""Keyed timers keep order, are replaced, cancelled and held, and their heap does not grow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.timers import (
    DUE_COUNT_MAX,
    HEAP_SLACK_COUNT,
    ShardTimers,
    TimerOperation,
)
from support.waiting import eventually


class Ran:
    """Timers run operations that note their names."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.timers = ShardTimers(self.run)

        self.fails = 0
        """So many that run next are not carried out."""

    def run(self, operation: TimerOperation, again: Callable[[], None] | None) -> None:
        operation()
        if self.fails:
            self.fails -= 1
            if again is not None:
                again()

    def operation(self, name: str) -> Callable[[], Result[None]]:
        def run() -> Result[None]:
            self.names.append(name)
            return Result()

        return run

    def set(self, key: str, delay_s: float, name: str = "") -> None:
        self.timers.set(key, delay_s, self.operation(name or key))


async def made() -> Ran:
    ran = Ran()
    ran.timers.start()
    return ran


async def test_what_is_due_runs_once_in_order_of_time() -> None:
    ran = await made()
    ran.set("late", 0.03)
    ran.set("early", 0.0)
    ran.set("early too", 0.0)
    assert len(ran.timers) == 3
    await eventually(lambda: len(ran.names) == 3)
    assert ran.names == ["early", "early too", "late"]
    assert len(ran.timers) == 0


async def test_setting_again_replaces() -> None:
    ran = await made()
    ran.set("a", 60.0, "first")
    ran.set("a", 0.0, "second")
    await eventually(lambda: ran.names == ["second"])
    assert "a" not in ran.timers


async def test_a_timer_that_is_put_off_runs_later() -> None:
    ran = await made()
    ran.set("a", 0.0, "first")
    ran.set("a", 0.05, "second")
    ran.set("b", 0.02)
    await eventually(lambda: len(ran.names) == 2)
    assert ran.names == ["b", "second"]


async def test_cancelled_timers_do_not_run() -> None:
    ran = await made()
    ran.set("a", 0.0)
    ran.set("b", 0.01)
    ran.timers.cancel("a")
    ran.timers.cancel("unknown")
    await eventually(lambda: ran.names == ["b"])


async def test_a_key_cancelled_and_set_again() -> None:
    ran = await made()
    ran.set("a", 0.0, "first")
    ran.timers.cancel("a")
    ran.set("a", 0.01, "second")
    await eventually(lambda: ran.names == ["second"])


async def test_one_that_is_due_may_cancel_another_that_is_due() -> None:
    ran = await made()

    def first() -> Result[None]:
        ran.names.append("first")
        ran.timers.cancel("second")
        return Result()

    ran.timers.set("first", 0.0, first)
    ran.set("second", 0.0)
    ran.set("third", 0.0)
    await eventually(lambda: len(ran.names) == 2)
    assert ran.names == ["first", "third"]


async def test_an_operation_may_set_its_own_key_again() -> None:
    ran = await made()

    def again() -> Result[None]:
        ran.names.append("a")
        if len(ran.names) < 3:
            ran.timers.set("a", 0.0, again)
        return Result()

    ran.timers.set("a", 0.0, again)
    await eventually(lambda: ran.names == ["a"] * 3)


async def test_before_start_all_is_held() -> None:
    ran = Ran()
    ran.set("a", 0.0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ran.names == []
    ran.timers.start()
    await eventually(lambda: ran.names == ["a"])


async def test_after_close_nothing_runs_and_nothing_can_be_set() -> None:
    ran = await made()
    ran.set("a", 0.0)
    ran.timers.close()
    ran.set("b", 0.0)
    other = await made()
    other.set("c", 0.01)
    await eventually(lambda: other.names == ["c"])
    assert ran.names == []
    assert len(ran.timers) == 0


async def test_many_that_are_due_at_once_give_way() -> None:
    ran = await made()
    count = 3 * DUE_COUNT_MAX
    for number in range(count):
        ran.set(str(number), 0.0)
    seen: list[int] = []
    while len(ran.names) < count:
        await asyncio.sleep(0)
        if not seen or seen[-1] != len(ran.names):
            seen.append(len(ran.names))
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) <= DUE_COUNT_MAX
    assert ran.names == [str(number) for number in range(count)]


async def test_sessions_that_live_on_do_not_grow_the_heap() -> None:
    ran = await made()
    for _ in range(1000):
        ran.set("session", 60.0)
    for _ in range(1000):
        ran.timers.cancel("other")
        ran.set("other", 60.0)
    assert len(ran.timers._heap) <= 2 * len(ran.timers) + HEAP_SLACK_COUNT + 1
    assert ran.timers.now_s() == pytest.approx(asyncio.get_running_loop().time(), abs=5)
    ran.timers.close()


async def test_what_is_to_run_soon_runs_in_order_and_gives_way() -> None:
    ran = Ran()
    count = 2 * DUE_COUNT_MAX
    for number in range(count):
        ran.timers.soon(ran.operation(str(number)))
    await asyncio.sleep(0)
    assert not ran.names
    ran.timers.start()
    assert not ran.names
    await asyncio.sleep(0)
    assert len(ran.names) == DUE_COUNT_MAX
    await eventually(lambda: len(ran.names) == count)
    assert ran.names == [str(number) for number in range(count)]
    ran.timers.soon(ran.operation("late"))
    ran.timers.close()
    ran.timers.soon(ran.operation("later"))
    await asyncio.sleep(0)
    assert len(ran.names) == count


async def test_what_fails_is_tried_again_if_that_was_wanted() -> None:
    ran = await made()
    ran.fails = 3
    ran.set("once", 0.0)
    ran.timers.set("timer", 0.0, ran.operation("timer"), retry_s=0.02)
    ran.timers.soon(ran.operation("soon"), retry_s=0.01)
    await eventually(lambda: len(ran.names) == 5)
    assert sorted(ran.names[:3]) == ["once", "soon", "timer"]
    assert ran.names[3:] == ["soon", "timer"]
    assert len(ran.timers) == 0


async def test_a_retry_replaces_no_timer_that_was_set_meanwhile() -> None:
    ran = await made()

    def first() -> Result[None]:
        ran.names.append("first")
        ran.set("a", 0.001, "second")
        return Result()

    ran.fails = 1
    ran.timers.set("a", 0.0, first, retry_s=0.0)
    await eventually(lambda: len(ran.names) == 2)
    assert ran.names == ["first", "second"]
