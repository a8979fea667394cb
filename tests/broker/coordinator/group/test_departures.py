"""Who has gone is known to the next coordinator too, however soon it takes over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog_broker.coordinator.group import rounds as rounds_module
from oncelog_broker.coordinator.group.departures import Departures
from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.members import Member, Offer
from oncelog_broker.coordinator.group.records import (
    DepartedFact,
    GroupFact,
    SavedGroup,
    SavedMember,
    decode_record,
    departed_record,
)
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    RebalanceInProgressError,
    RequestTimedOutError,
    UnknownMemberIdError,
)
from support.group_world import Answer, GroupWorld, Player
from unsafe.coordinators import without

REFUSED = CoordinatorNotAvailableError.code
SESSION_S = 10.0
"""Players have it when nothing else is said."""


def facts_since(world: GroupWorld, count: int) -> list[object]:
    return [decode_record(record) for record in world.log[count:]]


def departed_keys(log: Sequence[CoordinatorRecord]) -> dict[str, int]:
    """Return what compaction keeps of departures: the member ids, with their generations."""
    kept: dict[str, int] = {}
    for record in log:
        fact = decode_record(record)
        if isinstance(fact, DepartedFact):
            kept.pop(fact.member_id, None)
            if fact.generation is not None:
                kept[fact.member_id] = fact.generation
    return kept


def moved(world: GroupWorld, *players: Player) -> GroupWorld:
    """Let the next coordinator take over, with these members and what is soon to be done."""
    world = world.restarted()
    world.advance(0)
    for player in players:
        player.world = world
    return world


def go_on(world: GroupWorld, *players: Player) -> None:
    """All members hear of a round by their heartbeats, and join and sync."""
    for player in players:
        assert player.heartbeat() == RebalanceInProgressError.code
        player.join()
    world.settle(players)


# ---- the story


def left_before_the_coordinator_moved(safeguards: CoordinatorSafeguards) -> Player:
    """Let one of two leave, and the coordinator move before the other has heard of it."""
    world = GroupWorld(safeguards=safeguards)
    stays, leaves = world.stable(2)
    assert leaves.leave().value.members[0].error_code == 0
    world = moved(world, stays)
    stays.heartbeat()
    stays.join()
    return stays


def test_the_others_do_not_wait_for_who_left_before_the_coordinator_moved() -> None:
    player = left_before_the_coordinator_moved(SAFE)
    player.world.settle([player])
    assert (player.generation, player.members) == (2, [player.member_id])
    assert player.commit().code == 0


def test_without_the_record_they_wait() -> None:
    player = left_before_the_coordinator_moved(without("departures_are_durable"))
    assert player.joining.waits
    player.world.advance(SESSION_S - 0.1)
    assert player.joining.waits
    assert player.commit().code == 0, "in the generation that it had"
    player.world.advance(0.2)
    player.world.settle([player])


# ---- leaving


def test_one_small_record_a_departure() -> None:
    world = GroupWorld()
    players = world.stable(3)
    before = len(world.log)
    players[1].leave(), players[2].leave()
    assert facts_since(world, before) == [
        DepartedFact("g", player.member_id, 1) for player in players[1:]
    ]
    assert sum(len(r.key) + len(r.value or b"") for r in world.log[before:]) < 200


def test_several_that_leave_by_one_request() -> None:
    world = GroupWorld()
    players = world.stable(4)
    before = len(world.log)
    world.leave(players[0].member_id, "nobody", players[2].member_id)
    assert facts_since(world, before) == [
        DepartedFact("g", players[n].member_id, 1) for n in (0, 2)
    ]
    world = moved(world, players[1], players[3])
    assert world.group().leader == players[1].member_id
    go_on(world, players[1], players[3])
    assert world.group().state is GroupState.STABLE


def test_the_answer_waits_until_it_is_durable() -> None:
    world = GroupWorld()
    _, player = world.stable(2)
    world.hold = True
    answer = player.leave()
    assert answer.waits
    world.commit()
    assert answer.code == 0


def test_the_last_one_to_leave_needs_no_record_of_its_own() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    before = len(world.log)
    player.leave()
    (fact,) = facts_since(world, before)
    assert isinstance(fact, GroupFact)
    assert fact.saved is not None
    assert not fact.saved.members


def test_who_was_never_in_a_saved_generation_leaves_no_trace() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    world.player()
    before = len(world.log)
    newcomer_id = next(m for m in world.group().members if m != player.member_id)
    assert world.leave(newcomer_id).value.members[0].error_code == 0
    assert world.log[before:] == []


# ---- what fails


def test_a_leave_that_was_refused_is_told_and_written_later() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2)
    world.refuse = REFUSED
    assert leaves.leave().code == REFUSED
    again = leaves.leave()
    assert again.code == 0
    assert again.value.members[0].error_code == UnknownMemberIdError.code
    world.refuse = 0
    assert not departed_keys(world.log)
    world.advance(1.1)
    assert departed_keys(world.log) == {leaves.member_id: 1}
    world = moved(world, stays)
    go_on(world, stays)


def test_a_leave_that_may_have_happened_is_not_written_twice() -> None:
    world = GroupWorld()
    _, leaves = world.stable(2)
    before = len(world.log)
    world.hold = True
    answer = leaves.leave()
    world.fail()
    assert answer.code == RequestTimedOutError.code
    world.hold = False
    world.advance(2)
    assert len(world.log) == before + 1


def test_what_was_refused_is_of_no_interest_after_the_next_generation() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2)
    world.refuse = REFUSED
    leaves.leave()
    world.refuse = 0
    go_on(world, stays)
    before = len(world.log)
    world.advance(2)
    assert world.log[before:] == []


def test_a_group_that_is_empty_in_the_end_says_so_after_a_refusal() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    world.refuse = REFUSED
    assert player.leave().code == REFUSED
    world.refuse = 0
    world.advance(1.1)
    world = moved(world)
    assert world.group().state is GroupState.EMPTY
    assert not departed_keys(world.log)


# ---- sessions and rounds that end


def test_a_session_that_ended_has_ended_for_the_next_coordinator() -> None:
    world = GroupWorld()
    stays, dies = world.stable(2)
    world.advance(SESSION_S - 1)
    assert stays.heartbeat() == 0
    world.advance(1.1)
    assert departed_keys(world.log) == {dies.member_id: 1}
    world = moved(world, stays)
    go_on(world, stays)
    assert stays.members == [stays.member_id]


def test_who_did_not_join_in_time_is_out_there_too() -> None:
    world = GroupWorld()
    stays, sleeps = world.stable(2, session_ms=30_000, rebalance_ms=5_000)
    stays.join(protocols=[("range", b"else")])
    world.advance(5.1)
    assert departed_keys(world.log) == {sleeps.member_id: 1}
    world = moved(world, stays)
    go_on(world, stays)


def test_who_did_not_ask_for_its_assignment_is_out_there_too() -> None:
    world = GroupWorld()
    stays, sleeps = world.stable(2, session_ms=30_000, rebalance_ms=5_000)
    stays.join(protocols=[("range", b"else")])
    sleeps.join()
    stays.take_in_join()
    stays.sync()
    assert not departed_keys(world.log)
    world.advance(5.1)
    assert departed_keys(world.log) == {sleeps.member_id: 2}


# ---- the next coordinator


def test_the_next_one_leads_when_the_leader_left() -> None:
    world = GroupWorld()
    leads, follows, last = world.stable(3)
    leads.leave()
    world = moved(world, follows, last)
    assert world.group().leader == follows.member_id
    go_on(world, follows, last)
    assert follows.members == [follows.member_id, last.member_id]


def test_who_left_is_unknown_to_the_next_coordinator() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2)
    leaves.leave()
    world = moved(world, stays, leaves)
    assert leaves.heartbeat() == UnknownMemberIdError.code
    assert leaves.commit().code == UnknownMemberIdError.code
    assert stays.commit().code == 0


def test_coordinators_may_move_again_and_again() -> None:
    world = GroupWorld()
    players = world.stable(3)
    for player in players[:2]:
        player.leave()
        world = moved(world, *players)
    go_on(world, players[2])
    assert not departed_keys(world.log)
    world = moved(world, players[2])
    assert players[2].heartbeat() == 0


def test_requests_that_come_before_the_round_begins() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2)
    leaves.leave()
    world = stays.world = world.restarted()
    assert stays.heartbeat() == 0
    stays.join(protocols=[("range", b"else")])
    world.settle([stays])
    world.advance(0)
    assert (world.group().state, world.group().generation) == (GroupState.STABLE, 2)


def test_a_group_of_which_all_have_gone_is_empty_from_now_on() -> None:
    world = GroupWorld()
    world.commit_offset(5)
    players = world.stable(2)
    world.log += [departed_record("g", player.member_id, 1) for player in players]
    world.clock.advance(world.config.offsets_retention_ms)
    world = moved(world)
    group = world.group()
    assert (group.state, group.leader, group.protocol_name) == (GroupState.EMPTY, None, None)
    assert group.saved is not None
    assert not group.saved.members
    assert not departed_keys(world.log)
    world.advance(world.config.offsets_retention_check_interval_ms / 1000)
    assert world.offsets() == {("t", 0): 5}, "it was not empty all the time"
    world = moved(world)
    assert world.group().state is GroupState.EMPTY


def test_departures_from_another_generation_say_nothing() -> None:
    world = GroupWorld()
    players = world.stable(2)
    world.log += [departed_record("g", players[0].member_id, n) for n in (0, 2)]
    world = moved(world, *players)
    assert [player.heartbeat() for player in players] == [0, 0]
    players[0].join(protocols=[("range", b"else")])
    players[1].join()
    world.settle(players)
    assert not departed_keys(world.log), "the next generation takes them back"


def test_a_group_that_cannot_be_goes_on_without_who_left() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2)
    leaves.leave()
    world.expects_sound = False
    world.group().timers.clear()
    joining = stays.join()
    assert not joining.waits
    world.advance(0)
    assert list(world.group().members) == [stays.member_id]


# ---- taking them back


def test_the_next_generation_takes_them_back() -> None:
    world = GroupWorld()
    stays, first, second = world.stable(3)
    first.leave(), second.leave()
    assert len(departed_keys(world.log)) == 2
    before = len(world.log)
    go_on(world, stays)
    facts = facts_since(world, before)
    assert isinstance(facts[0], GroupFact)
    assert facts[1:] == [DepartedFact("g", p.member_id, None) for p in (first, second)]
    assert not departed_keys(world.log)


def test_an_empty_group_takes_them_back() -> None:
    world = GroupWorld()
    first, second = world.stable(2)
    first.leave()
    assert departed_keys(world.log)
    second.leave()
    assert not departed_keys(world.log)


def test_a_deletion_takes_them_back() -> None:
    world = GroupWorld()
    (player,) = world.stable(1)
    player.leave()
    world.log.append(departed_record("g", "of an older release", 7))
    world = moved(world)
    answer = Answer()
    world.groups.delete(["g"], answer)
    assert [result.error_code for result in answer.value] == [0]
    assert not departed_keys(world.log)
    assert not world.shard.groups


def test_what_is_left_of_a_group_expires() -> None:
    world = GroupWorld(log=[departed_record("g", "m", 7)])
    assert world.group().state is GroupState.EMPTY
    world.advance(world.config.offsets_retention_check_interval_ms / 1000)
    assert not departed_keys(world.log)
    assert not world.shard.groups


def test_more_than_one_batch_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "DEPARTED_BYTES_MAX", 100)
    world = GroupWorld()
    stays, *others = world.stable(9)
    world.hold = True
    answer = world.leave(*(player.member_id for player in others))
    assert 0 < len(departed_keys(world.log)) < 8
    world.hold = False
    world.commit()
    world.advance(0.1)
    assert answer.code == 0
    assert len(departed_keys(world.log)) == 8
    go_on(world, stays)
    assert 0 < len(departed_keys(world.log)) < 8
    for _ in range(5):
        stays.join(protocols=[("range", b"%d" % stays.generation)])
        world.settle([stays])
    assert not departed_keys(world.log)


# ---- static members


def test_a_static_member_that_leaves_is_gone() -> None:
    world = GroupWorld()
    stays, leaves = world.stable(2, instances=[None, "a"])
    assert world.leave((leaves.member_id, "a")).value.members[0].error_code == 0
    world = moved(world, stays)
    go_on(world, stays)
    assert stays.members == [stays.member_id]


def test_a_static_member_that_an_operator_removes_is_gone() -> None:
    world = GroupWorld()
    _, leaves = world.stable(2, instances=[None, "a"])
    world.leave(("", "a"))
    assert departed_keys(world.log) == {leaves.member_id: 1}


def test_a_static_member_that_came_back_has_not_gone() -> None:
    world = GroupWorld()
    other, _ = world.stable(2, instances=[None, "a"])
    third = world.player()  # a round, in which the new name is not written down
    back = world.player(instance="a")
    assert not departed_keys(world.log)
    other.join()
    assert [third.joining.waits, back.joining.waits] == [False, False]


def test_a_static_member_that_came_back_and_leaves_is_gone_by_its_saved_name() -> None:
    world = GroupWorld()
    other, before = world.stable(2, instances=[None, "a"])
    world.player()
    world.player(instance="a")
    world.leave(("", "a"))
    assert departed_keys(world.log) == {before.member_id: 1}
    world = moved(world, other)
    go_on(world, other)


def test_a_static_member_that_is_back_before_it_was_written_has_not_gone() -> None:
    world = GroupWorld()
    world.stable(2, instances=[None, "a"])
    world.refuse = REFUSED
    world.leave(("", "a"))
    world.refuse = 0
    world.player(instance="a")
    world.advance(1.1)
    assert not departed_keys(world.log)


# ---- the bookkeeping


def saved_of(generation: int, *members: tuple[str, str | None]) -> SavedGroup:
    entries = tuple(SavedMember(m, i, "c", "h", 1, 1, b"", b"") for m, i in members)
    return SavedGroup(generation, "consumer", "range", members[0][0], 0, entries)


def member(member_id: str, instance: str | None = None) -> Member:
    return Member(member_id, instance, "c", "h", Offer(1, 1, ()))


def test_only_members_of_the_saved_generation_can_go() -> None:
    departures = Departures("g")
    departures.removed(member("a"))
    assert departures.to_write(100) == []
    departures.replay_generation(saved_of(3, ("a", None), ("b", "i")))
    departures.removed(member("c"))
    departures.removed(member("i"))
    assert departures.to_write(100) == []
    departures.removed(member("a"))
    departures.removed(member("b-again", "i"))
    assert departures.to_write(100) == [departed_record("g", name, 3) for name in "ab"]
    assert not departures.is_gone("a")
    departures.replay("a", 3)
    assert departures.is_gone("a")
    assert departures.to_write(100) == [departed_record("g", "b", 3)]
    assert departures.to_take_back(100) == [departed_record("g", "a", None)]
    departures.replay_generation(saved_of(4, ("a", None)))
    assert not departures.is_gone("a")
    assert departures.durable == {"a": 3}
    departures.replay("a", None)
    assert departures.is_nothing
    assert departures.to_write(100) == []


def test_a_group_that_begins_anew_keeps_what_is_durable() -> None:
    group = Group("g", 0)
    group.replay(saved_of(1, ("a", None), ("b", None)))
    group.departures.replay("a", 1)
    anew = group.anew(5)
    assert anew.restore(5) == 1
    assert (list(anew.members), anew.leader) == (["b"], "b")
