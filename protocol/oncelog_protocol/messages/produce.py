"""Produce: append one record batch to each of several partitions."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int8, Int16, Int32, Int64, Name, Span, Text, message


@message
class ProducePartition:
    """It is one batch for one partition; ``batch`` lies in the payload and holds exactly one
    batch."""

    partition: Int32
    batch: Span


@message
class ProduceTopic:
    """It has the batches for one topic."""

    topic: Name
    partitions: list[ProducePartition]


@message
class ProducePartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, CORRUPT_MESSAGE,
    INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    REQUEST_TIMED_OUT, STORAGE_ERROR, TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC (a client writing to
    an internal topic).

    Of numbered batches: OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH, THROTTLING_QUOTA_EXCEEDED (the partition remembers as many producers as
    it may, and this is none of them; nothing happened, send it again). Of batches of transactions:
    INVALID_REQUEST (the transactional bit without a transactional id, or the reverse),
    INVALID_TXN_STATE, and what the coordinator says when the partition is added to the transaction:
    COORDINATOR_NOT_AVAILABLE, CONCURRENT_TRANSACTIONS (both: nothing happened, send it again),
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, TRANSACTION_ABORTABLE, POLICY_VIOLATION."""

    partition: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = -1
    """Set when the topic stamps records itself, else -1."""
    log_start_offset: Int64 = -1
    error_message: Text | None = None


@message
class ProduceTopicResponse:
    """It has the answers for one topic, in the order of the request."""

    topic: Name
    partitions: list[ProducePartitionResponse] = field(default_factory=list)


@message
class ProduceResponse:
    """Its whole-request errors are INVALID_REQUIRED_ACKS (with a transactional id: other than all),
    INVALID_REQUEST (a partition twice, an empty or reserved transactional id),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED. With acks=0 there is no
    response at all."""

    error_code: Int16 = 0
    topics: list[ProduceTopicResponse] = field(default_factory=list)


@message
class ProduceRequest(Request):
    """``acks`` is 0, 1 or -1 (all). ``timeout_ms`` bounds the wait for replicas.

    ``transactional_id``: all batches belong to its open transaction. The first one of a partition
    makes its leader add the partition there, which is waited for (KIP-890)."""

    api_key: ClassVar[ApiKey] = ApiKey.PRODUCE
    response: ClassVar[type] = ProduceResponse

    transactional_id: Name | None
    acks: Int8
    timeout_ms: Int32
    topics: list[ProduceTopic]
