"""Which segments may go, and their going.

Rules, oldest segment first, stopping at the first that must stay:

- nothing at or above the last stable offset goes (KAFKA-5634), and that is the caller's: an
  undecided transaction keeps all that lies behind its begin;
- below the log start offset a segment goes whatever the policy;
- with ``delete`` in the policy it goes when its newest record is older than ``retention_ms``, or
  when without it the log would still hold at least ``retention_bytes``;
- the age of a segment is counted from ``stamp_ms``: the newest record timestamp, but never later
  than the time of the append, so that a record from the future cannot keep a segment for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from oncelog_broker.log import logged

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog
    from oncelog_broker.log.segment import Segment


logger = logged.get_logger(__name__)


class SegmentAge(Protocol):
    """What retention needs to know of one segment."""

    @property
    def next_offset(self) -> int:
        """Offset after its last record."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def stamp_ms(self) -> int:
        """Newest record timestamp, capped at the time of the append."""
        ...


def apply(log: PartitionLog, now_ms: int, stable_offset: int) -> int:
    """Delete what may go; return the bytes freed. Raises StorageError."""
    if log.damage or not log.log_dir.online:
        return 0
    doomed = deletable(log, now_ms, stable_offset)
    if not doomed:
        return 0
    if doomed[-1] is log.segments.active:
        log.roll()
    freed = sum([segment.size_bytes for segment in doomed])
    trash = log.drop_oldest(len(doomed))
    start = log.log_start_offset
    logger.info(logged.LOG_RETENTION_DELETED, log.topic_partition, freed, start)
    log.log_dir.remove_later(trash, log.config.file_delete_delay_ms)
    return freed


def deletable(log: PartitionLog, now_ms: int, high_watermark: int) -> list[Segment]:
    """The segments of a log that its policy lets go, oldest first."""
    config = log.config
    deletes = config.deletes_old
    segments = [segment for segment in log.segments if segment.size_bytes]
    count = count_deletable(
        segments,
        now_ms=now_ms,
        high_watermark=high_watermark,
        log_start_offset=log.log_start_offset,
        log_size_bytes=log.size_bytes,
        retention_ms=config.retention_ms if deletes else -1,
        retention_bytes=config.retention_bytes if deletes else -1,
    )
    return segments[:count]


def count_deletable(
    segments: Iterable[SegmentAge],
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_size_bytes: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """Return how many of the segments, from the oldest, may be deleted.

    ``segments`` holds non-empty ones in order of offsets. Negative limits mean none; the caller
    passes -1 for both when the policy is not ``delete``.
    """
    count = 0
    excess_bytes = log_size_bytes - retention_bytes if retention_bytes >= 0 else -1
    for segment in segments:
        if segment.next_offset > high_watermark:
            break
        below_start = segment.next_offset <= log_start_offset
        expired = 0 <= retention_ms < now_ms - segment.stamp_ms
        if not (below_start or expired or 0 <= segment.size_bytes <= excess_bytes):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count
