"""Partitions are added to transactions by AddPartitionsToTxn, v0 and v1; it waits for the commit.

Leaders ask for many transactions at once (KIP-890); they have checked who writes. Only brokers may
(CLUSTER_AUTHORIZATION_FAILED, the whole request). A client needs
WRITE on its transactional id and on the topics, which must exist. Errors: those in
``messages.transactions``, with each transaction.

One transaction must not hold up the others of a request, nor the requests behind it: when some are
still parked at the coordinator ``PARKED_S`` after the request came, they are answered
CONCURRENT_TRANSACTIONS, to be asked for again. The partitions may be added nevertheless, which is
harmless.
"""

from __future__ import annotations

import asyncio
from functools import partial

from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.replication.purgatory import Deadline, Deadlines
from oncelog_broker.server.authorizer import (
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    TOPIC,
    WRITE,
    Authorizer,
)
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from oncelog_protocol.types import INTERNAL_TOPICS, TopicPartition

PARKED_S = 0.1


class _GatheredResults:
    """It gathers the results of one request, as they come."""

    __slots__ = ("deadline", "missing", "respond", "results")

    def __init__(self, asked: list[AddedTransaction], respond: Respond) -> None:
        self.results: list[AddPartitionsResult | None] = [None] * len(asked)
        self.missing = len(asked)
        self.respond = respond
        self.deadline: Deadline | None = None

    def put(self, index: int, result: AddPartitionsResult) -> None:
        """Take in one result; one that comes late changes nothing."""
        if self.results[index] is None:
            self.results[index] = result
            self.missing -= 1
            if not self.missing:
                self.answer()

    def answer(self) -> None:
        """Answer the request, as all results are known."""
        if self.deadline is not None:
            self.deadline.cancel()
        results = [result for result in self.results if result is not None]
        self.respond(AddPartitionsToTxnResponse(0, results))


class AddPartitionsToTxnHandler:
    """It serves AddPartitionsToTxn."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        authorizer: Authorizer,
        image: MetadataImage,
        deadlines: Deadlines,
    ) -> None:
        self._transactions = transactions
        self._authorizer = authorizer
        self._image = image
        self._deadlines = deadlines

    def handle(
        self,
        context: RequestContext,
        request: AddPartitionsToTxnRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Ask the coordinator; answer when all are known, or the time for those that are parked is
        up.

        :raises ClusterAuthorizationFailedError: a client asks for many.
        """
        asked = request.transactions
        if len(asked) > 1 and not self._is_leader(context):
            raise ClusterAuthorizationFailedError("only brokers add to many transactions at once")
        gathered = _GatheredResults(asked, respond)
        if not asked:
            gathered.answer()
            return
        for index, transaction in enumerate(asked):
            try:
                self._check(context, transaction)
            except ApiError as error:
                gathered.put(index, _refused(transaction, error.code, str(error)))
            else:
                put = partial(gathered.put, index)
                self._transactions.add_partitions(transaction, put, by_number=context.by_number)
        if gathered.missing:

            def expired() -> None:
                gathered.deadline = None
                for index, transaction in enumerate(asked):
                    gathered.put(index, _refused(transaction, ConcurrentTransactionsError.code))

            gathered.deadline = self._deadlines.add(
                asyncio.get_running_loop().time() + PARKED_S, expired
            )

    def _check(self, context: RequestContext, transaction: AddedTransaction) -> None:
        """Check whether the asker may add these partitions, and that they exist.

        :raises ApiError: the transaction is not even looked for.
        """
        by_leader = self._is_leader(context)
        if not by_leader:
            check_transactional_id(self._authorizer, context, transaction.transactional_id)
        for topic in transaction.topics:
            if not by_leader:
                self._check_topic(context, topic.topic)
            known = self._image.topics.get(topic.topic)
            for partition in topic.partitions:
                if known is None or partition not in known.partitions:
                    # This holds for a leader that knows more than this broker, too: nobody could
                    # tell later whether the topic is new or gone.
                    where = TopicPartition(topic.topic, partition)
                    raise UnknownTopicOrPartitionError(f"{where} is not known here")

    def _is_leader(self, context: RequestContext) -> bool:
        if not context.is_broker:
            return False
        return self._authorizer.decision(context, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME).allowed

    def _check_topic(self, context: RequestContext, topic: str) -> None:
        """Check whether a client may write to ``topic``, before it is told whether there is one."""
        if topic in INTERNAL_TOPICS:
            raise InvalidRequestError(f"{topic} is internal")
        if not self._authorizer.authorize(context, WRITE, TOPIC, topic):
            raise TopicAuthorizationFailedError(f"may not write to {topic}")


def _refused(
    transaction: AddedTransaction, error_code: int, message: str | None = None
) -> AddPartitionsResult:
    return AddPartitionsResult(transaction.transactional_id, error_code, message)
