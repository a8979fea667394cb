"""The range assignor gives what examples expect (KafkaRangeAssignorTest's cases)."""

from __future__ import annotations

from oncelog.consumer.assignors.range import RangeAssignor
from oncelog_protocol.consumer_protocol import ConsumerSubscription


def shares(
    partitions: dict[str, int], members: dict[str, tuple[str, ...]]
) -> dict[str, list[tuple[str, int]]]:
    wanted = {name: ConsumerSubscription(topics) for name, topics in members.items()}
    assigned = RangeAssignor().assign(partitions, wanted)
    return {name: [(*tp,) for tp in share.partitions] for name, share in assigned.items()}


def test_runs_and_the_rest_to_the_first() -> None:
    assert shares({"t": 5}, {"b": ("t",), "a": ("t",)}) == {
        "a": [("t", 0), ("t", 1), ("t", 2)],
        "b": [("t", 3), ("t", 4)],
    }


def test_equal_topics_are_cut_at_equal_places() -> None:
    found = shares({"s": 3, "t": 3}, {"a": ("s", "t"), "b": ("t", "s")})
    assert found["a"] == [("s", 0), ("s", 1), ("t", 0), ("t", 1)]
    assert found["b"] == [("s", 2), ("t", 2)]


def test_more_members_than_partitions() -> None:
    assert shares({"t": 1}, {"a": ("t",), "b": ("t",)}) == {"a": [("t", 0)], "b": []}


def test_only_subscribers_get_a_topic() -> None:
    found = shares({"s": 2, "t": 2}, {"a": ("s",), "b": ("s", "t")})
    assert found == {"a": [("s", 0)], "b": [("s", 1), ("t", 0), ("t", 1)]}


def test_nobody_and_nothing() -> None:
    assert shares({"t": 2}, {}) == {}
    assert shares({}, {"a": ("t",)}) == {"a": []}
    assert RangeAssignor().subscription_user_data(("t",), (), -1) == b""
