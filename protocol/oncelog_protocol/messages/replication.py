"""The controller orders brokers by these messages, and brokers ask things of it.

All are refused on listeners that are not internal, and on connections whose first exchange did not
name the receiver and its cluster, and as the asker the broker that the request names. Every order
carries the controller epoch (a lower one than seen: STALE_CONTROLLER_EPOCH) and the broker epoch
that the controller knows of the receiver (lower than the receiver's: STALE_BROKER_EPOCH, not
retried; higher: accepted, KIP-380 and KAFKA-9839).
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message, since
from oncelog_protocol.types import NO_BROKER


@message
class LeaderAndIsrPartition:
    """It is the state of one partition as the controller wrote it. Applied only when
    ``leader_epoch`` is above the replica's (equal: acknowledged, not applied; [Z4]).
    ``partition_epoch`` is the version of its state znode. While ``elr`` names somebody, the leader
    holds the high watermark: these replicas are outside the ISR and may yet be elected
    (KIP-966).

    While the partition moves, ``origin`` and ``target`` are its replicas before and after, and
    ``next_leader`` is who gets ready to lead; else they are nil, nil and -1."""

    topic: Name
    topic_id: Name
    partition: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    partition_epoch: Int32
    replicas: list[Int32]
    is_new: bool
    elr: list[Int32] = field(default_factory=list)
    last_known_elr: list[Int32] = field(default_factory=list)
    origin: list[Int32] | None = since(3, default=None)
    target: list[Int32] | None = since(3, default=None)
    next_leader: Int32 = since(3, default=NO_BROKER)


@message
class TopicOverrides:
    """It has the overrides of one topic, whole; ``version`` grows with each change."""

    topic: Name
    version: Int32
    keys: list[Name]
    values: list[Text]


BROKER_DEFAULT = -1
"""It stands instead of a broker's id for the settings that hold for every broker without its own.
"""


@message
class BrokerOverrides:
    """It has the dynamic settings of one broker, or with ``broker_id`` -1 of all, whole;
    ``version`` grows with each change (KIP-226)."""

    broker_id: Int32
    version: Int32
    keys: list[Name]
    values: list[Text]


@message
class ReplicaResult:
    """Its errors are FENCED_LEADER_EPOCH (an older leader epoch), INCONSISTENT_TOPIC_ID,
    STORAGE_ERROR."""

    topic: Name
    partition: Int32
    error_code: Int16


@message
class LeaderAndIsrResponse:
    """Its whole-request errors are STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, NOT_CONTROLLER (the
    store knows nothing of that controller), BROKER_NOT_AVAILABLE (it cannot be asked)."""

    error_code: Int16 = 0
    partitions: list[ReplicaResult] = field(default_factory=list)


@message
class LeaderAndIsrRequest(Request):
    """Become leader or follower. ``full`` lists every partition of the broker (first order of a
    controller): replicas that it does not list, and whose topic is gone, are stray. Versions 1 and
    2 are as 0, so that entries have the same version as in UpdateMetadata."""

    api_key: ClassVar[ApiKey] = ApiKey.LEADER_AND_ISR
    versions: ClassVar[tuple[int, int]] = (0, 3)
    response: ClassVar[type] = LeaderAndIsrResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "controller_id"

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    full: bool
    partitions: list[LeaderAndIsrPartition]
    live_brokers: list[ClusterBroker]
    configs: list[TopicOverrides] = field(default_factory=list)


@message
class StopPartition:
    """Stop one replica; ``delete`` removes its data. ``leader_epoch`` orders it (KIP-570);
    -2 means that the topic is deleted."""

    topic: Name
    topic_id: Name
    partition: Int32
    leader_epoch: Int32
    delete: bool


@message
class StopReplicaResponse:
    """Its whole-request errors are STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, NOT_CONTROLLER (the
    store knows nothing of that controller), BROKER_NOT_AVAILABLE (it cannot be asked)."""

    error_code: Int16 = 0
    partitions: list[ReplicaResult] = field(default_factory=list)


@message
class StopReplicaRequest(Request):
    """Stop serving replicas."""

    api_key: ClassVar[ApiKey] = ApiKey.STOP_REPLICA
    response: ClassVar[type] = StopReplicaResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "controller_id"

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    partitions: list[StopPartition]


@message
class UpdateMetadataResponse:
    """Its whole-request errors are STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, NOT_CONTROLLER (the
    store knows nothing of that controller), BROKER_NOT_AVAILABLE (it cannot be asked)."""

    error_code: Int16 = 0


@message
class UpdateMetadataRequest(Request):
    """It carries what every broker tells clients. ``full`` replaces the image; else the listed
    partitions are changed. A partition with leader -2 is deleted. ``live_brokers`` is always whole,
    and so is ``broker_configs``; nil leaves what is known.

    A full one may come in slices, each with some of the partitions and configs, from the ``first``
    to the ``last``: the image is replaced when the last has come. Errors, besides: INVALID_REQUEST
    (a slice without those before it)."""

    api_key: ClassVar[ApiKey] = ApiKey.UPDATE_METADATA
    versions: ClassVar[tuple[int, int]] = (0, 3)
    response: ClassVar[type] = UpdateMetadataResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "controller_id"

    controller_id: Int32
    controller_epoch: Int32
    broker_epoch: Int64
    full: bool
    partitions: list[LeaderAndIsrPartition]
    live_brokers: list[ClusterBroker]
    configs: list[TopicOverrides] = field(default_factory=list)
    broker_configs: list[BrokerOverrides] | None = since(1, default=None)
    first: bool = since(2, default=True)
    last: bool = since(2, default=True)


@message
class IsrMember:
    """It is a proposed ISR member with the broker epoch that the leader saw it fetch with
    (KIP-903); -1 for the leader itself."""

    broker_id: Int32
    broker_epoch: Int64


@message
class AlterPartitionItem:
    """It is the ISR that a leader wants. Idempotent: an equal desired state succeeds before the
    version is checked [Z9]. ``incomplete`` are replicas that were found to lack committed records:
    they do not go to the ELR."""

    topic: Name
    topic_id: Name
    partition: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    isr: list[IsrMember]
    incomplete: list[Int32] = field(default_factory=list)


@message
class AlterPartitionResult:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
    INELIGIBLE_REPLICA, INVALID_REQUEST, OPERATION_NOT_ATTEMPTED, NOT_CONTROLLER. On success and on
    INVALID_UPDATE_VERSION the fields hold the current state."""

    topic: Name
    partition: Int32
    error_code: Int16 = 0
    leader: Int32 = -1
    leader_epoch: Int32 = -1
    isr: list[Int32] = field(default_factory=list)
    partition_epoch: Int32 = -1
    elr: list[Int32] = field(default_factory=list)


@message
class AlterPartitionResponse:
    """Its whole-request errors are NOT_CONTROLLER, STALE_BROKER_EPOCH."""

    error_code: Int16 = 0
    partitions: list[AlterPartitionResult] = field(default_factory=list)


@message
class AlterPartitionRequest(Request):
    """A leader asks the controller to change ISRs (KIP-497)."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION
    response: ClassVar[type] = AlterPartitionResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "broker_id"

    broker_id: Int32
    broker_epoch: Int64
    partitions: list[AlterPartitionItem]


@message
class ControlledShutdownResponse:
    """Its errors are NOT_CONTROLLER, STALE_BROKER_EPOCH. ``remaining`` partitions could not be
    moved."""

    error_code: Int16 = 0
    remaining: Int32 = 0


@message
class ControlledShutdownRequest(Request):
    """A broker that is about to stop asks to have its leaderships moved."""

    api_key: ClassVar[ApiKey] = ApiKey.CONTROLLED_SHUTDOWN
    response: ClassVar[type] = ControlledShutdownResponse
    between_brokers: ClassVar[bool] = True
    asker_field: ClassVar[str] = "broker_id"

    broker_id: Int32
    broker_epoch: Int64
