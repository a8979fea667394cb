"""Sequence numbers make a retry harmless (KIP-98, KIP-360). Pure.

Rules
-----
* A batch gets its numbers when it goes out for the first time, and keeps them: every attempt
  carries the same bytes, so that the broker knows it again.
* The broker takes a batch only behind the one before it. A batch that is refused as out of order
  was not written by this attempt, nor is anything behind it; the one before it is missing: given up
  by its deadline, or refused for what it holds.
* Then the partition begins anew: once everything that was sent was answered, what is left is
  numbered from 0 under the next epoch, which fences late copies of the old one. The epoch is raised
  here, without asking anybody, as no other producer has this id; partitions that are in order stay
  under the epoch that they have.
* Only a batch of which every attempt was refused may be numbered anew. One that may have been
  written cannot: a copy on a connection that was given up, or in the log of a leader that comes
  back, would be a second one. It fails, and its error says that nobody knows.
* An epoch has 15 bits. When they are used up the producer needs another id.
* In transactions the coordinator gives the epochs, a new one with every transaction; each partition
  begins it at 0. Nothing is numbered anew there: what cannot be written aborts the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.producer.partition_queue import NO_IDENTITY, NO_PRODUCER, Batch, PartitionQueue
from oncelog_protocol.errors import InvalidProducerEpochError, OutOfOrderSequenceNumberError

EPOCH_MAX = 2**15 - 1

OUT_OF_ORDER = (OutOfOrderSequenceNumberError, InvalidProducerEpochError)
"""Nothing was written: what was sent before is missing, or of another epoch."""

RENUMBERED_MAX = 3
"""How often one batch may be numbered anew before the broker is not believed any more."""


class Sequences:
    """A producer has this id and epoch, and numbers its batches here."""

    def __init__(self, *, enabled: bool, transactional: bool = False) -> None:
        self.enabled = enabled
        self.transactional = transactional
        self.producer = NO_PRODUCER
        """Producer id and epoch for what is numbered next."""
        self.refusal: BaseException | None = None
        """Why there is no id yet."""

    @property
    def ready(self) -> bool:
        """Return whether batches may go out: there is an id, or none is needed."""
        return not self.enabled or self.producer != NO_PRODUCER

    def given(self, producer_id: int, producer_epoch: int) -> None:
        """Note the id that a broker has given, or the next epoch that the coordinator has given."""
        self.producer = (producer_id, producer_epoch)
        self.refusal = None

    def not_given(self, error: BaseException) -> None:
        """Note that no broker has given an id so far; it will be asked for again."""
        self.refusal = error

    def number(self, batch: Batch) -> None:
        """Give its sequence number to an encoded batch that goes out for the first time."""
        if batch.identity is NO_IDENTITY:
            batch.queue.number(batch, self.producer, follow=self.transactional)

    def begin_anew(self, queue: PartitionQueue, unwritten: Iterable[Batch]) -> None:
        """Begin this partition at sequence number 0, under a newer epoch.

        :param unwritten: all its batches that have numbers and are not done. None of them was
            written, and nothing is in flight.
        """
        assert not self.transactional
        if queue.producer == self.producer:
            producer_id, epoch = self.producer
            if epoch >= EPOCH_MAX:
                self.producer = NO_PRODUCER  # wait for another id
            else:
                self.producer = (producer_id, epoch + 1)
        queue.begin_anew(unwritten)
