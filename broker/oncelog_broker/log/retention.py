"""Retention says which segments of a log may go. Pure.

Rules, oldest segment first, stopping at the first that must stay:

- nothing at or above the last stable offset goes (KAFKA-5634): an undecided transaction keeps all
  that lies behind its begin;
- below the log start offset a segment goes whatever the policy;
- with ``delete`` in the policy it goes when its newest record is older than ``retention_ms``, or
  when without it the log would still hold at least ``retention_bytes``;
- the age of a segment is counted from ``stamp_ms``: the newest record timestamp, but never later
  than the time of the append, so that a record from the future cannot keep a segment for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from oncelog_broker.log.segment import Segment
from oncelog_protocol.topic_config import TopicConfig

SEGMENTS_AT_ONCE = 16
"""So many of one log go at once: their files are renamed in some milliseconds."""


class SegmentAge(Protocol):
    """Retention needs to know this of one segment."""

    @property
    def next_offset(self) -> int:
        """Return the offset after its last record."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return how many bytes its batches take."""
        ...

    @property
    def stamp_ms(self) -> int:
        """Return the newest record timestamp, capped at the time of the append."""
        ...


def deletable(
    segments: Iterable[Segment],
    config: TopicConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_size_bytes: int,
) -> list[Segment]:
    """Return the segments that the policy of the topic lets go, oldest first."""
    deletes = config.deletes_old
    filled = [segment for segment in segments if segment.size_bytes]
    count = count_deletable(
        filled,
        now_ms=now_ms,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        log_size_bytes=log_size_bytes,
        retention_ms=config.retention_ms if deletes else -1,
        retention_bytes=config.retention_bytes if deletes else -1,
    )
    return filled[:count]


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
