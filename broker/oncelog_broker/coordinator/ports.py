"""The room declares here what it needs from outside: a log, timers, markers, producer ids.

The room knows neither logs nor replication nor other brokers. The application gives the engine a
``PartitionWriter`` over the broker's replicas, and the transaction coordinator a
``MarkerSenderPort`` and ``ProducerIdSource``; tests give some over lists.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition


class FollowedLog(Protocol):
    """It is an internal partition that another broker leads, as it is read here on and on."""

    @property
    def position(self) -> int:
        """Return the offset behind all that was yielded."""
        ...

    @property
    def left(self) -> int | None:
        """Return how many records lie between the position and what the leader has committed; None:
        the leader has not told yet."""
        ...

    @property
    def holds(self) -> bool:
        """Return whether the partition is still the one that was read: nothing of it was cut, and
        compaction took nothing that was not read yet."""
        ...

    def read_on(self) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """Yield what is committed, as far as this broker knows, and was not yielded before, in
        order.

        :raises ApiError: the replica is not here any more, or cannot be read.
        """
        ...


class PartitionWriter(Protocol):
    """It appends to the internal partitions of this broker and gives their records back."""

    def append(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[CoordinatorRecord],
    ) -> int:
        """Append all in one batch, as leader in ``leader_epoch``; return the end (last + 1).

        :raises ApiError: nothing was appended: not leader (any more) in that epoch, too few in-sync
            replicas, too large for a batch. Only StorageError leaves open whether it was.
        """
        ...

    def when_committed(
        self, topic_partition: TopicPartition, offset: int, callback: Callable[[int], None]
    ) -> None:
        """Call back once, with 0 when the high watermark is at or past ``offset``, or with an error
        code when that cannot be waited for any longer (it may still happen)."""
        ...

    def end_offset(self, topic_partition: TopicPartition, leader_epoch: int) -> int:
        """Return the log end. A reader that has seen it committed has seen nothing that may be
        lost.

        :raises ApiError: not leader in ``leader_epoch`` any more.
        """
        ...

    def read(
        self, topic_partition: TopicPartition, leader_epoch: int, offset: int = 0
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """Yield all records of the partition in order, from ``offset`` or the log start to the log
        end as of now, batch by batch, giving way to others in between.

        :raises ApiError: not leader in ``leader_epoch`` any more, or the log cannot be read.
        """
        ...

    def follow(self, topic_partition: TopicPartition) -> FollowedLog:
        """Return the log of a replica that is here, to be read from its start.

        :raises ApiError: there is no replica here.
        """
        ...


class Timers(Protocol):
    """It keeps the keyed timers of one shard. A timer that is due runs as an operation of the
    shard, in its turn."""

    def set(
        self,
        key: str,
        delay_s: float,
        operation: Callable[[], Result[Any]],
        *,
        retry_s: float | None = None,
    ) -> None:
        """Run ``operation`` after ``delay_s``; this replaces the timer of the same key.

        With ``retry_s`` it runs again so long after it was refused or its records were, until it is
        carried out or the key has another timer. It must look anew at what there is to do.
        """
        ...

    def soon(self, operation: Callable[[], Result[Any]], *, retry_s: float | None = None) -> None:
        """Run ``operation`` when others have had their turn; ``retry_s`` as above."""
        ...

    def cancel(self, key: str) -> None:
        """Forget the timer; it is harmless when there is none."""
        ...

    def now_s(self) -> float:
        """Return the loop time in seconds."""
        ...


@runtime_checkable
class KnowsLeaderEpoch(Protocol):
    """Such a shard puts the epoch of its leader on what it sends elsewhere."""

    def led_in(self, leader_epoch: int) -> None:
        """Take over the leader epoch from now on. This is told before anything is replayed, and
        again whenever it grows while the leader stays."""
        ...


class ProducerMarker(NamedTuple):
    """It is one producer's part in the end of a transaction: commit or abort, and the
    partitions."""

    producer_id: int
    producer_epoch: int
    """It is the epoch of the marker: above that of the data, unless it has a number."""
    commit: bool
    partitions: list[TopicPartition]
    number: int = NO_TXN_NUMBER
    """The transaction has this number under the epoch; -1: the epoch was raised."""


@dataclass(frozen=True, slots=True, eq=False)
class MarkerOrder:
    """It holds all markers of one transaction. Orders are compared by identity: no two are the
    same."""

    transactional_id: str
    coordinator_epoch: int
    markers: list[ProducerMarker]


class MarkerSenderPort(Protocol):
    """It has markers written by the leaders of the partitions, however long that takes."""

    def send(self, order: MarkerOrder, done: Callable[[], None]) -> Callable[[], None]:
        """Send the markers; ``done`` is called once, when every marker is committed or its
        partition is no more.

        It may be called before this returns. Return what gives the order up: nothing is sent for it
        from then on, and ``done`` is not called.
        """
        ...


class ProducerIdSource(Protocol):
    """It gives out producer ids."""

    async def take(self) -> int:
        """Return a producer id that nobody had.

        :raises ApiError: none can be had now.
        """
        ...
