"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup tell the stories of the classic group protocol."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidCommitOffsetSizeError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    RequestTimedOutError,
    UnknownMemberIdError,
)
from support.group_world import GroupWorld, Player, subscribed
from support.room_settings import group_settings

ANOTHER = (("range", subscribed("other")),)


def rejoin_all(players: list[Player]) -> None:
    for player in players:
        player.join()


# ---- joining


def test_a_new_member_is_given_an_id_first() -> None:
    """KIP-394: a member counts only once it comes back under its id."""
    world = GroupWorld()
    answer = world.join(client="billing").value
    assert answer.error_code == MemberIdRequiredError.code
    assert answer.member_id.startswith("billing-")
    assert list(world.group().pending) == [answer.member_id]
    assert not world.group().members
    joining = world.join(answer.member_id)
    assert joining.waits
    assert not world.group().pending
    world.advance(0.5)
    joined = joining.value
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, answer.member_id)
    assert joined.leader == joined.member_id
    assert [member.member_id for member in joined.members] == [joined.member_id]


def test_member_ids_stay_names_however_long_the_client_is_called() -> None:
    assert len(GroupWorld().new_id(client="x" * 1024)) <= 1024


def test_only_the_leader_learns_of_the_members() -> None:
    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    told = leader.take_in_join()
    assert [m.metadata for m in told.members] == [subscribed("t")] * 2
    assert told.protocol_name == "range"
    assert told.protocol_type == "consumer"
    answer = follower.take_in_join()
    assert answer.leader == leader.member_id
    assert answer.members == []


def test_followers_wait_for_the_leader() -> None:
    world = GroupWorld()
    players = [world.player(), world.player(), world.player()]
    world.advance(1)
    for player in players:
        player.take_in_join()
    waiting = [players[2].sync(), players[1].sync()]
    assert all(answer.waits for answer in waiting)
    assert players[0].synced().assignment == players[0].member_id.encode()
    assert waiting[0].value.assignment == players[2].member_id.encode()
    assert waiting[1].value.assignment == players[1].member_id.encode()
    assert world.group().state is GroupState.STABLE


def test_assignments_are_given_only_when_they_are_durable() -> None:
    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    world.hold = True
    answers = [follower.sync(), leader.sync()]
    assert all(answer.waits for answer in answers)
    assert world.group().state is GroupState.COMPLETING_REBALANCE
    world.commit()
    assert [answer.code for answer in answers] == [0, 0]


def test_a_member_that_the_leader_leaves_out_gets_nothing() -> None:
    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    leader.members = [leader.member_id]
    leader.sync()
    assert follower.synced().assignment == b""


@pytest.mark.parametrize("code", [CoordinatorNotAvailableError.code, RequestTimedOutError.code])
def test_assignments_that_cannot_be_saved_begin_another_round(code: int) -> None:
    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    if code == RequestTimedOutError.code:
        world.hold = True
        answers = [follower.sync(), leader.sync()]
        world.fail(code)
    else:
        world.refuse = code
        answers = [follower.sync(), leader.sync()]
    assert [answer.code for answer in answers] == [CoordinatorNotAvailableError.code] * 2
    world.advance(0)
    assert world.group().state is GroupState.PREPARING_REBALANCE
    world.hold, world.refuse = False, 0
    rejoin_all([leader, follower])
    world.settle([leader, follower])
    assert world.group().generation == 2


def test_assignments_too_large_for_a_record_are_told_as_such() -> None:
    world = GroupWorld()
    leader = world.player()
    world.advance(1)
    leader.take_in_join()
    world.refuse = InvalidCommitOffsetSizeError.code
    assert leader.sync().code == InvalidCommitOffsetSizeError.code


def test_a_leader_that_asks_twice_assigns_once() -> None:
    world = GroupWorld()
    (leader,) = [world.player()]
    world.advance(1)
    leader.take_in_join()
    world.hold = True
    first = leader.sync()
    count = len(world.log)
    second = world.sync(leader.member_id, 1, {leader.member_id: b"something else"})
    assert first.code == RebalanceInProgressError.code
    assert len(world.log) == count
    world.commit()
    assert second.value.assignment == leader.member_id.encode()


def test_whoever_joins_twice_has_its_first_call_answered() -> None:
    world = GroupWorld()
    player = world.player()
    first = player.joining
    player.join()
    assert first.code == RebalanceInProgressError.code
    assert player.joining.waits
    world.advance(1)
    assert player.joining.code == 0


def test_the_initial_delay_grows_with_each_newcomer() -> None:
    """It is as long again for whoever came meanwhile, but no longer than the time-out."""
    world = GroupWorld(config=group_settings(group_initial_rebalance_delay_ms=3_000))
    players = [world.player(rebalance_ms=8_000)]
    for _ in range(2):
        world.advance(2.9)
        players.append(world.player(rebalance_ms=8_000))
        assert all(player.joining.waits for player in players)
    world.advance(2.0)
    players.append(world.player(rebalance_ms=8_000))
    world.advance(0.19)
    assert all(player.joining.waits for player in players)
    world.advance(0.02)
    assert [player.joining.code for player in players] == [0] * 4


def test_without_newcomers_the_delay_is_over_once() -> None:
    world = GroupWorld()
    player = world.player()
    world.advance(0.49)
    assert player.joining.waits
    world.advance(0.02)
    assert player.joining.code == 0


def test_protocols_are_chosen_by_vote_of_those_that_all_support() -> None:
    world = GroupWorld()
    both = (("a", b"1"), ("b", b"2"))
    other = (("c", b""), ("b", b"2"), ("a", b"1"))
    players = [world.player(protocols=p) for p in (both, other, other)]
    world.advance(1)
    assert players[0].take_in_join().protocol_name == "b"
    assert [m.metadata for m in players[0].joining.value.members] == [b"2"] * 3


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        ("consumer", ()),
        ("", (("range", b""),)),
    ],
)
def test_an_empty_offer_is_refused(protocol_type: str, protocols: tuple[()]) -> None:
    world = GroupWorld()
    answer = world.join(protocol_type=protocol_type, protocols=protocols)
    assert answer.code == InconsistentGroupProtocolError.code
    assert not world.shard.groups


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        ("connect", (("range", b""),)),
        ("consumer", (("sticky", b""),)),
        ("consumer", ()),
    ],
)
def test_protocols_that_clash_are_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    world = GroupWorld()
    world.stable(2)
    answer = world.join(protocol_type=protocol_type, protocols=protocols)
    assert answer.code == InconsistentGroupProtocolError.code
    assert world.group().state is GroupState.STABLE


def test_the_only_member_may_change_its_protocol_but_not_the_type() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    assert player.join(protocol_type="connect").code == InconsistentGroupProtocolError.code
    assert player.join(protocols=(("sticky", b""),)).value.protocol_name == "sticky"


def test_an_empty_group_takes_another_type() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.leave()
    other = world.player(protocol_type="connect", protocols=(("x", b""),))
    world.advance(1)
    assert other.take_in_join().protocol_type == "connect"


# ---- rebalances


def test_a_newcomer_makes_all_join_again() -> None:
    world = GroupWorld()
    (old,) = world.stable(1)
    new = world.player()
    assert new.joining.waits
    assert old.heartbeat() == RebalanceInProgressError.code
    old.join()
    world.settle([old, new])
    assert (old.generation, new.generation) == (2, 2)
    assert old.leader == old.member_id


def test_who_does_not_join_in_time_is_out() -> None:
    world = GroupWorld()
    fast, slow = world.stable(2, session_ms=100_000)
    fast.join()
    world.advance(59.9)
    assert fast.joining.waits
    world.advance(0.2)
    assert fast.take_in_join().leader == fast.member_id
    assert fast.generation == 2
    assert slow.heartbeat() == UnknownMemberIdError.code
    assert slow.join().code == UnknownMemberIdError.code


def test_the_round_waits_as_long_as_its_most_patient_member() -> None:
    world = GroupWorld()
    patient = world.player(rebalance_ms=90_000, session_ms=200_000)
    other = world.player(rebalance_ms=10_000, session_ms=200_000)
    world.advance(1)
    world.settle([patient, other])
    other.join(protocols=ANOTHER)
    world.advance(80)
    assert other.joining.waits
    world.advance(11)
    assert other.joining.code == 0


def test_a_leader_that_joins_again_asks_for_a_rebalance() -> None:
    world = GroupWorld()
    leader, follower = world.stable(2)
    leader.join()
    assert leader.joining.waits
    assert follower.heartbeat() == RebalanceInProgressError.code


def test_a_follower_that_joins_again_unchanged_hears_of_the_same_generation() -> None:
    world = GroupWorld()
    _, follower = world.stable(2)
    answer = follower.join().value
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert world.group().state is GroupState.STABLE
    assert follower.synced().assignment == follower.member_id.encode()


def test_a_member_whose_offer_has_changed_asks_for_a_rebalance() -> None:
    world = GroupWorld()
    _, follower = world.stable(2)
    assert follower.join(protocols=ANOTHER).waits
    assert world.group().state is GroupState.PREPARING_REBALANCE


def test_a_lost_answer_to_join_is_repeated() -> None:
    """In CompletingRebalance whoever offers the same gets the same, else there is another round."""
    world = GroupWorld()
    leader, follower = world.player(), world.player()
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    answer = leader.join().value
    assert (answer.generation_id, len(answer.members)) == (1, 2)
    parked = follower.sync()
    assert leader.join(protocols=ANOTHER).waits
    assert parked.code == RebalanceInProgressError.code


def test_a_leader_that_leaves_while_all_wait_for_it() -> None:
    world = GroupWorld()
    leader, *others = (world.player() for _ in range(3))
    world.advance(1)
    for player in (leader, *others):
        player.take_in_join()
    parked = [player.sync() for player in others]
    leader.leave()
    assert [answer.code for answer in parked] == [RebalanceInProgressError.code] * 2
    rejoin_all(others)
    world.settle(others)
    assert others[0].leader == others[0].member_id


def test_a_leader_that_does_not_join_again_loses_the_lead() -> None:
    world = GroupWorld()
    leader, follower = world.stable(2, session_ms=100_000)
    follower.join(protocols=ANOTHER)
    world.advance(61)
    assert follower.take_in_join().leader == follower.member_id
    assert leader.member_id not in world.group().members


def test_a_pending_id_is_waited_for() -> None:
    world = GroupWorld()
    (old,) = world.stable(1)
    member_id = world.new_id()
    assert world.group().state is GroupState.STABLE
    old.join()
    assert old.joining.waits
    new = world.join(member_id)
    assert (old.joining.code, new.code) == (0, 0)


def test_a_pending_id_that_never_comes_back_expires() -> None:
    world = GroupWorld()
    (old,) = world.stable(1)
    member_id = world.new_id(session_ms=5_000)
    old.join()
    world.advance(4.9)
    assert old.joining.waits
    world.advance(0.2)
    assert old.joining.code == 0
    assert world.join(member_id).code == UnknownMemberIdError.code


def test_a_pending_id_may_leave_and_nobody_rebalances() -> None:
    world = GroupWorld()
    (old,) = world.stable(1)
    member_id = world.new_id()
    assert world.leave(member_id).value.members[0].error_code == 0
    assert world.group().state is GroupState.STABLE
    old.join()
    assert old.joining.code == 0


def test_a_group_of_which_nothing_came_is_forgotten() -> None:
    world = GroupWorld()
    member_id = world.new_id()
    world.leave(member_id)
    assert not world.shard.groups
    world.new_id(session_ms=1_000)
    world.advance(1)
    assert not world.shard.groups
    assert not world.log


# ---- leaving and dying


def test_the_last_one_to_leave_empties_the_group() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    world.hold = True
    answer = player.leave()
    assert answer.waits
    assert world.group().state is GroupState.EMPTY
    world.commit()
    assert answer.value.members[0].error_code == 0
    assert world.group().generation == 2
    saved = world.group().saved
    assert saved is not None
    assert saved.members == ()
    assert saved.generation == 2


def test_an_empty_group_that_could_not_be_saved_is_saved_later() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    world.refuse = CoordinatorNotAvailableError.code
    assert player.leave().code == CoordinatorNotAvailableError.code
    world.advance(1.5)
    world.refuse = 0
    world.advance(1)
    saved = world.group().saved
    assert saved is not None
    assert saved.members == ()


def test_several_leave_at_once() -> None:
    world = GroupWorld()
    a, b, c = world.stable(3)
    answer = world.leave(a.member_id, "stranger", b.member_id, ("", "nobody")).value
    assert [m.error_code for m in answer.members] == [
        0,
        UnknownMemberIdError.code,
        0,
        UnknownMemberIdError.code,
    ]
    assert world.group().state is GroupState.PREPARING_REBALANCE
    c.join()
    assert c.take_in_join().generation_id == 2


def test_leaving_while_others_wait_ends_the_round() -> None:
    world = GroupWorld()
    a, b = world.stable(2)
    a.join()
    assert a.joining.waits
    b.leave()
    assert a.joining.code == 0


def test_leaving_an_unknown_group() -> None:
    answer = GroupWorld().leave("m", "n").value
    assert answer.error_code == 0
    assert [m.error_code for m in answer.members] == [UnknownMemberIdError.code] * 2


def test_a_silent_member_dies() -> None:
    world = GroupWorld()
    a, b = world.stable(2)
    for _ in range(4):
        world.advance(4)
        a.heartbeat()
    assert list(world.group().members) == [a.member_id]
    assert world.group().state is GroupState.PREPARING_REBALANCE
    assert b.heartbeat() == UnknownMemberIdError.code


def test_sessions_do_not_run_while_members_wait() -> None:
    world = GroupWorld()
    a, b = world.stable(2, session_ms=5_000)
    a.join()
    for _ in range(10):
        world.advance(3)
        assert b.heartbeat() == RebalanceInProgressError.code
    assert a.joining.waits
    assert len(world.group().members) == 2
    b.join()
    assert (a.joining.code, b.joining.code) == (0, 0)
    world.advance(4.9)
    assert len(world.group().members) == 2
    world.advance(0.2)
    assert not world.group().members
    assert world.group().state is GroupState.EMPTY


def test_whoever_waits_for_the_leader_does_not_die_of_it() -> None:
    world = GroupWorld()
    leader, follower = world.player(session_ms=5_000), world.player(session_ms=5_000)
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    parked = follower.sync()
    for _ in range(5):
        world.advance(4)
        assert leader.heartbeat() == 0
    leader.sync()
    assert parked.code == 0
    world.advance(4.9)
    assert follower.heartbeat() == 0


def test_a_new_member_is_parked_for_so_long_only() -> None:
    """Nobody could tell whether it is still there; it tries again (Kafka: five minutes)."""
    config = group_settings(group_new_member_join_timeout_ms=20_000)
    world = GroupWorld(config=config)
    (old,) = world.stable(1, session_ms=600_000, rebalance_ms=600_000)
    new = world.player()
    world.advance(19.9)
    assert new.joining.waits
    world.advance(0.2)
    assert new.joining.code == UnknownMemberIdError.code
    old.join()
    assert old.joining.code == 0


def test_who_never_asks_for_its_assignment_is_out() -> None:
    """KAFKA-12890: heartbeats alone do not keep a generation unfinished."""
    world = GroupWorld()
    leader, follower, lazy = (world.player(rebalance_ms=30_000) for _ in range(3))
    world.advance(1)
    for player in (leader, follower, lazy):
        player.take_in_join()
    leader.sync(), follower.sync()
    assert world.group().state is GroupState.STABLE
    for _ in range(6):
        world.advance(5)
        for player in (leader, follower, lazy):
            player.heartbeat()
    assert world.group().state is GroupState.PREPARING_REBALANCE
    assert lazy.heartbeat() == UnknownMemberIdError.code


def test_a_leader_that_never_assigns_is_out() -> None:
    world = GroupWorld()
    leader, follower = world.player(rebalance_ms=30_000), world.player(rebalance_ms=30_000)
    world.advance(1)
    leader.take_in_join(), follower.take_in_join()
    parked = follower.sync()
    for _ in range(6):
        world.advance(5)
        leader.heartbeat()
    assert parked.code == RebalanceInProgressError.code
    assert list(world.group().members) == [follower.member_id]


# ---- fencing


def test_generations_are_fenced() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    for generation in (-1, 0, 2, 2**31 - 1):
        assert world.heartbeat(player.member_id, generation) == IllegalGenerationError.code
        answer = world.sync(player.member_id, generation)
        assert answer.code == IllegalGenerationError.code


def test_protocols_in_sync_are_checked() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    for protocol_type, name in (("connect", None), (None, "sticky")):
        answer = world.sync(player.member_id, 1, protocol_type=protocol_type, protocol_name=name)
        assert answer.code == InconsistentGroupProtocolError.code
    answer = world.sync(player.member_id, 1, protocol_type="consumer", protocol_name="range")
    assert answer.code == 0
