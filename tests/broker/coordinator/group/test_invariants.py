"""Each invariant, broken by hand, is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.invariants import (
    GroupInvariantError,
    check_generation,
    check_group,
)
from oncelog_broker.coordinator.group.members import Caller
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.group.timer_keys import session_key
from support.group_world import GroupWorld


def stable() -> Group:
    world = GroupWorld()
    world.stable(2, instances=["i", None])
    world.new_id()
    return world.group()


def first(group: Group) -> str:
    return next(iter(group.members))


def no_timers(group: Group) -> None:
    group.timers.clear()


BREAKS: dict[str, Callable[[Group], object]] = {
    "leader is not a member": lambda g: setattr(g, "leader", "x"),
    "no leader": lambda g: setattr(g, "leader", None),
    "instance ids": lambda g: g.static.clear(),
    "member and pending": lambda g: g.pending.setdefault(first(g)),
    "sync owed by nobody": lambda g: g.pending_sync.setdefault("x"),
    "count of joining": lambda g: setattr(g, "joining_count", 1),
    "waits in sync": lambda g: setattr(g.members[first(g)], "syncing", Caller(lambda _: None)),
    "empty with members": lambda g: setattr(g, "state", GroupState.EMPTY),
    "nothing ends the round": lambda g: setattr(g, "state", GroupState.PREPARING_REBALANCE),
    "nothing ends the sync": lambda g: setattr(g, "state", GroupState.COMPLETING_REBALANCE),
    "endless session": lambda g: g.timers.pop(session_key("g", first(g))),
    "endless pending id": lambda g: g.timers.pop(session_key("g", next(iter(g.pending)))),
    "generation is not durable": lambda g: setattr(g, "generation", 9),
    "nothing is durable": lambda g: setattr(g, "saved", None),
    "durable leader": lambda g: setattr(g, "leader", list(g.members)[1]),
    "a member that has gone": lambda g: g.departures.replay(first(g), g.generation),
    "durable assignment": lambda g: setattr(g.members[first(g)], "assignment", b"else"),
}


@pytest.mark.parametrize("name", list(BREAKS))
def test_what_is_broken_is_noticed(name: str) -> None:
    group = stable()
    check_group(group)
    BREAKS[name](group)
    with pytest.raises(GroupInvariantError):
        check_group(group)


def test_nobody_joins_while_assignments_are_made() -> None:
    world = GroupWorld()
    player = world.player()
    world.advance(1)
    player.take_in_join()
    group = world.group()
    check_group(group)
    group.park_join(group.members[player.member_id], Caller(lambda _: None))
    with pytest.raises(GroupInvariantError):
        check_group(group)


def test_generations_do_not_go_back() -> None:
    saved = stable().saved
    assert saved is not None
    check_generation(None, saved)
    check_generation(saved, saved)
    check_generation(saved, replace(saved, generation=2))
    with pytest.raises(GroupInvariantError):
        check_generation(replace(saved, generation=2), saved)
