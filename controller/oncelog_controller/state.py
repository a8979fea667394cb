"""The controller knows this of the cluster, as it stands in the store. Pure data.

Rules
-----
* Only the machine changes it, and only after the write that the change stands for has succeeded:
  memory never runs ahead of the store.
* ``PartitionState`` is frozen; a partition gets a new one with each write. ``version`` is that of
  its state znode and is what the wire calls the partition epoch.
* Every state obeys the rules [I9], [I10] and [I11]: see :func:`check_invariants`.
* Who may lead by its data (KIP-966): members of the ISR, then those of the ELR, who left an ISR
  that became smaller than ``min.insync.replicas``. The high watermark stands while there is an
  ELR, so that its members hold all that is committed, as long as they lose nothing.
* Replicas stand in the state, so that a move is one conditional write of one node. A topic's node
  holds those of its creation; they count where a state, of an older release, names none.
* That they lose nothing is looked at again with each registration. A state says for every member
  under which broker epoch it was known to be complete; a registration says since and until which
  epoch nothing was lost (:class:`DataClaim`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from oncelog_controller.security import ClusterSecurity
from oncelog_controller.transitions import (
    PartitionCause,
    PartitionPhase,
    ReplicaPhase,
    next_partition_phase,
)
from oncelog_protocol.messages.broker_states import DECOMMISSIONED, DECOMMISSIONING
from oncelog_protocol.messages.metadata import ACTIVE, ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import NO_BROKER, NO_EPOCH, NO_LEADER, TopicPartition


class IllegalStateError(RuntimeError):
    """The controller was about to write a state that may not exist. A bug, never an input."""


class DataLoss(Enum):
    """It tells what a broker knows that it may have lost."""

    NONE = "none"
    TAIL = "tail"
    """The replica lost what it had not synced when it stopped: at most one flush interval."""
    ALL = "all"
    """Its directories are new, or not those that it had."""


@dataclass(frozen=True, slots=True)
class KeptPartitions:
    """A broker has kept all of these partitions that counted under its registrations from epoch
    ``since`` to epoch ``until``, whatever became of others: their directory is sound (KIP-858)."""

    since: int
    until: int | None
    partitions: Mapping[str, frozenset[int]]
    """Numbers by topic id."""

    def lists(self, topic_id: str, index: int) -> bool:
        """Return whether a partition is among them."""
        return index in self.partitions.get(topic_id, ())


@dataclass(frozen=True, slots=True)
class DataClaim:
    """A broker claims when it registers that all is still there that counted under its
    registrations from epoch ``since`` to epoch ``until``."""

    since: int | None = None
    """The directory vouches from this time on; None: from this very registration on."""
    until: int | None = None
    """The newest epoch that its directories remember; a copy restored from a backup remembers an
    older one than the cluster does. None: not known, no bound."""
    loss: DataLoss = DataLoss.ALL
    listed: tuple[KeptPartitions, ...] = ()
    """These partitions have a claim of their own instead."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """It describes a broker as it registered itself. ``broker_epoch`` is the czxid of its znode: a
    restarted broker has a higher one."""

    broker_id: int
    broker_epoch: int
    listeners: tuple[ListenerAddress, ...]
    rack: str | None = None
    data: DataClaim = DataClaim()
    http: str = ""
    """Its metrics are at this ``host:port``; "": it serves none."""
    features: frozenset[str] = frozenset()
    """Its release knows these features of a cluster."""
    wants: frozenset[str] = frozenset()
    """It wants to use these features, once all brokers know them."""

    def keeps(self, admitted: int | None, partition: ClusterPartition) -> bool:
        """Return whether the replica of a partition that was complete under the broker epoch
        ``admitted`` still is."""
        if admitted is None:
            return False
        if admitted >= self.broker_epoch:
            return True
        claim, topic_id = self.data, partition.topic.topic_id
        return _within(admitted, claim.since, claim.until) or any(
            _within(admitted, listed.since, listed.until)
            and listed.lists(topic_id, partition.index)
            for listed in claim.listed
        )

    def described(self, state: str = ACTIVE) -> ClusterBroker:
        """Return it as the wire names it; ``state`` is that of its service."""
        listeners = list(self.listeners)
        return ClusterBroker(
            self.broker_id, self.broker_epoch, listeners, self.rack, state, self.http
        )

    def listener(self, name: str) -> ListenerAddress | None:
        """Return the address of the named listener. A broker without it is not reached: what
        listens elsewhere speaks otherwise, and may prove nothing."""
        return next((address for address in self.listeners if address.name == name), None)


@dataclass(frozen=True, slots=True)
class Placement:
    """It says which brokers have a replica of a partition, and how the partition moves (KIP-455).
    No broker is listed twice in one of the lists."""

    replicas: tuple[int, ...]
    """All that there are, the preferred leader first. In a move: ``origin`` in its order, then
    those that are being added."""
    origin: tuple[int, ...] = ()
    """The replicas before the move; empty: the partition does not move."""
    target: tuple[int, ...] = ()
    """The replicas after the move; empty: the partition does not move."""
    leaving: tuple[int, ...] = ()
    """They are no replicas any more, and may still have data on their disks."""
    move: str = ""
    """The id of the plan that the move belongs to; "": none."""

    @property
    def originals(self) -> tuple[int, ...]:
        """Return the replicas that the partition has without the move: they alone count for
        ``min.insync.replicas``, so that a move refuses no write."""
        return self.origin or self.replicas

    @property
    def holders(self) -> tuple[int, ...]:
        """Return everybody who may have data."""
        return (*self.replicas, *self.leaving)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """It is the content of a state znode, and its version. ``leader`` is -1 while nobody leads.

    The ISR is empty only when its last member has lost data and nobody else is complete.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: complete, but outside the ISR; in the order of the replicas."""
    last_known_elr: tuple[int, ...] = ()
    """Were complete, and have lost data since: the best that is left should nobody else be."""
    admitted: tuple[tuple[int, int], ...] = ()
    """(broker id, broker epoch under which it was last known to be complete), by id, for all of the
    three lists. A broker with a higher epoch has registered anew since."""
    unclean_epoch: int = NO_EPOCH
    """The last leader epoch that began with an unclean election: committed records may have been
    lost at its start. -1: there was none."""
    placement: Placement | None = None
    """None: an older release wrote the state, and the topic's node tells the replicas."""

    def admitted_at(self, broker_id: int) -> int | None:
        """See ``admitted``; None for everybody else."""
        return next((epoch for member, epoch in self.admitted if member == broker_id), None)


@dataclass(slots=True)
class ClusterPartition:
    """A partition has replicas in their places, and its newest state in the store."""

    topic: Topic
    index: int
    replicas: tuple[int, ...]
    """Those of the state, as soon as it names some."""
    state: PartitionState | None = None
    phase: PartitionPhase = PartitionPhase.NEW
    replica_phases: dict[int, ReplicaPhase] = field(default_factory=dict)
    bare: bool = False
    """Its node is in the store already, without a state."""
    halted: bool = False
    """A state that may not exist was about to be written: nothing is decided about the partition
    until everything is read again."""
    next_leader: int = NO_BROKER
    """It gets ready to lead, -1 for nobody; it is not in the store."""
    _leader_and_isr: tuple[PartitionState, tuple[int, ...], LeaderAndIsrPartition] | None = None
    """The last answer of ``leader_and_isr``, and what it was made from."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Return its name."""
        return TopicPartition(self.topic.name, self.index)

    @property
    def leader(self) -> int:
        """Return who leads, -1 for nobody."""
        return NO_LEADER if self.state is None else self.state.leader

    def leader_and_isr(self) -> LeaderAndIsrPartition:
        """Describe the partition as the wire does.

        The same object is returned as long as all of it is the same, so it must not be changed.
        """
        state, made = self.state, self._leader_and_isr
        assert state is not None, f"{self.topic_partition} has no state"
        same = made is not None and made[0] is state and made[1] is self.replicas
        if same and made is not None and made[2].next_leader == self.next_leader:
            return made[2]
        entry = LeaderAndIsrPartition(
            topic=self.topic.name,
            topic_id=self.topic.topic_id,
            partition=self.index,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.version,
            replicas=list(self.replicas),
            is_new=False,
            elr=list(state.elr),
            last_known_elr=list(state.last_known_elr),
            origin=list(self.placement.origin) or None,
            target=list(self.placement.target) or None,
            next_leader=self.next_leader,
        )
        self._leader_and_isr = (state, self.replicas, entry)
        return entry

    def take(self, state: PartitionState) -> None:
        """Replace the state by one that was written to the store."""
        before = self.leader
        self.state = state
        if state.placement is not None:
            self.replicas = state.placement.replicas
        if state.leader == self.next_leader:
            self.next_leader = NO_BROKER
        if state.leader == NO_LEADER and before != NO_LEADER:
            self._move(PartitionCause.LEADER_LOST)
        elif state.leader == before:
            self._move(PartitionCause.ISR_CHANGED)
        else:
            self._move(PartitionCause.LEADER_ELECTED)

    def name_next_leader(self, broker_id: int) -> None:
        """Have a replica get ready to lead; -1: nobody any more."""
        self.next_leader = broker_id

    def place(self, replicas: tuple[int, ...]) -> None:
        """Replace the replicas; the first one is preferred."""
        self.replicas = replicas

    def halt(self) -> None:
        """Decide nothing about the partition until everything is read again."""
        self.halted = True

    def remove(self) -> None:
        """End the partition's life: its topic is out of the store."""
        self._move(PartitionCause.TOPIC_DELETED)

    def _move(self, cause: PartitionCause) -> None:
        self.phase = next_partition_phase(self.phase, cause)

    @property
    def placement(self) -> Placement:
        """Return the placement that the state names, else one that does not move."""
        stored = None if self.state is None else self.state.placement
        return Placement(self.replicas) if stored is None else stored

    @property
    def min_isr(self) -> int:
        """Return ``min.insync.replicas``, as far as there are replicas."""
        return self.needed_of(self.topic.settings.min_insync_replicas)

    def needed_of(self, min_insync_replicas: int) -> int:
        """Return how many in-sync replicas such a setting asks of this partition: no more than it
        has replicas, those that a move adds not counted [M4]."""
        return min(min_insync_replicas, len(self.placement.originals))


@dataclass(slots=True)
class Topic:
    """A topic has partitions and settings. ``overrides`` are its own settings, ``settings`` those
    with defaults filled in; ``config_version`` is the version of its config znode."""

    name: str
    topic_id: str
    settings: TopicConfig
    overrides: dict[str, str] = field(default_factory=dict)
    config_version: int = 0
    partitions: list[ClusterPartition] = field(default_factory=list)
    version: int = 0
    """The version of the topic's znode, which holds the assignment."""

    def alter(self, overrides: dict[str, str], settings: TopicConfig) -> None:
        """Replace the settings by others that were written to the store."""
        self.overrides, self.settings = overrides, settings
        self.config_version += 1

    def settle(self, settings: TopicConfig) -> None:
        """Fill in new defaults."""
        self.settings = settings

    def grow(self, partitions: Sequence[ClusterPartition]) -> None:
        """Add partitions that were written to the store."""
        self.partitions.extend(partitions)
        self.version += 1

    def assignment(self) -> list[list[int]]:
        """Return the replicas by partition."""
        return [list(partition.replicas) for partition in self.partitions]

    def holders(self) -> list[list[int]]:
        """Return by partition who may have data of it."""
        return [list(partition.placement.holders) for partition in self.partitions]


@dataclass(slots=True)
class Tombstone:
    """It marks a deleted topic some of whose replicas may still hold data. Kept in the store until
    every replica has confirmed; ``phases`` says how far each (partition, broker) is."""

    topic: str
    topic_id: str
    assignment: list[list[int]]
    phases: dict[tuple[int, int], ReplicaPhase] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Return whether all replicas are gone."""
        return all(phase is ReplicaPhase.GONE for phase in self.phases.values())


@dataclass(frozen=True, slots=True)
class DynamicConfig:
    """It holds what is set for a broker while it runs; ``version`` is that of its znode."""

    overrides: dict[str, str]
    version: int


@dataclass(frozen=True, slots=True)
class OutOfService:
    """Somebody has taken a broker out of service; ``version`` is that of its znode."""

    state: str
    """DRAINING, DECOMMISSIONING or DECOMMISSIONED."""
    since_ms: int
    """The wall clock said so when it was asked for; 0: not known."""
    by: str
    """The principal that asked for it; "": not known."""
    version: int = 0

    @property
    def retires(self) -> bool:
        """Return whether the broker is to have no replicas."""
        return self.state in (DECOMMISSIONING, DECOMMISSIONED)


UNKNOWN_PRODUCER_IDS = -1


@dataclass(slots=True)
class ClusterState:
    """It holds everything. Dictionaries are walked in order of key, so that runs repeat."""

    controller_id: int
    controller_epoch: int
    epoch_version: int
    """Version of /controller_epoch that every write checks."""
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    suspected: set[int] = field(default_factory=set)
    """Registered, but their process refuses connections: they do not lead."""
    shutting_down: set[int] = field(default_factory=set)
    out_of_service: dict[int, OutOfService] = field(default_factory=dict)
    """These brokers are not active, whether they are there or not."""
    topics: dict[str, Topic] = field(default_factory=dict)
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    """The tombstones by topic id."""
    stray_configs: dict[str, int] = field(default_factory=dict)
    """Config znodes without a topic, left by hand: name to version."""
    broker_configs: dict[int, DynamicConfig] = field(default_factory=dict)
    """The dynamic settings by broker id; -1 stands for all brokers."""
    next_producer_id: int = 0
    """The first that was not given; ``UNKNOWN_PRODUCER_IDS`` when its node is damaged."""
    producer_ids_version: int = 0
    security: ClusterSecurity | None = None
    """None: the cluster keeps no users, ACLs and quotas."""
    features: frozenset[str] = frozenset()
    """These are in use: a release that does not know one of them would misread the store."""
    features_version: int | None = None
    """The version of their node; None: there is none."""

    def replace_brokers(
        self, brokers: dict[int, BrokerRegistration], gone: Collection[int]
    ) -> None:
        """Take in who is registered now.

        :param gone: brokers that are not, or in another life: what was known of them is not so.
        """
        self.brokers = brokers
        self.suspected.difference_update(gone)
        self.shutting_down.difference_update(gone)

    def without_feature(self, feature: str) -> list[int]:
        """Return the registered brokers whose release does not know a feature, by id."""
        return [b for b in sorted(self.brokers) if feature not in self.brokers[b].features]

    def use_feature(self, feature: str) -> None:
        """Note in memory that the store says that a feature is in use."""
        self.features |= {feature}
        self.features_version = 0 if self.features_version is None else self.features_version + 1

    def give_producer_ids(self, count: int) -> None:
        """Note in memory that a block of producer ids was given in the store."""
        self.next_producer_id += count
        self.producer_ids_version += 1

    def partitions(self) -> Iterator[ClusterPartition]:
        """Yield all partitions, by topic name and number."""
        for name in sorted(self.topics):
            yield from self.topics[name].partitions

    def partition(self, name: str, index: int) -> ClusterPartition | None:
        """Return one partition, or None."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def live_brokers(self) -> list[ClusterBroker]:
        """Return every registered broker, by id."""
        return [
            self.brokers[broker_id].described(self.service_of(broker_id))
            for broker_id in sorted(self.brokers)
        ]

    def leader_counts(self) -> dict[int, int]:
        """Return the number of partitions that each broker leads."""
        counts = Counter(p.leader for topic in self.topics.values() for p in topic.partitions)
        return {broker_id: counts[broker_id] for broker_id in sorted(self.brokers)}

    def larger_than(self, partitions: int) -> bool:
        """Return whether there are more partitions than so many."""
        return sum(len(topic.partitions) for topic in self.topics.values()) > partitions

    def first_phase(self, broker_id: int) -> ReplicaPhase:
        """Return where the life of a replica on that broker begins."""
        return ReplicaPhase.ONLINE if broker_id in self.brokers else ReplicaPhase.OFFLINE

    def first_phases(self, replicas: Sequence[int]) -> dict[int, ReplicaPhase]:
        """Return where the lives of a partition's replicas begin, by broker."""
        return {broker_id: self.first_phase(broker_id) for broker_id in replicas}

    def take_out_of_service(self, broker_id: int, taken: OutOfService | None) -> None:
        """Note what the store says of a broker now; None: it is active."""
        if taken is None:
            self.out_of_service.pop(broker_id, None)
        else:
            self.out_of_service[broker_id] = taken

    def service_of(self, broker_id: int) -> str:
        """Return the state of a broker's service."""
        taken = self.out_of_service.get(broker_id)
        return ACTIVE if taken is None else taken.state

    def retires(self, broker_id: int) -> bool:
        """Return whether a broker is to have no replicas, or has none any more."""
        taken = self.out_of_service.get(broker_id)
        return taken is not None and taken.retires

    def may_join(self, broker_id: int) -> bool:
        """Return whether it may join an ISR: it is registered, reachable, and not about to stop.
        One that is draining may: its copy is as good as any."""
        return (
            broker_id in self.brokers
            and broker_id not in self.suspected
            and broker_id not in self.shutting_down
        )

    def places(self, count: int) -> list[int]:
        """Return the brokers that new replicas go to, by id, if they can be ``count``: those that
        may join an ISR and are active, else also draining ones, else all that are there. Those that
        leave are never among them."""
        there = [b for b in sorted(self.brokers) if not self.retires(b)]
        able = [b for b in there if self.may_join(b)]
        active = [b for b in able if b not in self.out_of_service]
        return next((each for each in (active, able) if len(each) >= count), there)


def _within(admitted: int, since: int | None, until: int | None) -> bool:
    return since is not None and since <= admitted and (until is None or admitted <= until)


def check_invariants(
    partition: ClusterPartition,
    state: PartitionState,
    brokers: Mapping[int, BrokerRegistration] | None = None,
) -> None:
    """Check what every state must obey that is about to follow the partition's present one.

    [M1]: a move has replicas before it and after it, and all of them are replicas now; who leaves
    is none. [M2]: other replicas, or another move, begin with a leader epoch of their own.
    [I10]: the leader is in the ISR or is nobody; ISR and ELR lie within the replicas, repeat nobody
    and share nobody; an ISR of ``min.insync.replicas`` leaves no ELR. [I11]: leader epochs do not
    fall, the version grows by one. [I9]: with ``brokers`` given, no member of ISR or ELR is
    registered with less data than it had when it was admitted.

    :raises IllegalStateError: otherwise; nothing has been written then.
    """
    placement = state.placement or partition.placement
    fault = (
        _fault_of_placement(placement)
        or _fault(partition, placement, state)
        or _fault_of_succession(partition, state)
    )
    if not fault and brokers is not None:
        for broker_id in (*state.isr, *state.elr):
            broker = brokers.get(broker_id)
            if broker is not None and not broker.keeps(state.admitted_at(broker_id), partition):
                fault = f"broker {broker_id} has lost data"
    if fault:
        raise IllegalStateError(f"{partition.topic_partition}: {fault}: {state}")


def _fault_of_placement(placement: Placement) -> str:
    replicas, origin, target = placement.replicas, placement.origin, placement.target
    if any(len(set(each)) != len(each) for each in (placement.holders, origin, target)):
        return f"a broker is placed twice: {placement}"
    if bool(origin) != bool(target) or not {*origin, *target} <= set(replicas):
        return f"a move that cannot be: {placement}"
    return "" if replicas else "no replicas"


def _fault(partition: ClusterPartition, placement: Placement, state: PartitionState) -> str:
    members = (*state.isr, *state.elr, *state.last_known_elr)
    if len(set(members)) != len(members):
        return "a member is listed twice"
    if not set(members) <= set(placement.replicas):
        return f"a member is none of the replicas {placement.replicas}"
    if state.leader != NO_LEADER and state.leader not in state.isr:
        return "the leader is not in the ISR"
    needed = min(partition.topic.settings.min_insync_replicas, len(placement.originals))
    if len(state.isr) >= needed and (state.elr or state.last_known_elr):
        return f"an ELR beside an ISR of {needed} members"
    if {member for member, _ in state.admitted} != set(members):
        return "broker epochs do not belong to the members"
    return ""


def _fault_of_succession(partition: ClusterPartition, state: PartitionState) -> str:
    before = partition.state
    if before is None:
        return "" if state.version == 0 and state.leader_epoch >= 0 else "no first state"
    if state.version != before.version + 1:
        return f"it does not follow version {before.version}"
    if state.leader_epoch < before.leader_epoch:
        return f"leader epoch below {before.leader_epoch}"
    if state.leader not in (before.leader, NO_LEADER) and state.leader_epoch == before.leader_epoch:
        return f"a second leader of epoch {before.leader_epoch}, which was {before.leader}'s"
    if state.controller_epoch < before.controller_epoch:
        return f"controller epoch below {before.controller_epoch}"
    if state.leader_epoch == before.leader_epoch and state.placement is not None:
        was, now = partition.placement, state.placement
        if (was.replicas, was.origin, was.target) != (now.replicas, now.origin, now.target):
            return f"other replicas in epoch {before.leader_epoch}: {was}"
    return ""
