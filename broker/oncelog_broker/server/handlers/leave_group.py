"""LeaveGroup, v0, lets members leave, with one answer each; the rest rebalances.

It needs READ on the group. Errors: those in ``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import LeaveGroupRequest


class LeaveGroupHandler:
    """It serves LeaveGroup."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: LeaveGroupRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once, or when a group that is empty now is known to be.

        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        """
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        self._groups.leave(request, respond)
