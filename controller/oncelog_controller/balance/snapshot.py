"""The planner is given a cluster and gives back a plan, as these values. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum


class Standing(Enum):
    """It says what may become of the replicas of a broker."""

    ACTIVE = "active"
    """They stay or go, and others may come."""
    HELD = "held"
    """They stay, and none comes: the broker drains, is suspected, or has been gone for a while."""
    LEAVING = "leaving"
    """They go: the broker is being decommissioned."""
    DEAD = "dead"
    """They are placed elsewhere: the broker has been gone for too long."""


class Goal(IntEnum):
    """A plan works for these, the first ones first. Each has a measure that is 0 when it is
    reached."""

    EVACUATE = 1
    """No replica is on a broker that leaves. Measure: replicas."""
    WHOLE = 2
    """Partitions have as many replicas as they should, none on a dead broker. Measure: replicas."""
    RACKS = 3
    """Each partition is on as many racks as it can be. Measure: racks that are missing."""
    DISKS = 4
    """No broker has more on its disks than the mark. Measure: bytes above it."""
    TOPICS = 5
    """The replicas of each topic are spread between floor and ceiling of the mean. Measure:
    replicas outside of that."""
    REPLICAS = 6
    """So are the replicas of all topics."""
    LEADERS = 7
    """So are the preferred leaders."""
    BYTES = 8
    """Brokers hold alike many bytes, within the tolerance. Measure: bytes outside of that."""
    WRITES = 9
    """Brokers are written alike many bytes a second, within the tolerance."""


class Purpose(Enum):
    """A plan is asked for this."""

    BALANCE = "balance"
    EVACUATE = "evacuate"
    REPLICATION_FACTOR = "replication_factor"
    REPAIR = "repair"

    @property
    def goals(self) -> frozenset[Goal]:
        """Return the goals that such a plan works for; no other one becomes worse by it, if it
        comes before them."""
        if self is Purpose.BALANCE:
            return frozenset(Goal)
        return frozenset({Goal.EVACUATE if self is Purpose.EVACUATE else Goal.WHOLE})


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """It is one directory of a broker; both figures in bytes."""

    total: int
    free: int


@dataclass(frozen=True, slots=True)
class PlannedBroker:
    """It is a broker as the planner sees it."""

    broker_id: int
    standing: Standing
    rack: str | None = None
    disks: Sequence[DiskFigures] = ()
    """Empty: not known, so that anything fits."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """It is a partition as the planner sees it."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    """The preferred leader first."""
    leader: int
    """-1: nobody leads. Such a partition is left alone."""
    isr: tuple[int, ...]
    bytes: int = 0
    """One replica has so many bytes on its disk; 0 too if that is not known."""
    bytes_per_s: int = 0
    """So many are written to one replica; 0 too if that is not known."""
    target: tuple[int, ...] = ()
    """A move to there is open. Such a partition is left alone, and counted where it will be."""
    factor: int = 0
    """It should have so many replicas; 0: as many as it has."""

    @property
    def settled(self) -> tuple[int, ...]:
        """Return its replicas once it moves no more."""
        return self.target or self.replicas


@dataclass(frozen=True, slots=True)
class BalanceSnapshot:
    """It is a cluster as the planner sees it. The order of brokers and partitions means nothing."""

    brokers: Sequence[PlannedBroker]
    partitions: Sequence[PlannedPartition]
    disk_high_percent: int
    """No broker is filled further than that by a plan."""
    tolerance_percent: int
    """So far from the mean may a broker be with its bytes."""


@dataclass(frozen=True, slots=True)
class Wish:
    """It asks for a plan: with a purpose, and no larger than its bounds."""

    purpose: Purpose
    topics: frozenset[str] | None = None
    """Only their partitions move; None: those of all topics."""
    factor: int = 0
    """The new number of replicas of these topics, for the purpose of that name."""
    goals: frozenset[Goal] | None = None
    """Work for these only; None: for all goals of the purpose."""
    max_moves: int | None = None
    """Copy so many replicas at most; None: no bound."""
    max_bytes: int | None = None
    """Copy so many bytes at most; None: no bound."""

    @property
    def worked_for(self) -> frozenset[Goal]:
        """Return the goals that the plan works for."""
        own = self.purpose.goals
        return own if self.goals is None else own & self.goals


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """A plan gives a partition other replicas, or another order of them."""

    topic: str
    index: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int
    """They are copied; 0 when nothing is, and when it is not known."""
    goal: Goal
    """It is the first one that this serves."""

    @property
    def copies(self) -> int:
        """Return how many replicas have to be copied."""
        return copies(self.before, self.after)


class Reason(Enum):
    """It says why a partition is not where it should be, after the plan as well."""

    MOVING = "it moves already"
    NO_LEADER = "it has no leader"
    NO_BROKER = "every broker that may take replicas has one"
    NO_ROOM = "no broker has room for it on its disks"
    PLAN_FULL = "the plan may not become larger"


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A partition is not what :attr:`Goal.EVACUATE` or :attr:`Goal.WHOLE` ask of it."""

    topic: str
    index: int
    goal: Goal
    reason: Reason


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """It is the planner's answer. No step of it can be left out without a loss for some goal."""

    steps: tuple[BalanceStep, ...]
    """They are in the order of topic and number, one for each partition."""
    before: dict[Goal, int]
    """How far the cluster is from each goal; 0: it is reached."""
    after: dict[Goal, int]
    """How far it is when all steps are taken."""
    held_up: tuple[HeldUp, ...]

    @property
    def copies(self) -> int:
        """Return how many replicas are copied."""
        return sum(step.copies for step in self.steps)

    @property
    def bytes(self) -> int:
        """Return how many bytes are copied."""
        return sum(step.bytes for step in self.steps)


def copies(before: Sequence[int], after: Sequence[int]) -> int:
    """Return how many replicas are in ``after`` and were not in ``before``."""
    return sum(broker_id not in before for broker_id in after)
