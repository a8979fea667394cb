"""ApiVersions, v0 to v2, tells which APIs and versions this release speaks, who answers, and how
the asker is known.

It opens every connection. Who has to authenticate first is told nothing of itself before.
"""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.registry import supported_ranges


class ApiVersionsHandler:
    """It answers from the registry; it is served also while the broker starts.

    :param identity: this broker of this cluster.
    :param authorizer: what decides who may do what, as the setting names it.
    """

    def __init__(self, identity: Identity, authorizer: str) -> None:
        self._identity = identity
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: ApiVersionsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Respond with the whole table, always."""
        me = self._identity
        answer = ApiVersionsResponse(0, supported_ranges(), me.cluster_id, me.broker_id)
        if not context.connection.must_authenticate:
            answer.principal = context.principal
            answer.authenticated_by = context.connection.known.authenticated_by
            answer.listener, answer.authorizer = context.listener, self._authorizer
        respond(answer)
