"""Metadata and DescribeCluster tell who is in the cluster, and who leads what."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message, since

ACTIVE = "active"
"""The state of a broker that nobody has taken out of service: it leads, and gets new partitions."""


@message
class MetadataBroker:
    """It is a live broker, by the advertised address of the listener that was asked."""

    broker_id: Int32
    host: Name
    port: Int32
    rack: Name | None = None


@message
class MetadataPartition:
    """Its error is LEADER_NOT_AVAILABLE. ``elr`` are replicas outside the ISR that hold all that is
    committed; ``last_known_elr`` did, and have lost data since (KIP-966)."""

    error_code: Int16
    partition: Int32
    leader: Int32
    leader_epoch: Int32
    replicas: list[Int32]
    isr: list[Int32]
    offline_replicas: list[Int32]
    elr: list[Int32] = field(default_factory=list)
    last_known_elr: list[Int32] = field(default_factory=list)


@message
class MetadataTopic:
    """Its errors are UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_AUTHORIZATION_FAILED."""

    error_code: Int16
    topic: Name
    topic_id: Name
    internal: bool
    partitions: list[MetadataPartition] = field(default_factory=list)


@message
class MetadataResponse:
    """``controller_id`` is -1 while nobody is controller."""

    cluster_id: Name
    controller_id: Int32
    brokers: list[MetadataBroker] = field(default_factory=list)
    topics: list[MetadataTopic] = field(default_factory=list)
    error_code: Int16 = 0


@message
class MetadataRequest(Request):
    """``topics`` None asks for all; an empty list for brokers only."""

    api_key: ClassVar[ApiKey] = ApiKey.METADATA
    response: ClassVar[type] = MetadataResponse

    topics: list[Name] | None
    allow_auto_topic_creation: bool = False


@message
class ListenerAddress:
    """It is one listener of a broker as it advertises it."""

    name: Name
    host: Name
    port: Int32


@message
class ClusterBroker:
    """It is a live broker in orders of the controller, with every listener and its broker epoch
    (czxid of its registration). ``state`` and ``http`` are as in DescribedBroker."""

    broker_id: Int32
    broker_epoch: Int64
    listeners: list[ListenerAddress]
    rack: Name | None = None
    state: Name = since(3, default=ACTIVE)
    http: Name = since(3, default="")


@message
class DescribedBroker:
    """It is a live broker as DescribeCluster shows it, with every listener and its broker epoch.

    ``state`` is "active" unless somebody takes the broker out of service; then it is "draining",
    "decommissioning" or "decommissioned". ``http`` is ``host:port`` of its metrics and probes, ""
    when it serves none."""

    broker_id: Int32
    broker_epoch: Int64
    listeners: list[ListenerAddress]
    rack: Name | None = None
    state: Name = since(1, default="")
    http: Name = since(1, default="")


@message
class DescribeClusterResponse:
    """Its error is CLUSTER_AUTHORIZATION_FAILED."""

    error_code: Int16 = 0
    error_message: Text | None = None
    cluster_id: Name = ""
    controller_id: Int32 = -1
    controller_epoch: Int32 = -1
    brokers: list[DescribedBroker] = field(default_factory=list)


@message
class DescribeClusterRequest(Request):
    """It has no fields."""

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    versions: ClassVar[tuple[int, int]] = (0, 1)
    response: ClassVar[type] = DescribeClusterResponse
