"""Admin calls about transactions and producers return typed values, one result an item.

Rules: what is not known is None, never 0 or -1; times are milliseconds since 1970; an item that
failed does not hide the others (see ``admin_results``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from oncelog.admin.results import Found, raise_one_or_all
from oncelog.errors import ApiError, ClientError
from oncelog_protocol.types import TopicPartition

TransactionState = Literal[
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"
]
TRANSACTION_STATES: tuple[TransactionState, ...] = get_args(TransactionState)
OPEN_STATES: tuple[TransactionState, ...] = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""A coordinator still has something to do in these states."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A coordinator lists this id; a shared transaction has no ``producer_id`` of its own."""

    transactional_id: str
    state: str
    producer_id: int | None
    shared: bool
    coordinator: int


class TransactionListings(Found[TransactionListing]):
    """The listings are sorted by id; those of a broker in ``unanswered`` may be missing."""


@dataclass(frozen=True, slots=True)
class WriterDescription:
    """A shared transaction has this writer, which has written to these partitions."""

    writer: str
    producer_id: int
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A coordinator describes one transactional id with these fields.

    ``start_ms`` and ``partitions`` belong to the open transaction, if there is one. The fields from
    ``shared`` on belong to shared transactions.
    """

    transactional_id: str
    error: ApiError | None = None
    state: str = ""
    coordinator: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    start_ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    shared: bool = False
    ordinal: int | None = None
    tag: int | None = None
    last_committed_tag: int | None = None
    writers: tuple[WriterDescription, ...] = ()

    @property
    def is_open(self) -> bool:
        """Return whether the coordinator still has something to do for it."""
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A partition remembers this about one producer.

    ``coordinator_epoch`` is the epoch of its last marker. Its open transaction begins at
    ``txn_start_offset``.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None = None
    txn_start_offset: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionProducers:
    """A partition still remembers these producers."""

    partition: TopicPartition
    error: ApiError | None = None
    producers: tuple[ProducerDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A hanging transaction holds up readers at read_committed, and no coordinator will end it."""

    partition: TopicPartition
    producer: ProducerDescription
    transactional_id: str | None = None
    """The producer had this id, if a coordinator still knows that."""

    @property
    def start_offset(self) -> int:
        """Return the offset at which the transaction begins."""
        return self.producer.txn_start_offset or 0


class HangingTransactions(Found[HangingTransaction]):
    """The list has the hanging transactions by partition.

    ``errors`` has those of partitions that could not be looked at. With a broker in ``unanswered``
    nobody can tell whether a transaction hangs that the other brokers do not know: such
    transactions are in ``undecided``.
    """

    def __init__(
        self,
        items: Iterable[HangingTransaction],
        unanswered: Mapping[int, ApiError | ClientError] | None = None,
        *,
        undecided: Iterable[HangingTransaction] = (),
        errors: Iterable[ApiError] = (),
    ) -> None:
        super().__init__(items, unanswered)
        self.undecided = tuple(undecided)
        self.errors = tuple(errors)

    def raise_for_errors(self) -> Self:
        """Raise an error if the list may lack transactions, else return the list.

        :raises ApiError, ClientError: the one error; AdminError: of several.
        """
        unanswered = list(self.unanswered.values()) if self.undecided else []
        raise_one_or_all([*self.errors, *unanswered])
        return self


@dataclass(frozen=True, slots=True)
class TransactionAbort:
    """A transaction was ended by its coordinator, or by a marker in one partition.

    The coordinator (``transactional_id``) ends it in all its partitions. Where that id is None, a
    marker ended it in this partition alone.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The producer of this transactional id cannot go on; ``producer_epoch`` fences it."""

    transactional_id: str
    error: ApiError | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None


@dataclass(slots=True)
class Candidate:
    """An open transaction may hang: this keeps what has been found out about it so far."""

    partition: TopicPartition
    producer: ProducerDescription
    transactional_id: str | None = None
    known: bool = field(default=False)
    """True means that a coordinator has the transaction, and will end it."""

    def match(self, described: TransactionDescription) -> None:
        """Note the producer's transactional id, and whether its open transaction is this one."""
        name, partition = described.transactional_id, self.partition
        if described.shared:
            for writer in described.writers:
                if writer.producer_id == self.producer.producer_id:
                    self._belongs(name, described.is_open and partition in writer.partitions)
        elif described.producer_id == self.producer.producer_id:
            # A transaction that was opened under an older epoch is decided, whatever is open now.
            is_present = (described.producer_epoch or 0) <= self.producer.producer_epoch + 1
            is_open = described.is_open and is_present and partition in described.partitions
            self._belongs(name, is_open)
        elif described.state.startswith("Prepare") and partition in described.partitions:
            # It was listed, so it may be that of a producer whose epochs were used up by it.
            self._belongs(name, True)

    def _belongs(self, transactional_id: str, known: bool) -> None:
        self.transactional_id = transactional_id
        self.known = self.known or known
