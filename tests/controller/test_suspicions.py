"""Brokers refuse a controller that suspects them: some are dead, and some are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncelog_controller import suspicions
from oncelog_controller.events import BrokerCleared, BrokerSuspected, Event
from oncelog_controller.evidence import Evidence
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.state import BrokerRegistration
from oncelog_controller.store import StoreDisconnectedError
from oncelog_controller.suspicions import Suspicions
from oncelog_runtime.tasks import Tasks
from support.waiting import eventually
from unsafe.controller import without

CONTROLLER = 1


class Court:
    """It tries suspicions of controller 1; brokers object or do not."""

    def __init__(self, brokers: int, tasks: Tasks, safeguards: ControllerSafeguards) -> None:
        self.tasks = tasks
        self.events: list[Event] = []
        self.reasons: list[str] = []
        self.alive: set[int] = set()
        self.asked: list[int] = []
        self.store_is_away = False
        self.lives = [BrokerRegistration(b, 10 * b, ()) for b in range(1, brokers + 1)]
        self.suspicions = Suspicions(
            controller_id=CONTROLLER,
            evidence=Evidence(),
            ask=self._ask,
            report=self.events.append,
            step_down=self.reasons.append,
            tasks=tasks,
            safeguards=safeguards,
        )
        self.suspicions.watch(self.lives)

    async def _ask(self, broker_id: int, broker_epoch: int) -> bool:
        assert broker_epoch == 10 * broker_id
        await asyncio.sleep(0)
        if self.store_is_away:
            raise StoreDisconnectedError
        self.asked.append(broker_id)
        return broker_id in self.alive

    def up(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.suspicions.up(broker_id, 10 * broker_id)

    def refused(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.suspicions.refused(broker_id, 10 * broker_id)

    @property
    def suspected(self) -> list[int]:
        return [e.broker_id for e in self.events if isinstance(e, BrokerSuspected)]


@asynccontextmanager
async def court(brokers: int = 4, safeguards: ControllerSafeguards = SAFE) -> AsyncIterator[Court]:
    tasks = Tasks("test")
    try:
        yield Court(brokers, tasks, safeguards)
    finally:
        await tasks.close()


async def test_who_was_connected_and_is_refused_suspects_at_once() -> None:
    async with court() as on:
        on.up(2)
        on.refused(2)
        assert on.events == [BrokerCleared(2, 20), BrokerSuspected(2, 20)]
        on.refused(2)
        assert on.suspected == [2], "told once"
        assert on.asked == []
        on.up(2)
        assert on.events[-1] == BrokerCleared(2, 20)


async def test_who_was_never_connected_asks_first() -> None:
    async with court() as on:
        on.refused(2)
        assert on.suspected == []
        await eventually(lambda: on.suspected == [2])
        on.alive.add(3)
        on.refused(3)
        await eventually(lambda: on.asked == [2, 3])
        on.refused(3)
        assert on.suspected == [2]
        assert on.reasons == []


async def test_a_controller_that_ends_asks_about_nobody() -> None:
    """Its links are still there for a moment, and brokers that stop with it refuse them."""
    async with court() as on:
        on.up(3)
        await on.tasks.close()
        on.refused(2, 3)
        assert on.suspected == []
    assert on.asked == []


async def test_a_controller_that_is_refused_by_most_who_live_steps_down() -> None:
    async with court() as on:
        on.up(2, 3, 4)
        on.alive.update((2, 3, 4))
        on.refused(2)
        on.refused(3, 4)
        assert on.suspected == [2], "of one alone nobody can tell"
        on.refused(2)
        await eventually(lambda: on.reasons)
        assert "2, 3" in on.reasons[0] or "3, 4" in on.reasons[0]
        assert on.suspected == [2]


async def test_a_controller_whose_brokers_are_dead_stays() -> None:
    async with court() as on:
        on.up(2, 3, 4)
        on.refused(2, 3, 4)
        await eventually(lambda: sorted(on.suspected) == [2, 3, 4])
        assert on.reasons == []


async def test_of_two_nobody_can_say_who_is_cut_off() -> None:
    async with court(brokers=2) as on:
        on.up(2)
        on.alive.add(2)
        on.refused(2)
        assert on.suspected == [2]
        assert on.reasons == []


async def test_one_that_lives_and_cannot_be_reached_is_suspected_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with court() as on:
        on.alive.add(2)
        on.refused(2)
        await eventually(lambda: on.asked == [2])
        on.refused(2)
        assert on.suspected == []
        monkeypatch.setattr(suspicions, "UNREACHABLE_S", 0.0)
        on.refused(2)
        assert on.suspected == [2]
        assert on.reasons == []


async def test_while_the_store_is_away_nobody_is_suspected() -> None:
    async with court() as on:
        on.store_is_away = True
        on.refused(2)
        for _ in range(5):
            await asyncio.sleep(0)
        assert on.suspected == []
        on.store_is_away = False
        on.refused(2)
        await eventually(lambda: on.suspected == [2])


async def test_an_answer_that_comes_too_late_counts_for_nothing() -> None:
    async with court() as on:
        on.refused(2, 3)
        on.up(2)
        on.suspicions.watch([life for life in on.lives if life.broker_id != 3])
        await eventually(lambda: sorted(on.asked) == [2, 3])
        await asyncio.sleep(0)
        assert on.suspected == []
        on.refused(3)
        on.suspicions.refused(2, 19)
        on.suspicions.up(2, 19)
        assert on.suspected == []


async def test_its_own_listener_is_nobody_to_ask() -> None:
    async with court() as on:
        on.refused(CONTROLLER)
        assert on.suspected == [CONTROLLER]


async def test_without_the_rule_every_refusal_counts() -> None:
    async with court(safeguards=without("hear_the_accused")) as on:
        on.alive.update((2, 3, 4))
        on.refused(2, 3, 4)
        assert on.suspected == [2, 3, 4]
        assert on.asked == []
