"""Fetch: read record batches, by consumers and by followers.

Consumers name every partition each time. Followers use an incremental session that belongs to the
connection: ``session_epoch`` 0 names all partitions and begins the session; n > 0 names only
those whose offset or epochs changed since, and ``forgotten`` those to drop. The answer to an
incremental fetch holds only partitions with news. As a connection is ordered and dies whole, no
session outlives it and none must be evicted (KIP-227 without its cache).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int8, Int16, Int32, Int64, Name, Span


@dataclass(slots=True)
class FetchPartition:
    """``leader_epoch`` is the fetcher's view (-1: not known, consumers only), for fencing
    (KIP-320); ``last_fetched_epoch`` the epoch of the record before ``fetch_offset`` (-1: none),
    for divergence (KIP-595)."""

    partition: Int32
    fetch_offset: Int64
    max_bytes: Int32
    leader_epoch: Int32 = -1
    last_fetched_epoch: Int32 = -1
    log_start_offset: Int64 = -1
    """The follower's own; -1 from consumers."""


@dataclass(slots=True)
class FetchTopic:
    """It has partitions of one topic. Followers say which they mean by its id as well: the topic
    may have been deleted and made anew, and leader epochs begin again then [K25]. Consumers do so
    too, or say "" where any will do."""

    topic: Name
    partitions: list[FetchPartition]
    topic_id: Name = ""


@dataclass(slots=True)
class ForgottenTopic:
    """It has the partitions to drop from the session."""

    topic: Name
    partitions: list[Int32]


@dataclass(slots=True)
class EpochEnd:
    """It says where a leader epoch ends in the leader's log: the largest epoch at or below the
    asked one."""

    leader_epoch: Int32
    end_offset: Int64


@dataclass(slots=True)
class AbortedTransaction:
    """It is a range that a read_committed consumer must drop."""

    producer_id: Int64
    first_offset: Int64


@dataclass(slots=True)
class FetchPartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INCONSISTENT_TOPIC_ID, STORAGE_ERROR, CORRUPT_MESSAGE
    (rot found on reading), TOPIC_AUTHORIZATION_FAILED. When ``diverging`` is set there are no
    records and the other offsets must not be used [K6] [B5]."""

    partition: Int32
    error_code: Int16 = 0
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = -1
    records: Span = field(default_factory=lambda: Span(0, 0))
    """Whole batches; the first may begin below ``fetch_offset`` (the reader skips)."""
    diverging: EpochEnd | None = None
    aborted: list[AbortedTransaction] | None = None


@dataclass(slots=True)
class FetchTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[FetchPartitionResponse] = field(default_factory=list)


@dataclass(slots=True)
class FetchResponse:
    """Its whole-request errors are INVALID_FETCH_SESSION_EPOCH, STALE_BROKER_EPOCH,
    CLUSTER_AUTHORIZATION_FAILED (a replica id on a listener that is not internal, or of another
    broker), INVALID_REQUEST."""

    error_code: Int16 = 0
    topics: list[FetchTopicResponse] = field(default_factory=list)


@dataclass(slots=True)
class FetchRequest(Request):
    """It waits up to ``max_wait_ms`` while fewer than ``min_bytes`` are there. ``max_bytes`` bounds
    the whole answer, but the first batch is always sent whole."""

    api_key: ClassVar[ApiKey] = ApiKey.FETCH
    response: ClassVar[type] = FetchResponse
    asker_field: ClassVar[str] = "replica_id"

    replica_id: Int32
    broker_epoch: Int64
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32
    isolation_level: Int8
    session_epoch: Int32
    """-1: no session (consumers); 0: full; n: incremental."""
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic] = field(default_factory=list)
