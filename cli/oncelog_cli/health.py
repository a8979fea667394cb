"""Checks over what an administrator can see tell whether a cluster is healthy. Pure.

A check is *ok*, *warning* or *critical*; a cluster is healthy when every check is ok. Something is
critical when clients are refused or data may be lost with the next failure: no controller, a
partition without a leader or below ``min.insync.replicas``, a broken log directory, a disk that is
nearly full, fewer brokers than were asked for. It is a warning when the cluster works and has lost
some of its reserves: a broker that is assigned replicas and is away, or that does not answer about
its directories, replicas outside of the ISR, a disk that fills up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from oncelog_cli.open_moves import KnownMoves

if TYPE_CHECKING:
    from oncelog.admin.results import (
        ClusterDescription,
        LogDirDescription,
        PartitionDescription,
        TopicDescription,
    )

DISK_WARNING_PERCENT = 15.0
DISK_CRITICAL_PERCENT = 5.0
"""Free space below which a disk is reported. (Strimzi's default alert: 15 % free.)"""

NOTHING_MOVES = KnownMoves()

ITEMS_SHOWN = 5
"""So many of what is wrong are named in a line of text; JSON names all."""


class Status(IntEnum):
    """A check ends with this status; the numbers are exit codes of Nagios' plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Beyond these limits something is wrong."""

    brokers: int = 0
    """At least so many must be there; 0: those that are assigned replicas."""
    disk_warning_percent: float = DISK_WARNING_PERCENT
    disk_critical_percent: float = DISK_CRITICAL_PERCENT


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster was seen so. ``min_isr``: min.insync.replicas by topic."""

    cluster: ClusterDescription
    topics: Sequence[TopicDescription] = ()
    min_isr: Mapping[str, int] = field(default_factory=dict)
    log_dirs: Sequence[LogDirDescription] = ()
    moves: KnownMoves | None = None
    """It is None when nobody has asked what moves."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check is one question and its answer; ``items`` are what is wrong."""

    name: str
    status: Status
    items: tuple[str, ...] = ()
    text: str = ""
    unnamed: int = 0
    """The number of partitions that are wrong in another way, and are not named."""

    @property
    def count(self) -> int:
        """Return how many things are wrong."""
        return len(self.items) + self.unnamed

    @property
    def detail(self) -> str:
        """Return what is wrong, in short, for people."""
        named = ", ".join(self.items[:ITEMS_SHOWN])
        more = len(self.items) - ITEMS_SHOWN
        tail = f" and {more} more" if more > 0 else ""
        return ": ".join(part for part in (self.text, named + tail) if part)


def check_all(seen: ClusterSnapshot, limits: HealthLimits) -> list[HealthCheck]:
    """Run every check, in a fixed order."""
    partitions = [(topic, item) for topic in seen.topics for item in topic.partitions]
    moves = seen.moves or NOTHING_MOVES

    def too_few(topic: TopicDescription, item: PartitionDescription) -> bool:
        return len(item.isr) < needed_isr(seen.min_isr, topic.topic, item, moves)

    return [
        _controller(seen),
        _brokers(seen, limits),
        _partitions("leaderless", Status.CRITICAL, partitions, lambda _, item: item.leader < 0),
        _partitions("under_min_isr", Status.CRITICAL, partitions, too_few),
        _partitions(
            "under_replicated",
            Status.WARNING,
            partitions,
            lambda topic, item: moves.lacks_replicas(topic.topic, item),
        ),
        *([] if seen.moves is None else [_moves(seen.moves)]),
        _directories(seen),
        _disks(seen, limits),
    ]


def worst(checks: Iterable[HealthCheck]) -> Status:
    """Return the status of the whole."""
    return max((check.status for check in checks), default=Status.OK)


def wrong_ones(checks: Iterable[HealthCheck]) -> list[str]:
    """Return what is not ok, and why, for people."""
    return [f"{check.name} {check.detail}" for check in checks if check.status is not Status.OK]


def needed_isr(
    min_isr: Mapping[str, int],
    topic: str,
    item: PartitionDescription,
    moves: KnownMoves = NOTHING_MOVES,
) -> int:
    """Return how many in-sync replicas a partition needs to take writes.

    A topic with fewer replicas than min.insync.replicas needs just those.

    :param moves: of a partition that moves, the replicas from before the move count.
    """
    return min(min_isr.get(topic, 1), len(moves.originals(topic, item)))


def _controller(seen: ClusterSnapshot) -> HealthCheck:
    controller = seen.cluster.controller_id
    if controller < 0:
        return HealthCheck("controller", Status.CRITICAL, (), "nobody is controller", unnamed=1)
    if controller not in {broker.broker_id for broker in seen.cluster.brokers}:
        text = f"broker {controller}, which is not listed"
        return HealthCheck("controller", Status.WARNING, (), text, unnamed=1)
    return HealthCheck("controller", Status.OK, (), f"broker {controller}")


def _brokers(seen: ClusterSnapshot, limits: HealthLimits) -> HealthCheck:
    alive = {broker.broker_id for broker in seen.cluster.brokers}
    assigned = {
        replica for topic in seen.topics for item in topic.partitions for replica in item.replicas
    }
    missing = tuple(f"broker {broker_id}" for broker_id in sorted(assigned - alive))
    if len(alive) < limits.brokers:
        text = f"{len(alive)} of {limits.brokers}"
        return HealthCheck(
            "brokers",
            Status.CRITICAL,
            missing,
            text + (", missing" if missing else ""),
            unnamed=max(limits.brokers - len(alive) - len(missing), 0),
        )
    if missing:
        return HealthCheck("brokers", Status.WARNING, missing, "missing")
    return HealthCheck("brokers", Status.OK, (), f"{len(alive)}")


def _partitions(
    name: str,
    status: Status,
    partitions: Sequence[tuple[TopicDescription, PartitionDescription]],
    is_wrong: Callable[[TopicDescription, PartitionDescription], bool],
) -> HealthCheck:
    items = tuple(
        f"{topic.topic}-{item.partition}" for topic, item in partitions if is_wrong(topic, item)
    )
    text = f"{len(items)} of {len(partitions)}"
    return HealthCheck(name, status if items else Status.OK, items, text)


def _moves(moves: KnownMoves) -> HealthCheck:
    """Judge what moves. That nobody tells it is no reason to call a cluster unhealthy: whoever may
    not ask would never see a healthy one."""
    if moves.by_partition is None:
        return HealthCheck("moves", Status.OK, (), f"not known: {moves.reason}")
    stalled = tuple(f"{each.partition} ({each.reason or 'no reason'})" for each in moves.stalled)
    if stalled:
        return HealthCheck("moves", Status.WARNING, stalled, "stalled")
    count = len(moves.by_partition)
    return HealthCheck("moves", Status.OK, (), f"{count} under way" if count else "nothing moves")


def _directories(seen: ClusterSnapshot) -> HealthCheck:
    wrong = [each for each in seen.log_dirs if each.error is not None]
    names = tuple(f"broker {each.broker_id} {each.path}".rstrip() for each in wrong)
    if any(each.path for each in wrong):
        return HealthCheck("log_dirs", Status.CRITICAL, names, "offline, or no answer")
    if wrong:  # brokers that are about to be missing: that is a warning too
        return HealthCheck("log_dirs", Status.WARNING, names, "no answer")
    damaged = tuple(f"broker {d.broker_id} {tp}" for d in seen.log_dirs for tp in d.damaged)
    if damaged:
        leaders = {
            f"broker {item.leader} {topic.topic}-{item.partition}"
            for topic in seen.topics
            for item in topic.partitions
        }
        # Who does not lead is fetched again; who does has nobody to be fetched from.
        status = Status.CRITICAL if leaders.intersection(damaged) else Status.WARNING
        return HealthCheck("log_dirs", status, damaged, "damaged logs")
    return HealthCheck("log_dirs", Status.OK, (), f"{len(seen.log_dirs)} online")


def _disks(seen: ClusterSnapshot, limits: HealthLimits) -> HealthCheck:
    full: list[tuple[float, str]] = []
    status = Status.OK
    for each in seen.log_dirs:
        if each.error is not None or each.total_bytes <= 0:
            continue
        free = 100 * each.free_bytes / each.total_bytes
        if free < limits.disk_warning_percent:
            full.append((free, f"broker {each.broker_id} {each.path} {free:.1f} % free"))
            critical = free < limits.disk_critical_percent
            status = max(status, Status.CRITICAL if critical else Status.WARNING)
    return HealthCheck("disk", status, tuple(text for _, text in sorted(full)))


# ------------------------------------------------------------------------------ other formats


def nagios_line(checks: Sequence[HealthCheck]) -> str:
    """Return one line as Nagios' plugins write it: the status, what is wrong, and the counts."""
    status = worst(checks)
    wrong = wrong_ones(checks)
    counts = " ".join(
        f"{check.name}={check.count}" for check in checks if check.name != "controller"
    )
    return f"{status.name} {'; '.join(wrong) or 'healthy'} | {counts}"


def prometheus_text(checks: Sequence[HealthCheck]) -> str:
    """Return the checks as metrics for a textfile collector; 0 ok, 1 warning, 2 critical."""
    lines = [
        "# HELP oncelog_health_status How a check came out: 0 ok, 1 warning, 2 critical.",
        "# TYPE oncelog_health_status gauge",
        *(f'oncelog_health_status{{check="{check.name}"}} {check.status:d}' for check in checks),
        "# HELP oncelog_health_count How many things a check found wrong.",
        "# TYPE oncelog_health_count gauge",
        *(f'oncelog_health_count{{check="{check.name}"}} {check.count}' for check in checks),
    ]
    return "\n".join(lines)
