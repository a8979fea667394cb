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
from oncelog_broker.server.authorizer import GROUP, READ, TRANSACTIONAL_ID, WRITE, Authorizer
from oncelog_broker.server.handlers.offset_commit import put_back, refused_partitions, without
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.transactions.ports import Verifier
from oncelog_protocol.errors import (
    GroupAuthorizationFailedError,
    InvalidRequestError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.transactions import (
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)


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
        refused = refused_partitions(request, context, self._authorizer, self._image)
        verifier = self._verifier
        verify = partial(
            verifier.verify_number if context.by_number else verifier.verify,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
        )

        def answer(response: TxnOffsetCommitResponse) -> None:
            put_back(response, request, refused, TxnOffsetCommitPartitionResponse)
            respond(response)

        commit = partial(self._groups.commit_in_txn, by_number=context.by_number)
        if refused:
            commit(without(request, refused), verify, answer)
        else:
            commit(request, verify, respond)
