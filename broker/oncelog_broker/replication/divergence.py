"""Two logs are compared here by their leader epochs (KIP-101, KIP-279, KIP-595). Pure.

The leader compares the fetcher's last record with its own history, and names the end of the newest
epoch that both can have; the follower truncates where its own log agrees. When it does not know the
leader's epoch it truncates to the end of its largest epoch below it, and asks again: there is at
most one exchange per epoch, and nothing below the common part is lost.
"""

from __future__ import annotations

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.ports import FetchPosition
from oncelog_protocol.errors import OffsetOutOfRangeError
from oncelog_protocol.messages.fetch import EpochEnd
from oncelog_protocol.records.batch import CorruptBatchError, iter_headers
from oncelog_protocol.types import NO_EPOCH


def divergence(log: PartitionLog, position: FetchPosition) -> EpochEnd | None:
    """Return where a fetcher's log and the leader's ``log`` part; None while it is a prefix of it.

    :raises OffsetOutOfRangeError: its epoch is not known here.
    """
    asked = position.last_fetched_epoch
    if asked == NO_EPOCH:
        return None
    epoch, end_offset = log.end_offset_for_epoch(asked)
    if epoch == NO_EPOCH:
        raise OffsetOutOfRangeError(f"epoch {asked} is not known here")
    if epoch < asked or end_offset < position.fetch_offset:
        return EpochEnd(epoch, end_offset)
    return None


def may_lack_tombstones(log: PartitionLog, batches: memoryview, now_ms: int) -> bool:
    """Return whether the leader's compaction may have removed tombstones that a follower's ``log``,
    about to take ``batches``, has never seen.

    If it was away for longer than they are kept, it may hold older values of their keys, and would
    bring these back. The missing records lie behind its end, and are younger than that; a follower
    in sync is sent nothing that is compacted.
    """
    config = log.config
    if not config.is_compacted or not log.size_bytes:
        return False
    last = log.segments.active
    if not last.size_bytes and len(log.segments) > 1:
        last = log.segments[-2]
    if now_ms - max(last.stamp_ms, log.clean.in_step_ms) <= config.delete_retention_ms:
        return False
    try:
        headers = [header for _, header in iter_headers(batches)]
    except CorruptBatchError:
        return False  # the log will say so
    return any(header.record_count <= header.last_offset_delta for header in headers)


def common_end(log: PartitionLog, diverging: EpochEnd) -> int:
    """Return up to where a follower's ``log`` may agree with the leader that answered
    ``diverging``. It is not below the log start."""
    end = min(diverging.end_offset, log.log_end_offset)
    epoch, own_end = log.end_offset_for_epoch(diverging.leader_epoch)
    if epoch != NO_EPOCH:
        end = min(end, own_end)
    return max(end, log.log_start_offset)
