"""JoinTxn: asked of the coordinator, by who may."""

from __future__ import annotations

import pytest

from oncelog_broker.server.authorizer import TRANSACTIONAL_ID, WRITE, AllowAllAuthorizer
from oncelog_broker.server.handlers.join_txn import JoinTxnHandler
from oncelog_protocol.errors import (
    InvalidRequestError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.shared_transactions import JoinTxnRequest
from support.fake_transactions import FakeTransactions
from support.server import Only, answer


def request(name: str) -> JoinTxnRequest:
    return JoinTxnRequest(name, 1, 2, "w", 60_000)


@pytest.mark.parametrize("code", [0, ProducerFencedError.code])
def test_what_the_coordinator_says(code: int) -> None:
    transactions = FakeTransactions(code)
    response = answer(JoinTxnHandler(transactions, AllowAllAuthorizer()), request("a"))
    assert response.error_code == code
    assert transactions.asked == [request("a")]


def test_ids_that_may_not_be_used() -> None:
    transactions = FakeTransactions()
    handler = JoinTxnHandler(transactions, Only((WRITE, TRANSACTIONAL_ID, "mine")))
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        answer(handler, request("a"))
    for name in ("", "__ordinals"):
        with pytest.raises(InvalidRequestError):
            answer(handler, request(name))
    assert not transactions.asked
    assert answer(handler, request("mine")).error_code == 0
