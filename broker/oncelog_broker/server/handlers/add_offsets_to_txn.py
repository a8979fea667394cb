"""AddOffsetsToTxn, v0, adds the offsets partition of a group to a transaction.

It needs WRITE on the transactional id and READ on the group. Clients need not ask: TxnOffsetCommit
adds the partition. Errors: those in ``messages.transactions``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.server.authorizer import GROUP, READ, Authorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsResult,
    TxnTopic,
)


class AddOffsetsToTxnHandler:
    """It serves AddOffsetsToTxn."""

    def __init__(
        self, transactions: TransactionCoordinator, authorizer: Authorizer, topics: InternalTopics
    ) -> None:
        self._transactions = transactions
        self._authorizer = authorizer
        self._topics = topics

    def handle(
        self,
        context: RequestContext,
        request: AddOffsetsToTxnRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Find the group's partition, and let the coordinator answer.

        :raises ApiError: an id or a group that may not be used, or nobody knows which partition.
        """
        check_transactional_id(self._authorizer, context, request.transactional_id)
        if not request.group_id:
            raise InvalidGroupIdError("a group has a name")
        if not self._authorizer.authorize(context, READ, GROUP, request.group_id):
            raise GroupAuthorizationFailedError
        self._topics.ensure(GROUP_TOPIC)
        count = self._topics.partition_count(GROUP_TOPIC)
        if count is None:
            raise CoordinatorNotAvailableError(f"{GROUP_TOPIC} is not wholly known yet")
        partition = coordinator_partition(request.group_id, count)
        added = AddedTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [TxnTopic(GROUP_TOPIC, [partition])],
        )

        def answer(result: AddPartitionsResult) -> None:
            respond(AddOffsetsToTxnResponse(result.error_code, result.error_message))

        self._transactions.add_partitions(added, answer, by_number=context.by_number)
