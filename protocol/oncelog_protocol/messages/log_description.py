"""DescribeLog tells how the log of one replica lies on disk, and nothing of what records say.

Whoever may see a topic may ask, so an answer holds neither keys nor values nor headers, and no
checksum of them either: short contents could be guessed by it.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

MARKER_COMMIT = "commit"
MARKER_ABORT = "abort"
MARKER_UNKNOWN = "unknown"
"""A control batch is a marker that nobody here can read."""


@message
class DescribedSegment:
    """It is one segment. ``record_count`` is -1 where compaction may have taken records; markers
    count as records. ``max_timestamp`` is of its records; ``stamp_ms`` is that, or the time of the
    append where that was earlier, and retention goes by it; ``created_ms`` is the time of its first
    append; each is -1 when it has none. The leader epochs of its first and its last offset are -1
    when they are not known, and so is the number of ``index_entries``."""

    base_offset: Int64
    next_offset: Int64
    size_bytes: Int64
    record_count: Int64
    max_timestamp: Int64
    stamp_ms: Int64
    created_ms: Int64
    first_epoch: Int32
    last_epoch: Int32
    index_entries: Int32


@message
class DescribedEpoch:
    """This leader epoch begins at an offset of the log."""

    leader_epoch: Int32
    start_offset: Int64


@message
class AbortedRange:
    """A transaction was aborted, by the marker at an offset."""

    producer_id: Int64
    first_offset: Int64
    marker_offset: Int64


@message
class IndexEntry:
    """The batch that begins at an offset lies at a byte of its segment; no record before it there
    is newer than ``max_timestamp_before``, which is -1 when there is none."""

    offset: Int64
    position: Int64
    max_timestamp_before: Int64


@message
class DescribedBatch:
    """It is the header of one batch, at a byte of the segment that begins at ``segment``.
    ``marker`` is empty for records, else "commit", "abort" or "unknown"."""

    segment: Int64
    position: Int64
    base_offset: Int64
    last_offset: Int64
    record_count: Int32
    size_bytes: Int32
    leader_epoch: Int32
    codec: Name
    timestamp_type: Name
    base_timestamp: Int64
    max_timestamp: Int64
    producer_id: Int64
    producer_epoch: Int16
    base_sequence: Int32
    transactional: bool
    marker: Name


@message
class DescribeLogResponse:
    """Its errors are TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST,
    NOT_LEADER_OR_FOLLOWER (no replica is here), STORAGE_ERROR and CORRUPT_MESSAGE.

    ``segments``, ``epochs`` and ``aborted`` are what begins, or has its marker, below
    ``next_offset``, from where to ask on; -1: they are all. ``snapshots`` are the offsets of what
    is kept of producers. ``batches`` are followed by the one at ``next_batch``; -1: by none.
    ``unreadable`` says why there are no more, where the log goes on.
    """

    error_code: Int16 = 0
    error_message: Text | None = None
    topic: Name = ""
    partition: Int32 = -1
    leader_epoch: Int32 = -1
    is_leader: bool = False
    is_damaged: bool = False
    log_start_offset: Int64 = -1
    last_stable_offset: Int64 = -1
    high_watermark: Int64 = -1
    synced_offset: Int64 = -1
    log_end_offset: Int64 = -1
    size_bytes: Int64 = -1
    segments: list[DescribedSegment] = field(default_factory=list)
    epochs: list[DescribedEpoch] = field(default_factory=list)
    aborted: list[AbortedRange] = field(default_factory=list)
    next_offset: Int64 = -1
    snapshots: list[Int64] = field(default_factory=list)
    index: list[IndexEntry] = field(default_factory=list)
    batches: list[DescribedBatch] = field(default_factory=list)
    next_batch: Int64 = -1
    unreadable: Text | None = None


@message
class DescribeLogRequest(Request):
    """It asks one broker, which need not lead, for its replica of a partition.

    Segments, leader epochs and aborted ranges come from ``from_offset`` on. The index entries of
    the segment with ``at_offset`` come that are nearest to it; -1: none. At most
    ``batch_count_max`` batches of one segment come, from the one with ``batches_from`` on; with -1
    there from the last index entry at or below ``at_offset``.
    """

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG
    response: ClassVar[type] = DescribeLogResponse

    topic: Name
    partition: Int32
    from_offset: Int64 = 0
    at_offset: Int64 = -1
    batches_from: Int64 = -1
    batch_count_max: Int32 = 0
