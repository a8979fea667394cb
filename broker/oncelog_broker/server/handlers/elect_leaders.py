"""ElectLeaders, v0, has the controller hold a preferred or unclean election (else NOT_CONTROLLER).

Whole-request error here: CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import ALTER
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.messages.admin import ElectLeadersRequest, ElectLeadersResponse


class ElectLeadersHandler:
    """It forwards to the controller."""

    def __init__(self, requests: ControllerRequests) -> None:
        self._requests = requests

    async def handle_async(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersResponse:
        """Forward the request of a principal that may alter the cluster.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        self._requests.require_cluster(context, ALTER)
        response: ElectLeadersResponse = await self._requests.controller.handle(
            request, internal=context.internal
        )
        return response
