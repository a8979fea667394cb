"""Partitions are given other replicas by these messages, and what moves is listed; any broker but
the controller answers NOT_CONTROLLER.

They are Kafka's AlterPartitionReassignments and ListPartitionReassignments (KIP-455), with a plan:
what was asked for is kept in the store, and begun as there is room. CLUSTER_AUTHORIZATION_FAILED is
an error of the whole request.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

NOT_KNOWN = -1
"""It stands for a number of bytes or seconds that nobody can tell."""

QUEUED = "queued"
"""The phase of a move that has not begun."""
COPYING = "copying"
"""Replicas that were added are not in sync yet."""
IN_SYNC = "in sync"
"""All that were added are in sync, and something else keeps the move from its end."""
WARMING = "warming"
"""All else is done, and the next leader of a coordinator's partition reads it before it leads."""
TURNING_BACK = "turning back"
"""The move was cancelled, and the replicas that were there before are not in sync yet."""
STALLED = "stalled"
"""Nothing has come of the move for ``move_stall_timeout_ms``; ``reason`` says what is missing."""
LEAVING = "leaving"
"""The move is over, and brokers that have no replica any more have yet to delete their data."""
PHASES = (QUEUED, COPYING, IN_SYNC, WARMING, TURNING_BACK, STALLED, LEAVING)


@message
class ReassignedPartition:
    """``target`` lists the brokers that are to have a replica, the preferred leader first; None
    cancels the move of the partition. With ``expected_replicas`` nothing is done unless these are
    the replicas that it has now, in this order."""

    topic: Name
    partition: Int32
    target: list[Int32] | None
    expected_replicas: list[Int32] | None = None


@message
class ReassignmentResult:
    """It says what became of the wish for one partition. Its errors are INVALID_REPLICA_ASSIGNMENT
    (no broker, one twice, or one that is not registered), INELIGIBLE_REPLICA (a broker is being
    decommissioned), INVALID_REPLICATION_FACTOR (the number of replicas would change, and must not),
    INVALID_UPDATE_VERSION (the expected replicas are not
    those that are there), NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC,
    POLICY_VIOLATION (a broker would have more partitions than one order names, or its disks would
    not hold this one) and INVALID_REQUEST (a partition is named twice). ``bytes_to_copy`` and
    ``seconds`` are -1 when they are not known."""

    topic: Name
    partition: Int32
    error_code: Int16 = 0
    error_message: Text | None = None
    bytes_to_copy: Int64 = NOT_KNOWN
    seconds: Int64 = NOT_KNOWN


@message
class AlterPartitionReassignmentsResponse:
    """It has one result a partition, in order. ``plan_id`` is "" when there was nothing to keep.
    UNSUPPORTED_VERSION for the whole request: a broker runs a release that knows no moves."""

    error_code: Int16 = 0
    error_message: Text | None = None
    plan_id: Name = ""
    items: list[ReassignmentResult] = field(default_factory=list)


@message
class AlterPartitionReassignmentsRequest(Request):
    """It is answered when the wishes are in the store; what is refused keeps no other from it.

    ``now`` gives up, for moves that are cancelled, what only the replicas hold that were added.
    ``validate_only`` only says what would be refused."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    response: ClassVar[type] = AlterPartitionReassignmentsResponse

    items: list[ReassignedPartition]
    allow_replication_factor_change: bool = False
    now: bool = False
    reason: Text = ""
    validate_only: bool = False
    timeout_ms: Int32 = 60_000


@message
class MovePlan:
    """It is what somebody has asked for at once. ``queued`` counts the partitions of it whose move
    has not begun."""

    plan_id: Name
    by: Text
    reason: Text
    since_ms: Int64
    queued: Int32


@message
class PartitionMove:
    """It is one partition that is to move, moves, or has left something to delete.

    ``origin`` are the replicas before the move, ``replicas`` those that there are now; ``target``
    is empty when only ``leaving`` is left. Bytes and ``since_ms`` are -1 when they are not known.
    Bytes are those of all replicas that are added, in sync or not, as of the brokers' last reports;
    ``bytes_per_s`` is by how much they come nearer: what is fetched less what is written meanwhile,
    as the slowest copy lets all be done; 0 when one does not come nearer.
    ``reason`` says what the phase waits for."""

    topic: Name
    partition: Int32
    plan_id: Name
    replicas: list[Int32]
    origin: list[Int32]
    target: list[Int32]
    leaving: list[Int32]
    phase: Name
    bytes_total: Int64 = NOT_KNOWN
    bytes_done: Int64 = NOT_KNOWN
    bytes_per_s: Int64 = NOT_KNOWN
    since_ms: Int64 = NOT_KNOWN
    reason: Text = ""


@message
class ListPartitionReassignmentsResponse:
    """It has plans by their ids, and partitions by topic and number."""

    error_code: Int16 = 0
    error_message: Text | None = None
    plans: list[MovePlan] = field(default_factory=list)
    partitions: list[PartitionMove] = field(default_factory=list)


@message
class ListPartitionReassignmentsRequest(Request):
    """It asks what moves. ``topics`` None asks for all; others are left out, and so are topics that
    do not exist."""

    api_key: ClassVar[ApiKey] = ApiKey.LIST_PARTITION_REASSIGNMENTS
    response: ClassVar[type] = ListPartitionReassignmentsResponse

    topics: list[Name] | None = None
    timeout_ms: Int32 = 60_000
