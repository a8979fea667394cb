"""OffsetFetch, v0, tells what a group has committed, once that cannot be lost any more.

It needs DESCRIBE on the group, and on each topic (TOPIC_AUTHORIZATION_FAILED; when all are asked
for, the others are left out). Further errors: those in ``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import DESCRIBE, GROUP, TOPIC, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.groups import (
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopicResponse,
)


class OffsetFetchHandler:
    """It serves OffsetFetch."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: OffsetFetchRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when all that was appended for the group before is committed.

        :raises GroupAuthorizationFailedError: the principal may not describe the group.
        """
        if not self._authorizer.authorize(context, DESCRIBE, GROUP, request.group_id):
            raise GroupAuthorizationFailedError

        def answer(response: OffsetFetchResponse) -> None:
            if response.error_code == NO_ERROR:
                response = self._shown(context, response, request)
            respond(response)

        self._groups.fetch_offsets(request, answer)

    def _shown(
        self, context: RequestContext, response: OffsetFetchResponse, request: OffsetFetchRequest
    ) -> OffsetFetchResponse:
        """Return what the principal may see of an answer, which may have waited until the ACLs in
        force were not known here any more."""
        try:
            seen = [self._seen(context, topic, request) for topic in response.topics]
        except ApiError as error:
            return OffsetFetchResponse(error.code)
        response.topics = [topic for topic in seen if topic is not None]
        return response

    def _seen(
        self,
        context: RequestContext,
        topic: OffsetFetchTopicResponse,
        request: OffsetFetchRequest,
    ) -> OffsetFetchTopicResponse | None:
        if request.topics is None:
            allowed = self._authorizer.decision(context, DESCRIBE, TOPIC, topic.topic).allowed
            return topic if allowed else None
        if self._authorizer.authorize(context, DESCRIBE, TOPIC, topic.topic):
            return topic
        code = TopicAuthorizationFailedError.code
        return OffsetFetchTopicResponse(
            topic.topic,
            [OffsetFetchPartitionResponse(p.partition, error_code=code) for p in topic.partitions],
        )
