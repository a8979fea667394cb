"""InitPid: an id of this broker's block, or why there is none."""

from __future__ import annotations

import pytest

from oncelog_broker.server.handlers.init_pid import InitPidHandler
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_protocol.errors import CoordinatorNotAvailableError, InvalidRequestError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsResponse,
    InitPidRequest,
    InitPidResponse,
)
from oncelog_runtime.tasks import Tasks
from support.server import make_context


class Fence:
    broker_epoch = 5


class Controller:
    """Gives one block of two."""

    def __init__(self) -> None:
        self.given = False

    async def call(self, request: Request, *, timeout_s: float) -> AllocateProducerIdsResponse:
        if self.given:
            raise TimeoutError
        self.given = True
        return AllocateProducerIdsResponse(0, 40, 2)


@pytest.mark.asyncio
async def test_each_gets_an_id_of_its_own_and_then_nobody_does() -> None:
    tasks = Tasks("test")
    handler = InitPidHandler(ProducerIds(1, Controller(), Fence(), tasks))
    for producer_id in (40, 41):
        answer = await handler.handle_async(make_context(), InitPidRequest())
        assert answer == InitPidResponse(0, None, producer_id, 0)
    with pytest.raises(CoordinatorNotAvailableError):
        await handler.handle_async(make_context(), InitPidRequest())
    await tasks.close()


@pytest.mark.asyncio
async def test_transactional_ids_are_refused() -> None:
    tasks = Tasks("test")
    handler = InitPidHandler(ProducerIds(1, Controller(), Fence(), tasks))
    with pytest.raises(InvalidRequestError):
        await handler.handle_async(make_context(), InitPidRequest("me"))
    await tasks.close()
