"""A leader tells where its partition ends, and where a time begins in it. Pure.

Rule (KIP-207): what was said once is not taken back. A new leader may not know yet how far its
predecessor has shown the log to readers. That is not below the high watermark that it knows itself,
and not beyond where its own log ended when its epoch began, for it was in the ISR. Until its high
watermark has come to there, an end that may be too low is not told.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog_broker.replication.partition import Partition
from oncelog_protocol.errors import CorruptMessageError, OffsetNotAvailableError


class FoundRecord(NamedTuple):
    """It is the first record at or after a time."""

    timestamp: int
    offset: int
    leader_epoch: int


def end_offset(partition: Partition, isolation_level: int) -> int:
    """Return the high watermark, or at read_committed the last stable offset.

    :raises OffsetNotAvailableError: that may be less than what was told before.
    """
    _check_end_known(partition)
    return partition.readable_end(isolation_level)


def first_at(partition: Partition, time_ms: int, isolation_level: int) -> FoundRecord | None:
    """Return the first record of that time or later, of those that may be read; None if there is
    none.

    :param time_ms: since 1970.
    :raises OffsetNotAvailableError: there is none below an end that may be too low.
    :raises StorageError: it cannot be read.
    :raises CorruptMessageError: it has rotted; the replica knows now.
    """
    try:
        found = partition.log.offset_for_timestamp(time_ms)
    except CorruptMessageError as error:
        partition.corruption_found(error)
        raise
    if found is not None and found[1] < partition.readable_end(isolation_level):
        return FoundRecord(*found)
    _check_end_known(partition)
    return None


def newest(partition: Partition, isolation_level: int) -> FoundRecord | None:
    """Return the record with the largest timestamp, the first of them, of those that may be read;
    None if there is none. Raises as ``first_at``.

    Records with larger ones may lie behind the end, or have been deleted. What remains is halved
    until it is known where the times of the others end.
    """
    _check_end_known(partition)
    above = partition.log.segments.newest_timestamp() + 1
    best = first_at(partition, 0, isolation_level)
    if best is None:
        return None
    time_ms = above - 1
    while above - best.timestamp > 1:
        found = first_at(partition, time_ms, isolation_level)
        if found is None:
            above = time_ms
        else:
            best = found
        time_ms = (best.timestamp + above) // 2
    return best


def _check_end_known(partition: Partition) -> None:
    leader = partition.leader_role()
    known = partition.safeguards.end_is_known
    if not known(partition.high_watermark, leader.epoch_start_offset):
        raise OffsetNotAvailableError(
            f"{partition.topic_partition}: the new leader's high watermark is "
            f"{partition.high_watermark}, its epoch began at {leader.epoch_start_offset}"
        )
