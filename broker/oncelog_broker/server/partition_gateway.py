"""The gateway gives coordinators their internal partitions, over this broker's replicas.

It fulfils ``PartitionWriter`` and tells the engines which partitions this broker leads. Rules:

- all is written with acks=all: a coordinator's word counts when every in-sync replica has it;
- a writer or reader names the leader epoch in which it was elected, and is refused in any other;
- a partition is read from its log start to its log end, not to the high watermark: whatever a new
  leader has will be committed. A reader that must not see what may be lost waits for the commit;
- the engine is told of a partition that this broker is to lead soon, and reads it before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.coordinator_records import READ_BYTES, records_in
from oncelog_broker.server.followed_partition import FollowedPartition
from oncelog_protocol.errors import (
    LocalProtocolError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, TopicPartition
from oncelog_runtime.clock import WallClock


class PartitionGateway:
    """See the module; ``attach`` engines before the first order of the controller arrives."""

    def __init__(self, replicas: ReplicaManager, clock: WallClock) -> None:
        self._replicas = replicas
        self._clock = clock
        self._engines: dict[str, CoordinatorEngine[Any]] = {}
        replicas.on_leadership.append(self._role_of)

    def attach(self, engine: CoordinatorEngine[Any]) -> None:
        """Tell ``engine`` which partitions of its topic this broker leads."""
        self._engines[engine.topic] = engine

    def _role_of(self, partition: Partition) -> None:
        engine = self._engines.get(partition.topic_partition.topic)
        if engine is None:
            return
        number = partition.topic_partition.partition
        if partition.is_leader:
            engine.elected(number, partition.leader_epoch)
        else:
            engine.resigned(number, partition.leader_epoch, is_next=partition.is_next_leader)

    @property
    def warm(self) -> list[tuple[str, int]]:
        """Return the partitions that this broker is to lead and could almost serve at once, by
        topic id and number."""
        warm: list[tuple[str, int]] = []
        for topic, engine in sorted(self._engines.items()):
            for number in engine.warm:
                partition = self._replicas.held(TopicPartition(topic, number))
                if partition is not None:
                    warm.append((partition.topic_id, number))
        return warm

    # ---- PartitionWriter

    def append(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[CoordinatorRecord],
    ) -> int:
        """Append all in one batch; return the log end behind it.

        :raises ApiError: as the port says.
        """
        partition = self._led(topic_partition, leader_epoch)
        try:
            batch = encode_batch(
                [record.value for record in records],
                keys=[record.key for record in records],
                timestamps=self._clock.now_ms(),
            )
        except LocalProtocolError as error:
            raise MessageTooLargeError(str(error)) from error
        append = partition.append_as_leader(memoryview(batch), Acks.ALL, self._replicas.now())
        return append.last_offset + 1

    def when_committed(
        self, topic_partition: TopicPartition, offset: int, callback: Callable[[int], None]
    ) -> None:
        """Call back with 0 once the high watermark is at or past ``offset``, or with an error."""
        try:
            partition = self._replicas.partition(topic_partition)
        except (NotLeaderOrFollowerError, UnknownTopicOrPartitionError):
            callback(NotLeaderOrFollowerError.code)
            return
        if partition.is_leader:
            partition.when_committed(offset, callback)
        else:
            callback(NotLeaderOrFollowerError.code)

    def end_offset(self, topic_partition: TopicPartition, leader_epoch: int) -> int:
        """Return the log end.

        :raises NotLeaderOrFollowerError, UnknownTopicOrPartitionError: not leader in that epoch.
        """
        return self._led(topic_partition, leader_epoch).log.log_end_offset

    def follow(self, topic_partition: TopicPartition) -> FollowedPartition:
        """Return the log of a replica of this broker, to be read from its start.

        :raises NotLeaderOrFollowerError, UnknownTopicOrPartitionError: there is no replica here.
        """
        return FollowedPartition(self._replicas.partition(topic_partition))

    async def read(
        self, topic_partition: TopicPartition, leader_epoch: int, offset: int = 0
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """Yield all records from ``offset`` or the log start to the log end as of now, in order.
        The log is not compacted meanwhile [B30].

        :raises ApiError: not leader in that epoch (any more), or the log cannot be read. A batch
            that does not hold is corrupt: the replica is told, so that another one shall lead.
        """
        log = self._led(topic_partition, leader_epoch).log
        offset, end = max(offset, log.log_start_offset), log.log_end_offset
        with log.reading_whole():
            while offset < end:
                partition = self._led(topic_partition, leader_epoch)
                offset = max(offset, partition.log.log_start_offset)
                data = memoryview(partition.read_for_consumer(offset, READ_BYTES, upto=end))
                if not data:
                    # Not an end: what is not read is lost to the coordinator: better none at all.
                    raise StorageError(f"{topic_partition}: nothing at offset {offset} of {end}")
                try:
                    records, offset = records_in(data, offset)
                except CorruptBatchError as error:
                    partition.corruption_found(error)
                    raise StorageError(f"{topic_partition}: {error}") from error
                yield records
                await asyncio.sleep(0)

    def _led(self, topic_partition: TopicPartition, leader_epoch: int) -> Partition:
        partition = self._replicas.partition(topic_partition)
        if not partition.is_leader or partition.leader_epoch != leader_epoch:
            raise NotLeaderOrFollowerError(f"{partition!r} does not lead in epoch {leader_epoch}")
        return partition
