"""ControlledShutdown: the controller's answer, as it is."""

from __future__ import annotations

import pytest

from oncelog_broker.server.handlers.controlled_shutdown import ControlledShutdownHandler
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_the_controller_answers() -> None:
    response = ControlledShutdownResponse(0, 3)
    controller = ControllerStub(response)
    request = ControlledShutdownRequest(1, 2)
    handler = ControlledShutdownHandler(controller)
    assert await handler.handle_async(make_context(), request) is response
    assert (controller.requests, controller.internal) == ([request], [True])
