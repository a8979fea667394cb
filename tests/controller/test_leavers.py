"""The brokers that leave partitions are found, and since when they do."""

from __future__ import annotations

from oncelog_controller.leavers import Leavers
from oncelog_controller.state import ClusterPartition, PartitionState, Placement, Topic
from oncelog_protocol.topic_config import parse_topic_config
from oncelog_protocol.types import TopicPartition

TOPIC = Topic("t", "id", parse_topic_config({}))


def partition(index: int, epoch: int, *leaving: int) -> ClusterPartition:
    placement = Placement((1, 2), leaving=leaving)
    state = PartitionState(1, epoch, (1, 2), 1, 0, placement=placement)
    return ClusterPartition(TOPIC, index, (1, 2), state)


def left_by(leavers: Leavers, broker_id: int) -> list[int]:
    return [found.index for found in leavers.left_by(broker_id)]


def test_what_each_broker_leaves() -> None:
    leavers = Leavers()
    leavers.read([partition(10, 5, 3), partition(2, 7, 4, 3), partition(1, 7)])
    assert (left_by(leavers, 3), left_by(leavers, 4), left_by(leavers, 1)) == ([2, 10], [2], [])
    leavers.note(partition(2, 8, 4))
    assert (left_by(leavers, 3), left_by(leavers, 4)) == ([10], [2])
    leavers.forget(TopicPartition("t", 2))
    leavers.forget(TopicPartition("t", 2))
    assert left_by(leavers, 4) == []
    leavers.read([])
    assert left_by(leavers, 3) == []


def test_since_when() -> None:
    leavers, name = Leavers(), TopicPartition("t", 0)
    leavers.note(partition(0, 5, 3))
    leavers.note(partition(0, 6, 3, 4))
    assert [leavers.since(name, b) for b in (1, 3, 4)] == [None, 5, 6]
    leavers.note(partition(0, 7, 4))
    leavers.note(partition(0, 8, 4, 3))
    assert [leavers.since(name, b) for b in (3, 4)] == [8, 6], "it was a replica meanwhile"
    leavers.read([partition(0, 9, 3)])
    assert leavers.since(name, 3) == 9, "orders are given anew"
