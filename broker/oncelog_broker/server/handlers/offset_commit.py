"""The offsets of a group are committed by OffsetCommit, v0 and v1.

It is answered when they are. It needs READ on the group, and on each topic
(TOPIC_AUTHORIZATION_FAILED). Partitions that this broker does not know are refused with
UNKNOWN_TOPIC_OR_PARTITION, those of another topic of that name with INCONSISTENT_TOPIC_ID; the
others are committed. A client that does not say of which topic its offsets are means the one that
there is now. Further errors: those in ``messages.groups``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, TOPIC, Authorizer
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    GroupAuthorizationFailedError,
    InconsistentTopicIdError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.groups import (
    OffsetCommitPartitionResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetCommitTopicResponse,
)


class OffsetCommitHandler:
    """It serves OffsetCommit. ``image`` says which partitions there are."""

    def __init__(
        self, groups: GroupCoordinator, authorizer: Authorizer, image: MetadataImage
    ) -> None:
        self._groups = groups
        self._authorizer = authorizer
        self._image = image

    def handle(
        self,
        context: RequestContext,
        request: OffsetCommitRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when what can be committed is.

        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        """
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        refused: dict[tuple[int, int], int] = {}
        for t, topic in enumerate(request.topics):
            allowed = self._authorizer.authorize(context, READ, TOPIC, topic.topic)
            for p, code in self._refusals(topic, allowed):
                refused[t, p] = code
            topic.topic_id = topic.topic_id or self._image.topic_id(topic.topic)
        if not refused:
            self._groups.commit(request, respond)
            return
        rest = [
            OffsetCommitTopic(
                topic.topic,
                [item for p, item in enumerate(topic.partitions) if (t, p) not in refused],
                topic.topic_id,
            )
            for t, topic in enumerate(request.topics)
        ]
        asked = OffsetCommitRequest(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            rest,
        )
        self._groups.commit(asked, lambda answer: respond(_whole(request, refused, answer)))

    def _refusals(self, topic: OffsetCommitTopic, allowed: bool) -> list[tuple[int, int]]:
        known = self._image.topics.get(topic.topic)
        found = []
        for index, item in enumerate(topic.partitions):
            if not allowed:
                found.append((index, TopicAuthorizationFailedError.code))
            elif known is None or item.partition not in known.partitions:
                found.append((index, UnknownTopicOrPartitionError.code))
            elif topic.topic_id not in ("", known.topic_id):
                found.append((index, InconsistentTopicIdError.code))
        return found


def _whole(
    request: OffsetCommitRequest,
    refused: dict[tuple[int, int], int],
    answer: OffsetCommitResponse,
) -> OffsetCommitResponse:
    """Return the coordinator's answer, with what it was not asked in its place."""
    if answer.error_code != NO_ERROR:
        return answer
    answer.topics = [
        OffsetCommitTopicResponse(topic.topic, _merged(t, topic, refused, given.partitions))
        for t, (topic, given) in enumerate(zip(request.topics, answer.topics, strict=True))
    ]
    return answer


def _merged(
    index: int,
    topic: OffsetCommitTopic,
    refused: dict[tuple[int, int], int],
    answers: list[OffsetCommitPartitionResponse],
) -> list[OffsetCommitPartitionResponse]:
    given = iter(answers)
    return [
        OffsetCommitPartitionResponse(item.partition, refused[index, p])
        if (index, p) in refused
        else next(given)
        for p, item in enumerate(topic.partitions)
    ]
