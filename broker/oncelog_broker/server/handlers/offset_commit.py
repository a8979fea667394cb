"""The offsets of a group are committed by OffsetCommit, v0 and v1.

It is answered when they are. It needs READ on the group, and on each topic
(TOPIC_AUTHORIZATION_FAILED). Partitions that this broker does not know are refused with
UNKNOWN_TOPIC_OR_PARTITION, those of another topic of that name with INCONSISTENT_TOPIC_ID; the
others are committed. A client that does not say of which topic its offsets are means the one that
there is now. Further errors: those in ``messages.groups``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

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
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

Commit = TypeVar("Commit", OffsetCommitRequest, TxnOffsetCommitRequest)

Refused = dict[tuple[int, int], int]
"""It maps (index of topic, index of partition) to error codes."""


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
        refused = refused_partitions(request, context, self._authorizer, self._image)
        if not refused:
            self._groups.commit(request, respond)
            return

        def answer(response: OffsetCommitResponse) -> None:
            put_back(response, request, refused, OffsetCommitPartitionResponse)
            respond(response)

        self._groups.commit(without(request, refused), answer)


def refused_partitions(
    request: Commit, context: RequestContext, authorizer: Authorizer, image: MetadataImage
) -> Refused:
    """Return what cannot be committed. A topic without an id gets the one that it has now."""
    refused: Refused = {}
    for t, topic in enumerate(request.topics):
        allowed = authorizer.authorize(context, READ, TOPIC, topic.topic)
        known = image.topics.get(topic.topic)
        for p, item in enumerate(topic.partitions):
            if not allowed:
                refused[t, p] = TopicAuthorizationFailedError.code
            elif known is None or item.partition not in known.partitions:
                refused[t, p] = UnknownTopicOrPartitionError.code
            elif topic.topic_id not in ("", known.topic_id):
                refused[t, p] = InconsistentTopicIdError.code
        topic.topic_id = topic.topic_id or image.topic_id(topic.topic)
    return refused


def without(request: Commit, refused: Refused) -> Commit:
    """Return what is left to ask the coordinator; every topic keeps its place."""
    topics: list[Any] = [
        replace(
            topic, partitions=[i for p, i in enumerate(topic.partitions) if (t, p) not in refused]
        )
        for t, topic in enumerate(request.topics)
    ]
    return replace(request, topics=topics)


def put_back(
    response: OffsetCommitResponse | TxnOffsetCommitResponse,
    request: Commit,
    refused: Refused,
    refusal: Callable[[int, int], Any],
) -> None:
    """Put what the coordinator was not asked in its place in its answer, as ``refusal`` of
    partition and error code."""
    if response.error_code != NO_ERROR:
        return
    answered: list[Any] = response.topics
    for t, (topic, given) in enumerate(zip(request.topics, answered, strict=True)):
        answers = iter(given.partitions)
        given.partitions = [
            refusal(item.partition, refused[t, p]) if (t, p) in refused else next(answers)
            for p, item in enumerate(topic.partitions)
        ]
