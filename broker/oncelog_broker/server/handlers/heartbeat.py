"""Heartbeat, v0, is a member's sign of life, answered at once.

It needs READ on the group. Errors: those in ``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import HeartbeatRequest


class HeartbeatHandler:
    """It serves Heartbeat."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: HeartbeatRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once.

        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        """
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        self._groups.heartbeat(request, respond)
