"""DeleteTopics: forwarded to the controller, item by item."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.handlers.delete_topics import DeleteTopicsHandler
from oncelog_protocol.messages.admin import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)
from support.server import ControllerStub, make_context


@pytest.mark.asyncio
async def test_what_is_legal_reaches_the_controller() -> None:
    controller = ControllerStub(DeleteTopicsResponse(0, [TopicResult("good")]))
    handler = DeleteTopicsHandler(ControllerRequests(controller, AllowAllAuthorizer()))
    response = await handler.handle_async(
        make_context(internal=False), DeleteTopicsRequest(["a/b", "good"], 77)
    )
    assert isinstance(response, DeleteTopicsResponse)
    assert [(r.topic, r.error_code) for r in response.topics] == [("a/b", 17), ("good", 0)]
    (forwarded,) = controller.requests
    assert forwarded == DeleteTopicsRequest(["good"], 77)
