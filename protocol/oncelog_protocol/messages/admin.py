"""The admin family is about topics, partitions, configs, log directories, elections, old records.

Requests that change the cluster are answered by the controller; any other broker says
NOT_CONTROLLER and the client asks Metadata who it is.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int8, Int16, Int32, Int64, Name, Text, message, since


@message
class ConfigEntry:
    """``value`` None resets the key to its default."""

    key: Name
    value: Text | None


@message
class CreatableTopic:
    """``assignment``, one list of broker ids a partition, excludes counts (which are then -1).
    ``partition_count`` or ``replication_factor`` -1 take the broker's default."""

    topic: Name
    partition_count: Int32
    replication_factor: Int16
    assignment: list[list[Int32]] | None = None
    configs: list[ConfigEntry] = field(default_factory=list)


@message
class TopicResult:
    """Its errors for CreateTopics are INVALID_TOPIC, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, NOT_CONTROLLER,
    REQUEST_TIMED_OUT. Of DeleteTopics: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, NOT_CONTROLLER.
    Of CreatePartitions: the same two families."""

    topic: Name
    error_code: Int16 = 0
    error_message: Text | None = None
    topic_id: Name = ""
    partition_count: Int32 = -1
    replication_factor: Int16 = -1


@message
class CreateTopicsResponse:
    """It has one result a topic, in order."""

    error_code: Int16 = 0
    topics: list[TopicResult] = field(default_factory=list)


@message
class CreateTopicsRequest(Request):
    """Answered when every partition has a leader that took its order, or the time is up."""

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_TOPICS
    response: ClassVar[type] = CreateTopicsResponse

    topics: list[CreatableTopic]
    timeout_ms: Int32
    validate_only: bool = False


@message
class DeleteTopicsResponse:
    """It has one result a topic, in order."""

    error_code: Int16 = 0
    topics: list[TopicResult] = field(default_factory=list)


@message
class DeleteTopicsRequest(Request):
    """It is answered when the topic is gone from the cluster's state; data follows."""

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_TOPICS
    response: ClassVar[type] = DeleteTopicsResponse

    topics: list[Name]
    timeout_ms: Int32


@message
class DeleteRecordsPartition:
    """With ``before_offset`` -1 all that is committed is deleted."""

    partition: Int32
    before_offset: Int64


@message
class DeleteRecordsTopic:
    """It has partitions of one topic."""

    topic: Name
    partitions: list[DeleteRecordsPartition]


@message
class DeleteRecordsPartitionResult:
    """``low_watermark`` is the first offset that is left, at every in-sync replica. Errors:
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE (negative, or above the
    high watermark), POLICY_VIOLATION (the topic is compacted and nothing else), INVALID_TOPIC
    (internal), TOPIC_AUTHORIZATION_FAILED, NOT_ENOUGH_REPLICAS, STORAGE_ERROR, INVALID_REQUEST, and
    REQUEST_TIMED_OUT: not yet at all of them."""

    partition: Int32
    low_watermark: Int64 = -1
    error_code: Int16 = 0
    error_message: Text | None = None


@message
class DeleteRecordsTopicResult:
    """It has the answers for one topic."""

    topic: Name
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message
class DeleteRecordsResponse:
    """It has one result a partition, in order."""

    error_code: Int16 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


@message
class DeleteRecordsRequest(Request):
    """Partition leaders are asked this. Answered when every in-sync replica has it on disk that the
    partition begins at the offset, or the time is up. (KIP-107)"""

    api_key: ClassVar[ApiKey] = ApiKey.DELETE_RECORDS
    response: ClassVar[type] = DeleteRecordsResponse

    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@message
class PartitionGrowth:
    """Grow ``topic`` to ``partition_count``; ``assignment`` lists only the new partitions."""

    topic: Name
    partition_count: Int32
    assignment: list[list[Int32]] | None = None


@message
class CreatePartitionsResponse:
    """It has one result a topic, in order."""

    error_code: Int16 = 0
    topics: list[TopicResult] = field(default_factory=list)


@message
class CreatePartitionsRequest(Request):
    """Add partitions to topics."""

    api_key: ClassVar[ApiKey] = ApiKey.CREATE_PARTITIONS
    response: ClassVar[type] = CreatePartitionsResponse

    topics: list[PartitionGrowth]
    timeout_ms: Int32
    validate_only: bool = False


RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4


@message
class ConfigResource:
    """It names a topic, or a broker by its id in digits, "" for what is set for all brokers;
    ``keys`` None asks for all."""

    resource_type: Int8
    resource_name: Name
    keys: list[Name] | None = None


@message
class ConfigValue:
    """``source`` is "topic", "dynamic_broker" (set for this broker while it runs),
    "dynamic_default" (set so for all brokers), "broker" (file, environment or command line) or
    "default". A secret has no value."""

    key: Name
    value: Text | None
    source: Name
    read_only: bool
    documentation: Text


@message
class ConfigResourceResult:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_CONFIG (alter)."""

    resource_type: Int8
    resource_name: Name
    error_code: Int16 = 0
    error_message: Text | None = None
    values: list[ConfigValue] = field(default_factory=list)


@message
class DescribeConfigsResponse:
    """It has one result a resource, in order."""

    error_code: Int16 = 0
    resources: list[ConfigResourceResult] = field(default_factory=list)


@message
class DescribeConfigsRequest(Request):
    """Any broker answers it for topics, and for what is set for all brokers; a broker's own
    settings only that broker knows."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    response: ClassVar[type] = DescribeConfigsResponse

    resources: list[ConfigResource]


@message
class ConfigAlteration:
    """It is incremental: only the named keys change (KIP-339)."""

    resource_type: Int8
    resource_name: Name
    entries: list[ConfigEntry]


@message
class AlterConfigsResponse:
    """It has one result a resource, in order."""

    error_code: Int16 = 0
    resources: list[ConfigResourceResult] = field(default_factory=list)


@message
class AlterConfigsRequest(Request):
    """It sets settings of topics, and the dynamic ones of a broker (its id in digits) or of all
    ("")."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    response: ClassVar[type] = AlterConfigsResponse

    resources: list[ConfigAlteration]
    validate_only: bool = False


@message
class ReplicaSize:
    """It tells of one replica on one directory: bytes on disk, and where it begins and ends.

    ``is_future``: it is the copy of a replica that moves to this directory, and lacks
    ``offset_lag`` offsets. Version 0 has no such copies."""

    topic: Name
    partition: Int32
    size_bytes: Int64
    log_start_offset: Int64
    log_end_offset: Int64
    high_watermark: Int64
    is_future: bool = since(1, default=False)
    offset_lag: Int64 = since(1, default=0)


@message
class ReplicaPlace:
    """It names a directory, as the broker's settings do, for one replica of the broker asked."""

    topic: Name
    partition: Int32
    path: Text


@message
class ReplicaPlaceResult:
    """Its errors are LOG_DIR_NOT_FOUND; REPLICA_NOT_AVAILABLE when the broker has no such replica,
    and will make it there if it gets one; STORAGE_ERROR when a directory is offline or has no
    room. ``size_bytes`` are to be copied; -1: not known."""

    topic: Name
    partition: Int32
    error_code: Int16 = 0
    error_message: Text | None = None
    size_bytes: Int64 = -1


@message
class AlterReplicaLogDirsResponse:
    """It has one result an item, in order. Its error is CLUSTER_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    results: list[ReplicaPlaceResult] = field(default_factory=list)


@message
class AlterReplicaLogDirsRequest(Request):
    """Replicas of the broker that is asked go to other directories of it (KIP-113). It is answered
    when the moves are accepted. A place where a replica is already ends its move elsewhere."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_REPLICA_LOG_DIRS
    response: ClassVar[type] = AlterReplicaLogDirsResponse

    replicas: list[ReplicaPlace]
    validate_only: bool = False


@message
class DescribedLogDir:
    """Its error is STORAGE_ERROR when the directory is offline. A directory that is not may be
    listed once more, with CORRUPT_MESSAGE and the replicas in it in which rot was found."""

    error_code: Int16
    path: Text
    total_bytes: Int64
    free_bytes: Int64
    replicas: list[ReplicaSize] = field(default_factory=list)


@message
class DescribeLogDirsResponse:
    """Its error is CLUSTER_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    log_dirs: list[DescribedLogDir] = field(default_factory=list)


@message
class DescribeLogDirsRequest(Request):
    """Each broker answers for itself. ``topics`` None asks for all."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = DescribeLogDirsResponse

    topics: list[Name] | None


@message
class ElectionTarget:
    """It names one partition to elect a leader for."""

    topic: Name
    partition: Int32


@message
class ElectionResult:
    """Its errors are ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION."""

    topic: Name
    partition: Int32
    error_code: Int16 = 0
    error_message: Text | None = None


@message
class ElectLeadersResponse:
    """Its whole-request error is NOT_CONTROLLER."""

    error_code: Int16 = 0
    partitions: list[ElectionResult] = field(default_factory=list)


@message
class ElectLeadersRequest(Request):
    """``unclean`` elects from outside the ISR and may lose data. ``partitions`` None: all."""

    api_key: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    response: ClassVar[type] = ElectLeadersResponse

    unclean: bool
    partitions: list[ElectionTarget] | None
