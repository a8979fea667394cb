"""DeleteTopics, v0, is served by the controller; any other broker answers NOT_CONTROLLER.

Refused here, per topic: INVALID_TOPIC (illegal or internal name), TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import DELETE
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.admin import DeleteTopicsRequest, DeleteTopicsResponse


class DeleteTopicsHandler:
    """It forwards what is legal to the controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def handle_async(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> DeleteTopicsResponse:
        """Return one result a topic, in order."""
        code, results = await self._requests.topics(
            context,
            DELETE,
            request.topics,
            lambda indexes: DeleteTopicsRequest(
                [request.topics[i] for i in indexes], request.timeout_ms
            ),
        )
        return DeleteTopicsResponse(code, results)
