"""BeginSharedTxn: an ordinal for everybody."""

from __future__ import annotations

import pytest

from oncelog_broker.server.handlers.begin_shared_txn import BeginSharedTxnHandler
from oncelog_protocol.errors import NotCoordinatorError
from oncelog_protocol.messages.shared_transactions import BeginSharedTxnRequest
from support.fake_transactions import FakeTransactions
from support.server import answer


@pytest.mark.parametrize("code", [0, NotCoordinatorError.code])
def test_what_the_coordinator_says(code: int) -> None:
    transactions = FakeTransactions(code)
    response = answer(BeginSharedTxnHandler(transactions), BeginSharedTxnRequest())
    assert response.error_code == code
    assert len(transactions.asked) == 1
