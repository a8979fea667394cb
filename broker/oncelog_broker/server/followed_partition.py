"""A coordinator's partition is read here at a follower, up to what is committed, on and on.

It fulfils ``FollowedLog``. Rules:

- it is read up to the follower's own high watermark, which is never above the leader's;
- a log that was truncated since its first record was read may hold others now in their place;
- a log may be compacted while nothing of it is left to read, and not while it is being read [B30]:
  a reader that has the older value would miss the tombstone behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.replication.partition import NOT_TOLD, Partition
from oncelog_broker.server.coordinator_records import READ_BYTES, records_in
from oncelog_protocol.errors import NotLeaderOrFollowerError, StorageError
from oncelog_protocol.records.batch import CorruptBatchError


class FollowedPartition:
    """It reads one replica from its log start on."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._log = partition.log
        self._truncations = self._log.truncations
        self._compactions = self._log.swap.count
        self._position = self._log.log_start_offset

    @property
    def position(self) -> int:
        """Return the offset behind all that was yielded."""
        return self._position

    @property
    def left(self) -> int | None:
        """Return how many records are left of what the leader has committed; None: it has not told
        yet."""
        committed = self._partition.leader_high_watermark
        return None if committed == NOT_TOLD else max(committed - self._position, 0)

    @property
    def holds(self) -> bool:
        """Return whether the log is still the one that was read."""
        log = self._log
        if log is not self._partition.log or log.truncations != self._truncations:
            return False
        # The active segment is never compacted, so what came into it is all there.
        compacted = log.swap.count != self._compactions
        return not compacted or self._position >= log.segments.active.base_offset

    async def read_on(self) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        """Yield what is committed and was not yielded before.

        :raises ApiError: the replica is not here any more, or cannot be read. One whose batches do
            not hold is told, so that it is fetched anew.
        """
        partition, log = self._partition, self._log
        with log.reading_whole():
            self._compactions = log.swap.count
            end = partition.high_watermark
            while self._position < end:
                if partition.failed:
                    raise NotLeaderOrFollowerError(f"{partition!r} is out of service")
                offset = max(self._position, log.log_start_offset)
                data = memoryview(partition.read_for_consumer(offset, READ_BYTES, upto=end))
                if not data:
                    raise StorageError(f"{partition!r}: nothing at offset {offset} of {end}")
                try:
                    records, self._position = records_in(data, offset)
                except CorruptBatchError as error:
                    partition.corruption_found(error)
                    raise StorageError(f"{partition!r}: {error}") from error
                yield records
                await asyncio.sleep(0)
