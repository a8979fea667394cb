"""APIs that a broker only checks and hands on have a handler of one of these kinds.

Each is made of a row of ``api_table``: what the API needs, and the service's method, bound. A
refusal of the whole request is raised; nothing reaches the service then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oncelog_broker.server.access import Access
from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_NAME, Authorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.request import RequestContext, Respond

Method = Callable[..., Any]


class _OneResource:
    """It knows who may do the operation to the one resource that a request names."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` is the service's, which serves a request that is allowed."""
        self._authorize = authorizer.authorize
        self._operation = access.operation
        self._resource_type = access.resource_type
        self._name = access.one()
        self._refusal = access.refusal
        self._method = method

    def _check(self, context: RequestContext, request: Any) -> None:
        if not self._authorize(context, self._operation, self._resource_type, self._name(request)):
            raise self._refusal


class HandedOn(_OneResource):
    """It serves who may do the operation to the one resource that the request names."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers.

        :raises ApiError: the principal may not.
        """
        self._check(context, request)
        self._method(request, respond)


class HandedOnWithPeer(_OneResource):
    """It tells the service the client's id and host as well, before the request."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers.

        :raises ApiError: the principal may not.
        """
        self._check(context, request)
        host = context.peer.rpartition(":")[0]
        self._method(context.client_id, host, request, respond)


class HandedOnUnderId:
    """It serves who may use the transactional id that the request names."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` takes the request and what answers it."""
        self._name = access.one()
        self._operation = access.operation
        self._method = method
        self._authorizer = authorizer

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers.

        :raises ApiError: the principal may not, or the id is nobody's.
        """
        check_transactional_id(self._authorizer, context, self._name(request), self._operation)
        self._method(request, respond)


class HandedOnForAll:
    """It serves everybody, and asks nobody."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` takes the request and what answers it."""
        self._method = method

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers."""
        self._method(request, respond)


class Listed:
    """It answers at once with those of the service's items that the principal may see."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` makes the answer of the request; ``access`` names what the answer lists."""
        self._access = access
        self._name = access.each()
        self._method = method
        self._authorizer = authorizer

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """What may not be seen is left out."""
        allowed, access, name = self._authorizer.authorize, self._access, self._name
        operation = access.operation
        response = self._method(request)
        if not (access.or_cluster and allowed(context, operation, CLUSTER, CLUSTER_NAME)):
            seen = [
                item
                for item in getattr(response, access.items)
                if allowed(context, operation, access.resource_type, name(item))
            ]
            response = replace(response, **{access.items: seen})
        respond(response)


class ToController(_OneResource):
    """It has the controller serve who may do the operation to the cluster."""

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """The controller's answer leaves as it is.

        :raises ClusterAuthorizationFailedError: the principal may not.
        """
        self._check(context, request)
        return await self._method(request, internal=context.internal)


class BrokerToController:
    """It has the controller serve a broker, of which the dispatcher has seen to it that it is
    one."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` is the controller's."""
        self._method = method

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """The controller's answer leaves as it is."""
        return await self._method(request, internal=True)


class TopicsToController:
    """It has the controller serve those of the topics that are legal and that the principal may
    touch; the others are refused with each. There is one result a topic, in order."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` is ``ControllerRequests.topics``, which asks the authorizer itself."""
        self._access = access
        self._name = access.each()
        self._method = method

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """Refused here are illegal and internal names (INVALID_TOPIC), and whom the authorizer
        refuses (TOPIC_AUTHORIZATION_FAILED)."""
        field = self._access.items
        items = getattr(request, field)

        def forwarded(indexes: list[int]) -> Any:
            return replace(request, **{field: [items[i] for i in indexes]})

        names = [self._name(item) for item in items]
        code, results = await self._method(context, self._access.operation, names, forwarded)
        return type(request).response(code, results)
