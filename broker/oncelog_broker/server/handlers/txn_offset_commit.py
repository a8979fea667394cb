"""The offsets of a transaction become a group's by TxnOffsetCommit, v0 and v1, when it commits.

It is answered when they are pending for good: the group's coordinator has had its partition added
to the transaction, and what it wrote is committed. It needs WRITE on the transactional id, READ on
the group, and on each topic (TOPIC_AUTHORIZATION_FAILED). Partitions that this broker does not know
are refused with UNKNOWN_TOPIC_OR_PARTITION, those of another topic of that name with
INCONSISTENT_TOPIC_ID; the others are taken. Further errors: those in ``messages.transactions``.
"""

from __future__ import annotations

from functools import partial

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Authorizer
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.ports import Verifier
from oncelog_protocol.errors import (
    NO_ERROR,
    GroupAuthorizationFailedError,
    InconsistentTopicIdError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
    TxnOffsetCommitTopicResponse,
)

_Refused = dict[tuple[int, int], int]
"""It maps (index of topic, index of partition) to error codes."""


class TxnOffsetCommitHandler:
    """It serves TxnOffsetCommit. ``image`` says which partitions there are."""

    def __init__(
        self,
        groups: GroupCoordinator,
        authorizer: Authorizer,
        image: MetadataImage,
        verifier: Verifier,
    ) -> None:
        self._groups = groups
        self._authorizer = authorizer
        self._image = image
        self._verifier = verifier

    def handle(
        self,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when what can be pending is.

        :raises TransactionalIdAuthorizationFailedError: not under this transactional id.
        :raises GroupAuthorizationFailedError: the principal may not read of the group.
        :raises InvalidRequestError: there can be no such transaction.
        """
        allowed = self._authorizer.authorize
        if not allowed(context, WRITE, TRANSACTIONAL_ID, request.transactional_id):
            raise TransactionalIdAuthorizationFailedError
        if not allowed(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        if not request.transactional_id or request.producer_id < 0 or request.producer_epoch < 0:
            raise InvalidRequestError("a transaction has an id, a producer and an epoch")
        refused = self._refusals(context, request)
        asked = request if not refused else _without(request, refused)
        verify = partial(
            self._verifier.verify,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
        )
        self._groups.commit_in_txn(
            asked, verify, lambda answer: respond(_whole(request, refused, answer))
        )

    def _refusals(self, context: RequestContext, request: TxnOffsetCommitRequest) -> _Refused:
        found: _Refused = {}
        for t, topic in enumerate(request.topics):
            may = self._authorizer.authorize(context, READ, TOPIC, topic.topic)
            known = self._image.topics.get(topic.topic)
            for p, item in enumerate(topic.partitions):
                if not may:
                    found[t, p] = TopicAuthorizationFailedError.code
                elif known is None or item.partition not in known.partitions:
                    found[t, p] = UnknownTopicOrPartitionError.code
                elif topic.topic_id not in ("", known.topic_id):
                    found[t, p] = InconsistentTopicIdError.code
            topic.topic_id = topic.topic_id or self._image.topic_id(topic.topic)
        return found


def _without(request: TxnOffsetCommitRequest, refused: _Refused) -> TxnOffsetCommitRequest:
    """Return what is left to ask the coordinator; every topic keeps its place."""
    return TxnOffsetCommitRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.group_id,
        [
            TxnOffsetCommitTopic(
                topic.topic,
                [item for p, item in enumerate(topic.partitions) if (t, p) not in refused],
                topic.topic_id,
            )
            for t, topic in enumerate(request.topics)
        ],
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )


def _whole(
    request: TxnOffsetCommitRequest, refused: _Refused, answer: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    """Return the coordinator's answer, with what it was not asked in its place."""
    if answer.error_code != NO_ERROR or not refused:
        return answer
    answer.topics = [
        TxnOffsetCommitTopicResponse(topic.topic, _merged(t, topic, refused, given.partitions))
        for t, (topic, given) in enumerate(zip(request.topics, answer.topics, strict=True))
    ]
    return answer


def _merged(
    index: int,
    topic: TxnOffsetCommitTopic,
    refused: _Refused,
    answers: list[TxnOffsetCommitPartitionResponse],
) -> list[TxnOffsetCommitPartitionResponse]:
    given = iter(answers)
    return [
        TxnOffsetCommitPartitionResponse(item.partition, refused[index, p])
        if (index, p) in refused
        else next(given)
        for p, item in enumerate(topic.partitions)
    ]
