"""The driver makes something of the messages of tasks."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from oncelog import Receipt, Ticket
from pyspark_oncelog.commit_message import (
    MixedTransactionsError,
    Outcome,
    TaskMessage,
    count_rows,
    transaction_of,
)

TICKET = Ticket("127.0.0.1:9092", "spark-q", 7, 3)


def written(number: int, ticket: Ticket = TICKET) -> TaskMessage:
    receipt = Receipt(f"w{number}", number)
    return TaskMessage(Outcome.WRITTEN, 10 * number, ticket.to_json(), receipt.to_json())


def test_winners_are_those_that_wrote() -> None:
    messages = [written(1), None, TaskMessage(Outcome.EMPTY), written(2)]
    messages = pickle.loads(pickle.dumps(messages))
    assert transaction_of(messages) == (TICKET, [Receipt("w1", 1), Receipt("w2", 2)])
    assert count_rows(messages) == 30


def test_nothing_to_commit() -> None:
    assert transaction_of([]) is None
    assert transaction_of([None, TaskMessage(Outcome.EMPTY)]) is None
    assert transaction_of([TaskMessage(Outcome.ALREADY_COMMITTED)] * 2) is None
    assert count_rows([None, TaskMessage(Outcome.ALREADY_COMMITTED)]) == 0


def test_tasks_of_two_transactions_are_refused() -> None:
    other = Ticket("127.0.0.1:9092", "spark-q", 8, 3)
    with pytest.raises(MixedTransactionsError, match="2 transactions"):
        transaction_of([written(1), written(2, other)])


def test_messages_of_somebody_else_are_refused() -> None:
    with pytest.raises(TypeError, match="WriterCommitMessage"):
        transaction_of([WriterCommitMessage()])
