"""ListGroups, v0, shows the groups that this broker coordinates.

With DESCRIBE on the cluster all of them are listed, else those that the principal may describe.
COORDINATOR_LOAD_IN_PROGRESS stands beside what is known already.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_NAME, DESCRIBE, GROUP, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.messages.groups import ListGroupsRequest


class ListGroupsHandler:
    """It serves ListGroups."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: ListGroupsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once."""
        allowed = self._authorizer.authorize
        response = self._groups.list_groups(request.states)
        if not allowed(context, DESCRIBE, CLUSTER, CLUSTER_NAME):
            response.groups = [
                group
                for group in response.groups
                if allowed(context, DESCRIBE, GROUP, group.group_id)
            ]
        respond(response)
