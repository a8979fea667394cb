"""Authorization, internal topics and forwarding are the same for all of the controller's APIs.

A request for several topics is answered item by item. Items that the server itself refuses never
reach the controller; the controller's answers are put back in the order of the request. Internal
topics (``__consumer_offsets``, ``__transaction_state``) are not created, deleted, grown or altered
on listeners that are not internal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from oncelog_broker.server.access import SEE_TOPIC, Access
from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_NAME, Authorizer
from oncelog_broker.server.controller_port import ControllerPort
from oncelog_broker.server.mutation_quota import MutationQuota
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    NotControllerError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.limits import is_legal_topic
from oncelog_protocol.messages.admin import TopicResult
from oncelog_protocol.messages.base import Request
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.types import INTERNAL_TOPICS

R = TypeVar("R")
HANDED_ON_S = 10.0
"""The controller has so long to answer what another broker hands on."""


class ControllerAsked(Protocol):
    """It is the way to the controller; ``ControllerChannel`` is one."""

    async def call(self, request: Request, *, timeout_s: float) -> Any:
        """Return the controller's answer. :raises TimeoutError: there was none in time."""
        ...


class ControllerRequests:
    """It asks the controller of this process, after refusing what can be refused without it.

    :param elsewhere: leads to the controller where that is another broker.
    """

    def __init__(
        self,
        controller: ControllerPort,
        authorizer: Authorizer,
        mutations: MutationQuota | None = None,
        elsewhere: ControllerAsked | None = None,
    ) -> None:
        self.controller = controller
        self.authorizer = authorizer
        self.elsewhere = elsewhere
        self._mutations = mutations

    def require_cluster(self, context: RequestContext, operation: str) -> None:
        """Check that the principal may do ``operation`` to the cluster.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        if not self.authorizer.authorize(context, operation, CLUSTER, CLUSTER_NAME):
            raise ClusterAuthorizationFailedError

    def cluster_error(self, context: RequestContext, operation: str) -> ApiError | None:
        """Return why the cluster's own settings may not be touched, or None."""
        try:
            self.require_cluster(context, operation)
        except ApiError as error:
            return error
        return None

    def topic_error(self, context: RequestContext, access: Access, topic: str) -> ApiError | None:
        """Return why ``topic`` may not be touched, or None."""
        if not is_legal_topic(topic):
            return InvalidTopicError(f"{topic[:64]!r} is not a legal topic name")
        if topic in INTERNAL_TOPICS and not context.is_broker:
            return InvalidTopicError(f"topic {topic!r} is internal")
        if not access.allows(self.authorizer, context, topic):
            return TopicAuthorizationFailedError()
        return None

    async def asked(self, context: RequestContext, request: Any) -> Any:
        """Return the controller's answer to what is allowed, as it is.

        Clients of Kafka ask any broker, and some do not ask another one after NOT_CONTROLLER: for
        them a broker hands on what it has allowed, and the controller takes its word for that.
        """
        response = await self.controller.handle(
            request, internal=context.is_broker, asker=context.principal
        )
        if context.magic != KAFKA_MAGIC or self.elsewhere is None:
            return response
        if response.error_code != NotControllerError.code:
            return response
        try:
            return await self.elsewhere.call(request, timeout_s=HANDED_ON_S)
        except TimeoutError:
            return response  # it is what is known here

    async def topics(
        self,
        context: RequestContext,
        access: Access,
        names: Sequence[str],
        forward: Callable[[list[int]], Any],
    ) -> tuple[int, list[TopicResult]]:
        """Refuse what must be; ``forward(indexes)`` makes the request for the others.

        Return (whole-request error code, one result a name in their order).
        """
        results: list[TopicResult | None] = [None] * len(names)
        allowed = []
        for index, name in enumerate(names):
            error = self.topic_error(context, access, name)
            if error is None:
                allowed.append(index)
            else:
                results[index] = TopicResult(name, error.code, str(error))
        for index in self._beyond_quota(context, allowed, forward):
            error = ThrottlingQuotaExceededError("too many partitions are created or deleted")
            results[index] = TopicResult(names[index], error.code, str(error))
            allowed.remove(index)
        code = 0
        if allowed:
            response = await self.controller.handle(forward(allowed), internal=context.is_broker)
            code = response.error_code
            for index, result in zip(allowed, response.topics, strict=False):
                results[index] = self._seen(context, result)
        return code, [r for r in results if r is not None]

    def _beyond_quota(
        self, context: RequestContext, allowed: list[int], forward: Callable[[list[int]], Any]
    ) -> list[int]:
        """Return those of ``allowed`` that the quota of the asker does not let pass."""
        if self._mutations is None or not allowed:
            return []
        refused = self._mutations.refused(context, forward(allowed))
        return [allowed[position] for position in sorted(refused)]

    def _seen(self, context: RequestContext, result: TopicResult) -> TopicResult:
        """Return the controller's result, which must not tell that a hidden topic is there."""
        if result.error_code != TopicAlreadyExistsError.code:
            return result
        if SEE_TOPIC.decision(self.authorizer, context, result.topic).allowed:
            return result
        error = TopicAuthorizationFailedError()
        return TopicResult(result.topic, error.code, str(error))
