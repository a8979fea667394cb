"""AllocateProducerIds: the controller's answer, as it is."""

from __future__ import annotations

import pytest

from oncelog_broker.server.handlers.allocate_producer_ids import AllocateProducerIdsHandler
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_the_controller_answers() -> None:
    response = AllocateProducerIdsResponse(0, 1000, 1000)
    controller = ControllerStub(response)
    request = AllocateProducerIdsRequest(1, 2)
    handler = AllocateProducerIdsHandler(controller)
    assert await handler.handle_async(make_context(), request) is response
    assert (controller.requests, controller.internal) == ([request], [True])
