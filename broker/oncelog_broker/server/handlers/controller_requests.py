"""Authorization, internal topics and forwarding are the same for all of the controller's APIs.

A request for several topics is answered item by item. Items that the server itself refuses never
reach the controller; the controller's answers are put back in the order of the request. Internal
topics (``__consumer_offsets``, ``__transaction_state``) are not created, deleted, grown or altered
on listeners that are not internal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from oncelog_broker.server.authorizer import CLUSTER, CLUSTER_NAME, TOPIC, Authorizer
from oncelog_broker.server.controller_port import ControllerPort
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.limits import is_legal_topic
from oncelog_protocol.messages.admin import TopicResult
from oncelog_protocol.types import INTERNAL_TOPICS

R = TypeVar("R")


class ControllerRequests:
    """It asks the controller of this process, after refusing what can be refused without it."""

    def __init__(self, controller: ControllerPort, authorizer: Authorizer) -> None:
        self.controller = controller
        self.authorizer = authorizer

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

    def topic_error(self, context: RequestContext, operation: str, topic: str) -> ApiError | None:
        """Return why ``topic`` may not be touched, or None."""
        if not is_legal_topic(topic):
            return InvalidTopicError(f"{topic[:64]!r} is not a legal topic name")
        if topic in INTERNAL_TOPICS and not context.internal:
            return InvalidTopicError(f"topic {topic!r} is internal")
        if not self.authorizer.authorize(context, operation, TOPIC, topic):
            return TopicAuthorizationFailedError()
        return None

    async def topics(
        self,
        context: RequestContext,
        operation: str,
        names: Sequence[str],
        forward: Callable[[list[int]], Any],
    ) -> tuple[int, list[TopicResult]]:
        """Refuse what must be; ``forward(indexes)`` makes the request for the others.

        Return (whole-request error code, one result a name in their order).
        """
        results: list[TopicResult | None] = [None] * len(names)
        allowed = []
        for index, name in enumerate(names):
            error = self.topic_error(context, operation, name)
            if error is None:
                allowed.append(index)
            else:
                results[index] = TopicResult(name, error.code, str(error))
        code = 0
        if allowed:
            response = await self.controller.handle(forward(allowed), internal=context.internal)
            code = response.error_code
            for index, result in zip(allowed, response.topics, strict=False):
                results[index] = result
        return code, [r for r in results if r is not None]
