"""SyncGroup, v0, takes the assignments from the leader, and gives every member its own.

It is parked until the leader's are durable. It needs READ on the group. Errors: those in
``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import SyncGroupRequest


class SyncGroupHandler:
    """It serves SyncGroup."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: SyncGroupRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when the generation is assigned.

        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        """
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        self._groups.sync(request, respond)
