"""What coordinators need from outside: a log to write to, to read back, and timers.

The room knows neither logs nor replication. The application gives the engine a ``PartitionWriter``
over the broker's replicas; tests give one over lists.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_protocol.types import TopicPartition


class PartitionWriter(Protocol):
    """The internal partitions that this broker leads."""

    def append(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[CoordinatorRecord],
    ) -> int:
        """Append all in one batch, as leader in ``leader_epoch``; returns the end (last + 1).

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
        """The log end: what a reader must see committed to have seen nothing that may be lost.

        :raises ApiError: not leader in ``leader_epoch`` any more.
        """
        ...

    def read(
        self, topic_partition: TopicPartition, leader_epoch: int
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """All records of the partition in order, from the log start to the log end as of now,
        batch by batch, giving way to others in between.

        :raises ApiError: not leader in ``leader_epoch`` any more, or the log cannot be read.
        """
        ...


class Timers(Protocol):
    """Keyed timers of one shard. What is due runs as an operation of the shard, in its turn."""

    def set(self, key: str, delay_s: float, operation: Callable[[], Result[None]]) -> None:
        """Run ``operation`` after ``delay_s``; replaces the timer of the same key. It runs once: an
        operation whose records must not be forgotten sets it again in ``on_failure``."""
        ...

    def cancel(self, key: str) -> None:
        """Forget it; harmless when there is none."""
        ...

    def now_s(self) -> float:
        """Loop time in seconds."""
        ...
