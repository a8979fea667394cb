"""ApiVersions, v0 to v2, tells which APIs and versions this release speaks, and who answers.

It opens every connection.
"""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.registry import supported_ranges


class ApiVersionsHandler:
    """It answers from the registry; it is served also while the broker starts.

    :param identity: this broker of this cluster.
    """

    def __init__(self, identity: Identity = UNKNOWN) -> None:
        self._identity = identity

    def handle(
        self,
        context: RequestContext,
        request: ApiVersionsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Respond with the whole table, always."""
        me = self._identity
        respond(ApiVersionsResponse(0, supported_ranges(), me.cluster_id, me.broker_id))
