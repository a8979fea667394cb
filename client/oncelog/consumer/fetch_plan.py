"""A plan says what to fetch from whom, and an answer what to do with a partition. Pure.

Rules
-----
* A leader is asked for every partition that has a position, is not paused or withheld, and has less
  than ``partition_bytes`` fetched in advance, while all together hold less than ``buffer_bytes``.
* A leader that also leads partitions which are left out *because they are full* is not asked to
  wait long: they may be emptied any moment and must not sit behind a long poll.
* Whatever was asked before a seek is ignored when it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog.consumer.isolation import Sieve
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.core.cluster import ClusterMetadata
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    OffsetOutOfRangeError,
    error_for,
)
from oncelog_protocol.messages.fetch import (
    ALL_FORMATS,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
)
from oncelog_protocol.records.batch import CONTROL_BIT, CorruptBatchError, iter_headers
from oncelog_protocol.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_LEADER

SHORT_WAIT_MS = 20
"""The long poll beside partitions that are full at the moment."""


@dataclass(slots=True)
class RequestedPartition:
    """A request under way asks for this partition."""

    state: TopicPartitionState
    version: int
    offset: int
    leader_epoch: int = NO_EPOCH
    """The epoch of the leader that answers, as we told it; -1 when we did not know."""


@dataclass(slots=True)
class LeaderPlan:
    """A plan says what is to be asked of one leader."""

    leader: int
    partitions: list[TopicPartitionState] = field(default_factory=list)
    wait_ms: int = 0


class FetchVerdict(Enum):
    """An answer for one partition leads to one of these steps."""

    OK = "ok"
    STALE = "stale"
    REFRESH = "refresh"
    RESET = "reset"
    RAISE = "raise"
    TRUNCATED = "truncated"


def plan_fetches(
    states: Iterable[TopicPartitionState],
    cluster: ClusterMetadata,
    *,
    now: float,
    busy: Iterable[int],
    wait_ms: int,
    partition_bytes: int,
    buffer_bytes: int,
    buffered: int,
) -> tuple[list[LeaderPlan], bool, float | None]:
    """Return plans for idle leaders, whether metadata are needed, and when to look (or None)."""
    plans: dict[int, LeaderPlan] = {}
    full: dict[int, None] = {}
    needs_metadata = False
    wake_at: float | None = None
    occupied = frozenset(busy)
    for state in states:
        if state.offset is None or state.paused or state.withheld or state.error is not None:
            continue
        leader = cluster.leader(state.tp)
        if leader == NO_LEADER:
            needs_metadata = True
            continue
        if state.buffered >= partition_bytes:
            full[leader] = None
            continue
        if state.retry_at > now:
            wake_at = state.retry_at if wake_at is None else min(wake_at, state.retry_at)
            continue
        if leader in occupied:
            continue
        plans.setdefault(leader, LeaderPlan(leader)).partitions.append(state)
    if buffered >= buffer_bytes:
        return [], needs_metadata, wake_at
    for plan in plans.values():
        plan.wait_ms = min(wait_ms, SHORT_WAIT_MS) if plan.leader in full else wait_ms
    return list(plans.values()), needs_metadata, wake_at


def make_request(
    plan: LeaderPlan,
    cluster: ClusterMetadata,
    *,
    min_bytes: int,
    max_bytes: int,
    partition_bytes: int,
    isolation_level: int,
) -> tuple[FetchRequest, list[RequestedPartition]]:
    """Return the request of a plan, and the partitions that it asks for, in order."""
    topics: dict[tuple[str, str], FetchTopic] = {}
    asked: list[RequestedPartition] = []
    for state in plan.partitions:
        topic, number = state.tp
        leader_epoch = cluster.leader_epoch(state.tp)
        entry = topics.setdefault((topic, state.topic_id), FetchTopic(topic, [], state.topic_id))
        entry.partitions.append(
            FetchPartition(
                number,
                state.fetch_offset,
                1 if state.doubted == state.fetch_offset else partition_bytes,
                leader_epoch,
                state.fetch_epoch,
            )
        )
        asked.append(RequestedPartition(state, state.version, state.fetch_offset, leader_epoch))
    request = FetchRequest(
        CONSUMER_REPLICA_ID,
        -1,
        plan.wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        -1,
        list(topics.values()),
        formats=ALL_FORMATS,
    )
    return request, asked


def take_answer(
    asked: RequestedPartition, answer: FetchPartitionResponse, payload: memoryview
) -> tuple[FetchVerdict, ApiError | None]:
    """Put an answer's bytes into the partition's state, or return what else is to be done."""
    state = asked.state
    if state.version != asked.version or state.fetch_offset != asked.offset:
        return FetchVerdict.STALE, None
    if answer.error_code:
        error = error_for(answer.error_code)
        if isinstance(error, OffsetOutOfRangeError):
            return FetchVerdict.RESET, error
        if error.retriable and not isinstance(error, CorruptMessageError):
            return FetchVerdict.REFRESH, error
        return FetchVerdict.RAISE, error
    if answer.diverging is not None:
        return FetchVerdict.TRUNCATED, None
    state.answered(answer.high_watermark, answer.log_start_offset)
    span = answer.records
    if span.length:
        data = payload[span.offset : span.offset + span.length]
        whole, next_offset, epoch, attributes = last_batch(data, asked.offset)
        if whole:
            hides = answer.aborted or attributes & CONTROL_BIT
            sieve = Sieve(answer.aborted) if hides else None
            state.fetched(data[:whole], next_offset, epoch, sieve)
    return FetchVerdict.OK, None


def last_batch(data: memoryview, offset: int) -> tuple[int, int, int, int]:
    """Return four facts about the whole batches in ``data``.

    They are the bytes in them, the offset after them, the last one's leader epoch, and the
    attributes that any of them has. Where a header does not hold, the batches before it count; if
    it is the first one, all bytes do, so that decoding meets it and says which offset is corrupt.
    """
    end, next_offset, epoch, attributes = 0, offset, -1, 0
    try:
        for position, header in iter_headers(data):
            end = position + header.size_bytes
            next_offset, epoch = header.next_offset, header.leader_epoch
            attributes |= header.attributes
    except CorruptBatchError:
        if end == 0:
            return len(data), offset, -1, 0
    return end, max(next_offset, offset), epoch, attributes


def rotate(states: Sequence[TopicPartitionState], by: int) -> list[TopicPartitionState]:
    """Return the same partitions, beginning with another one."""
    if not states:
        return []
    by %= len(states)
    return [*states[by:], *states[:by]]
