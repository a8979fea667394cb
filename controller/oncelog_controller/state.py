"""What the controller knows of the cluster, as it stands in the store. Pure data.

Rules
-----
* Only the machine changes it, and only after the write that the change stands for has succeeded:
  memory never runs ahead of the store.
* ``PartitionState`` is frozen; a partition gets a new one with each write. ``version`` is that of
  its state znode and is what the wire calls the partition epoch.
* Every state obeys I10 of the reliability rules: see :func:`check_invariants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from oncelog_controller.transitions import PartitionPhase, ReplicaPhase
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import NO_LEADER, TopicPartition


class InvariantError(RuntimeError):
    """The controller was about to write a state that may not exist. A bug, never an input."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as it registered itself. ``broker_epoch`` is the czxid of its znode: a restarted
    broker has a higher one."""

    broker_id: int
    broker_epoch: int
    listeners: tuple[ListenerAddress, ...]
    rack: str | None = None

    def described(self) -> ClusterBroker:
        """As the wire names it."""
        return ClusterBroker(self.broker_id, self.broker_epoch, list(self.listeners), self.rack)

    def listener(self, name: str) -> ListenerAddress | None:
        """The address of the named listener; a broker without it is reached by its first one."""
        for address in self.listeners:
            if address.name == name:
                return address
        return self.listeners[0] if self.listeners else None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The content of a state znode, and its version. ``leader`` is -1 while nobody leads.

    ``changed_at`` is the store's transaction id of the last write (mzxid) as it was loaded, 0 where
    this controller wrote the state itself: a broker whose epoch is above it has restarted since.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    changed_at: int = 0


@dataclass(slots=True)
class Partition:
    """One partition: where its replicas are, and its newest state in the store."""

    topic: Topic
    index: int
    replicas: tuple[int, ...]
    state: PartitionState | None = None
    phase: PartitionPhase = PartitionPhase.NEW
    replica_phases: dict[int, ReplicaPhase] = field(default_factory=dict)
    bare: bool = False
    """Its node is in the store already, without a state."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its name."""
        return TopicPartition(self.topic.name, self.index)

    @property
    def leader(self) -> int:
        """Who leads, -1 for nobody."""
        return NO_LEADER if self.state is None else self.state.leader


@dataclass(slots=True)
class Topic:
    """One topic. ``overrides`` are its own settings, ``settings`` those with defaults filled in;
    ``config_version`` is the version of its config znode."""

    name: str
    topic_id: str
    settings: TopicConfig
    overrides: dict[str, str] = field(default_factory=dict)
    config_version: int = 0
    partitions: list[Partition] = field(default_factory=list)
    version: int = 0
    """Of the topic's znode, which holds the assignment."""

    def assignment(self) -> list[list[int]]:
        """Replicas by partition."""
        return [list(partition.replicas) for partition in self.partitions]


@dataclass(slots=True)
class Tombstone:
    """A deleted topic some of whose replicas may still hold data. Kept in the store until every
    replica has confirmed; ``phases`` says how far each (partition, broker) is."""

    topic: str
    topic_id: str
    assignment: list[list[int]]
    phases: dict[tuple[int, int], ReplicaPhase] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether all replicas are gone."""
        return all(phase is ReplicaPhase.GONE for phase in self.phases.values())


@dataclass(slots=True)
class Cluster:
    """Everything. Dictionaries are walked in order of key, so that runs repeat."""

    controller_id: int
    controller_epoch: int
    epoch_version: int
    """Version of /controller_epoch that every write checks."""
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    suspected: set[int] = field(default_factory=set)
    """Registered, but their process refuses connections: they do not lead."""
    shutting_down: set[int] = field(default_factory=set)
    topics: dict[str, Topic] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    """By topic id."""
    stray_configs: dict[str, int] = field(default_factory=dict)
    """Config znodes without a topic, left by hand: name to version."""

    def partitions(self) -> Iterator[Partition]:
        """All partitions, by topic name and number."""
        for name in sorted(self.topics):
            yield from self.topics[name].partitions

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, or None."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def live_brokers(self) -> list[ClusterBroker]:
        """Every registered broker, by id."""
        return [self.brokers[broker_id].described() for broker_id in sorted(self.brokers)]

    def leader_counts(self) -> dict[int, int]:
        """Partitions that each broker leads."""
        counts = dict.fromkeys(sorted(self.brokers), 0)
        for partition in self.partitions():
            if partition.leader in counts:
                counts[partition.leader] += 1
        return counts

    def may_lead(self, broker_id: int) -> bool:
        """Registered, reachable, and not about to stop."""
        return (
            broker_id in self.brokers
            and broker_id not in self.suspected
            and broker_id not in self.shutting_down
        )


def check_invariants(partition: Partition, leader: int, isr: tuple[int, ...]) -> None:
    """I10: the leader is in the ISR or is nobody; the ISR is not empty, has no repeats, and lies
    within the replicas.

    :raises InvariantError: otherwise; nothing has been written then.
    """
    where = str(partition.topic_partition)
    if not isr or len(set(isr)) != len(isr):
        raise InvariantError(f"{where}: ISR {isr} is empty or repeats a member")
    if not set(isr) <= set(partition.replicas):
        raise InvariantError(f"{where}: ISR {isr} is not within replicas {partition.replicas}")
    if leader != NO_LEADER and leader not in isr:
        raise InvariantError(f"{where}: leader {leader} is not in ISR {isr}")
