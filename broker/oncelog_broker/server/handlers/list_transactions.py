"""ListTransactions, v0, shows the transactional ids that this broker coordinates.

Those that the principal may DESCRIBE are listed. COORDINATOR_LOAD_IN_PROGRESS stands beside what is
known already.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import DESCRIBE, TRANSACTIONAL_ID, Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.transaction_port import TransactionsPort
from oncelog_protocol.messages.transaction_admin import ListTransactionsRequest


class ListTransactionsHandler:
    """It serves ListTransactions."""

    def __init__(self, transactions: TransactionsPort, authorizer: Authorizer) -> None:
        self._transactions = transactions
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: ListTransactionsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer at once."""
        response = self._transactions.list(request)
        response.transactions = [
            listed
            for listed in response.transactions
            if self._authorizer.authorize(
                context, DESCRIBE, TRANSACTIONAL_ID, listed.transactional_id
            )
        ]
        respond(response)
