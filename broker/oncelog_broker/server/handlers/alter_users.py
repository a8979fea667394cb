"""Users are changed by AlterUsers, v0.

The controller serves it; any other broker answers NOT_CONTROLLER. Refused here:

* CLUSTER_AUTHORIZATION_FAILED of the whole request: the principal may not alter the cluster, and
  sets not only its own password.
* CLUSTER_AUTHORIZATION_FAILED of a wish: whoever is the user would be a super user, or a broker,
  and the principal is no super user.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from oncelog_broker.server.authorizer import ALTER
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.peer_identity import ANONYMOUS
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.acls import USER
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.users import (
    SET_PASSWORD,
    AlteredUser,
    AlterUsersRequest,
    AlterUsersResponse,
    UserWish,
)


class GuardedUsers:
    """It knows whom only super users may alter."""

    def __init__(self, super_users: Collection[str], broker_principal: str) -> None:
        """Know the super users, and what brokers are called: a principal with ``{id}`` in it."""
        self.super_users = frozenset(super_users)
        self._before, _, self._after = broker_principal.partition("{id}")

    def guards(self, principal: str) -> bool:
        """Return whether the principal is a super user, or may be a broker."""
        if principal in self.super_users:
            return True
        before, after = self._before, self._after
        broker_id = principal[len(before) : len(principal) - len(after)]
        return principal == f"{before}{broker_id}{after}" and broker_id.isdecimal()


class AlterUsersHandler:
    """It forwards what is allowed to the controller."""

    def __init__(self, requests: ControllerRequests, guarded: GuardedUsers) -> None:
        self._requests = requests
        self._guarded = guarded

    async def handle_async(
        self, context: RequestContext, request: AlterUsersRequest
    ) -> AlterUsersResponse:
        """Return one result a wish, in order.

        :raises ClusterAuthorizationFailedError: the principal may not alter the cluster, and sets
            not only its own password.
        """
        error = self._requests.cluster_error(context, ALTER)
        if error is not None and not (
            request.wishes and all(_is_own_password(context, wish) for wish in request.wishes)
        ):
            raise error
        allowed = [wish for wish in request.wishes if self._allows(context, wish)]
        response = AlterUsersResponse()
        if allowed or not request.wishes:
            forwarded = replace(request, wishes=allowed)
            response = await self._requests.controller.handle(forwarded, internal=context.is_broker)
        answered = iter(response.results)
        refusal = ClusterAuthorizationFailedError("only a super user may alter this user")
        response.results = [
            next(answered)
            if self._allows(context, wish)
            else AlteredUser(wish.name, refusal.code, str(refusal))
            for wish in request.wishes
        ]
        return response

    def _allows(self, context: RequestContext, wish: UserWish) -> bool:
        return (
            not self._guarded.guards(f"{USER}{wish.name}")
            or context.principal in self._guarded.super_users
            or _is_own_password(context, wish)
        )


def _is_own_password(context: RequestContext, wish: UserWish) -> bool:
    principal = context.principal
    mine = principal == f"{USER}{wish.name}" and principal != ANONYMOUS
    return mine and wish.action == SET_PASSWORD
