"""The controller is asked by this message which replicas should move; any other broker answers
NOT_CONTROLLER.

Nothing is moved by it. Whoever likes the plan asks for it by AlterPartitionReassignments, with the
replicas of the plan as those that are expected. CLUSTER_AUTHORIZATION_FAILED is an error of the
whole request.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

BALANCE = "balance"
"""All goals, in their order."""
EVACUATE = "evacuate"
"""Replicas leave brokers that are being decommissioned, and those of ``from_brokers``."""
REPLICATION_FACTOR = "replication_factor"
"""Topics get ``factor`` replicas of each partition."""
REPAIR = "repair"
"""Replicas of brokers that are not registered are placed elsewhere."""
PURPOSES = (BALANCE, EVACUATE, REPLICATION_FACTOR, REPAIR)

GOALS = (
    "evacuate",
    "whole",
    "racks",
    "disks",
    "topics",
    "replicas",
    "leaders",
    "bytes",
    "writes",
)
"""A plan makes no earlier one worse for a later one."""

NOT_KNOWN = -1
"""It stands for a number of bytes that nobody can tell."""
NO_BOUND = -1
"""A plan may be as large as it comes."""


@message
class PlannedReplicas:
    """A partition would get other replicas, or another order of them; the preferred leader is first
    in both lists. ``bytes`` would be copied, -1 when that is not known. ``goal`` is the first one
    that this serves. One copy takes ``seconds`` at the pace of the last hour, -1 when that is not
    known."""

    topic: Name
    partition: Int32
    replicas: list[Int32]
    target: list[Int32]
    bytes: Int64
    goal: Name
    seconds: Int64 = NOT_KNOWN


@message
class GoalMeasure:
    """It says how far the cluster is from a goal, and would be after the plan; 0 is reached.

    Units: replicas for evacuate, whole, topics and replicas; partitions for leaders; racks; bytes
    for disks and bytes; bytes a second for writes."""

    goal: Name
    before: Int64
    after: Int64


@message
class HeldUpPartition:
    """A partition cannot be placed as evacuate or whole asks; ``reason`` says why."""

    topic: Name
    partition: Int32
    goal: Name
    reason: Text


@message
class BalanceResponse:
    """It has a plan, by topic and number. Errors: INVALID_REQUEST (no such purpose or goal, a bound
    below 0, or brokers that are named for another purpose), INVALID_REPLICATION_FACTOR (more
    replicas than brokers that may take some), UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION (too
    many others wait for a plan)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    steps: list[PlannedReplicas] = field(default_factory=list)
    measures: list[GoalMeasure] = field(default_factory=list)
    held_up: list[HeldUpPartition] = field(default_factory=list)


@message
class BalanceRequest(Request):
    """It asks for a plan. ``topics`` None is all of them, also the cluster's own; others stay where
    they are. ``goals`` None is all goals of the purpose. ``max_moves`` bounds the replicas that are
    copied, ``max_bytes`` their bytes, as far as those are known. Replicas of these topics leave
    ``from_brokers`` as well, for the purpose evacuate only."""

    api_key: ClassVar[ApiKey] = ApiKey.BALANCE
    response: ClassVar[type] = BalanceResponse

    purpose: Name
    topics: list[Name] | None = None
    factor: Int32 = 0
    goals: list[Name] | None = None
    max_moves: Int64 = NO_BOUND
    max_bytes: Int64 = NO_BOUND
    timeout_ms: Int32 = 60_000
    from_brokers: list[Int32] = field(default_factory=list)
