"""The transaction as the sender of its records sees it: a port.

A session says whose batches go out and whether they may, and hears what becomes of them. A producer
without transactions has none. Two fulfil it: ``transactions.Transactions`` for a producer with a
transactional id, and the membership of a writer in a shared transaction.
"""

from __future__ import annotations

from typing import Protocol


class Session(Protocol):
    """A transaction tells and hears this."""

    @property
    def transactional_id(self) -> str:
        """Named in every Produce request."""
        ...

    @property
    def serial(self) -> int:
        """Another number in every transaction: what was begun in one is not taken in the next."""
        ...

    @property
    def history_number(self) -> int:
        """The transaction's number in the history; -1 without one."""
        ...

    @property
    def retries(self) -> bool:
        """Return whether a batch that failed is worth another attempt: not when all will be
        aborted."""
        ...

    def check_open(self) -> None:
        """Raise unless records may be sent now."""
        ...

    def touched(self) -> None:
        """A request goes out that may make the coordinator or a leader know the transaction."""
        ...

    def lost(self, error: BaseException) -> None:
        """A batch of it has failed for good: it cannot be committed any more."""
        ...
