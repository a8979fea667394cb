"""A session is the transaction as the sender of its records sees it: a port.

A session says whose batches go out and whether they may, and hears what becomes of them. A producer
without transactions has none. Two fulfil it: ``transactions.Transactions`` for a producer with a
transactional id, and the membership of a writer in a shared transaction.
"""

from __future__ import annotations

from typing import Protocol


class TransactionSession(Protocol):
    """A transaction tells and hears this."""

    @property
    def transactional_id(self) -> str:
        """Return the id that is named in every Produce request."""
        ...

    @property
    def serial(self) -> int:
        """Return another number in every transaction: a record is not taken in the next one."""
        ...

    @property
    def history_number(self) -> int:
        """Return the transaction's number in the history; -1 without one."""
        ...

    @property
    def retries(self) -> bool:
        """Return whether a batch that failed is tried again: not when all will be aborted."""
        ...

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        ...

    def touched(self) -> None:
        """Note that a request goes out which may make brokers know the transaction."""
        ...

    def lost(self, error: BaseException) -> None:
        """Note that a batch of it has failed for good: it cannot be committed any more."""
        ...
