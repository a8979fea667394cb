"""These tables say how partitions and replicas change their states. Pure.

``phase x cause -> phase``; what the tables do not list is illegal and raises. The documentation's
diagrams are drawn from them.
"""

from __future__ import annotations

from enum import Enum

from oncelog_protocol.errors import OncelogError


class IllegalTransitionError(OncelogError):
    """A partition or replica was asked to make a move that its table does not know. A bug."""


class PartitionPhase(Enum):
    """A partition's life has these phases."""

    NEW = "new"
    """Assigned, without a state in the store."""
    ONLINE = "online"
    OFFLINE = "offline"
    """It has a state, and nobody leads."""
    DELETED = "deleted"


class PartitionCause(Enum):
    """A partition is moved by one of these."""

    LOADED_WITH_LEADER = "loaded with leader"
    LOADED_WITHOUT_LEADER = "loaded without leader"
    LEADER_ELECTED = "leader elected"
    ISR_CHANGED = "ISR changed"
    LEADER_LOST = "leader lost"
    TOPIC_DELETED = "topic deleted"


class ReplicaPhase(Enum):
    """A replica's life has these phases, as the controller sees it."""

    ONLINE = "online"
    OFFLINE = "offline"
    """Its broker is not registered."""
    FAILED = "failed"
    """Its broker lives, its log directory does not."""
    DELETING = "deleting"
    DELETION_BLOCKED = "deletion blocked"
    """The replica is to be deleted as soon as its broker is back."""
    GONE = "gone"


class ReplicaCause(Enum):
    """A replica is moved by one of these."""

    BROKER_LOST = "broker lost"
    BROKER_RETURNED = "broker returned"
    STORAGE_FAILED = "storage failed"
    FOLLOWS_AGAIN = "follows again"
    """Its broker took an order to follow a leader with it."""
    ASKS_AGAIN = "asks again"
    """Its broker asked for its orders again, and nobody leads."""
    DELETION_ORDERED = "deletion ordered"
    DELETION_CONFIRMED = "deletion confirmed"


_P, _PC = PartitionPhase, PartitionCause
_R, _RC = ReplicaPhase, ReplicaCause

PARTITION_TRANSITIONS: dict[tuple[PartitionPhase, PartitionCause], PartitionPhase] = {
    (_P.NEW, _PC.LOADED_WITH_LEADER): _P.ONLINE,
    (_P.NEW, _PC.LOADED_WITHOUT_LEADER): _P.OFFLINE,
    (_P.NEW, _PC.LEADER_ELECTED): _P.ONLINE,
    (_P.NEW, _PC.TOPIC_DELETED): _P.DELETED,
    (_P.ONLINE, _PC.LEADER_ELECTED): _P.ONLINE,
    (_P.ONLINE, _PC.ISR_CHANGED): _P.ONLINE,
    (_P.ONLINE, _PC.LEADER_LOST): _P.OFFLINE,
    (_P.ONLINE, _PC.TOPIC_DELETED): _P.DELETED,
    (_P.OFFLINE, _PC.LEADER_ELECTED): _P.ONLINE,
    (_P.OFFLINE, _PC.ISR_CHANGED): _P.OFFLINE,
    (_P.OFFLINE, _PC.TOPIC_DELETED): _P.DELETED,
}

REPLICA_TRANSITIONS: dict[tuple[ReplicaPhase, ReplicaCause], ReplicaPhase] = {
    (_R.ONLINE, _RC.BROKER_LOST): _R.OFFLINE,
    (_R.ONLINE, _RC.BROKER_RETURNED): _R.ONLINE,
    (_R.ONLINE, _RC.STORAGE_FAILED): _R.FAILED,
    (_R.ONLINE, _RC.DELETION_ORDERED): _R.DELETING,
    (_R.OFFLINE, _RC.BROKER_LOST): _R.OFFLINE,
    (_R.OFFLINE, _RC.BROKER_RETURNED): _R.ONLINE,
    (_R.OFFLINE, _RC.DELETION_ORDERED): _R.DELETION_BLOCKED,
    (_R.FAILED, _RC.BROKER_LOST): _R.OFFLINE,
    (_R.FAILED, _RC.BROKER_RETURNED): _R.ONLINE,
    (_R.FAILED, _RC.STORAGE_FAILED): _R.FAILED,
    (_R.FAILED, _RC.FOLLOWS_AGAIN): _R.ONLINE,
    (_R.FAILED, _RC.ASKS_AGAIN): _R.ONLINE,
    (_R.FAILED, _RC.DELETION_ORDERED): _R.DELETION_BLOCKED,
    (_R.DELETING, _RC.BROKER_LOST): _R.DELETION_BLOCKED,
    (_R.DELETING, _RC.BROKER_RETURNED): _R.DELETING,
    (_R.DELETING, _RC.STORAGE_FAILED): _R.DELETION_BLOCKED,
    (_R.DELETING, _RC.DELETION_CONFIRMED): _R.GONE,
    (_R.DELETION_BLOCKED, _RC.BROKER_LOST): _R.DELETION_BLOCKED,
    (_R.DELETION_BLOCKED, _RC.BROKER_RETURNED): _R.DELETING,
    (_R.DELETION_BLOCKED, _RC.DELETION_CONFIRMED): _R.GONE,
    (_R.GONE, _RC.BROKER_LOST): _R.GONE,
    (_R.GONE, _RC.BROKER_RETURNED): _R.GONE,
    (_R.GONE, _RC.DELETION_CONFIRMED): _R.GONE,
}


def next_partition_phase(phase: PartitionPhase, cause: PartitionCause) -> PartitionPhase:
    """Return where ``cause`` leads. :raises IllegalTransitionError:"""
    try:
        return PARTITION_TRANSITIONS[phase, cause]
    except KeyError:
        raise IllegalTransitionError(f"partition: {phase.value}, {cause.value}") from None


def next_replica_phase(phase: ReplicaPhase, cause: ReplicaCause) -> ReplicaPhase:
    """Return where ``cause`` leads. :raises IllegalTransitionError:"""
    try:
        return REPLICA_TRANSITIONS[phase, cause]
    except KeyError:
        raise IllegalTransitionError(f"replica: {phase.value}, {cause.value}") from None
