"""The bookkeeping of a group agrees with a model that counts anew each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.members import Caller, Member, Offer
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    UnknownMemberIdError,
)
from support.group_world import subscribed

NAMES = ("a", "b", "c")


def offer_of(*names: str, data: bytes = b"") -> Offer:
    return Offer(10_000, 60_000, tuple((name, data) for name in names))


def member(number: int, *names: str, instance: str | None = None) -> Member:
    return Member(f"m{number}", instance, "c", "h", offer_of(*names or ("a",)))


def group_of(*members: Member, protocol_type: str = "consumer") -> Group:
    group = Group("g", 0)
    group.protocol_type = protocol_type
    for each in members:
        group.add(each)
    return group


OFFERS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), max_size=5)


@given(OFFERS, st.lists(st.sampled_from(NAMES), unique=True), st.integers(0, 4))
def test_support_is_what_all_can_work_with(
    offers: list[list[str]], asked: list[str], index: int
) -> None:
    group = group_of(*(member(number, *names) for number, names in enumerate(offers)))
    common = set(NAMES).intersection(*map(set, offers)) if offers else set(NAMES)
    assert group.supports("consumer", asked) == bool(set(asked) & common)
    if offers:
        without = group.members[f"m{index % len(offers)}"]
        rest = [set(names) for n, names in enumerate(offers) if n != index % len(offers)]
        common = set(NAMES).intersection(*rest) if rest else set(NAMES)
        assert group.supports("consumer", asked, without) == bool(set(asked) & common)
        assert not group.supports("connect", asked, without)


@given(OFFERS)
def test_counts_are_right_after_members_change_and_go(offers: list[list[str]]) -> None:
    members = [member(number, *names) for number, names in enumerate(offers)]
    group = group_of(*members)
    for each in members:
        group.set_offer(each, offer_of("a", "b", data=b"xyz"))
        group.park_join(each, Caller(lambda _: None))
    assert group.metadata_bytes == len(members) * (len("m0ch") + len("axyzbxyz"))
    assert group.joining_count == len(members)
    assert group.has_all_joined
    if members:
        assert group.choose_protocol() == "a"
    for each in members:
        group.remove(each)
    assert (group.metadata_bytes, group.joining_count, group.leader) == (0, 0, None)


def test_votes() -> None:
    group = group_of(member(0, "a", "b"), member(1, "b", "a"), member(2, "c", "b", "a"))
    assert group.choose_protocol() == "b"
    group = group_of(member(0, "a", "b"), member(1, "b", "a"))
    assert group.choose_protocol() == "a", "of equals the one voted for first"


def test_the_oldest_member_leads_next() -> None:
    group = group_of(member(0), member(1), member(2))
    assert group.leader == "m0"
    group.remove(group.members["m0"])
    assert group.leader == "m1"


def test_a_leader_takes_part() -> None:
    group = group_of(member(0), member(1))
    assert not group.elect_joined_leader()
    group.park_join(group.members["m1"], Caller(lambda _: None))
    assert group.elect_joined_leader()
    assert group.leader == "m1"


def test_taking_over_an_instance_keeps_the_place() -> None:
    group = group_of(member(0, instance="i"), member(1))
    group.pending_sync["m0"] = None
    group.rename(group.members["m0"], "new", "d", "i")
    assert list(group.members) == ["new", "m1"]
    assert group.metadata_bytes == sum(m.metadata_bytes for m in group.members.values())
    assert (group.leader, group.static, list(group.pending_sync)) == ("new", {"i": "new"}, ["new"])


def test_checks() -> None:
    group = group_of(member(0, instance="i"), member(1))
    assert group.check_member("m0", "i").member_id == "m0"
    assert group.check_member("m0", None).member_id == "m0"
    for member_id, instance, error in [
        ("x", None, UnknownMemberIdError),
        ("m1", "i", FencedInstanceIdError),
        ("m0", "j", UnknownMemberIdError),
    ]:
        with pytest.raises(error):
            group.check_member(member_id, instance)
    group.check_generation(0)
    with pytest.raises(IllegalGenerationError):
        group.check_generation(1)


def test_subscribed_topics() -> None:
    first, second = member(0), member(1)
    first.offer = offer_of("a", data=subscribed("t"))
    second.offer = offer_of("a", data=subscribed("u"))
    group = group_of(first, second)
    group.move_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    assert group.subscribed_topics == frozenset({"t", "u"})
    assert group.is_subscribed("t")
    assert not group.is_subscribed("v")
    assert (group.state, group.state_timestamp_ms, group.generation) == (
        GroupState.COMPLETING_REBALANCE,
        2,
        1,
    )


def test_who_cannot_be_read_may_read_anything() -> None:
    group = group_of(member(0))
    group.move_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(1)
    assert group.subscribed_topics is None
    assert group.is_subscribed("whatever")


def test_restoring() -> None:
    group = group_of(member(0, instance="i"), member(1))
    group.move_to(GroupState.PREPARING_REBALANCE, 1)
    group.next_generation(2)
    again = Group("g", 99)
    again.replay(group.to_save({"m1": b"mine"}))
    assert again.restore(9) == 0
    assert again.state is GroupState.STABLE
    assert again.generation == 1
    assert (again.leader, again.static, again.state_timestamp_ms) == ("m0", {"i": "m0"}, 2)
    assert again.members["m1"].assignment == b"mine"
    assert again.protocol_name == "a"
    assert again.supports("consumer", ["a"])


def test_nothing() -> None:
    group = Group("g", 0)
    assert group.is_nothing
    group.pending["x"] = None
    assert not group.is_nothing


def test_a_round_from_its_beginning_to_the_generation() -> None:
    group = Group("g", 0)
    group.begin_round(5)
    assert group.is_initial
    first, second = member(0), member(1)
    first.is_new = True
    group.pending["m0"] = None
    group.admit(first, "consumer")
    assert (group.protocol_type, group.has_new_member, group.leader) == ("consumer", True, "m0")
    assert not group.pending
    group.wait_for_more()
    assert not group.has_new_member
    group.admit(second, "other")
    assert (group.protocol_type, group.has_new_member) == ("consumer", True)
    group.park_join(first, Caller(lambda _: None))
    group.next_generation(6)
    assert group.enter_generation(first) is not None
    assert group.enter_generation(second) is None
    assert (first.is_new, list(group.pending_sync)) == (False, ["m0"])
    assert group.begin_assigning() == group.assigning == 1
    group.assigned(group.to_save({"m0": b"x", "m1": b"y"}), 7)
    assert (group.state, first.assignment, second.assignment) == (GroupState.STABLE, b"x", b"y")


def test_a_group_that_begins_anew_has_what_is_durable() -> None:
    group = group_of(member(0))
    group.replay(group.to_save({}))
    again = group.anew(9)
    assert (again.saved, again.offsets, again.members) == (group.saved, group.offsets, {})
    again.generation = 4
    again.replay_deletion(is_loaded=True)
    assert (again.saved, again.generation, again.protocol_type) == (None, 0, None)
    group.generation = 4
    group.replay_deletion(is_loaded=False)
    assert (group.saved, group.generation) == (None, 4)
