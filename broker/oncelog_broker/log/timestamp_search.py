"""The first record at or after a time is found here, in the segments of one log.

Owns the walk from segments to batches to records. Rules:

- segments and index entries are bisected; what is walked is at most one index interval, plus one
  batch decoded, whatever the size of the log;
- timestamps may go back and forth: the answer is the first *offset* whose timestamp is new enough;
- a time that has rotted would have a sound record passed over: whatever is walked is held against
  its checksum [D14], but for what lies before the log start;
- a body that does not decode is answered with its batch: the header still bounds its timestamps.
"""

from __future__ import annotations

from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList
from oncelog_protocol.records.batch import CorruptBatchError, verify_crc
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.records.decode import decode_batch

Found = tuple[int, int, int]
"""It is (timestamp, offset, leader epoch)."""


def find_timestamp(segments: SegmentList, timestamp: int, log_start_offset: int) -> Found | None:
    """Return the first record at or after ``timestamp``, a time in ms; None when there is none.

    Raises OSError, and CorruptBatchError where the files do not hold.
    """
    for segment in segments.since(timestamp):
        if segment.size_bytes and segment.max_timestamp >= timestamp:
            found = _search(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _search(segment: Segment, timestamp: int, log_start_offset: int) -> Found | None:
    for position, header in segment.batches_since(timestamp):
        if header.last_offset < log_start_offset:
            continue
        batch = segment.read_batch(position, header)
        verify_crc(batch)
        if header.max_timestamp < timestamp:
            continue
        try:
            columns = decode_batch(batch, verify=False)
        except (CorruptBatchError, CodecUnavailableError):
            offset = max(header.base_offset, log_start_offset)
            return header.max_timestamp, offset, header.leader_epoch
        for offset, stamp_ms in zip(columns.offsets(), columns.timestamp_list(), strict=True):
            if stamp_ms >= timestamp and offset >= log_start_offset:
                return stamp_ms, offset, header.leader_epoch
    return None
