"""DeleteGroups, v0, forgets groups without members, with their offsets.

It needs DELETE on each group (GROUP_AUTHORIZATION_FAILED stands with it). Further errors: those in
``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import DELETE, GROUP, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    GroupResult,
)


class DeleteGroupsHandler:
    """It serves DeleteGroups."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DeleteGroupsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when the last of them is committed; there is one result a group, in order."""
        allowed = [
            self._authorizer.authorize(context, DELETE, GROUP, group) for group in request.groups
        ]

        def answer(results: list[GroupResult]) -> None:
            given = iter(results)
            code = GroupAuthorizationFailedError.code
            respond(
                DeleteGroupsResponse(
                    groups=[
                        next(given) if may else GroupResult(group, code)
                        for group, may in zip(request.groups, allowed, strict=True)
                    ]
                )
            )

        asked = [group for group, may in zip(request.groups, allowed, strict=True) if may]
        self._groups.delete(asked, answer)
