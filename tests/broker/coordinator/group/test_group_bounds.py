"""A group has bounds: how many members it has, and how much they may say."""

from __future__ import annotations

from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    MemberIdRequiredError,
)
from support.group_world import GroupWorld
from support.room_settings import group_settings


def test_a_group_has_so_many_members() -> None:
    world = GroupWorld(config=group_settings(group_max_size=2))
    a, b = world.stable(2)
    assert world.join().code == GroupMaxSizeReachedError.code
    assert a.join().waits
    assert b.join().code == 0


def test_ids_that_are_handed_out_count() -> None:
    world = GroupWorld(config=group_settings(group_max_size=2))
    ids = [world.new_id(), world.new_id()]
    assert world.join().code == GroupMaxSizeReachedError.code
    answers = [world.join(member_id) for member_id in ids]
    world.advance(1)
    assert [answer.code for answer in answers] == [0, 0]


def test_a_newcomer_may_take_the_place_of_one_that_is_late() -> None:
    """Those count who have joined the round while it gathers, as in Kafka."""
    world = GroupWorld(config=group_settings(group_max_size=2))
    a, b = world.stable(2)
    a.join()
    new = world.player()
    assert new.joining.waits
    assert b.join().code == GroupMaxSizeReachedError.code
    assert (a.joining.code, new.joining.code) == (0, 0)
    assert b.member_id not in world.group().members


def test_a_loaded_group_that_is_too_large_shrinks() -> None:
    world = GroupWorld()
    players = world.stable(3)
    small = GroupWorld(
        config=group_settings(group_max_size=2), log=world.log, clock=world.clock, seed="small"
    )
    small.advance(0)
    assert small.group().state is GroupState.PREPARING_REBALANCE
    answers = [small.join(player.member_id) for player in players]
    assert [answer.code for answer in answers[:2]] == [0, 0]
    assert answers[2].code == GroupMaxSizeReachedError.code


def test_members_have_so_much_to_say() -> None:
    world = GroupWorld(config=group_settings(group_metadata_bytes_max=1_000))
    (player,) = world.stable(1, protocols=(("range", b"x" * 600),))
    assert world.join(protocols=(("range", b"x" * 600),)).code == GroupMaxSizeReachedError.code
    assert player.join(protocols=(("range", b"x" * 900),)).code == 0


def test_a_leader_may_not_assign_more_than_that() -> None:
    world = GroupWorld(config=group_settings(group_metadata_bytes_max=1_000))
    player = world.player()
    world.advance(1)
    player.take_in_join()
    answer = world.sync(player.member_id, 1, {player.member_id: b"x" * 1_001})
    assert answer.code == InvalidRequestError.code


def test_groups_that_nobody_joins_are_bounded() -> None:
    world = GroupWorld(config=group_settings(group_unsaved_max=3))
    for number in range(3):
        world.new_id(group=f"g{number}")
    assert world.join(group="g3").code == CoordinatorNotAvailableError.code
    world.commit_offset(group="g0")
    assert world.join(group="g3").code == MemberIdRequiredError.code
