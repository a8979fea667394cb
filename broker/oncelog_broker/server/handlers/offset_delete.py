"""Committed offsets of topics without readers in the group are deleted by OffsetDelete, v0.

See KIP-496. It needs DELETE on the group, and READ on each topic (TOPIC_AUTHORIZATION_FAILED).
Further errors: those in ``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import DELETE, GROUP, READ, TOPIC, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.groups import (
    OffsetDeletePartitionResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteTopicResponse,
    OffsetFetchTopic,
)


class OffsetDeleteHandler:
    """It serves OffsetDelete."""

    def __init__(self, groups: GroupCoordinator, authorizer: Authorizer) -> None:
        self._groups = groups
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: OffsetDeleteRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when it is committed.

        :raises GroupAuthorizationFailedError: the principal may not delete of the group.
        """
        if not self._authorizer.authorize(context, DELETE, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        allowed = [
            self._authorizer.authorize(context, READ, TOPIC, topic.topic)
            for topic in request.topics
        ]

        def answer(response: OffsetDeleteResponse) -> None:
            if response.error_code == NO_ERROR:
                given = iter(response.topics)
                response.topics = [
                    next(given) if may else _refused(topic)
                    for topic, may in zip(request.topics, allowed, strict=True)
                ]
            respond(response)

        asked = [topic for topic, may in zip(request.topics, allowed, strict=True) if may]
        self._groups.delete_offsets(OffsetDeleteRequest(request.group_id, asked), answer)


def _refused(topic: OffsetFetchTopic) -> OffsetDeleteTopicResponse:
    code = TopicAuthorizationFailedError.code
    return OffsetDeleteTopicResponse(
        topic.topic, [OffsetDeletePartitionResponse(p, code) for p in topic.partitions]
    )
