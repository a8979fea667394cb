"""JoinGroup, v0, lets a member take part in the next generation of a group.

It is parked until the round is complete. It needs READ on the group. Errors: those in
``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import JoinGroupRequest


class JoinGroupHandler:
    """It serves JoinGroup."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: JoinGroupRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when all have joined.

        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        """
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        host = context.peer.rpartition(":")[0]
        self._groups.join(context.client_id, host, request, respond)
