"""AlterPartition: the controller's answer, as it is."""

from __future__ import annotations

import pytest

from oncelog_broker.server.handlers.alter_partition import AlterPartitionHandler
from oncelog_protocol.messages.replication import AlterPartitionRequest, AlterPartitionResponse
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_the_controller_answers() -> None:
    response = AlterPartitionResponse(41)
    controller = ControllerStub(response)
    request = AlterPartitionRequest(1, 2, [])
    assert await AlterPartitionHandler(controller).handle_async(make_context(), request) is response
    assert (controller.requests, controller.internal) == ([request], [True])
