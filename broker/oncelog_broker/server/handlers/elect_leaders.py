"""ElectLeaders, v0: preferred or unclean election, by the controller (else NOT_CONTROLLER).

Whole-request error here: CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import ALTER
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.admin import ElectLeadersRequest, ElectLeadersResponse


class ElectLeadersHandler:
    """Forwards to the controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def handle_async(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersResponse:
        """:raises ClusterAuthorizationFailedError: the principal may not alter the cluster."""
        self._requests.require_cluster(context, ALTER)
        response: ElectLeadersResponse = await self._requests.controller.handle(
            request, internal=context.internal
        )
        return response
