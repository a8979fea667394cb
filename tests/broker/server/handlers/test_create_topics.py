"""CreateTopics: forwarded to the controller, item by item."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.create_topics import CreateTopicsHandler
from oncelog_protocol.messages.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
    TopicResult,
)
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_what_is_legal_reaches_the_controller() -> None:
    controller = ControllerStub(CreateTopicsResponse(0, [TopicResult("good")]))
    handler = CreateTopicsHandler(ControllerRequests(controller, AllowAllAuthorizer()))
    response = await handler.handle_async(
        make_context(internal=False),
        CreateTopicsRequest([NewTopic("a/b", 1, 1), NewTopic("good", 2, 1)], 77, True),
    )
    assert isinstance(response, CreateTopicsResponse)
    assert [(r.topic, r.error_code) for r in response.topics] == [("a/b", 17), ("good", 0)]
    (forwarded,) = controller.requests
    assert forwarded == CreateTopicsRequest([NewTopic("good", 2, 1)], 77, True)
