"""Static members: restarts without a rebalance, and who is fenced by them (KIP-345, KIP-814)."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.consumer_protocol import ConsumerSubscription, encode_subscription
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    InvalidRequestError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from oncelog_protocol.types import TopicPartition
from support.group_world import GroupWorld, subscribed

ANOTHER = (("range", subscribed("other")),)


def test_a_static_member_needs_no_id_first() -> None:
    world = GroupWorld()
    player = world.player(instance="i")
    world.advance(1)
    assert player.take_in_join().member_id.startswith("i-")


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """KIP-345: place and assignment stay, the id is new, and the earlier life is fenced."""
    world = GroupWorld()
    leader, follower = world.stable(2, instances=["a", "b"])
    back = world.player(instance="b")
    answer = back.joining.value
    assert (answer.error_code, answer.generation_id, answer.skip_assignment) == (0, 1, False)
    assert world.group().state is GroupState.STABLE
    back.take_in_join()
    assert back.member_id != follower.member_id
    assert back.synced().assignment == follower.member_id.encode()
    assert follower.heartbeat() == FencedInstanceIdError.code
    assert follower.sync().code == FencedInstanceIdError.code
    assert follower.join().code == FencedInstanceIdError.code
    assert follower.commit().code == FencedInstanceIdError.code
    assert world.heartbeat(follower.member_id, 1) == UnknownMemberIdError.code
    assert leader.heartbeat() == 0


def test_a_static_leader_that_comes_back_assigns_nothing_anew() -> None:
    """This is KIP-814."""
    world = GroupWorld()
    leader, _ = world.stable(2, instances=["a", "b"])
    back = world.player(instance="a")
    answer = back.take_in_join()
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert len(answer.members) == 2
    assert back.synced().assignment == leader.member_id.encode()
    assert world.group().leader == back.member_id


def test_what_a_static_member_owned_does_not_count_as_a_change() -> None:
    world = GroupWorld()
    owned = ConsumerSubscription(("t",), (TopicPartition("t", 1),), 1)
    world.stable(1, instances=["a"], protocols=(("range", encode_subscription(owned)),))
    back = world.player(instance="a")
    assert back.joining.code == 0
    assert world.group().generation == 1


def test_a_static_member_with_another_subscription_makes_all_rebalance() -> None:
    world = GroupWorld()
    _, other = world.stable(2, instances=["a", "b"])
    back = world.player(instance="a", protocols=ANOTHER)
    assert back.joining.waits
    assert other.heartbeat() == RebalanceInProgressError.code
    other.join()
    assert back.take_in_join().generation_id == 2


def test_a_static_member_that_changes_the_choice_makes_all_rebalance() -> None:
    world = GroupWorld()
    both = (("range", subscribed("t")), ("sticky", subscribed("t")))
    world.stable(1, instances=["a"], protocols=both)
    back = world.player(instance="a", protocols=tuple(reversed(both)))
    assert back.take_in_join().protocol_name == "sticky"


def test_a_takeover_is_durable_before_it_is_told() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, instances=["a"])
    world.hold = True
    back = world.player(instance="a")
    assert back.joining.waits
    world.commit()
    back.take_in_join()
    (member,) = world.restarted().group().members.values()
    assert member.member_id == back.member_id != player.member_id


def test_a_takeover_that_is_refused_leaves_the_earlier_life() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, instances=["a"])
    world.refuse = CoordinatorNotAvailableError.code
    back = world.player(instance="a", client="other")
    assert back.joining.code == CoordinatorNotAvailableError.code
    world.refuse = 0
    assert player.heartbeat() == 0
    assert player.synced().assignment == player.member_id.encode()
    assert world.group().members[player.member_id].client_id == "c"


def test_a_takeover_that_may_have_happened_is_not_taken_back() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, instances=["a"])
    world.hold = True
    back = world.player(instance="a")
    world.fail()
    assert back.joining.code == CoordinatorNotAvailableError.code
    assert player.heartbeat() == FencedInstanceIdError.code
    world.hold = False
    again = world.player(instance="a")
    assert again.joining.code == 0


def test_a_rebalance_during_a_takeover_takes_the_caller_along() -> None:
    world = GroupWorld()
    _, other = world.stable(2, instances=["a", "b"])
    world.hold = True
    back = world.player(instance="a")
    other.leave()
    world.hold = False
    world.commit()
    assert back.take_in_join().generation_id == 2
    assert not back.joining.value.skip_assignment


@pytest.mark.parametrize("fails", [False, True])
def test_a_takeover_settled_after_the_round_has_begun(fails: bool) -> None:
    world = GroupWorld()
    _, other, third = world.stable(3, instances=["a", "b", "c"])
    world.hold = True
    back = world.player(instance="a")
    other.join(protocols=ANOTHER)
    world.fail() if fails else world.commit()
    assert back.joining.waits
    assert other.joining.waits
    third.join()
    assert [p.joining.code for p in (back, other, third)] == [0, 0, 0]


def test_a_takeover_while_the_earlier_life_waits_for_the_round() -> None:
    world = GroupWorld()
    a, b = world.stable(2, instances=["a", "b"])
    a.join(protocols=ANOTHER)
    assert a.joining.waits
    back = world.player(instance="a")
    assert a.joining.code == FencedInstanceIdError.code
    assert back.joining.waits
    b.join()
    assert (back.joining.code, b.joining.code) == (0, 0)


def test_a_takeover_while_the_earlier_life_waits_for_its_assignment() -> None:
    world = GroupWorld()
    a, b = world.player(instance="a"), world.player(instance="b")
    world.advance(1)
    a.take_in_join(), b.take_in_join()
    parked = b.sync()
    back = world.player(instance="b")
    assert parked.code == FencedInstanceIdError.code
    assert back.joining.waits
    assert a.heartbeat() == RebalanceInProgressError.code


def test_a_static_member_away_keeps_its_place_through_a_round() -> None:
    world = GroupWorld()
    a, b = world.stable(2, instances=["a", "b"], session_ms=100_000, rebalance_ms=10_000)
    a.join(protocols=ANOTHER)
    world.advance(10.1)
    answer = a.take_in_join()
    assert [m.member_id for m in answer.members] == [a.member_id, b.member_id]
    a.sync()
    world.advance(20)
    assert b.member_id in world.group().members
    assert world.group().state is GroupState.STABLE
    a.heartbeat()
    world.advance(69)
    a.heartbeat()
    assert b.member_id in world.group().members
    world.advance(2)
    assert b.member_id not in world.group().members


def test_static_members_that_are_all_away_hold_the_group_until_their_sessions_end() -> None:
    world = GroupWorld()
    a, b = world.stable(2, instances=["a", None], session_ms=40_000, rebalance_ms=10_000)
    b.leave()
    assert world.group().state is GroupState.PREPARING_REBALANCE
    world.advance(39)
    assert a.member_id in world.group().members
    world.advance(2)
    assert world.group().state is GroupState.EMPTY


def test_an_operator_removes_a_static_member() -> None:
    world = GroupWorld()
    a, b = world.stable(2, instances=["a", "b"])
    answer = world.leave(("", "b")).value
    assert (answer.members[0].error_code, answer.members[0].group_instance_id) == (0, "b")
    assert list(world.group().members) == [a.member_id]
    assert b.heartbeat() == UnknownMemberIdError.code


def test_a_fenced_member_cannot_leave_for_the_new_one() -> None:
    world = GroupWorld()
    (player,) = world.stable(1, instances=["a"])
    world.player(instance="a")
    answer = world.leave((player.member_id, "a")).value
    assert answer.members[0].error_code == FencedInstanceIdError.code


def test_an_id_that_was_handed_out_is_of_no_static_member() -> None:
    world = GroupWorld()
    member_id = world.new_id()
    assert world.join(member_id, instance="i").code == InvalidRequestError.code
