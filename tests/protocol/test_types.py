"""These tests check values that every room shares."""

from __future__ import annotations

from oncelog_protocol.types import Acks, TopicPartition


def test_topic_partitions_sort_by_name_then_number() -> None:
    first, second, third = TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0)
    assert sorted([third, second, first]) == [first, second, third]
    assert str(second) == "a-10"


def test_acks_are_kafkas_numbers() -> None:
    assert [Acks.NONE, Acks.LEADER, Acks.ALL] == [0, 1, -1]
