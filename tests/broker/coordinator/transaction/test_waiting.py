"""Who waits, until when, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.transaction.asks import AnyAsk, Ask, ProducerIdRequests
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.transaction import Transaction
from oncelog_broker.coordinator.transaction.waiting import WaitingAsks
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
from oncelog_runtime.tasks import Tasks
from support.group_world import ManualTimers
from support.transaction_world import ProducerIdCounter
from support.waiting import eventually


class World:
    """Asks over timers that the test runs."""

    def __init__(self, **config: int) -> None:
        self.now_s = 100.0
        self.timers = ManualTimers(lambda: self.now_s)
        self.tasks = Tasks("test")
        self.source = ProducerIdCounter()
        self.ran: list[tuple[int, int | None]] = []
        self.told: list[tuple[int, int]] = []
        self.waiting = WaitingAsks(
            self.timers,
            ProducerIdRequests(self.source, self.tasks),
            TransactionConfig(**config),
            self._run,
        )
        self.txn = Transaction("t")
        self.txn.decided_s = self.now_s
        self.count = 0

    def _run(self, ask: AnyAsk) -> Result[None]:
        self.ran.append((ask.number, ask.fresh_id))
        return Result()

    def ask(self) -> AnyAsk:
        self.count += 1
        number = self.count

        def refused(error: ApiError) -> None:
            self.told.append((number, error.code))

        return Ask("t", lambda _shard, _fresh: Result(), lambda _: None, refused)

    def parked(self) -> AnyAsk:
        ask = self.ask()
        self.waiting.park(self.txn, ask)
        return ask

    def run_due(self) -> None:
        """Run what is due by now, in its order."""
        due = sorted(
            (at_s, sequence, key)
            for key, (at_s, sequence, _) in self.timers.due.items()
            if at_s <= self.now_s
        )
        for _, _, key in due:
            operation: Callable[[], Result[None]] = self.timers.due.pop(key)[2]
            operation()


def test_all_that_wait_are_released_in_their_order() -> None:
    world = World()
    asks = [world.parked() for _ in range(3)]
    assert len(world.waiting) == 3
    world.waiting.release(world.txn)
    world.run_due()
    assert [number for number, _ in world.ran] == [ask.number for ask in asks]
    assert not world.txn.parked
    assert not world.timers.due
    assert not len(world.waiting)


def test_the_wait_is_counted_from_the_decision() -> None:
    world = World(transaction_wait_ms=1_000)
    world.parked()
    world.now_s += 0.9
    world.parked()
    world.run_due()
    assert not world.told
    world.now_s += 0.1
    world.run_due()
    assert world.told == [(n, ConcurrentTransactionsError.code) for n in (1, 2)]
    world.parked()
    world.run_due()
    assert world.told[2:] == [(3, ConcurrentTransactionsError.code)]
    assert not world.txn.parked


def test_who_is_taken_back_is_not_released() -> None:
    world = World()
    first, second = world.parked(), world.parked()
    world.waiting.unpark(world.txn, first)
    world.waiting.unpark(world.txn, first)
    world.waiting.release(world.txn)
    world.run_due()
    assert [number for number, _ in world.ran] == [second.number]


def test_only_so_many_wait() -> None:
    world = World(shared_txn_writers_max=1)
    world.parked()
    world.parked()
    assert world.told == [(2, ConcurrentTransactionsError.code)]


def test_all_are_answered_when_the_shard_goes_and_nothing_runs_then() -> None:
    world = World()
    world.parked()
    world.parked()
    world.waiting.release(world.txn)
    world.parked()
    world.waiting.unload(NotCoordinatorError.code)
    world.run_due()
    assert world.told == [(n, NotCoordinatorError.code) for n in (1, 2, 3)]
    assert not world.ran


@pytest.mark.asyncio
async def test_a_producer_id_is_fetched_or_said_not_to_be_had() -> None:
    world = World()
    world.waiting.fetch_id(world.ask())
    await eventually(lambda: world.timers.due)
    world.run_due()
    assert world.ran == [(1, 1000)]
    world.source.is_empty = True
    world.waiting.fetch_id(world.ask())
    await eventually(lambda: world.timers.due)
    world.run_due()
    assert world.told == [(2, CoordinatorNotAvailableError.code)]
    await world.tasks.close()


@pytest.mark.asyncio
async def test_a_producer_id_that_comes_too_late_is_lost() -> None:
    world = World()
    world.waiting.fetch_id(world.ask())
    world.waiting.unload(NotCoordinatorError.code)
    await eventually(lambda: not len(world.tasks))
    assert not world.timers.due
    assert world.told == [(1, NotCoordinatorError.code)]
