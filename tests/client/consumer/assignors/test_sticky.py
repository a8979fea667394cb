"""Sticky shares: all covered, even, and nothing moves without need."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from oncelog.consumer.assignors.base import Assignor
from oncelog.consumer.assignors.range import RangeAssignor
from oncelog.consumer.assignors.round_robin import RoundRobinAssignor
from oncelog.consumer.assignors.sticky import StickyAssignor, holders, share_out
from oncelog_protocol.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from oncelog_protocol.types import TopicPartition

Members = dict[str, ConsumerSubscription]
Assigned = Mapping[str, ConsumerAssignment]
TOPICS = ("t0", "t1", "t2", "t3")
NAMES = tuple(f"m{n}" for n in range(8))

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
claimed = st.lists(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8)), max_size=12, unique=True
)
wanted = st.lists(st.sampled_from(TOPICS), max_size=4, unique=True).map(tuple)


def members_that_want(topics: st.SearchStrategy[tuple[str, ...]]) -> st.SearchStrategy[Members]:
    return st.dictionaries(
        st.sampled_from(NAMES),
        st.builds(
            ConsumerSubscription,
            topics,
            claimed.map(tuple),
            st.integers(-1, 3),
        ),
    )


def sticky(partitions: Mapping[str, int], members: Members) -> dict[str, list[TopicPartition]]:
    assigned = StickyAssignor().assign(partitions, members)
    return {name: list(share.partitions) for name, share in assigned.items()}


def again(partitions: Mapping[str, int], members: Members, assigned: Assigned) -> Members:
    """Return the members as they join the next time, with what they were assigned."""
    return {
        name: ConsumerSubscription(
            members[name].topics,
            user_data=StickyAssignor().subscription_user_data(
                members[name].topics, assigned[name].partitions, 7
            ),
        )
        for name in members
        if name in assigned
    }


def check_legal(
    partitions: Mapping[str, int], members: Members, shares: Mapping[str, list[TopicPartition]]
) -> None:
    """[I19]: each partition of each wanted topic is with exactly one member that wants it."""
    given_out = [tp for share in shares.values() for tp in share]
    topics = {topic for member in members.values() for topic in member.topics}
    expected = [TopicPartition(t, n) for t in topics for n in range(partitions.get(t, 0))]
    assert sorted(given_out) == sorted(expected)
    for name, share in shares.items():
        assert {tp.topic for tp in share} <= set(members[name].topics)
    assert set(shares) == set(members)


def check_even(members: Members, shares: Mapping[str, list[TopicPartition]]) -> None:
    for most, share in shares.items():
        for least, other in shares.items():
            if len(share) >= len(other) + 2:
                assert not {tp.topic for tp in share} & set(members[least].topics), (most, least)


@given(counts, members_that_want(wanted))
def test_any_subscriptions(partitions: dict[str, int], members: Members) -> None:
    shares = sticky(partitions, members)
    check_legal(partitions, members, shares)
    check_even(members, shares)


@given(counts, members_that_want(st.just(TOPICS)))
def test_equal_subscriptions_give_shares_that_differ_by_one(
    partitions: dict[str, int], members: Members
) -> None:
    shares = sticky(partitions, members)
    check_legal(partitions, members, shares)
    sizes = [len(share) for share in shares.values()]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(counts, members_that_want(wanted), st.randoms())
def test_the_order_of_the_arguments_does_not_matter(
    partitions: dict[str, int], members: Members, chance: st.DataObject
) -> None:
    names = list(members)
    chance.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: members[name] for name in names}
    for assignor in every_assignor():
        assert assignor.assign(partitions, members) == assignor.assign(
            dict(reversed(partitions.items())), shuffled
        )


def every_assignor() -> list[Assignor]:
    return [RangeAssignor(), RoundRobinAssignor(), StickyAssignor()]


@given(counts, members_that_want(wanted))
def test_all_eager_ones_are_legal(partitions: dict[str, int], members: Members) -> None:
    for assignor in every_assignor():
        assigned = assignor.assign(partitions, members)
        shares = {name: list(share.partitions) for name, share in assigned.items()}
        check_legal(partitions, members, shares)


@given(counts, members_that_want(wanted))
def test_nothing_moves_while_nothing_changes(partitions: dict[str, int], members: Members) -> None:
    first = StickyAssignor().assign(partitions, members)
    assert StickyAssignor().assign(partitions, again(partitions, members, first)) == first


@given(counts, members_that_want(st.just(TOPICS)), st.data())
def test_who_stays_keeps_all_when_another_leaves(
    partitions: dict[str, int], members: Members, data: st.DataObject
) -> None:
    if not members:
        return
    first = StickyAssignor().assign(partitions, members)
    left = data.draw(st.sampled_from(sorted(members)))
    joining = again(partitions, members, first)
    del joining[left]
    second = StickyAssignor().assign(partitions, joining)
    for name, share in second.items():
        assert set(first[name].partitions) <= set(share.partitions)


@given(counts, members_that_want(st.just(TOPICS)))
def test_a_newcomer_gets_its_share_and_nothing_else_moves(
    partitions: dict[str, int], members: Members
) -> None:
    first = StickyAssignor().assign(partitions, members)
    joining = again(partitions, members, first)
    joining["new"] = ConsumerSubscription(TOPICS)
    second = StickyAssignor().assign(partitions, joining)
    for name, share in first.items():
        assert set(second[name].partitions) <= set(share.partitions)
    total = sum(partitions.values())
    assert len(second["new"].partitions) <= -(-total // len(joining))
    if members:
        assert len(second["new"].partitions) == total // len(joining)


def test_what_a_member_gives_up_is_taken_from_its_topics_in_turn() -> None:
    alone = {"a": ConsumerSubscription(("s", "t"))}
    partitions = {"s": 4, "t": 4}
    joining = again(partitions, alone, StickyAssignor().assign(partitions, alone))
    joining["b"] = ConsumerSubscription(("s", "t"))
    shares = sticky(partitions, joining)
    assert shares["a"] == [("s", 0), ("s", 1), ("t", 0), ("t", 1)]


def test_the_newer_claim_holds() -> None:
    tp = TopicPartition("t", 0)
    assert holders({"a": (3, [tp]), "b": (4, [tp])}) == {tp: "b"}
    assert holders({"b": (4, [tp]), "a": (4, [tp])}) == {tp: "a"}
    assert holders({}) == {}


def test_unequal_subscriptions_are_levelled() -> None:
    members = {
        "a": ConsumerSubscription(("s", "t"), owned=(TopicPartition("s", 0),), generation=1),
        "b": ConsumerSubscription(("t",)),
    }
    claims = {name: (member.generation, member.owned) for name, member in members.items()}
    assert share_out({"s": 2, "t": 2}, members, claims) == {
        "a": [("s", 0), ("s", 1)],
        "b": [("t", 0), ("t", 1)],
    }


def test_user_data_of_somebody_else_is_no_claim_and_no_error() -> None:
    members = {"a": ConsumerSubscription(("t",), user_data=b"\xc1?"), "b": ConsumerSubscription(())}
    assert sticky({"t": 2}, members) == {"a": [("t", 0), ("t", 1)], "b": []}


def test_a_large_group() -> None:
    """There are 1,000 partitions and 100 members, and each wants another part of the topics. (The
    time it takes is measured in bench/.)"""
    topics = [f"topic-{n:03}" for n in range(100)]
    partitions = dict.fromkeys(topics, 10)
    members = {
        f"m{n:03}": ConsumerSubscription(tuple(topics[n % 7 :: 1 + n % 3])) for n in range(100)
    }
    shares = sticky(partitions, members)
    check_legal(partitions, members, shares)
    check_even(members, shares)
