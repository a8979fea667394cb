"""ListOffsets and OffsetForLeaderEpoch ask partition leaders about offsets."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int8, Int16, Int32, Int64, Name, message


@message
class ListOffsetsPartition:
    """``timestamp`` is in ms, or -2 earliest, -1 latest (high watermark, or last stable offset), -3
    the record with the largest timestamp, the first of them (KIP-734)."""

    partition: Int32
    timestamp: Int64
    leader_epoch: Int32 = -1


@message
class ListOffsetsTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[ListOffsetsPartition]


@message
class ListOffsetsPartitionResponse:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE (not yet: a new leader), STORAGE_ERROR,
    TOPIC_AUTHORIZATION_FAILED. Offset -1: no record has that timestamp or a later one."""

    partition: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = -1


@message
class ListOffsetsTopicResponse:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message
class ListOffsetsResponse:
    """Its whole-request error is INVALID_REQUEST."""

    error_code: Int16 = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)


@message
class ListOffsetsRequest(Request):
    """It asks for the first offset at or after each timestamp."""

    api_key: ClassVar[ApiKey] = ApiKey.LIST_OFFSETS
    response: ClassVar[type] = ListOffsetsResponse

    isolation_level: Int8
    topics: list[ListOffsetsTopic]


@message
class EpochQuery:
    """It asks where ``leader_epoch`` ends. ``current_leader_epoch`` fences (-1: not known)."""

    partition: Int32
    current_leader_epoch: Int32
    leader_epoch: Int32


@message
class EpochQueryTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[EpochQuery]


@message
class EpochAnswer:
    """Its errors are as in ListOffsets. ``leader_epoch`` is the largest epoch at or below the asked
    one (KIP-279), ``end_offset`` where it ends; -1 and -1 when there is none."""

    partition: Int32
    error_code: Int16 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class EpochAnswerTopic:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[EpochAnswer] = field(default_factory=list)


@message
class OffsetForLeaderEpochResponse:
    """It has no whole-request errors beyond INVALID_REQUEST."""

    error_code: Int16 = 0
    topics: list[EpochAnswerTopic] = field(default_factory=list)


@message
class OffsetForLeaderEpochRequest(Request):
    """It is used by consumers that suspect truncation, and by tools."""

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    response: ClassVar[type] = OffsetForLeaderEpochResponse

    topics: list[EpochQueryTopic]
