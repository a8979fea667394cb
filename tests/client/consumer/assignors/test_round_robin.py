"""The round robin assignor gives what examples expect."""

from __future__ import annotations

from oncelog.consumer.assignors.round_robin import RoundRobinAssignor
from oncelog_protocol.consumer_protocol import ConsumerSubscription


def shares(
    partitions: dict[str, int], members: dict[str, tuple[str, ...]]
) -> dict[str, list[tuple[str, int]]]:
    wanted = {name: ConsumerSubscription(topics) for name, topics in members.items()}
    assigned = RoundRobinAssignor().assign(partitions, wanted)
    return {name: [(*tp,) for tp in share.partitions] for name, share in assigned.items()}


def test_the_turn_goes_on_from_topic_to_topic() -> None:
    found = shares({"s": 3, "t": 3}, {"a": ("s", "t"), "b": ("s", "t")})
    assert found == {
        "a": [("s", 0), ("s", 2), ("t", 1)],
        "b": [("s", 1), ("t", 0), ("t", 2)],
    }


def test_members_that_do_not_want_a_topic_are_passed_over() -> None:
    found = shares({"s": 1, "t": 2, "u": 3}, {"a": ("s",), "b": ("s", "t"), "c": ("s", "t", "u")})
    assert found == {
        "a": [("s", 0)],
        "b": [("t", 0)],
        "c": [("t", 1), ("u", 0), ("u", 1), ("u", 2)],
    }


def test_nobody_and_nothing() -> None:
    assert shares({"t": 2}, {}) == {}
    assert shares({}, {"a": ("t",)}) == {"a": []}
    assert RoundRobinAssignor().subscription_user_data(("t",), (), -1) == b""
