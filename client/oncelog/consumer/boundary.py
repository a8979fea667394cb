"""The application, a run or transactions say what is committed of a consumer. Pure.

Rules
-----
* While a run works, its work says how far it is done, and hears of partitions that are taken away
  before they are given up.
* Positions of a consumer that has taken part in a transaction are committed by transactions, and by
  nothing else, from then on.
* At most one of them is at work: a run, or one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog.consumer.offset_metadata import Offsets
from oncelog.errors import ClientError
from oncelog_protocol.types import TopicPartition


class BoundaryWork(Protocol):
    """A run does this work on the records that the consumer hands out."""

    def done_offsets(self) -> Offsets:
        """Return the offset that may be committed now, of every partition that has a position."""
        ...

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None:
        """End the work on records of these partitions, which are given up after that."""
        ...


class Boundary:
    """One consumer's boundary says what its group commits."""

    def __init__(self) -> None:
        self.work: BoundaryWork | None = None
        """The run that is under way."""
        self.in_transactions = False
        """Whether positions are committed by transactions alone."""
        self.transaction: object = None
        """The part of the consumer in the transaction that is open."""

    def begin_work(self, work: BoundaryWork) -> None:
        """Note that a run begins; raise ClientError when one is under way."""
        if self.work is not None:
            raise ClientError("run() is under way already: a consumer has one at a time")
        self.work = work

    def end_work(self) -> None:
        """Note that the run is over."""
        self.work = None

    def commit_by_transactions(self) -> None:
        """From now on let transactions alone commit positions."""
        self.in_transactions = True

    def check_free(self) -> None:
        """Raise ClientError when a transaction or a run has the consumer."""
        if self.transaction is not None or self.work is not None:
            raise ClientError("this consumer is in another transaction, or in run(), already")

    def enter(self, part: object) -> None:
        """Note that a transaction takes the consumer's positions."""
        self.in_transactions = True
        self.transaction = part

    def leave(self, part: object) -> bool:
        """Note that the transaction of ``part`` has ended. Return False if it had ended before."""
        if self.transaction is not part:
            return False
        self.transaction = None
        return True
