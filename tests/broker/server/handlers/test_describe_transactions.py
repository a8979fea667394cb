"""DescribeTransactions shows each id to those who may, and only the topics that one may see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oncelog_broker.server.authorizer import (
    DESCRIBE,
    TOPIC,
    TRANSACTIONAL_ID,
    AllowAllAuthorizer,
)
from oncelog_broker.server.handlers.describe_transactions import DescribeTransactionsHandler
from oncelog_protocol.errors import TransactionalIdAuthorizationFailedError
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    DescribedWriter,
    DescribeTransactionsRequest,
)
from oncelog_protocol.messages.transactions import TxnTopic
from support.fake_transactions import FakeTransactions
from support.server import Only, answer


class Described(FakeTransactions):
    """Everything is open in two topics."""

    def describe(
        self,
        transactional_ids: Sequence[str],
        respond: Callable[[list[DescribedTransaction]], None],
    ) -> None:
        self.asked.append(list(transactional_ids))
        found = []
        for each in transactional_ids:
            topics = [TxnTopic("t", [0]), TxnTopic("u", [1])]
            writers = [DescribedWriter("w", 9, list(topics))]
            found.append(DescribedTransaction(0, each, "Ongoing", topics=topics, writers=writers))
        respond(found)


def test_all_in_order() -> None:
    handler = DescribeTransactionsHandler(Described(), AllowAllAuthorizer())
    response = answer(handler, DescribeTransactionsRequest(["b", "a", "b"]))
    assert [each.transactional_id for each in response.transactions] == ["b", "a", "b"]
    assert [topic.topic for topic in response.transactions[0].topics] == ["t", "u"]
    assert answer(handler, DescribeTransactionsRequest([])).transactions == []


def test_what_the_principal_may_see() -> None:
    transactions = Described()
    authorizer = Only((DESCRIBE, TRANSACTIONAL_ID, "a"), (DESCRIBE, TOPIC, "u"))
    handler = DescribeTransactionsHandler(transactions, authorizer)
    response = answer(handler, DescribeTransactionsRequest(["b", "a"]))
    refused, told = response.transactions
    assert (refused.transactional_id, refused.error_code, refused.state) == (
        "b",
        TransactionalIdAuthorizationFailedError.code,
        "",
    )
    assert transactions.asked == [["a"]]
    assert [topic.topic for topic in told.topics] == ["u"]
    assert [topic.topic for topic in told.writers[0].topics] == ["u"]
