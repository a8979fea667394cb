"""These tests check what all assignors share."""

from __future__ import annotations

from oncelog.consumer.assignors.base import assignments, subscribers
from oncelog_protocol.consumer_protocol import ConsumerSubscription
from oncelog_protocol.types import TopicPartition


def test_topics_that_do_not_exist_are_left_out() -> None:
    members = {
        "b": ConsumerSubscription(("x", "gone", "x")),
        "a": ConsumerSubscription(("y", "x", "empty")),
    }
    found = subscribers({"y": 1, "x": 2, "empty": 0, "unwanted": 3}, members)
    assert list(found.items()) == [("x", ["a", "b"]), ("y", ["a"])]


def test_assignments_are_in_order() -> None:
    made = assignments({"m": [TopicPartition("t", 1), TopicPartition("s", 2)], "n": []})
    assert made["m"].partitions == (("s", 2), ("t", 1))
    assert made["n"].partitions == ()
