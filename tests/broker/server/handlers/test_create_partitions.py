"""CreatePartitions: forwarded to the controller, item by item."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.create_partitions import CreatePartitionsHandler
from oncelog_protocol.messages.admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    PartitionGrowth,
    TopicResult,
)
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_what_is_legal_reaches_the_controller() -> None:
    controller = ControllerStub(CreatePartitionsResponse(0, [TopicResult("good")]))
    handler = CreatePartitionsHandler(ControllerRequests(controller, AllowAllAuthorizer()))
    response = await handler.handle_async(
        make_context(internal=False),
        CreatePartitionsRequest([PartitionGrowth("a/b", 1), PartitionGrowth("good", 2)], 77, True),
    )
    assert isinstance(response, CreatePartitionsResponse)
    assert [(r.topic, r.error_code) for r in response.topics] == [("a/b", 17), ("good", 0)]
    (forwarded,) = controller.requests
    assert forwarded == CreatePartitionsRequest([PartitionGrowth("good", 2)], 77, True)
