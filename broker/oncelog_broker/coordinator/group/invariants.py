"""A group's invariants are checked here while it runs. Pure.

A group is checked in whole when its state changes, for that is when an invariant can break. A group
that breaks one answers whoever waits in it, and goes on from what is durable (``GroupShard.broken``
remembers it).

- the leader is a member; instance ids name members that have them; nobody is both a member and a
  pending id; a member owes a SyncGroup only while it is a member;
- callers in JoinGroup are counted right; nobody waits in SyncGroup but in CompletingRebalance;
- in Stable there is a protocol, and what is durable names this generation, these members and their
  assignments ([I21]: a new coordinator would go on with the same). Who has gone since is named too
  for a moment, when a coordinator has read the group and is about to begin a round [N103];
- generations do not go back [I22];
- the state can be left by a timer [B28]: a round by its own, a member that is not parked by its
  session.
"""

from __future__ import annotations

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.records import SavedGroup
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.group.timer_keys import join_key, session_key, sync_key
from oncelog_protocol.errors import OncelogError


class GroupInvariantError(OncelogError):
    """A group is in a state that cannot be, which is a defect of the coordinator."""


def check_generation(before: SavedGroup | None, now: SavedGroup) -> None:
    """Check that durable generations do not go back.

    :raises GroupInvariantError: a durable generation is older than the one before [I22].
    """
    if before is not None and now.generation < before.generation:
        raise GroupInvariantError(f"generation {now.generation} after {before.generation}")


def check_group(group: Group) -> None:
    """Check all invariants of one group.

    :raises GroupInvariantError: see the head of this module.
    """
    _check_members(group)
    _check_waiting(group)
    _check_timers(group)
    if group.state is GroupState.STABLE:
        _check_stable(group)


def _fail(group: Group, what: str) -> None:
    raise GroupInvariantError(f"group {group.group_id!r:.64} in {group.state.value}: {what}")


def _check_members(group: Group) -> None:
    if (group.leader is None) != (not group.members):
        _fail(group, f"{len(group.members)} members, leader {group.leader}")
    if group.leader is not None and group.leader not in group.members:
        _fail(group, f"leader {group.leader} is not a member")
    named = {m.group_instance_id: m.member_id for m in group.members.values() if m.is_static}
    if named != group.static:
        _fail(group, f"instance ids {group.static} instead of {named}")
    for member_id in group.pending:
        if member_id in group.members:
            _fail(group, f"{member_id} is a member and pending")
    for member_id in group.pending_sync:
        if member_id not in group.members:
            _fail(group, f"{member_id} owes a SyncGroup and is not a member")
    if group.state is GroupState.EMPTY and group.members:
        _fail(group, f"{len(group.members)} members")


def _check_waiting(group: Group) -> None:
    joining = sum(member.joining is not None for member in group.members.values())
    if joining != group.joining_count:
        _fail(group, f"{joining} members wait in JoinGroup, counted are {group.joining_count}")
    if joining and group.state is GroupState.COMPLETING_REBALANCE:
        _fail(group, f"{joining} members still wait in JoinGroup")
    if group.state is not GroupState.COMPLETING_REBALANCE:
        syncing = [m.member_id for m in group.members.values() if m.syncing is not None]
        if syncing:
            _fail(group, f"{syncing} wait in SyncGroup")


def _check_timers(group: Group) -> None:
    timers = group.timers
    if group.state is GroupState.PREPARING_REBALANCE and join_key(group.group_id) not in timers:
        _fail(group, "nothing ends the round")
    if group.state is GroupState.COMPLETING_REBALANCE and sync_key(group.group_id) not in timers:
        _fail(group, "nothing ends the wait for SyncGroup")
    for member in group.members.values():
        if not member.is_waiting and session_key(group.group_id, member.member_id) not in timers:
            _fail(group, f"the session of {member.member_id} never ends")
    for member_id in group.pending:
        if session_key(group.group_id, member_id) not in timers:
            _fail(group, f"the pending id {member_id} never ends")


def _check_stable(group: Group) -> None:
    saved = group.saved
    if saved is None or saved.generation != group.generation:
        _fail(group, f"generation {group.generation} is not durable")
        return
    has_led = saved.leader is not None and group.departures.is_gone(saved.leader)
    if group.protocol_name is None or (saved.leader != group.leader and not has_led):
        _fail(group, f"leader {group.leader}, durable is {saved.leader}")
    durable = {
        member.member_id: member.assignment
        for member in saved.members
        if not group.departures.is_gone(member.member_id)
    }
    live = {member.member_id: member.assignment for member in group.members.values()}
    if durable != live:
        _fail(group, f"members {sorted(live)}, durable are {sorted(durable)}, or assigned else")
