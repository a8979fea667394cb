"""BeginSharedTxn, v0, gets an ordinal from the coordinator of the ordinals.

It binds nothing, so that everybody may have one. Errors: those in ``messages.shared_transactions``.
"""

from __future__ import annotations

from oncelog_broker.server.request import RequestContext, Respond
from oncelog_broker.server.transaction_port import TransactionsPort
from oncelog_protocol.messages.shared_transactions import BeginSharedTxnRequest


class BeginSharedTxnHandler:
    """It serves BeginSharedTxn."""

    def __init__(self, transactions: TransactionsPort) -> None:
        self._transactions = transactions

    def handle(
        self,
        context: RequestContext,
        request: BeginSharedTxnRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer when the ordinal can be given to nobody else any more."""
        self._transactions.begin_shared(request, respond)
