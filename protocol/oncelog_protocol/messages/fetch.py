"""Fetch: read record batches, by consumers and by followers.

Consumers name every partition each time. Followers use an incremental session that belongs to the
connection: ``session_epoch`` 0 names all partitions and begins the session; n > 0 names only
those whose offset or epochs changed since, and ``forgotten`` those to drop. The answer to an
incremental fetch holds only partitions with news. As a connection is ordered and dies whole, no
session outlives it and none must be evicted (KIP-227 without its cache).

Version 1 says which lane of a follower the fetch comes over, and which batch formats its reader
understands; the answer tells a follower that is far behind how much is left. A reader of version 0
is on the main lane, and understands magic 1 only.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int8, Int16, Int32, Int64, Name, Span, message, since
from oncelog_protocol.types import FetchLane

COLUMNS_FORMAT = 1
"""It is the bit of batches with magic 1, whose records are columns. Bit n stands for magic n + 1;
4 is for bytes and lengths as columns, later."""
KAFKA_FORMAT = 2
"""It is the bit of Kafka's batches, magic 2."""
ALL_FORMATS = COLUMNS_FORMAT | KAFKA_FORMAT
"""This release understands these."""
NOT_KNOWN = -1


def format_of(magic: int) -> int:
    """Return the bit of the batches that have this magic."""
    return 1 << (magic - 1)


@message
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


@message
class FetchTopic:
    """It has partitions of one topic. Followers say which they mean by its id as well: the topic
    may have been deleted and made anew, and leader epochs begin again then [K25]. Consumers do so
    too, or say "" where any will do."""

    topic: Name
    partitions: list[FetchPartition]
    topic_id: Name = ""


@message
class ForgottenTopic:
    """It has the partitions to drop from the session."""

    topic: Name
    partitions: list[Int32]


@message
class EpochEnd:
    """It says where a leader epoch ends in the leader's log: the largest epoch at or below the
    asked one."""

    leader_epoch: Int32
    end_offset: Int64


@message
class AbortedTransaction:
    """It is a range that a read_committed consumer must drop."""

    producer_id: Int64
    first_offset: Int64


@message
class FetchPartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE,
    FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INCONSISTENT_TOPIC_ID, STORAGE_ERROR, CORRUPT_MESSAGE
    (rot found on reading), TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION (a batch of a format
    that the reader does not name). When ``diverging`` is set there are no
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
    bytes_left: Int64 = since(1, default=NOT_KNOWN)
    """So many bytes of the leader's log lie after ``records``, about. Followers on the catch-up
    lane are told; -1: not told. It is 0 for a member of the ISR or the ELR, however much is left:
    its place is on the main lane."""


@message
class FetchTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[FetchPartitionResponse] = field(default_factory=list)


@message
class FetchResponse:
    """Its whole-request errors are INVALID_FETCH_SESSION_EPOCH, STALE_BROKER_EPOCH,
    CLUSTER_AUTHORIZATION_FAILED (a replica id on a listener that is not internal, or of another
    broker), INVALID_REQUEST."""

    error_code: Int16 = 0
    topics: list[FetchTopicResponse] = field(default_factory=list)


@message
class FetchRequest(Request):
    """It waits up to ``max_wait_ms`` while fewer than ``min_bytes`` are there. ``max_bytes`` bounds
    the whole answer, but the first batch is always sent whole."""

    api_key: ClassVar[ApiKey] = ApiKey.FETCH
    response: ClassVar[type] = FetchResponse
    versions: ClassVar[tuple[int, int]] = (0, 1)
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
    lane: Int8 = since(1, default=FetchLane.MAIN.value)
    """A follower fetches what is far behind over a connection of its own, the catch-up lane (1).
    0: the main one, and every consumer's."""
    formats: Int32 = since(1, default=COLUMNS_FORMAT)
    """The reader understands batches of these formats, a bit each: 1 magic 1, 2 magic 2, 4 magic 3.
    Bits that are not known here are of formats that this broker does not have."""
