"""Cooperative sticky hands partitions over in rounds, until all is as it should be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from oncelog.consumer.assignors.sticky import holders
from oncelog_protocol.consumer_protocol import ConsumerSubscription
from oncelog_protocol.types import TopicPartition

Members = dict[str, ConsumerSubscription]
Shares = dict[str, tuple[TopicPartition, ...]]
TOPICS = ("t0", "t1", "t2")
ASSIGNOR = CooperativeStickyAssignor()

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
topics = st.lists(st.sampled_from(TOPICS), max_size=3, unique=True).map(tuple)
claimed = st.lists(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8)), max_size=12, unique=True
).map(tuple)
members_with_claims = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(6)]),
    st.builds(ConsumerSubscription, topics, claimed, st.integers(-1, 3)),
)


def assign(partitions: dict[str, int], members: Members) -> Shares:
    assigned = ASSIGNOR.assign(partitions, members)
    return {name: share.partitions for name, share in assigned.items()}


def settle(partitions: dict[str, int], members: Members) -> list[Shares]:
    """Rebalance until nobody has to give anything up; members apply each round as KIP-429 says."""
    rounds: list[Shares] = []
    while True:
        assert len(rounds) < 4, "it does not come to an end"
        shares = assign(partitions, members)
        rounds.append(shares)
        gave_up = any(set(members[name].owned) - set(shares[name]) for name in members)
        members = {
            name: ConsumerSubscription(member.topics, shares[name], len(rounds) + 3)
            for name, member in members.items()
        }
        if not gave_up:
            return rounds


@given(counts, members_with_claims)
def test_no_partition_is_with_two_in_any_round(
    partitions: dict[str, int], members: Members
) -> None:
    claims = {name: (member.generation, member.owned) for name, member in members.items()}
    holding = holders(claims)
    shares = assign(partitions, members)
    seen: set[TopicPartition] = set()
    for name, share in shares.items():
        for tp in share:
            assert tp not in seen
            seen.add(tp)
            assert tp not in holding or holding[tp] == name


@given(counts, members_with_claims)
def test_in_the_end_every_wanted_partition_is_with_one(
    partitions: dict[str, int], members: Members
) -> None:
    last = settle(partitions, members)[-1]
    wanted = {topic for member in members.values() for topic in member.topics}
    expected = [TopicPartition(t, n) for t in wanted for n in range(partitions.get(t, 0))]
    assert sorted(tp for share in last.values() for tp in share) == sorted(expected)
    for name, share in last.items():
        for other, less in last.items():
            if len(share) >= len(less) + 2:
                assert not {tp.topic for tp in share} & set(members[other].topics), (name, other)


@given(counts, st.lists(topics, min_size=1, max_size=6))
def test_a_settled_group_stays_as_it_is(
    partitions: dict[str, int], subscriptions: list[tuple[str, ...]]
) -> None:
    members = {f"m{n}": ConsumerSubscription(wanted) for n, wanted in enumerate(subscriptions)}
    first = assign(partitions, members)
    later = {
        name: ConsumerSubscription(member.topics, first[name], 1)
        for name, member in members.items()
    }
    assert settle(partitions, later) == [first]


def test_a_newcomer_waits_one_round() -> None:
    tps = tuple(TopicPartition("t", n) for n in range(4))
    members = {
        "a": ConsumerSubscription(("t",), tps, 1),
        "b": ConsumerSubscription(("t",)),
    }
    assert settle({"t": 4}, members) == [
        {"a": (tps[0], tps[1]), "b": ()},
        {"a": (tps[0], tps[1]), "b": (tps[2], tps[3])},
    ]


def test_two_with_one_claim_both_give_it_up() -> None:
    tp = TopicPartition("t", 0)
    members = {name: ConsumerSubscription(("t",), (tp,), 5) for name in ("a", "b")}
    assert settle({"t": 1}, members) == [{"a": (), "b": ()}, {"a": (tp,), "b": ()}]


def test_an_old_claim_does_not_hinder_the_holder_but_anybody_else() -> None:
    tp = TopicPartition("t", 0)
    members = {
        "a": ConsumerSubscription(("t",), (tp,), 5),
        "b": ConsumerSubscription(("t",), (tp,), 4),
    }
    assert assign({"t": 1}, members) == {"a": (tp,), "b": ()}
    members["a"] = ConsumerSubscription((), (tp,), 5)
    assert assign({"t": 1}, members) == {"a": (), "b": ()}, "a may be reading it still"


def test_a_hundred_members_and_a_thousand_partitions_move_no_more_than_needed() -> None:
    partitions = {f"topic-{n}": 100 for n in range(10)}
    wanted = tuple(partitions)
    first = assign(partitions, {f"m{n:03}": ConsumerSubscription(wanted) for n in range(99)})
    members = {name: ConsumerSubscription(wanted, share, 1) for name, share in first.items()}
    members["m099"] = ConsumerSubscription(wanted)
    rounds = settle(partitions, members)
    assert len(rounds) == 2
    assert {len(share) for share in rounds[-1].values()} == {10}
    moved = sum(len(set(share) - set(rounds[-1][name])) for name, share in first.items())
    assert moved == 10
    assert ASSIGNOR.subscription_user_data(wanted, (), -1) == b""
