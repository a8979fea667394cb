"""A transaction is committed or aborted for good by EndTxn, v0.

It is answered when that is decided. It needs WRITE on the transactional id. Errors: those in
``messages.transactions``.
"""

from __future__ import annotations

from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.handlers.transactional_ids import check_transactional_id
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.transaction_port import TransactionsPort
from oncelog_protocol.messages.transactions import EndTxnRequest


class EndTxnHandler:
    """It serves EndTxn."""

    def __init__(self, transactions: TransactionsPort, authorizer: Authorizer) -> None:
        self._transactions = transactions
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: EndTxnRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Check the id, and let the coordinator answer.

        :raises ApiError: an id that may not be used.
        """
        check_transactional_id(self._authorizer, context, request.transactional_id)
        self._transactions.end_txn(request, respond)
