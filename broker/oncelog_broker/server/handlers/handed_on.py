"""APIs that a broker only checks and hands on have a handler of one of these kinds.

Each is made of a row of ``api_table``: what the API needs, and the service's method, bound. A
refusal of the whole request is raised; nothing reaches the service then. Who waits for the service
is refused as soon as the right to ask is taken back; what the service answers later is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from oncelog_broker.server.access import Access
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.request import Buffer, RequestContext, Respond
from oncelog_protocol.errors import ApiError

Method = Callable[..., Any]


class _Wait:
    """It answers a request once: when the service does, or when the right to ask is gone."""

    __slots__ = ("_parked", "_respond", "context", "done", "request")

    def __init__(
        self,
        context: RequestContext,
        request: Any,
        respond: Respond,
        parked: dict[_Wait, None],
    ) -> None:
        self.context = context
        self.request = request
        self.done = False
        self._respond = respond
        self._parked = parked

    def __call__(self, message: Any, payload: Sequence[Buffer] = ()) -> None:
        """Answer, unless that was done."""
        if not self.done:
            self.done = True
            self._parked.pop(self, None)
            self._respond(message, payload)


class _OneResource:
    """It knows who may do the operation to the one resource that a request names."""

    def __init__(self, access: Access, method: Method, authorizer: Authorizer) -> None:
        """``method`` is the service's, which serves a request that is allowed."""
        self._authorizer = authorizer
        self._access = access
        self._name = access.one()
        self._method = method
        self._parked: dict[_Wait, None] = {}
        """Requests that the service has not answered yet."""

    def look_again(self) -> None:
        """Refuse requests that wait for the service, and that would not be handed on any more."""
        for wait in list(self._parked):
            try:
                self._check(wait.context, wait.request)
            except ApiError as error:
                wait(type(wait.request).response(error_code=error.code))

    def _hand_on(self, context: RequestContext, request: Any, respond: Respond, *told: str) -> None:
        self._check(context, request)
        wait = _Wait(context, request, respond, self._parked)
        self._method(*told, request, wait)
        if not wait.done:
            self._parked[wait] = None

    def _check(self, context: RequestContext, request: Any) -> None:
        if not self._access.allows(self._authorizer, context, self._name(request)):
            raise self._access.refusal


class HandedOn(_OneResource):
    """It serves who may do the operation to the one resource that the request names."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers.

        :raises ApiError: the principal may not.
        """
        self._hand_on(context, request, respond)


class HandedOnWithPeer(_OneResource):
    """It tells the service the client's id and host as well, before the request."""

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        """The service answers.

        :raises ApiError: the principal may not.
        """
        host = context.peer.rpartition(":")[0]
        self._hand_on(context, request, respond, context.client_id, host)


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
        self._hand_on(context, request, respond)

    def _hand_on(self, context: RequestContext, request: Any, respond: Respond) -> None:
        self._method(request, respond)


class HandedOnWithKind(HandedOnUnderId):
    """It tells the service as well whether the client's transactions end by number."""

    def _hand_on(self, context: RequestContext, request: Any, respond: Respond) -> None:
        self._method(request, respond, by_number=context.by_number)


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
        access = self._access
        response = self._method(request)
        seen = [
            item
            for item in getattr(response, access.items)
            if access.decision(self._authorizer, context, self._name(item)).allowed
        ]
        respond(replace(response, **{access.items: seen}))


class ToController(_OneResource):
    """It has the controller serve who may do the operation to the cluster; the method is
    ``ControllerRequests.asked``."""

    async def handle_async(self, context: RequestContext, request: Any) -> Any:
        """The controller's answer leaves as it is.

        :raises ClusterAuthorizationFailedError: the principal may not.
        """
        self._check(context, request)
        return await self._method(context, request)


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
        code, results = await self._method(context, self._access, names, forwarded)
        return type(request).response(code, results)
