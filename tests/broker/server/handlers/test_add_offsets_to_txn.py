"""AddOffsetsToTxn: the group's partition joins the transaction."""

from __future__ import annotations

from typing import cast

import pytest

from oncelog_broker.server.authorizer import (
    GROUP,
    READ,
    TRANSACTIONAL_ID,
    WRITE,
    AllowAllAuthorizer,
)
from oncelog_broker.server.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from oncelog_broker.server.internal_topics import InternalTopics
from oncelog_protocol.coordinators import GROUP_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    InvalidGroupIdError,
    InvalidRequestError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddOffsetsToTxnRequest,
    TxnTopic,
)
from support.fake_transactions import FakeTransactions
from support.server import Only, answer


class Topics:
    """They are there, not yet, or not as a whole."""

    def __init__(self, count: int | None = 4, there: bool = True) -> None:
        self.count = count
        self.there = there

    def ensure(self, topic: str) -> None:
        if not self.there:
            raise CoordinatorNotAvailableError

    def partition_count(self, topic: str) -> int | None:
        return self.count


def request(name: str = "a", group: str = "g") -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(name, 7, 1, group)


@pytest.mark.parametrize("code", [0, ProducerFencedError.code])
def test_the_partition_of_the_group(code: int) -> None:
    transactions = FakeTransactions(code)
    handler = AddOffsetsToTxnHandler(
        transactions, AllowAllAuthorizer(), cast(InternalTopics, Topics())
    )
    assert answer(handler, request()).error_code == code
    number = coordinator_partition("g", 4)
    assert transactions.asked == [AddedTransaction("a", 7, 1, [TxnTopic(GROUP_TOPIC, [number])])]


@pytest.mark.parametrize(
    ("asked", "topics", "error"),
    [
        (request(""), Topics(), InvalidRequestError),
        (request(group=""), Topics(), InvalidGroupIdError),
        (request("other"), Topics(), TransactionalIdAuthorizationFailedError),
        (request(group="other"), Topics(), GroupAuthorizationFailedError),
        (request(), Topics(there=False), CoordinatorNotAvailableError),
        (request(), Topics(None), CoordinatorNotAvailableError),
    ],
)
def test_refusals(asked: AddOffsetsToTxnRequest, topics: Topics, error: type[ApiError]) -> None:
    transactions = FakeTransactions()
    authorizer = Only((WRITE, TRANSACTIONAL_ID, "a"), (READ, GROUP, "g"))
    handler = AddOffsetsToTxnHandler(transactions, authorizer, cast(InternalTopics, topics))
    with pytest.raises(error):
        answer(handler, asked)
    assert not transactions.asked
