"""Each state of a consumer group has its answers, its following states and its end here. Pure.

All rules of the classic group protocol that depend on the state alone are in ``RULES``. Rules that
depend on the member or its generation as well are checked before (``Group.check_member``).

Every state has a timer that can leave it, so that no group hangs (KAFKA-9752, KAFKA-12890):

* Empty: its offsets expire, then the group does; ids that were handed out expire;
* PreparingRebalance: the rebalance time-out (or the initial delay) goes on with who has joined;
* CompletingRebalance: the same time-out throws out who has not asked for its assignment;
* Stable: the session time-out of each member.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from oncelog_protocol.errors import (
    NO_ERROR,
    GroupIdNotFoundError,
    NonEmptyGroupError,
    OncelogError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

_UNKNOWN_MEMBER = UnknownMemberIdError.code
_REBALANCING = RebalanceInProgressError.code
_NOT_FOUND = GroupIdNotFoundError.code
_NOT_EMPTY = NonEmptyGroupError.code


class GroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups give."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Rejoin(Enum):
    """It says what a JoinGroup of a known member does."""

    TAKE_PART = "parked until the round is complete"
    REPEAT_IF_SAME = "the current generation again, unless what it offers has changed"
    REPEAT_FOLLOWERS_IF_SAME = "the same, but a JoinGroup of the leader asks for a rebalance"
    REFUSE = "UNKNOWN_MEMBER_ID: start over"


@dataclass(frozen=True, slots=True)
class GroupStateRules:
    """It has the answers of one state. The code 0 means that the request is served."""

    next_states: tuple[GroupState, ...]
    rejoin: Rejoin
    heartbeat: int
    """A heartbeat of a member in the current generation gets this code; it also counts as a sign of
    life where the code is 0 or REBALANCE_IN_PROGRESS."""
    sync: int
    commit: int
    """A commit of a member in the current generation gets this code."""
    outside_commit: int
    """A commit without member and generation gets this code: it is from a tool, or from a consumer
    that assigns partitions to itself."""
    delete: int
    left_by: tuple[str, ...]
    """These timers end the state."""


class IllegalGroupTransitionError(OncelogError):
    """A group was to change to a state that cannot follow, which is a defect of the coordinator."""


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD

RULES: dict[GroupState, GroupStateRules] = {
    _EMPTY: GroupStateRules(
        next_states=(_PREPARING, _DEAD),
        rejoin=Rejoin.REFUSE,
        heartbeat=_UNKNOWN_MEMBER,
        sync=_UNKNOWN_MEMBER,
        commit=_UNKNOWN_MEMBER,
        outside_commit=NO_ERROR,
        delete=NO_ERROR,
        left_by=("expiry",),
    ),
    _PREPARING: GroupStateRules(
        next_states=(_COMPLETING, _EMPTY, _DEAD),
        rejoin=Rejoin.TAKE_PART,
        heartbeat=_REBALANCING,
        sync=_REBALANCING,
        # Members of the old generation hand in what they have done before they join again.
        commit=NO_ERROR,
        outside_commit=_UNKNOWN_MEMBER,
        delete=_NOT_EMPTY,
        left_by=("join",),
    ),
    _COMPLETING: GroupStateRules(
        next_states=(_STABLE, _PREPARING, _DEAD),
        rejoin=Rejoin.REPEAT_IF_SAME,
        heartbeat=NO_ERROR,
        sync=NO_ERROR,
        # The generation is right, so it has heard of the rebalance; but nothing is assigned in it.
        commit=_REBALANCING,
        outside_commit=_UNKNOWN_MEMBER,
        delete=_NOT_EMPTY,
        left_by=("sync", "session"),
    ),
    _STABLE: GroupStateRules(
        next_states=(_PREPARING, _DEAD),
        rejoin=Rejoin.REPEAT_FOLLOWERS_IF_SAME,
        heartbeat=NO_ERROR,
        sync=NO_ERROR,
        commit=NO_ERROR,
        outside_commit=_UNKNOWN_MEMBER,
        delete=_NOT_EMPTY,
        left_by=("session", "sync"),
    ),
    _DEAD: GroupStateRules(
        next_states=(),
        rejoin=Rejoin.REFUSE,
        heartbeat=_UNKNOWN_MEMBER,
        sync=_UNKNOWN_MEMBER,
        commit=_UNKNOWN_MEMBER,
        outside_commit=_UNKNOWN_MEMBER,
        delete=_NOT_FOUND,
        left_by=(),
    ),
}
"""Dead is the end of a group that was deleted, or whose shard was unloaded."""


def check_transition(old: GroupState, new: GroupState) -> None:
    """Check that ``new`` may follow ``old``.

    :raises IllegalGroupTransitionError: ``new`` cannot follow ``old``.
    """
    if new not in RULES[old].next_states:
        raise IllegalGroupTransitionError(f"a group cannot go from {old.value} to {new.value}")
