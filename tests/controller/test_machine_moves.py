"""The machine takes replicas from the states of partitions, also while they move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog_controller import znodes
from oncelog_controller.state import DataClaim, DataLoss, Placement
from oncelog_protocol.messages import admin
from oncelog_protocol.types import TopicPartition
from support.controller_driver import Driver

T0 = TopicPartition("t", 0)


def place(driver: Driver, placement: Placement, **changes: Any) -> None:
    """Have the store say that the replicas of t-0 are others, in a new leader epoch."""
    state = driver.state("t")
    changed = replace(state, placement=placement, leader_epoch=state.leader_epoch + 1, **changes)
    path = znodes.state_path("t", 0)
    node = driver.nodes[path]
    driver.nodes[path] = replace(node, data=znodes.encode_state(changed), version=node.version + 1)


MOVING = Placement((1, 2, 3), (1, 2), (2, 3), (4,), "plan")


def test_the_states_replicas_are_ordered_and_stay_as_they_are() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2])
    assert driver.state("t").placement == Placement((1, 2))
    place(driver, MOVING)
    heir = driver.take_over()
    entries = {
        broker_id: orders.replicas[T0]
        for broker_id, _, orders in heir.orders
        if orders.replicas is not None and T0 in orders.replicas
    }
    assert sorted(entries) == [1, 2, 3]
    assert (entries[3].origin, entries[3].target) == ([1, 2], [2, 3])
    heir.lose(1)
    state = heir.state("t")
    assert (state.leader, state.isr) == (2, (2,))
    assert state.placement == replace(MOVING, leaving=()), "broker 4 has nothing any more"


def test_a_state_of_an_older_release_has_the_replicas_of_the_topic() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [2, 1])
    path = znodes.state_path("t", 0)
    old = replace(driver.state("t"), placement=None)
    driver.nodes[path] = replace(driver.nodes[path], data=znodes.encode_state(old))
    heir = driver.take_over()
    assert heir.partition("t").replicas == (2, 1)
    assert heir.state("t") == old, "nothing is migrated"
    heir.lose(2)
    assert heir.state("t").placement == Placement((2, 1))


def test_a_deleted_topic_is_deleted_wherever_it_may_have_data() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("t", [1, 2])
    driver.lose(4)
    place(driver, MOVING)
    heir = driver.take_over()
    heir.ask(admin.DeleteTopicsRequest(["t"], 1000))
    (tombstone,) = heir.machine.cluster.tombstones.values()
    assert tombstone.assignment == [[1, 2, 3, 4]]
    heir.join(4)
    assert not heir.machine.cluster.tombstones


def test_a_lone_replica_is_alone_while_its_partition_moves() -> None:
    """Only itself may lead again that has lost its tail, not the empty one that is added."""
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    place(driver, Placement((1, 2), (1,), (2,)))
    heir = driver.take_over()
    heir.suspect(1)
    heir.lose_data(1, loss=DataLoss.TAIL)
    assert heir.state("t").leader == 1
    heir.lose(1)
    heir.join(1, data=DataClaim(None, None, DataLoss.ALL))
    assert heir.state("t").leader == -1
