"""ApiVersions, v0: the APIs and versions that this release speaks. Opens every connection."""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.registry import supported_ranges


class ApiVersionsHandler:
    """Answers from the registry; served also while the broker starts."""

    def handle(
        self,
        context: RequestContext,
        request: ApiVersionsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """The whole table, always."""
        respond(ApiVersionsResponse(0, supported_ranges()))
