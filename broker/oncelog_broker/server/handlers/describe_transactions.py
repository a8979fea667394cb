"""The coordinator is asked by DescribeTransactions, v0, for the state of transactional ids.

It needs DESCRIBE on each id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED stands with it), and on the
topics that are named: others are left out. Further errors: those in ``messages.transaction_admin``.
"""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.service import TransactionCoordinator
from oncelog_broker.server.authorizer import DESCRIBE, TOPIC, TRANSACTIONAL_ID, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import TransactionalIdAuthorizationFailedError
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncelog_protocol.messages.transactions import TxnTopic


class DescribeTransactionsHandler:
    """It serves DescribeTransactions."""

    def __init__(self, transactions: TransactionCoordinator, authorizer: Authorizer) -> None:
        self._transactions = transactions
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeTransactionsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when all that is told is committed; there is one answer an id, in order."""
        asked = request.transactional_ids
        allowed = [
            self._authorizer.authorize(context, DESCRIBE, TRANSACTIONAL_ID, each) for each in asked
        ]

        def answer(found: list[DescribedTransaction]) -> None:
            given = iter(found)
            code = TransactionalIdAuthorizationFailedError.code
            described = [
                self._visible(context, next(given)) if may else DescribedTransaction(code, each)
                for each, may in zip(asked, allowed, strict=True)
            ]
            respond(DescribeTransactionsResponse(0, described))

        self._transactions.describe(
            [each for each, may in zip(asked, allowed, strict=True) if may], answer
        )

    def _visible(
        self, context: RequestContext, described: DescribedTransaction
    ) -> DescribedTransaction:
        described.topics = self._visible_topics(context, described.topics)
        for writer in described.writers:
            writer.topics = self._visible_topics(context, writer.topics)
        return described

    def _visible_topics(self, context: RequestContext, topics: list[TxnTopic]) -> list[TxnTopic]:
        decision = self._authorizer.decision
        return [each for each in topics if decision(context, DESCRIBE, TOPIC, each.topic).allowed]
