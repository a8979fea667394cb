"""A task hands the driver this message when its rows are in the log, or need not be.

Rules: a message holds all that a commit in another process needs, and no connection. One without a
receipt has written nothing that a transaction could commit, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

if TYPE_CHECKING:
    from oncelog import Receipt, Ticket


class Outcome(StrEnum):
    """This is what became of a task's rows."""

    WRITTEN = "written"
    ALREADY_COMMITTED = "already committed"
    """An earlier run has committed this batch: the rows were read and dropped."""
    EMPTY = "empty"
    """There were none."""


@dataclass
class TaskMessage(WriterCommitMessage):
    """A task's message has ``ticket`` and ``receipt`` as JSON, by their own classes."""

    outcome: Outcome
    row_count: int = 0
    ticket: str | None = None
    receipt: str | None = None
    repeats: str | None = None
    """The ticket under which rows were dropped, because its batch is committed already."""
    run_id: str | None = None
    """The id of the query's run that the task worked for, where there is one."""


class MixedTransactionsError(RuntimeError):
    """The tasks of one write name different transactions: none can be committed for all."""


def transaction_of(
    messages: Iterable[WriterCommitMessage | None],
) -> tuple[Ticket, Sequence[Receipt]] | None:
    """Return the tasks' transaction and the receipts of its winners; None if there is none to end.

    Tasks that failed have no message.

    :raises MixedTransactionsError: there is more than one.
    :raises TypeError: a message of somebody else.
    """
    from oncelog import Receipt, Ticket

    tickets: dict[str, None] = {}
    receipts: list[Receipt] = []
    for message in messages:
        if message is None:
            continue
        if not isinstance(message, TaskMessage):
            raise TypeError(f"a {type(message).__name__} is no message of this sink")
        if message.ticket is not None:
            tickets[message.ticket] = None
        if message.receipt is not None:
            receipts.append(Receipt.from_json(message.receipt))
    if not tickets:
        return None
    if len(tickets) > 1:
        raise MixedTransactionsError(
            f"the tasks wrote in {len(tickets)} transactions: {[*tickets]}"
        )
    return Ticket.from_json(next(iter(tickets))), receipts


def count_rows(messages: Iterable[WriterCommitMessage | None]) -> int:
    """Return how many rows the tasks wrote."""
    return sum(message.row_count for message in messages if isinstance(message, TaskMessage))
