"""ListTransactions: those that the principal may see."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import (
    DESCRIBE,
    TRANSACTIONAL_ID,
    AllowAllAuthorizer,
    Authorizer,
)
from oncelog_broker.server.handlers.list_transactions import ListTransactionsHandler
from oncelog_protocol.errors import CoordinatorLoadInProgressError
from oncelog_protocol.messages.transaction_admin import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from support.fake_transactions import FakeTransactions
from support.server import Only, answer


@pytest.mark.parametrize(
    ("authorizer", "seen"),
    [
        (AllowAllAuthorizer(), ["a", "b"]),
        (Only((DESCRIBE, TRANSACTIONAL_ID, "b")), ["b"]),
        (Only(), []),
    ],
)
def test_listing(authorizer: Authorizer, seen: list[str]) -> None:
    transactions = FakeTransactions()
    transactions.listed = ListTransactionsResponse(
        CoordinatorLoadInProgressError.code,
        [ListedTransaction(name, 7, "Ongoing") for name in ("a", "b")],
    )
    asked = ListTransactionsRequest(["Ongoing"])
    response = answer(ListTransactionsHandler(transactions, authorizer), asked)
    assert [listed.transactional_id for listed in response.transactions] == seen
    assert response.error_code == CoordinatorLoadInProgressError.code
    assert transactions.asked == [asked]
