"""The planner is measured at a cluster that a broker has just joined: CPU time, and longest turn.

Nothing runs but the planner: no broker, no controller and no loop.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

from oncelog_controller.balance.planner import plan
from oncelog_controller.balance.snapshot import (
    BalancePlan,
    BalanceSnapshot,
    PlannedBroker,
    PlannedPartition,
    Purpose,
    Standing,
    Wish,
)

__all__ = ["FULL", "QUICK", "PlanCost", "PlanSize", "planned"]

FACTOR = 3
A_TOPIC = 100
"""So many partitions a topic has."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class PlanSize:
    """The cluster is so large. Its last broker has nothing yet."""

    brokers: int
    partitions: int


FULL = PlanSize(20, 10_000)
QUICK = PlanSize(6, 300)


@dataclass(frozen=True, slots=True)
class PlanCost:
    """A plan costs this."""

    cpu_s: float
    longest_turn_ms: float
    turns: int
    copies: int
    """So many replicas the plan copies."""


def planned(size: PlanSize) -> PlanCost:
    """Plan for all goals, and return what that costs."""
    brokers = [PlannedBroker(number + 1, Standing.ACTIVE) for number in range(size.brokers)]
    snapshot = BalanceSnapshot(brokers, list(_partitions(size)), 80, 10)
    work = plan(snapshot, Wish(Purpose.BALANCE))
    gc.collect()
    turns: list[float] = []
    while True:
        began_s = time.thread_time()
        found: BalancePlan | None = None
        try:
            next(work)
        except StopIteration as stop:
            found = stop.value
        turns.append(time.thread_time() - began_s)
        if found is not None:
            copies = sum(step.copies for step in found.steps)
            longest_ms = round(max(turns) * 1000, 1)
            return PlanCost(round(sum(turns), 3), longest_ms, len(turns), copies)


def _partitions(size: PlanSize) -> Iterator[PlannedPartition]:
    """Deal the replicas out to all brokers but the last one; sizes and rates differ."""
    old = size.brokers - 1
    for number in range(size.partitions):
        replicas = tuple((number + k * (1 + number % 5)) % old + 1 for k in range(FACTOR))
        if len(set(replicas)) < FACTOR:
            replicas = tuple((number + k) % old + 1 for k in range(FACTOR))
        yield PlannedPartition(
            f"topic-{number // A_TOPIC}",
            number % A_TOPIC,
            replicas,
            replicas[0],
            replicas,
            bytes=(number * 7919 % 1000) * MIB,
            bytes_per_s=number * 104_729 % 1000 * 1000,
        )
