"""A broker is taken out of service and back by this message; any broker but the controller answers
NOT_CONTROLLER.

A broker that is *draining* gives its leaderships away and keeps its replicas, so that it can be
stopped without anybody's notice. One that is *decommissioning* is to lose its replicas as well, and
is *decommissioned* when nothing of it is left. CLUSTER_AUTHORIZATION_FAILED is an error of the
whole request.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.schema import Int16, Int32, Int64, Name, Text, message

DRAINING = "draining"
"""The broker leads only what nobody else in an ISR can, and is given new partitions only when there
are too few others."""
DECOMMISSIONING = "decommissioning"
"""The broker is draining, is given nothing new, and its replicas are to go to others."""
DECOMMISSIONED = "decommissioned"
"""Nothing of the broker is left: no replica, and no data that has yet to be deleted."""
WANTED = (ACTIVE, DRAINING, DECOMMISSIONING)
"""Somebody may ask for these; a broker is decommissioned when it has come to that."""
STATES = (*WANTED, DECOMMISSIONED)

NAMED_MAX = 1000
"""A list of partitions in an answer has so many at most; the counts beside are of all."""

NOBODY_ELSE = "nobody else in its ISR can lead"
"""A broker goes on leading for this reason."""
NOT_PLANNED = "its move has yet to be planned"
"""A replica is to go, and the controller will plan where."""
QUEUED = "its move waits for its turn"
MOVES = "it moves"
"""The replica goes when the move of its partition is at its end."""
HAS_DATA = "its data is still to be deleted"
"""The replica is none any more, and the broker has yet to delete what it has."""
PASSES = ("", NOT_PLANNED, QUEUED, MOVES, HAS_DATA)
"""Time alone mends these reasons; for any other one somebody has to act, or something to come
back."""


@message
class LostPartition:
    """It names a partition whose records are given up."""

    topic: Name
    partition: Int32


@message
class HeldPartition:
    """It is a partition that keeps a broker from the end of its service. ``reason`` says why, and
    is "" when nothing is in the way but time."""

    topic: Name
    partition: Int32
    reason: Text = ""


@message
class AlterBrokerStatesResponse:
    """It tells the state of the broker, and what has yet to happen before it may be stopped.

    ``leaders_left`` are partitions that it leads. ``replicas_left`` are those of which it has a
    replica, or data that is to be deleted: only while it is decommissioning. ``lost_with_it`` are
    those of which nobody else has a whole copy. ``since_ms`` and ``by`` say who has wanted the
    state, and since when; 0 and "" while the broker is active.

    Errors: BROKER_ID_NOT_REGISTERED (nobody knows such a broker), INVALID_REPLICATION_FACTOR (too
    few brokers would remain for the replicas of some topics), POLICY_VIOLATION (no broker that
    would remain has room for some of the replicas), INVALID_REQUEST (there is no such state, or
    nothing would be lost of a partition that is given up)."""

    error_code: Int16 = 0
    error_message: Text | None = None
    state: Name = ""
    since_ms: Int64 = 0
    by: Text = ""
    leaders_left: list[HeldPartition] = field(default_factory=list)
    leaders_left_count: Int32 = 0
    replicas_left: list[HeldPartition] = field(default_factory=list)
    replicas_left_count: Int32 = 0
    lost_with_it: list[HeldPartition] = field(default_factory=list)
    lost_with_it_count: Int32 = 0


@message
class AlterBrokerStatesRequest(Request):
    """It is answered when the state is in the store, and the first leaderships have moved. That a
    broker is to be decommissioned takes some seconds in a large cluster: it is found out first
    whether all of its replicas have a place elsewhere.

    ``accept_loss`` names partitions of a broker that is not there, and that nobody else has whole:
    they begin anew, with what others have, or empty. ``validate_only`` changes nothing, and tells
    what would have to happen."""

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_BROKER_STATES
    response: ClassVar[type] = AlterBrokerStatesResponse

    broker_id: Int32
    wanted: Name
    accept_loss: list[LostPartition] = field(default_factory=list)
    validate_only: bool = False
