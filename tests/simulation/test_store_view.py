"""[I10], [I11] and [I12] are shown by the store's own history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.store import ANY_VERSION, Create, Delete, Op, SetData
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from simulation.store_view import InvariantViolation, Rules, StateChange, StoreView

TP = TopicPartition("t", 0)
STATE = znodes.state_path("t", 0)


def data(**fields: Any) -> bytes:
    value = {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "controller_epoch": 1, **fields}
    return json.dumps(value).encode()


def elect(epoch: int, broker_id: int = 1) -> list[Op]:
    return [
        Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, epoch), ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(epoch), epoch - 1),
    ]


TOPIC: list[Op] = [
    Create(znodes.topic_path("t"), znodes.encode_topic("id", [[1, 2, 3]])),
    Create(znodes.partition_path("t", 0), b""),
    Create(STATE, data()),
]


class Store:
    """A view over writes that tests make up."""

    def __init__(self) -> None:
        self.zookeeper = MemoryZooKeeper()
        self.view = StoreView(self.zookeeper, Rules(min_insync_replicas=2))
        self.write(7, [Create(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(0))])
        self.write(7, elect(1))
        self.write(7, TOPIC)

    def write(self, session: int, ops: list[Op]) -> None:
        """Apply a write."""
        self.zookeeper.writes.append((session, ops))
        self.view.update()

    def set(self, version: int = 0, session: int = 7, **fields: Any) -> None:
        """Write the partition's state over a version."""
        self.write(session, [SetData(STATE, data(**fields), version)])

    def refused(self, id: str, version: int = 0, session: int = 7, **fields: Any) -> None:
        """Expect that the same is a breach."""
        with pytest.raises(InvariantViolation) as caught:
            self.set(version, session, **fields)
        assert caught.value.id == id


def test_good_writes_pass() -> None:
    store = Store()
    changes: list[StateChange] = []
    store.view.on_change.append(changes.append)
    store.set(0, isr=[1, 2])
    store.set(1, isr=[1], elr=[2], broker_epochs={"1": 10, "2": 11})
    store.set(2, leader=2, leader_epoch=1, isr=[2])
    state = store.view.partitions[TP].state
    assert (state.leader, state.isr, state.version) == (2, (2,), 3)
    assert store.view.partitions[TP].leaders == {0: 1, 1: 2}
    assert [change.after.elr for change in changes] == [(), (2,), ()]
    assert changes[1].after.admitted_at(2) == 11
    assert changes[1].after.admitted_at(3) is None
    assert changes[2].before is changes[1].after
    assert not store.view.partitions[TP].unclean


@pytest.mark.parametrize(
    "fields",
    [
        {"isr": [2, 3]},
        {"isr": [1, 1]},
        {"isr": [1, 4]},
        {"isr": [1], "elr": [1]},
        {"isr": [1], "elr": [4]},
        {"isr": [1, 2], "elr": [3]},
        {"leader": -1, "isr": []},
    ],
)
def test_i10(fields: dict[str, Any]) -> None:
    Store().refused("I10", **fields)


def test_i11_epochs_do_not_fall() -> None:
    store = Store()
    store.set(0, leader_epoch=3)
    store.refused("I11", 1, leader_epoch=2)


def test_i11_an_epoch_has_one_leader() -> None:
    store = Store()
    store.refused("I11", leader=2)
    store = Store()
    store.set(0, leader=-1)
    store.refused("I11", 1, leader=2)


def test_i11_writes_are_conditional() -> None:
    Store().refused("I11", ANY_VERSION, isr=[1, 2])
    Store().refused("I11", 5, isr=[1, 2])


def test_i12_a_zombie_does_not_write() -> None:
    store = Store()
    store.write(8, elect(2))
    store.refused("I12", isr=[1, 2])


def test_i12_an_epoch_belongs_to_a_session() -> None:
    Store().refused("I12", session=8, isr=[1, 2])
    with pytest.raises(InvariantViolation):
        Store().write(8, elect(1))


def test_i12_controller_epochs_grow() -> None:
    store = Store()
    with pytest.raises(InvariantViolation) as caught:
        store.write(7, [SetData(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(1), 1)])
    assert caught.value.id == "I12"


MOVES: dict[str, Any] = {"replicas": [1, 2, 3, 4], "origin": [1, 2, 3], "target": [2, 3, 4]}


def test_replicas_are_those_that_the_state_names() -> None:
    store = Store()
    store.set(0, leader_epoch=1, isr=[1, 2, 3], **MOVES)
    store.set(1, leader_epoch=1, isr=[1, 2, 3, 4], **MOVES)
    store.set(2, leader=2, leader_epoch=2, isr=[2, 3, 4], replicas=[2, 3, 4], leaving=[1])
    store.set(3, leader=2, leader_epoch=2, isr=[2, 3, 4], replicas=[2, 3, 4])
    assert store.view.partitions[TP].replicas == (2, 3, 4)
    store.write(7, [SetData(znodes.topic_path("t"), znodes.encode_topic("id", [[1, 2, 3]] * 2), 0)])
    assert store.view.partitions[TP].replicas == (2, 3, 4), "the topic has grown"


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": [1, 2, 3, 3]},
        {"replicas": [1, 2, 3], "leaving": [3]},
        {"replicas": [1, 2, 3], "origin": [1, 2, 3]},
        {"replicas": [1, 2, 3], "origin": [1, 2, 3], "target": [4]},
        {"replicas": [1, 2, 3, 4], "origin": [1, 2, 3], "target": [4, 4]},
    ],
)
def test_m1_a_move_is_one(fields: dict[str, Any]) -> None:
    Store().refused("M1", leader_epoch=1, isr=[1, 2, 3], **fields)


@pytest.mark.parametrize("fields", [MOVES, {"replicas": [2, 1, 3]}, {"replicas": [1, 2, 3, 4]}])
def test_m2_a_move_has_an_epoch_of_its_own(fields: dict[str, Any]) -> None:
    Store().refused("M2", isr=[1, 2, 3], **fields)


def test_m4_replicas_that_are_added_do_not_count_for_min_isr() -> None:
    moves: dict[str, Any] = {"replicas": [1, 2], "origin": [1], "target": [2]}
    store = Store()
    store.set(0, leader_epoch=1, isr=[1], **moves)
    store.refused("I10", 1, leader_epoch=1, isr=[1], elr=[2], **moves)


def test_an_elr_stands_beside_as_many_as_writes_once_needed() -> None:
    store = Store()
    config = znodes.encode_config({"min_insync_replicas": "3"})
    store.write(7, [Create(znodes.config_path(TP.topic), config)])
    store.set(0, isr=[1, 2], elr=[3])
    Store().refused("I10", isr=[1, 2], elr=[3])


def test_unclean_elections_are_remembered() -> None:
    store = Store()
    store.set(0, isr=[1])
    store.set(1, leader=2, leader_epoch=1, isr=[2])
    store.set(2, leader=2, leader_epoch=1, isr=[2, 3])
    assert store.view.partitions[TP].unclean


def test_an_election_is_unclean_when_the_controller_says_so() -> None:
    store = Store()
    store.set(0, leader=-1, isr=[], last_known_elr=[1, 2])
    store.set(1, leader=2, leader_epoch=1, isr=[2])
    assert not store.view.partitions[TP].unclean
    store = Store()
    store.set(0, leader=-1, isr=[], last_known_elr=[1, 2])
    store.set(1, leader=2, leader_epoch=1, isr=[2], unclean_epoch=1)
    assert store.view.partitions[TP].unclean


def test_deleted_topics_are_forgotten() -> None:
    store = Store()
    store.set(0, leader_epoch=5)
    gone: list[Op] = [Delete(STATE), Delete(znodes.partition_path("t", 0))]
    store.write(7, [*gone, Delete(znodes.topic_path("t"))])
    assert not store.view.partitions
    store.write(7, [Create(znodes.topic_path("t"), znodes.encode_topic("new", [[2, 3]]))])
    store.write(7, [Create(STATE, data(leader=2, isr=[2, 3]))])
    assert store.view.partitions[TP].topic_id == "new"
    assert store.view.partitions[TP].replicas == (2, 3)
