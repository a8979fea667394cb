"""A controller is measured at the size that it is made for: 100,000 partitions on 100 brokers.

What happens to it is what happens to a cluster of that size: it is elected, tells everybody
everything, brokers die and return, and partitions move. Of each is told how long the longest turn
of the loop was, how long all of it took, and what was sent to brokers. No broker runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice
from pathlib import Path

from oncelog_controller.events import (
    BrokersRead,
    ClusterLoaded,
    ClusterRead,
    OrdersAnswered,
    RequestReceived,
)
from oncelog_controller.features import KNOWN
from oncelog_controller.state import ClusterPartition
from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionRequest,
    IsrMember,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from oncelog_testing.turns.controllers import (
    BROKER_EPOCH,
    EPOCH,
    ME,
    Term,
    registered,
    settings,
    topics_read,
)
from oncelog_testing.turns.meter import TurnMeter
from oncelog_testing.turns.operations import Size

__all__ = ["FULL", "QUICK", "ControllerFigures", "full_size"]

FULL = Size(controlled=100_000, brokers=100)
QUICK = Size(controlled=2_000, brokers=10)

MOVES = 128
"""Partitions that are to move at once: as many as one multi takes."""

NOTHING_ORDERED = LeaderAndIsrRequest(ME, EPOCH, BROKER_EPOCH, False, [], [])
NOTHING_ANSWERED = LeaderAndIsrResponse(0, [])


@dataclass(slots=True)
class Cost:
    """An operation costs this."""

    longest_turn_ms: float
    cpu_s: float
    sent_bytes: int
    written_nodes: int


class ControllerFigures:
    """They are what is measured."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self.memory_bytes = 0
        """Of the controller, when it has told everybody everything."""

    def document(self) -> dict[str, object]:
        """Return the figures as JSON has them."""
        costs = {name: asdict(cost) for name, cost in self.costs.items()}
        return {"operations": costs, "memory_bytes": self.memory_bytes}


async def full_size(figures: ControllerFigures, meter: TurnMeter, size: Size) -> None:
    """Have a controller elected and tell everybody; then brokers die and return, and some
    partitions move."""
    before = _resident_bytes()
    lived = tuple(
        replace(registered(broker_id), features=KNOWN) for broker_id in range(1, size.brokers + 1)
    )
    topics = topics_read(size.controlled, size.brokers)
    term = Term()
    operation = _Operation(figures, meter, term)
    with operation.named("a new term takes in the store"):
        await term.take(ClusterLoaded(ClusterRead(EPOCH, 1, lived, topics)))
    with operation.named("everybody is told everything"):
        await term.keep_time()
    figures.memory_bytes = _resident_bytes() - before
    with operation.named("a broker dies"):
        await term.take(BrokersRead(lived[:-1]))
    with operation.named("a broker comes back"):
        await term.take(BrokersRead(lived))
        await term.keep_time()
    term.now += settings().leader_imbalance_check_interval_ms / 1000
    with operation.named("leaderships go back"):
        await term.keep_time()
    await _move_some(operation, term, size)


async def _move_some(operation: _Operation, term: Term, size: Size) -> None:
    """Partitions begin to move, and come to their ends."""
    steady = (p for p in term.cluster.partitions() if _isr(p) == list(p.replicas))
    chosen = list(islice(steady, MOVES))
    request = AlterPartitionReassignmentsRequest([_wish(p, size.brokers) for p in chosen])
    with operation.named("moves begin"):
        await term.take(RequestReceived(1, request))
        await term.keep_time()
    with operation.named("moves are looked at"):
        await term.take(OrdersAnswered(ME, BROKER_EPOCH, NOTHING_ORDERED, NOTHING_ANSWERED))
    moving = [p for p in chosen if p.placement.origin]
    assert moving, "nothing moves"
    with operation.named("added replicas join, and moves end"):
        for leader, led in groupby(sorted(moving, key=_leader), key=_leader):
            items = [_joined(partition) for partition in led]
            asked = AlterPartitionRequest(leader, BROKER_EPOCH, items)
            await term.take(RequestReceived(2, asked))
    assert not any(p.placement.origin for p in moving), "a move has not come to its end"


def _leader(partition: ClusterPartition) -> int:
    return partition.leader


def _isr(partition: ClusterPartition) -> list[int]:
    return [] if partition.state is None else list(partition.state.isr)


def _wish(partition: ClusterPartition, brokers: int) -> ReassignedPartition:
    """The partition is to leave its last broker for the next that has none of it."""
    kept = partition.replicas[:-1]
    following = (1 + (partition.replicas[-1] + k) % brokers for k in range(brokers))
    new = next(broker_id for broker_id in following if broker_id not in partition.replicas)
    return ReassignedPartition(*partition.topic_partition, [*kept, new])


def _joined(partition: ClusterPartition) -> AlterPartitionItem:
    """All replicas are in sync."""
    state = partition.state
    assert state is not None
    members = [IsrMember(broker_id, BROKER_EPOCH) for broker_id in partition.replicas]
    return AlterPartitionItem(
        partition.topic.name,
        partition.topic.topic_id,
        partition.index,
        state.leader_epoch,
        state.version,
        members,
    )


class _Operation:
    """It counts what operations cost."""

    def __init__(self, figures: ControllerFigures, meter: TurnMeter, term: Term) -> None:
        self._figures = figures
        self._meter = meter
        self._term = term

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Count what happens meanwhile as this operation."""
        sent, written = self._term.ordered_bytes, self._term.written
        with self._meter.operation(name):
            yield
        self._figures.costs[name] = Cost(
            self._meter.longest_ms[name],
            self._meter.total_s[name],
            self._term.ordered_bytes - sent,
            self._term.written - written,
        )


def _resident_bytes() -> int:
    """Return the memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
