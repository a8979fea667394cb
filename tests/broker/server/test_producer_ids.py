"""The broker's blocks: every id once, one request however many wait, failures told."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.server import producer_ids
from oncelog_broker.server.producer_ids import LEFT_MIN, ProducerIds
from oncelog_protocol.errors import CoordinatorNotAvailableError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.transactions import AllocateProducerIdsResponse
from oncelog_runtime.tasks import Tasks
from support.waiting import eventually


class Fence:
    broker_epoch = 5


class Controller:
    """It gives blocks of 200, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()
        self.error: BaseException | None = None
        self.code = 0

    async def call(self, request: Request, *, timeout_s: float) -> AllocateProducerIdsResponse:
        self.asked += 1
        first = 200 * (self.asked - 1)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return AllocateProducerIdsResponse(self.code, first, 0 if self.code else 200)


def make(controller: Controller) -> tuple[ProducerIds, Tasks]:
    tasks = Tasks("test")
    return ProducerIds(1, controller, Fence(), tasks), tasks


async def test_ids_come_in_order_and_the_next_block_before_the_last_is_used_up() -> None:
    controller = Controller()
    ids, tasks = make(controller)
    assert [await ids.take() for _ in range(200 - LEFT_MIN)] == list(range(200 - LEFT_MIN))
    assert controller.asked == 1
    assert [await ids.take() for _ in range(LEFT_MIN + 1)] == list(range(200 - LEFT_MIN, 201))
    assert controller.asked == 2
    await tasks.close()


async def test_a_block_is_had_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "RETRY_S", 0.01)
    controller = Controller()
    controller.error = TimeoutError()
    ids, tasks = make(controller)
    stocking = asyncio.ensure_future(ids.stock())
    await eventually(lambda: controller.asked == 2)
    controller.error = None
    await stocking
    asked = controller.asked
    controller.error = TimeoutError()
    assert [await ids.take() for _ in range(3)] == [200 * (asked - 1) + n for n in range(3)]
    assert controller.asked == asked
    await tasks.close()


async def test_many_who_wait_share_one_request() -> None:
    controller = Controller()
    controller.open.clear()
    ids, tasks = make(controller)
    waiting = [asyncio.ensure_future(ids.take()) for _ in range(50)]
    await asyncio.sleep(0)
    controller.open.set()
    assert sorted(await asyncio.gather(*waiting)) == list(range(50))
    assert controller.asked == 1
    await tasks.close()


async def test_who_stops_waiting_takes_nothing_from_the_others() -> None:
    controller = Controller()
    controller.open.clear()
    ids, tasks = make(controller)
    first, second = asyncio.ensure_future(ids.take()), asyncio.ensure_future(ids.take())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    controller.open.set()
    assert await second == 0
    await tasks.close()


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionError(), None])
async def test_without_a_controller_the_answer_is_retriable(error: BaseException | None) -> None:
    controller = Controller()
    controller.error, controller.code = error, 0 if error else 77
    ids, tasks = make(controller)
    reason = "ZooKeeper" if isinstance(error, TimeoutError) else type(error).__name__
    if error is None:
        reason = "StaleBrokerEpoch"
    with pytest.raises(CoordinatorNotAvailableError, match=reason):
        await ids.take()
    controller.error, controller.code = None, 0
    assert await ids.take() == 200, "the lost block is not given"
    await tasks.close()
