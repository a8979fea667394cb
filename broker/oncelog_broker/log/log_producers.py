"""The producers of one log: their state follows its batches, and its snapshots the segments.

Owns when ``ProducerState`` is asked, told, cut, rebuilt and kept on disk. Rules:

- only a leader asks, before it appends; leader and follower tell, after the write (K1);
- a cut takes back what was remembered of the batches that go. Of a producer of which nothing is
  left then, older batches may be in the log that were not remembered any more: these are read;
- a snapshot is of the log end, at a roll, at a stop, and with a checkpoint when much was written
  since the last one, so that a start after a crash has little to read: see ``producer_snapshots``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.producer_snapshots import ProducerSnapshots, last_batch, replay
from oncelog_broker.log.producer_state import ProducerState
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, TimestampType

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

UNREAD_BYTES_MAX = 32 * 1024 * 1024
"""About so much of a log is read at a start after a crash, to know its producers."""


class LogProducers:
    """What one log knows of its producers. Not for two threads."""

    __slots__ = ("_log", "_snapshot_at", "_snapshots", "_told", "state")

    def __init__(
        self, log: PartitionLog, state: ProducerState, snapshots: ProducerSnapshots | None
    ) -> None:
        """Take over what recovery found."""
        self._log = log
        self.state = state
        self._told = log.log_dir.safeguards.followers_know_producers
        self._snapshots = snapshots or ProducerSnapshots(log.log_dir.files, log.directory)
        self._snapshot_at = 0, 0
        """Segment and its size when the last snapshot was written."""

    # ---- appending

    def check(self, header: BatchHeader) -> LogAppend | None:
        """What the append of a client's batch was, if it was appended already; None: append it.

        Raises what ``ProducerState.check`` raises.
        """
        batch = self.state.check(header, header.crc)
        if batch is None:
            return None
        logger.debug(
            "%s: producer %d repeats sequence %d, the last but %d",
            self._log.topic_partition,
            header.producer_id,
            batch.first_sequence,
            self.state.batches_since(header.producer_id, batch),
        )
        return LogAppend(
            batch.base_offset,
            batch.last_offset,
            batch.timestamp,
            batch.timestamp if self._log.config.uses_append_time else -1,
            header.size_bytes,
            header.record_count,
            True,
        )

    def led(self, header: BatchHeader, base_offset: int, max_timestamp: int, now_ms: int) -> None:
        """This broker has appended a batch of a client, as leader."""
        self.state.applied(
            header._replace(base_offset=base_offset, max_timestamp=max_timestamp),
            now_ms,
            append_time=self._log.config.uses_append_time,
        )

    def followed(self, header: BatchHeader, now_ms: int) -> None:
        """A batch of the leader was appended."""
        if self._told:
            append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
            self.state.applied(header, now_ms, append_time=append_time)

    def last_batches(self, upto: int) -> frozenset[int]:
        """Base offsets of the last batch of each producer below ``upto``, for compaction to keep:
        what lies behind may yet be cut off."""
        found = set()
        for entry in self.state.producers.values():
            below = [batch.base_offset for batch in entry.batches if batch.base_offset < upto]
            found.update(below[-1:])
        return frozenset(found)

    # ---- cutting

    def cut(self, end: int) -> None:
        """The log was cut, and ends at ``end`` now; 0 when nothing of it is left.

        Blocks. Raises OSError.
        """
        self._snapshots.remove_above(end)
        unknown = self.state.cut(end)
        if unknown and end:
            log = self._log
            logger.info("%s: reading what %d producers wrote", log.topic_partition, len(unknown))
            known = self.state.empty()
            now_ms = log.log_dir.clock.now_ms()
            self._snapshots.load(list(log.segments), known, now_ms)
            self.state.adopt(known, unknown)

    def expire(self, now_ms: int, after_ms: int) -> None:
        """Forget producers that have not written for ``after_ms`` milliseconds."""
        self.state.expire(now_ms, after_ms)

    # ---- on disk

    def snapshot(self) -> None:
        """Keep the state as of the log end, if that is not done. Never raises for a bad disk."""
        log = self._log
        offset = log.log_end_offset
        if log.damage or not log.log_dir.online or self._snapshots.newest == offset:
            return
        try:
            last = last_batch(list(log.segments), offset)
        except (OSError, CorruptBatchError, CorruptMessageError):
            return  # for others to find
        if last is not None or self.state.producers:
            active = log.segments.active
            self._snapshot_at = active.base_offset, active.size_bytes
            self._snapshots.write(offset, last, self.state, log.recovery_point)

    def keep_up(self, after_bytes: int = UNREAD_BYTES_MAX) -> bool:
        """Keep the state if so much was written since that was done; whether it was done now."""
        active = self._log.segments.active
        base, size = self._snapshot_at
        if active.size_bytes - (size if base == active.base_offset else 0) < after_bytes:
            return False
        self.snapshot()
        return True

    def contradiction(self) -> str:
        """What the state says otherwise than the log; empty when nothing (I14). Blocks, reads the
        log whole. Raises OSError."""
        replayed = self.state.empty()
        replay(list(self._log.segments), replayed, 0)
        return self.state.contradiction(replayed, compacted=self._log.config.is_compacted)
