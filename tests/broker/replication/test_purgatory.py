"""Parked requests keep order, are called once, end never early, and leave nothing behind."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.replication.purgatory import (
    TICK_S,
    Deadline,
    Deadlines,
    OffsetCallback,
    OffsetPurgatory,
)
from support.memory import size_of
from support.waiting import eventually


def test_reaching_an_offset_wakes_those_at_or_below_it_in_order() -> None:
    purgatory = OffsetPurgatory()
    called: list[tuple[int, int]] = []

    def note(offset: int) -> OffsetCallback:
        return lambda code: called.append((offset, code))

    for offset in (10, 20, 30):
        purgatory.watch(offset, note(offset))
    purgatory.reach(9)
    assert called == []
    purgatory.reach(20)
    assert called == [(10, 0), (20, 0)]
    assert len(purgatory) == 1


def test_where_nobody_waits_nothing_is_kept() -> None:
    """A broker has three for each of its partitions, and most of those are at rest."""
    purgatory, fresh = OffsetPurgatory(), OffsetPurgatory()
    purgatory.watch(10, lambda code: None)
    assert size_of(purgatory) > size_of(fresh)
    purgatory.reach(10)
    assert size_of(purgatory) == size_of(fresh)
    purgatory.watch(20, lambda code: None)
    purgatory.fail(1)
    assert size_of(purgatory) == size_of(fresh) < 100


def test_an_older_offset_may_be_asked_for_later() -> None:
    purgatory = OffsetPurgatory()
    called: list[int] = []
    purgatory.watch(30, lambda code: called.append(30))
    purgatory.watch(10, lambda code: called.append(10))
    purgatory.reach(10)
    assert called == [10]


def test_failing_tells_everybody_once() -> None:
    purgatory = OffsetPurgatory()
    called: list[int] = []
    purgatory.watch(10, called.append)
    cancelled = purgatory.watch(11, called.append)
    cancelled.cancel()
    purgatory.fail(6)
    purgatory.reach(100)
    assert called == [6]


def test_a_callback_may_park_again() -> None:
    purgatory = OffsetPurgatory()
    called: list[str] = []

    def first(code: int) -> None:
        called.append("first")
        purgatory.watch(10, lambda code: called.append("second"))

    purgatory.watch(5, first)
    purgatory.reach(7)
    assert called == ["first"]
    purgatory.reach(10)
    assert called == ["first", "second"]


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 60)))
def test_every_waiter_is_called_exactly_when_its_offset_is_reached(
    offsets: list[int], reached: list[int]
) -> None:
    purgatory = OffsetPurgatory()
    called: list[int] = []

    def note(offset: int) -> OffsetCallback:
        return lambda code: called.append(offset)

    for offset in offsets:
        purgatory.watch(offset, note(offset))
    top = -1
    for offset in reached:
        top = max(top, offset)
        purgatory.reach(top)
        assert sorted(called) == sorted(o for o in offsets if o <= top)


async def test_deadlines_fire_in_order_and_never_early() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines()
    fired: list[tuple[str, float]] = []
    start = loop.time()
    deadlines.add(start + 0.06, lambda: fired.append(("b", loop.time())))
    deadlines.add(start + 0.02, lambda: fired.append(("a", loop.time())))
    await eventually(lambda: len(fired) == 2)
    assert [name for name, _ in fired] == ["a", "b"]
    assert fired[0][1] >= start + 0.02 - TICK_S / 10
    assert fired[1][1] >= start + 0.06 - TICK_S / 10
    assert len(deadlines) == 0


async def test_a_cancelled_deadline_does_not_fire_and_is_not_kept() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines()
    fired: list[str] = []
    cancelled = deadlines.add(loop.time() + 0.01, lambda: fired.append("cancelled"))
    deadlines.add(loop.time() + 0.03, lambda: fired.append("kept"))
    cancelled.cancel()
    cancelled.cancel()
    assert len(deadlines) == 1
    await eventually(lambda: fired)
    assert fired == ["kept"]
    cancelled.fire()
    assert fired == ["kept"]


async def test_a_callback_may_cancel_its_neighbour_and_add_another() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines()
    fired: list[str] = []
    at_s = loop.time() + 0.01
    neighbours: list[Deadline] = []

    def first() -> None:
        fired.append("first")
        neighbours[0].cancel()
        deadlines.add(loop.time(), lambda: fired.append("third"))

    deadlines.add(at_s, first)
    neighbours.append(deadlines.add(at_s, lambda: fired.append("second")))
    await eventually(lambda: "third" in fired)
    assert fired == ["first", "third"]
    assert len(deadlines) == 0


async def test_closing_forgets_everything() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines()
    fired: list[str] = []
    deadlines.add(loop.time() + 0.005, lambda: fired.append("late"))
    deadlines.close()
    await asyncio.sleep(0.03)
    assert fired == []
