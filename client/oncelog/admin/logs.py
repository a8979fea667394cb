"""The admin client asks a broker how its replica of a partition lies on disk.

Nothing of what records say is told, so it takes no more than the right to see the topic.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, broker_error, known
from oncelog.core.coordinators import attempt_deadline
from oncelog.core.partition_leaders import leader_of
from oncelog.core.router import Failure
from oncelog.errors import error_about
from oncelog_protocol.messages.log_description import (
    DescribedBatch,
    DescribedSegment,
    DescribeLogRequest,
    DescribeLogResponse,
)
from oncelog_protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class LogSegment:
    """It is one segment: the offsets from ``base_offset`` up to ``next_offset``, without it. Times
    are in ms since 1970, and None when it has none."""

    base_offset: int
    next_offset: int
    size_bytes: int
    record_count: int | None
    """It is None where compaction may have taken records; markers count as records."""
    max_timestamp_ms: int | None
    """It is the newest of the times that its records have."""
    retention_timestamp_ms: int | None
    """It is the same, or the time of the append where that was earlier: retention goes by it."""
    created_ms: int | None
    """It is when its first batch was appended."""
    first_epoch: int | None
    last_epoch: int | None
    index_entries: int | None
    """It is None when the index is lost and not made anew yet."""


@dataclass(frozen=True, slots=True)
class LogEpoch:
    """This leader epoch writes from an offset on."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class AbortedTransactionRange:
    """A transaction of a producer was aborted, by the marker at an offset."""

    producer_id: int
    first_offset: int
    marker_offset: int


@dataclass(frozen=True, slots=True)
class LogIndexEntry:
    """The batch that begins at an offset lies at a byte of its segment."""

    offset: int
    position: int
    max_timestamp_before_ms: int | None
    """No record before it in the segment has a newer time, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """It is the header of one batch, which lies at a byte of the segment that begins at
    ``segment``. Times are in ms since 1970."""

    segment: int
    position: int
    base_offset: int
    last_offset: int
    record_count: int
    size_bytes: int
    leader_epoch: int
    codec: str
    timestamp_type: str
    base_timestamp_ms: int | None
    max_timestamp_ms: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    transactional: bool
    marker: str | None
    """A marker is "commit", "abort" or "unknown"; None: it holds records."""


@dataclass(frozen=True, slots=True)
class LogDescription:
    """A broker has told this of its replica of a partition.

    The log holds offsets from ``log_start_offset`` up to ``log_end_offset``, without it. Those
    below ``synced_offset`` are on its disk, those below ``high_watermark`` are committed, and below
    ``last_stable_offset`` every transaction is decided, as far as this replica knows.
    """

    partition: TopicPartition
    broker_id: int
    is_leader: bool
    leader_epoch: int
    is_damaged: bool
    """Something that was synced does not hold; the replica is to be fetched again."""
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    synced_offset: int
    log_end_offset: int
    size_bytes: int
    segments: tuple[LogSegment, ...]
    epochs: tuple[LogEpoch, ...]
    aborted: tuple[AbortedTransactionRange, ...]
    next_offset: int | None
    """Segments, epochs and aborted ranges are told up to here; None: all. Ask on from here."""
    producer_snapshots: tuple[int, ...]
    """Snapshots of producers are kept as of these offsets."""
    index: tuple[LogIndexEntry, ...]
    batches: tuple[LogBatch, ...]
    next_batch: int | None
    """The next batch begins here; None: there is none, or none can be read."""
    unreadable: str | None
    """It says why there are no more batches, where the log goes on."""


class LogAdmin(AdminCalls):
    """``Admin`` gets its calls about logs from this class."""

    async def describe_log(
        self,
        partition: TopicPartition,
        broker_id: int | None = None,
        *,
        from_offset: int = 0,
        at_offset: int | None = None,
        batches_from: int | None = None,
        batches: int = 0,
        timeout_ms: int = TIMEOUT_MS,
    ) -> LogDescription:
        """Return how the log of a partition lies on the disk of a broker (default: the leader).

        One answer has at most 500 segments, 500 leader epochs, 500 aborted ranges and 500 batches;
        ``next_offset`` and ``next_batch`` say where to ask on.

        :param from_offset: segments, epochs and aborted ranges from here on.
        :param at_offset: with the index entries nearest to this offset.
        :param batches_from: with batches from this one on, of one segment; None: from the last
            index entry at or below ``at_offset``.
        :param batches: with at most so many of them; 0: none.
        :raises TopicAuthorizationFailedError: it may not be read.
        :raises UnknownTopicOrPartitionError: there is none.
        :raises NotLeaderOrFollowerError: the broker has no replica of it.
        :raises StorageError: the disk cannot be read.
        :raises BrokerUnreachableError: the broker does not answer.
        """
        tp = TopicPartition(*partition)
        deadline = self._deadline(timeout_ms)
        request = DescribeLogRequest(
            tp.topic,
            tp.partition,
            from_offset,
            -1 if at_offset is None else at_offset,
            -1 if batches_from is None else batches_from,
            batches,
        )
        await self._router.topic_with(tp.topic, tp.partition, deadline)
        if broker_id is not None:
            try:
                return await self._describe_log(broker_id, request, deadline)
            except Failure as error:
                raise broker_error(broker_id, error) from error

        async def attempt() -> LogDescription:
            return await self._describe_log(leader_of(self._router, tp), request, deadline)

        return await self._router.retry(attempt, deadline, "DescribeLog")

    async def _describe_log(
        self, broker_id: int, request: DescribeLogRequest, deadline: float
    ) -> LogDescription:
        response: DescribeLogResponse = await self._router.call_broker(
            broker_id, request, attempt_deadline(deadline)
        )
        tp = TopicPartition(request.topic, request.partition)
        if response.error_code:
            error = error_about(tp, response.error_code, response.error_message or "")
            raise self._explained(error, request, tp.topic)
        return _description(tp, broker_id, response)


def _description(tp: TopicPartition, broker_id: int, told: DescribeLogResponse) -> LogDescription:
    return LogDescription(
        tp,
        broker_id,
        told.is_leader,
        told.leader_epoch,
        told.is_damaged,
        told.log_start_offset,
        told.last_stable_offset,
        told.high_watermark,
        told.synced_offset,
        told.log_end_offset,
        told.size_bytes,
        tuple([_segment(each) for each in told.segments]),
        tuple([LogEpoch(each.leader_epoch, each.start_offset) for each in told.epochs]),
        tuple(
            [
                AbortedTransactionRange(each.producer_id, each.first_offset, each.marker_offset)
                for each in told.aborted
            ]
        ),
        known(told.next_offset),
        tuple(told.snapshots),
        tuple(
            [
                LogIndexEntry(each.offset, each.position, known(each.max_timestamp_before))
                for each in told.index
            ]
        ),
        tuple([_batch(each) for each in told.batches]),
        known(told.next_batch),
        told.unreadable,
    )


def _segment(told: DescribedSegment) -> LogSegment:
    return LogSegment(
        told.base_offset,
        told.next_offset,
        told.size_bytes,
        known(told.record_count),
        known(told.max_timestamp),
        known(told.stamp_ms),
        known(told.created_ms),
        known(told.first_epoch),
        known(told.last_epoch),
        known(told.index_entries),
    )


def _batch(told: DescribedBatch) -> LogBatch:
    return LogBatch(
        told.segment,
        told.position,
        told.base_offset,
        told.last_offset,
        told.record_count,
        told.size_bytes,
        told.leader_epoch,
        told.codec,
        told.timestamp_type,
        known(told.base_timestamp),
        known(told.max_timestamp),
        known(told.producer_id),
        known(told.producer_epoch),
        known(told.base_sequence),
        told.transactional,
        told.marker or None,
    )
