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

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog.consumer.offset_metadata import OffsetAndMetadata
from oncelog.errors import ClientError
from oncelog_protocol.types import TopicPartition


class Work(Protocol):
    """A run that handles what the consumer hands out."""

    def done_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return what may be committed now, of every partition that has a position."""
        ...

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None:
        """End the work on records of these partitions: they are given up after that."""
        ...


class Boundary:
    """The boundary between the application and the group of one consumer."""

    def __init__(self) -> None:
        self.work: Work | None = None
        """The run that is under way."""
        self.in_transactions = False
        """Whether positions are committed by transactions alone."""
        self.transaction: object = None
        """The part of the consumer in the transaction that is open."""

    def begin_work(self, work: Work) -> None:
        """A run begins.

        :raises ClientError: one is under way.
        """
        if self.work is not None:
            raise ClientError("run() is under way already: a consumer has one at a time")
        self.work = work

    def end_work(self) -> None:
        """The run is over."""
        self.work = None

    def commit_by_transactions(self) -> None:
        """Nothing else commits from now on."""
        self.in_transactions = True

    def check_free(self) -> None:
        """:raises ClientError: a transaction has the consumer, or a run."""
        if self.transaction is not None or self.work is not None:
            raise ClientError("this consumer is in another transaction, or in run(), already")

    def enter(self, part: object) -> None:
        """A transaction takes the consumer's positions."""
        self.in_transactions = True
        self.transaction = part

    def leave(self, part: object) -> bool:
        """The transaction of ``part`` has ended. Returns False if it had before."""
        if self.transaction is not part:
            return False
        self.transaction = None
        return True
