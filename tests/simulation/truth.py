"""One partition's truth, and what each replica shows of it, is the state of the invariants.

Owns the *canon*: the batches that some leader has committed, in order. It grows when a leader's
high watermark passes it, or when a client was told of an offset before anybody looked. ``high`` is
the true high watermark: no leader has ever shown a higher one.

Why the canon may grow by what a *deposed* leader shows: its high watermark waits for every member
of its maximal ISR, which contains the store's ISR of its epoch, so whoever is elected next holds
what it commits. That this is so is what the invariants check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from oncelog_broker.app import Broker
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.isr import IsrState
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from simulation.compacted_canon import CompactedCanon
from simulation.log_view import Batch, Canon, DiskLog, LogView, Rots, RunningLog, copies_of
from simulation.store_view import Rules, StoredPartition, StoreState

__all__ = ["Promise", "Replica", "Rules", "Truth", "Watched"]


class Watched(Protocol):
    """The invariants need this of a cluster."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Return those that run; one that is still loading its logs counts as down."""
        ...

    @property
    def disks(self) -> Mapping[int, MemoryFiles]:
        """Return every broker's, also when it is down: the object of the present incarnation."""
        ...

    @property
    def zookeeper(self) -> MemoryZooKeeper: ...


@dataclass(slots=True)
class Promise:
    """It is a record that a client has read, or was told of."""

    offset: int
    value: bytes | None
    acked: bool
    """Whether it is an acknowledgement; else a read."""

    @property
    def id(self) -> str:
        """Return which invariant it is about."""
        return "I23" if self.acked else "I7"


class Replica:
    """It is one replica, as it was last looked at."""

    def __init__(self, broker_id: int, rots: Rots | None = None) -> None:
        self.broker_id = broker_id
        self.view: RunningLog | None = None
        """Its log while its broker runs and has one."""
        self.partition: Partition | None = None
        """None while the broker is down, or no order has named the partition."""
        self.running = False
        self.directory = ""
        """Where its log lay when it was last seen."""
        self.life: Broker | None = None
        """The broker object that ran last."""
        self.life_epoch = -1
        """The first broker epoch of that life."""
        self.harmed_life: Broker | None = None
        """The life that ended with the restart, or in which it was harmed."""
        self.damaged = False
        """Its disk was harmed; see ``Invariants.note_damage``."""
        self.hurt = False
        """The same, remembered for ever."""
        self.resets_at_harm = 0
        self.rots: Rots = {} if rots is None else rots
        """Batches that have rotted; nothing is forgotten, as nothing comes twice."""
        self.role: LeaderRole | None = None
        self.role_high = -1
        self.role_state: IsrState | None = None
        self.role_min_isr = -1
        self.epochs_checked: tuple[PartitionLog | None, int] = (None, -1)
        """Log and revision of its epoch history that were found in order."""
        self._disk: DiskLog | None = None
        self._disk_key: tuple[object, int] | None = None
        self._seen: tuple[object, ...] = ()

    def look(self, broker: Broker | None, name: TopicPartition, topic_id: str) -> bool:
        """Take in what the broker shows; whether anything changed."""
        partition = None
        log = None
        if broker is not None and broker is not self.life:
            former, self.life, self.life_epoch = self.life, broker, -1
            if former is not None:
                self.harmed_life = former
        if self.life_epoch < 0 and broker is not None:
            self.life_epoch = broker.broker_epoch
        self.running = broker is not None and broker.replicas._loop is not None
        if broker is not None and self.running:
            partition = broker.replicas._partitions.get(name)
            if partition is not None and partition.topic_id != topic_id:
                partition = None
            log = partition.log if partition is not None else broker.logs.get(name)
            if log is not None and log.topic_id and log.topic_id != topic_id:
                log = None
        self.partition = partition
        seen: tuple[object, ...] = (self.running, partition, log)
        if log is not None:
            seen += (log.log_end_offset, log.log_start_offset, log.synced_offset, log.swap.count)
            seen += (log.unsynced._generation, log.directory)
        if partition is not None:
            role = partition.leader
            seen += (partition.high_watermark, partition.leader_epoch, partition.failed)
            seen += (role, None if role is None else role.state)
        if seen == self._seen:
            return False
        self._seen = seen
        if log is None:
            self.view = None
        elif self.view is None or self.view.log is not log:
            assert broker is not None
            self.view = RunningLog(cast(MemoryFiles, broker.files), log, self.rots)
        if log is not None:
            self.directory = log.directory
        if self.view is not None:
            self.view.update()
        return True

    def harm(self) -> None:
        """Note that its disk lost something that was synced, or will garble it."""
        self.damaged = self.hurt = True
        self.harmed_life = self.life
        self.resets_at_harm = 0 if self.view is None else self.view.resets

    @property
    def exempt(self) -> bool:
        """Return whether it is known not to hold all it should, or cannot serve."""
        return self.damaged or self.knows

    @property
    def knows(self) -> bool:
        """Return whether it knows itself that it lacks something: it refuses to lead."""
        view, partition = self.view, self.partition
        if view is not None:
            log = view.log
            if log.needs_refetch or log.refetch_until >= 0 or not log.log_dir.online:
                return True
        return partition is not None and (partition.refetching or partition.failed)

    @property
    def high_watermark(self) -> int:
        """Return its own; 0 while it has none."""
        return 0 if self.partition is None else self.partition.high_watermark

    def on_disk(self, disks: Mapping[int, MemoryFiles]) -> LogView | None:
        """Return what lies on the disk of a broker that is down, or None when it was never seen."""
        files = disks.get(self.broker_id)
        if files is None or self.running or not self.directory:
            return None
        key = (files, files._disk.incarnation)
        if self._disk is None or self._disk_key != key:
            self._disk = DiskLog(files, self.rots)
            self._disk.load(next(iter(copies_of(files, self.directory)), self.directory))
            self._disk_key = key
        return self._disk


@dataclass(slots=True)
class Truth:
    """It is one partition. Made anew when a topic is."""

    name: TopicPartition
    topic_id: str
    compacts: bool = False
    """Its topic's old records may be taken away; see ``compacted_canon``."""
    replicas: dict[int, Replica] = field(default_factory=dict)
    canon: Canon = field(default_factory=Canon)
    high: int = 0
    state: StoreState | None = None
    """The version that was checked last."""
    promises: list[Promise] = field(default_factory=list)
    led: dict[int, int] = field(default_factory=dict)
    """Broker by leader epoch, as seen at the brokers."""
    lossy: bool = False
    """Records were lost where that is permitted: only the present leader tells the truth."""
    decoded: dict[int, list[bytes | None]] = field(default_factory=dict)
    """Values of batches that were looked into lately, by base offset."""

    def __post_init__(self) -> None:
        self.canon = self._new_canon()

    def _new_canon(self) -> Canon:
        return CompactedCanon() if self.compacts else Canon()

    def leaders(self) -> list[Replica]:
        """Return who believes to lead, the oldest leader epoch first."""
        found = [
            replica
            for replica in self.replicas.values()
            if replica.partition is not None and replica.partition.leader is not None
        ]
        return sorted(found, key=_epoch_of)

    def leader_of(self, stored: StoredPartition) -> Replica | None:
        """Return the replica that the store says leads, if it knows so itself."""
        replica = self.replicas.get(stored.state.leader)
        if replica is None or replica.partition is None or replica.partition.leader is None:
            return None
        same = replica.partition.leader_epoch == stored.state.leader_epoch
        return replica if same else None

    def views(self, disks: Mapping[int, MemoryFiles]) -> list[tuple[Replica, LogView]]:
        """Return every replica that shows a log: running ones, then the disks of the others."""
        found: list[tuple[Replica, LogView]] = [
            (replica, replica.view)
            for replica in self.replicas.values()
            if replica.view is not None
        ]
        for replica in self.replicas.values():
            disk = None if replica.view is not None else replica.on_disk(disks)
            if disk is not None:
                found.append((replica, disk))
        for _, view in found:
            self.canon.match(view)
        return found

    def is_unseen(self, disks: Mapping[int, MemoryFiles]) -> bool:
        """Return whether some replica shows nothing that could be counted."""
        return any(
            replica.view is None and replica.on_disk(disks) is None
            for replica in self.replicas.values()
        )

    def drop_former(self, replicas: Collection[int]) -> None:
        """Forget brokers that are no replicas any more, once they know it: one that has not heard
        may still believe to lead, and what it shows as committed counts."""
        for broker_id in [b for b in self.replicas if b not in replicas]:
            if self.replicas[broker_id].partition is None:
                del self.replicas[broker_id]

    def rebase(self) -> None:
        """Begin a new canon: what was committed is no more, and that is permitted."""
        self.lossy = True
        self.canon = self._new_canon()
        self.high = 0
        self.promises.clear()
        self.decoded.clear()
        for replica in self.replicas.values():
            if replica.view is not None:
                replica.view.matched = replica.view.start
            replica._disk = None

    def value_at(self, batch: Batch, offset: int, view: LogView) -> bytes | None:
        """Return the value at ``offset``, inside ``batch``. :raises LookupError: see
        ``LogView``."""
        if isinstance(self.canon, CompactedCanon):
            return self.canon.records[offset].value
        values = self.decoded.get(batch.base)
        if values is None or len(values) != batch.next - batch.base:
            values = [None] * (batch.next - batch.base)
            for at, value in view.records_of(batch):
                values[at - batch.base] = value
            if len(self.decoded) > 1000:
                del self.decoded[next(iter(self.decoded))]
            self.decoded[batch.base] = values
        return values[offset - batch.base]


def _epoch_of(replica: Replica) -> int:
    return -1 if replica.partition is None else replica.partition.leader_epoch
