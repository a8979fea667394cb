"""CreateTopics, v0, is served by the controller; any other broker answers NOT_CONTROLLER.

Refused here, per topic: INVALID_TOPIC (illegal or internal name), TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import CREATE
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.admin import CreateTopicsRequest, CreateTopicsResponse


class CreateTopicsHandler:
    """It forwards what is legal to the controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def handle_async(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsResponse:
        """Return one result a topic, in order."""
        code, results = await self._requests.topics(
            context,
            CREATE,
            [t.topic for t in request.topics],
            lambda indexes: CreateTopicsRequest(
                [request.topics[i] for i in indexes], request.timeout_ms, request.validate_only
            ),
        )
        return CreateTopicsResponse(code, results)
