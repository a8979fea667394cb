"""The machine is told these events. Plain data, facts in the past tense."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from oncelog_controller.move_nodes import PlanRead
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.state import (
    BrokerRegistration,
    DynamicConfig,
    OutOfService,
    PartitionState,
)
from oncelog_controller.store import StoreError
from oncelog_protocol.messages.base import Request


@dataclass(frozen=True, slots=True)
class TopicRead:
    """A topic was read as the store has it. ``states`` has None where a state znode is missing: a
    creation that its controller did not live to finish."""

    name: str
    topic_id: str
    assignment: list[list[int]]
    version: int
    overrides: dict[str, str]
    config_version: int | None
    """The version of the topic's config znode; None when there is none."""
    states: list[PartitionState | None]
    bare: frozenset[int] = frozenset()
    """Partitions whose node is there without a state, left by hand."""


@dataclass(frozen=True, slots=True)
class TombstoneRead:
    """A deletion was read that is not finished everywhere."""

    topic: str
    topic_id: str
    assignment: list[list[int]]


@dataclass(frozen=True, slots=True)
class ClusterRead:
    """The whole store was read after this controller's epoch was written."""

    controller_epoch: int
    epoch_version: int
    brokers: tuple[BrokerRegistration, ...]
    topics: tuple[TopicRead, ...] = ()
    tombstones: tuple[TombstoneRead, ...] = ()
    stray_configs: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    producer_ids_version: int = 0
    broker_configs: dict[int, DynamicConfig] = field(default_factory=dict)
    """The dynamic settings by broker id; -1 stands for all brokers."""
    security: ClusterSecurity | None = None
    plans: tuple[PlanRead, ...] = ()
    """These moves are wanted."""
    features: frozenset[str] = frozenset()
    """These are in use."""
    features_version: int | None = None
    """The version of their node; None: there is none."""
    out_of_service: dict[int, OutOfService] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterLoaded:
    """This controller was elected, or had to read everything again. ``suspected`` names
    (broker id, broker epoch) of brokers that refused connections before."""

    cluster: ClusterRead
    suspected: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The registrations were read as they are now, while the event was being handled [Z11]."""

    brokers: tuple[BrokerRegistration, ...]


@dataclass(frozen=True, slots=True)
class BrokerSuspected:
    """The connection to this life of a broker broke, and its host refused a new one."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerCleared:
    """This life of a broker has answered."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class StorageFailed:
    """A log directory of these brokers failed; their answers to orders will tell which replicas."""

    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OrdersAnswered:
    """A broker has carried out a LeaderAndIsr or a StopReplica: no error as a whole."""

    broker_id: int
    broker_epoch: int
    request: Any
    response: Any


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """Somebody has asked. ``topic_ids`` are fresh ids for topics that the request may create;
    ``internal`` allows the topics that clients may not touch. ``asker`` is a principal, and
    ``now_ms`` what the wall clock said: both are kept with what a person has ordered."""

    request_id: int
    request: Request
    topic_ids: tuple[str, ...] = ()
    internal: bool = False
    asker: str = ""
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class WriteSucceeded:
    """A multi was applied."""

    write_id: int


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """A multi was not applied, or nobody knows (``error.maybe_applied``)."""

    write_id: int
    error: StoreError


@dataclass(frozen=True, slots=True)
class TimeReached:
    """The machine's ``wake_at`` has come."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """The machine was ``unfinished`` with the event before; another turn of the loop has begun."""


Event: TypeAlias = (
    ClusterLoaded
    | BrokersRead
    | BrokerSuspected
    | BrokerCleared
    | StorageFailed
    | OrdersAnswered
    | RequestReceived
    | WriteSucceeded
    | WriteFailed
    | TimeReached
    | GoOn
)
