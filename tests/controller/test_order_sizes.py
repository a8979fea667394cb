"""The size of their orders limits how many replicas brokers may have."""

from __future__ import annotations

import pytest

from oncelog_controller import order_sizes
from oncelog_controller.order_sizes import OrderSizes, entry_bytes
from oncelog_controller.state import ClusterPartition, ClusterState, Topic
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.topic_config import parse_topic_config


def cluster(*assignment: tuple[int, ...]) -> ClusterState:
    found = ClusterState(1, 1, 0)
    topic = found.topics["name"] = Topic("name", "id", parse_topic_config({}))
    topic.partitions = [
        ClusterPartition(topic, i, replicas) for i, replicas in enumerate(assignment)
    ]
    return found


def test_every_replica_counts_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", 4 * entry_bytes("name", 2))
    sizes = OrderSizes(cluster((1, 2), (2, 3), (3, 2)))
    sizes.take("more", [[1, 2]])
    with pytest.raises(PolicyViolationError, match="replicas of broker 2 would take"):
        sizes.take("most", [[3, 1], [1, 2]])
    sizes.take("most", [[3, 1], [3, 1]])  # what was refused was not counted
    with pytest.raises(PolicyViolationError, match="replicas of broker 1"):
        sizes.take("last", [[3, 1]])


def test_a_broker_that_has_too_many_already_stands_in_nobodys_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", entry_bytes("name", 1))
    sizes = OrderSizes(cluster((1,), (1,)))
    sizes.take("more", [[2]])
    with pytest.raises(PolicyViolationError):
        sizes.take("most", [[1]])


def test_long_names_take_more() -> None:
    assert entry_bytes("n" * 249, 3) - entry_bytes("n", 3) == 248
    assert entry_bytes("n", 3) > entry_bytes("n", 1)
