"""The size of their orders limits how many replicas brokers may have."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from oncelog_controller import order_sizes
from oncelog_controller.core import at_once
from oncelog_controller.order_sizes import OrderSizes, entry_bytes
from oncelog_controller.state import (
    ClusterPartition,
    ClusterState,
    PartitionState,
    Placement,
    Topic,
)
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.frame import encode_frame
from oncelog_protocol.schema import encode
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


def test_a_move_takes_more_and_the_bound_holds() -> None:
    topic = Topic("name", str(UUID(int=1)), parse_topic_config({}))
    ids = [2**31 - 1 - number for number in range(6)]
    placement = Placement(tuple(ids), tuple(ids[:3]), tuple(ids[3:]))
    state = PartitionState(ids[0], 2**31 - 1, tuple(ids), 1, 2**31 - 1, placement=placement)
    partition = ClusterPartition(topic, 2**31 - 1, placement.replicas, state)
    entry = replace(partition.leader_and_isr(), next_leader=ids[1])
    one, two = (len(b"".join(encode_frame([encode(entry, 3)] * n))) for n in (1, 2))
    size = two - one
    assert entry_bytes("name", 6) < size <= entry_bytes("name", 6, moving=6)


def test_what_moves_counts_for_every_broker_that_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", 2 * entry_bytes("name", 2))
    found = cluster((1, 2))
    OrderSizes(found).take("more", [[1, 2]])
    placement = Placement((1, 2), (1,), (2,))
    found.topics["name"].partitions[0].take(PartitionState(1, 1, (1,), 1, 0, placement=placement))
    with pytest.raises(PolicyViolationError):
        OrderSizes(found).take("more", [[1, 2]])


def test_long_names_take_more() -> None:
    assert entry_bytes("n" * 249, 3) - entry_bytes("n", 3) == 248
    assert entry_bytes("n", 3) > entry_bytes("n", 1)


def test_a_move_counts_on_brokers_that_it_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    known = cluster((1, 2), (1, 3))
    first, second = known.topics["name"].partitions
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", entry_bytes("name", 3, 4))
    sizes = at_once(OrderSizes.counted(known))
    sizes.take_move(first, (4, 2))
    with pytest.raises(PolicyViolationError, match="replicas of broker 4 .* take other brokers"):
        sizes.take_move(second, (4, 1))
    sizes.take_move(second, (3, 1))


def test_a_large_cluster_is_counted_in_turns() -> None:
    known = cluster(*([(1,)] * (order_sizes.COUNTED_AT_ONCE + 1)))
    steps = OrderSizes.counted(known)
    assert next(steps) is None
    sizes = at_once(steps)
    sizes.take("more", [[1]])
