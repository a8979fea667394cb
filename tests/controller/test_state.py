"""The cluster's state: lookups, and the invariants that no write may break."""

from __future__ import annotations

import pytest

from oncelog_controller.state import (
    BrokerRegistration,
    Cluster,
    InvariantError,
    Partition,
    PartitionState,
    Tombstone,
    Topic,
    check_invariants,
)
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.topic_config import parse_topic_config
from support.controller_driver import registration


def topic(name: str, *leaders: int) -> Topic:
    made = Topic(name, "id", parse_topic_config({}))
    for index, leader in enumerate(leaders):
        state = PartitionState(leader, 0, (1, 2), 1, 0)
        made.partitions.append(Partition(made, index, (1, 2), state))
    return made


def test_lookups() -> None:
    cluster = Cluster(1, 1, 1, topics={"b": topic("b", 1), "a": topic("a", 2, -1)})
    cluster.brokers = {2: registration(2, 20), 1: registration(1, 10)}
    names = [str(partition.topic_partition) for partition in cluster.partitions()]
    assert names == ["a-0", "a-1", "b-0"]
    assert cluster.partition("a", 1) is not None
    assert [cluster.partition(*key) for key in (("a", 2), ("a", -1), ("c", 0))] == [None] * 3
    assert [broker.broker_id for broker in cluster.live_brokers()] == [1, 2]
    assert cluster.leader_counts() == {1: 1, 2: 1}
    assert cluster.topics["a"].assignment() == [[1, 2], [1, 2]]


def test_who_may_lead() -> None:
    cluster = Cluster(1, 1, 1, brokers={b: registration(b, b) for b in (1, 2, 3)})
    cluster.suspected, cluster.shutting_down = {2}, {3}
    assert [b for b in (1, 2, 3, 4) if cluster.may_lead(b)] == [1]


def test_listeners() -> None:
    addresses = (ListenerAddress("external", "h", 1), ListenerAddress("internal", "h", 2))
    broker = BrokerRegistration(1, 5, addresses, "r")
    assert broker.listener("internal") == addresses[1]
    assert broker.listener("nope") == addresses[0]
    assert BrokerRegistration(1, 5, ()).listener("internal") is None
    assert broker.described().rack == "r"


def test_a_tombstone_is_done_when_all_replicas_are_gone() -> None:
    tombstone = Tombstone("t", "id", [[1]], {(0, 1): ReplicaPhase.DELETING})
    assert not tombstone.done
    tombstone.phases[0, 1] = ReplicaPhase.GONE
    assert tombstone.done


@pytest.mark.parametrize(
    ("leader", "isr"),
    [(1, ()), (1, (1, 1)), (1, (1, 9)), (2, (1,))],
    ids=["empty", "twice", "no replica", "leader outside"],
)
def test_states_that_may_not_exist(leader: int, isr: tuple[int, ...]) -> None:
    partition = topic("t", 1).partitions[0]
    check_invariants(partition, 2, (1, 2))
    check_invariants(partition, -1, (1,))
    with pytest.raises(InvariantError, match="t-0"):
        check_invariants(partition, leader, isr)
