"""Every state times every request, as a table; and every move, allowed or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog_broker.coordinator.group.states import (
    RULES,
    GroupState,
    IllegalGroupTransitionError,
    check_transition,
)
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from support.group_world import GroupWorld, Player, subscribed

UNKNOWN = UnknownMemberIdError.code
REBALANCING = RebalanceInProgressError.code
NOT_EMPTY = NonEmptyGroupError.code
PARKED = "parked"

State = tuple[GroupWorld, Player]


def nowhere() -> State:
    """Return a group that the coordinator does not know; the member is in generation 1."""
    world = GroupWorld()
    (player,) = GroupWorld().stable(1)
    player.world = world
    return world, player


def empty() -> State:
    world = GroupWorld()
    player, other = world.stable(2)
    player.leave(), other.leave()
    world.advance(60)
    player.generation = world.group().generation
    return world, player


def preparing() -> State:
    """Let somebody else join; the member has not heard of it."""
    world = GroupWorld()
    player, other = world.stable(2)
    other.join(protocols=(("range", subscribed("u")),))
    return world, player


def completing() -> State:
    """All have joined, the leader has not assigned."""
    world = GroupWorld()
    leader, player = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), player.take_in_join()
    return world, player


def stable() -> State:
    world = GroupWorld()
    _, player = world.stable(2)
    return world, player


def unavailable() -> State:
    """Return a dead group: so the engine speaks of a shard that is not here."""
    world, player = stable()
    world.unavailable = CoordinatorNotAvailableError.code
    return world, player


def code_of(answer: object) -> int | str:
    if isinstance(answer, int):
        return answer
    return PARKED if answer.waits else int(answer.code)  # type: ignore[attr-defined]


def delete(world: GroupWorld) -> int:
    results: list[int] = []
    world.groups.delete(["g"], lambda given: results.append(given[0].error_code))
    return results[0]


REQUESTS: dict[str, Callable[[GroupWorld, Player], object]] = {
    "join again": lambda world, player: player.join(),
    "join changed": lambda world, player: player.join(protocols=(("range", subscribed("x")),)),
    "heartbeat": lambda world, player: player.heartbeat(),
    "sync": lambda world, player: player.sync(),
    "commit": lambda world, player: player.commit(),
    "commit of an old generation": lambda world, player: world.commit_offset(
        member_id=player.member_id, generation=0
    ),
    "commit of a stranger": lambda world, player: world.commit_offset(
        member_id="stranger", generation=player.generation
    ),
    "commit from outside": lambda world, player: world.commit_offset(),
    "delete": lambda world, player: delete(world),
    "stranger's heartbeat": lambda world, player: world.heartbeat("stranger", player.generation),
    "stranger's sync": lambda world, player: world.sync("stranger", player.generation),
    "stranger's join": lambda world, player: world.join("stranger"),
}

ILLEGAL = IllegalGenerationError.code
GONE = GroupIdNotFoundError.code

TABLE: dict[str, dict[Callable[[], State], int | str]] = {
    "join again": {
        nowhere: UNKNOWN, empty: UNKNOWN, preparing: 0, completing: 0, stable: 0,
    },
    "join changed": {
        nowhere: UNKNOWN, empty: UNKNOWN, preparing: 0, completing: PARKED,
        stable: PARKED,
    },
    "heartbeat": {
        nowhere: UNKNOWN, empty: UNKNOWN, preparing: REBALANCING, completing: 0, stable: 0,
    },
    "sync": {
        nowhere: UNKNOWN, empty: UNKNOWN, preparing: REBALANCING, completing: PARKED, stable: 0,
    },
    "commit": {
        nowhere: ILLEGAL, empty: UNKNOWN, preparing: 0, completing: REBALANCING, stable: 0,
    },
    "commit of an old generation": {
        nowhere: ILLEGAL, empty: UNKNOWN, preparing: ILLEGAL, completing: ILLEGAL, stable: ILLEGAL,
    },
    "commit of a stranger": {
        nowhere: ILLEGAL, empty: UNKNOWN, preparing: UNKNOWN, completing: UNKNOWN, stable: UNKNOWN,
    },
    "commit from outside": {
        nowhere: 0, empty: 0, preparing: UNKNOWN, completing: UNKNOWN, stable: UNKNOWN,
    },
    "delete": {
        nowhere: GONE, empty: 0, preparing: NOT_EMPTY, completing: NOT_EMPTY, stable: NOT_EMPTY,
    },
    "stranger's heartbeat": dict.fromkeys((nowhere, empty, preparing, completing, stable), UNKNOWN),
    "stranger's sync": dict.fromkeys((nowhere, empty, preparing, completing, stable), UNKNOWN),
    "stranger's join": dict.fromkeys((nowhere, empty, preparing, completing, stable), UNKNOWN),
}  # fmt: skip
"""As in Kafka. What a joining member gets in PreparingRebalance depends on who is missing: here it
is the last one, so that the round is over."""


@pytest.mark.parametrize("request_name", list(TABLE))
@pytest.mark.parametrize("state", [nowhere, empty, preparing, completing, stable])
def test_every_state_and_request(request_name: str, state: Callable[[], State]) -> None:
    world, player = state()
    answer = REQUESTS[request_name](world, player)
    assert code_of(answer) == TABLE[request_name][state]


@pytest.mark.parametrize("request_name", list(TABLE))
def test_a_shard_that_is_elsewhere(request_name: str) -> None:
    world, player = unavailable()
    answer = REQUESTS[request_name](world, player)
    assert code_of(answer) == CoordinatorNotAvailableError.code


def test_the_table_is_complete() -> None:
    assert set(TABLE) == set(REQUESTS)
    assert set(RULES) == set(GroupState)


ALLOWED = {
    ("Empty", "PreparingRebalance"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "PreparingRebalance"),
    ("Stable", "Dead"),
}


@pytest.mark.parametrize("old", list(GroupState))
@pytest.mark.parametrize("new", list(GroupState))
def test_moves(old: GroupState, new: GroupState) -> None:
    if (old.value, new.value) in ALLOWED:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalGroupTransitionError):
            check_transition(old, new)


def test_every_state_but_the_last_is_left_by_a_timer() -> None:
    """This is [B28]."""
    assert [state for state in GroupState if not RULES[state].left_by] == [GroupState.DEAD]
