"""The cluster's state answers lookups, and no write may break its invariants."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller.state import (
    BrokerRegistration,
    ClusterPartition,
    ClusterState,
    DataClaim,
    DataLoss,
    IllegalStateError,
    KeptPartitions,
    OutOfService,
    PartitionState,
    Placement,
    Tombstone,
    Topic,
    check_invariants,
)
from oncelog_controller.transitions import PartitionPhase, ReplicaPhase
from oncelog_protocol.messages.broker_states import DECOMMISSIONED, DECOMMISSIONING, DRAINING
from oncelog_protocol.messages.metadata import ACTIVE, ListenerAddress
from oncelog_protocol.topic_config import parse_topic_config
from support.controller_driver import registration


def topic(name: str, *leaders: int) -> Topic:
    made = Topic(name, "id", parse_topic_config({}))
    for index, leader in enumerate(leaders):
        state = PartitionState(leader, 0, (1, 2), 1, 0)
        made.partitions.append(ClusterPartition(made, index, (1, 2), state))
    return made


def test_lookups() -> None:
    cluster = ClusterState(1, 1, 1, topics={"b": topic("b", 1), "a": topic("a", 2, -1)})
    cluster.brokers = {2: registration(2, 20), 1: registration(1, 10)}
    names = [str(partition.topic_partition) for partition in cluster.partitions()]
    assert names == ["a-0", "a-1", "b-0"]
    assert cluster.partition("a", 1) is not None
    assert [cluster.partition(*key) for key in (("a", 2), ("a", -1), ("c", 0))] == [None] * 3
    assert [broker.broker_id for broker in cluster.live_brokers()] == [1, 2]
    assert cluster.leader_counts() == {1: 1, 2: 1}
    assert cluster.topics["a"].assignment() == [[1, 2], [1, 2]]


def test_who_may_join_an_isr_and_who_is_given_new_partitions() -> None:
    cluster = ClusterState(1, 1, 1, brokers={b: registration(b, b) for b in (1, 2, 3, 5, 6, 7)})
    cluster.suspected, cluster.shutting_down = {2}, {3}
    for broker_id, state in ((5, DRAINING), (6, DECOMMISSIONING), (7, DECOMMISSIONED)):
        cluster.take_out_of_service(broker_id, OutOfService(state, 0, ""))
    assert [b for b in range(1, 8) if cluster.may_join(b)] == [1, 5, 6, 7]
    assert [b for b in range(1, 8) if cluster.retires(b)] == [6, 7]
    assert cluster.places(1) == [1]
    assert cluster.places(2) == [1, 5], "there are too few others"
    assert cluster.places(3) == [1, 2, 3, 5], "whoever is there, but for those that leave"
    told = {broker.broker_id: broker.state for broker in cluster.live_brokers()}
    assert told[5] == DRAINING
    assert told[1] == cluster.service_of(9) == ACTIVE
    cluster.take_out_of_service(5, None)
    assert cluster.places(2) == [1, 5]


def test_listeners() -> None:
    addresses = (ListenerAddress("external", "h", 1), ListenerAddress("internal", "h", 2))
    broker = BrokerRegistration(1, 5, addresses, "r")
    assert broker.listener("internal") == addresses[1]
    assert broker.listener("nope") is None, "no other one is taken for it"
    assert broker.described().rack == "r"


def test_a_registered_broker_is_active_and_says_where_its_metrics_are() -> None:
    told = BrokerRegistration(1, 5, (), http="h:9").described()
    assert (told.state, told.http) == ("active", "h:9")
    assert BrokerRegistration(1, 5, ()).described().http == ""


def test_a_tombstone_is_done_when_all_replicas_are_gone() -> None:
    tombstone = Tombstone("t", "id", [[1]], {(0, 1): ReplicaPhase.DELETING})
    assert not tombstone.done
    tombstone.phases[0, 1] = ReplicaPhase.GONE
    assert tombstone.done


def test_what_a_registration_keeps() -> None:
    partition = ClusterPartition(Topic("t", "id", parse_topic_config({})), 0, (1,))

    def keeps(since: int | None, until: int | None, admitted: int | None) -> bool:
        claim = DataClaim(since, until, DataLoss.NONE if since is not None else DataLoss.TAIL)
        return BrokerRegistration(1, 50, (), data=claim).keeps(admitted, partition)

    assert keeps(10, 40, 10)
    assert keeps(10, 40, 40)
    assert keeps(10, None, 49)
    assert not keeps(10, 40, 9), "it was admitted before the loss"
    assert not keeps(10, 40, 41), "its directories are older than what the cluster remembers"
    assert not keeps(None, None, 49)
    assert keeps(None, None, 50), "admitted in this very life"
    assert not keeps(0, None, None), "never admitted"
    assert not BrokerRegistration(1, 50, ()).keeps(49, partition), "nothing said is nothing kept"


def test_what_a_registration_keeps_of_partitions_that_it_lists() -> None:
    topic = Topic("t", "id", parse_topic_config({}))
    claim = DataClaim(30, 40, DataLoss.NONE, (KeptPartitions(10, 40, {"id": frozenset([1, 2])}),))
    broker = BrokerRegistration(1, 50, (), data=claim)
    listed, other = ClusterPartition(topic, 1, (1,)), ClusterPartition(topic, 3, (1,))
    former = ClusterPartition(Topic("t", "former", parse_topic_config({})), 1, (1,))
    assert broker.keeps(10, listed)
    assert not broker.keeps(9, listed)
    assert not broker.keeps(41, listed)
    assert not broker.keeps(10, other)
    assert broker.keeps(30, other)
    assert not broker.keeps(10, former)


def of(leader: int, *isr: int, **changes: Any) -> PartitionState:
    members = (*isr, *changes.get("elr", ()), *changes.get("last_known_elr", ()))
    admitted = tuple(sorted((member, 5) for member in set(members)))
    fields: dict[str, Any] = {"admitted": admitted, **changes}
    return PartitionState(
        leader, fields.pop("epoch", 1), isr, 1, fields.pop("version", 1), **fields
    )


BAD_STATES: list[tuple[str, PartitionState, str]] = [
    ("twice", of(1, 1, 1), "listed twice"),
    ("no replica", of(1, 1, 9), "none of the replicas"),
    ("leader outside", of(2, 1), "not in the ISR"),
    ("leader of nothing", of(1), "not in the ISR"),
    ("ELR in the ISR", of(1, 1, elr=(1,)), "listed twice"),
    ("ELR is no replica", of(1, 1, elr=(9,)), "none of the replicas"),
    ("ELR beside a large ISR", of(1, 1, 2, elr=(3,)), "an ELR beside"),
    ("last known beside a large ISR", of(1, 1, 2, last_known_elr=(3,)), "an ELR beside"),
    ("unknown epochs", of(1, 1, admitted=()), "broker epochs"),
    ("epochs of others", of(1, 1, admitted=((1, 5), (2, 5))), "broker epochs"),
    ("an older leader epoch", of(1, 1, epoch=-1), "leader epoch below 0"),
    ("a second leader of the epoch", of(2, 2, epoch=0), "second leader"),
    ("a version left out", of(1, 1, version=2), "does not follow"),
    ("data lost", of(1, 1, admitted=((1, 3),)), "broker 1 has lost data"),
    ("data lost in the ELR", of(1, 1, elr=(2,), admitted=((1, 5), (2, 3))), "broker 2 has lost"),
]


@pytest.mark.parametrize(
    ("state", "fault"), [row[1:] for row in BAD_STATES], ids=[row[0] for row in BAD_STATES]
)
def test_states_that_may_not_exist(state: PartitionState, fault: str) -> None:
    made = Topic("t", "id", parse_topic_config({"min_insync_replicas": "2"}))
    partition = ClusterPartition(made, 0, (1, 2, 3), of(1, 1, 2, epoch=0, version=0))
    brokers = {b: registration(b, 9, data=DataClaim(4, None, DataLoss.NONE)) for b in (1, 2, 3)}
    check_invariants(partition, of(2, 1, 2), brokers)
    check_invariants(partition, of(1, 1, elr=(2, 3)), brokers)
    check_invariants(partition, of(-1, last_known_elr=(1,), admitted=((1, 3),)), brokers)
    with pytest.raises(IllegalStateError, match="t-0") as caught:
        check_invariants(partition, state, brokers)
    assert fault in str(caught.value)


def test_a_first_state_is_one() -> None:
    partition = ClusterPartition(topic("t", 1), 0, (1, 2))
    check_invariants(partition, of(1, 1, 2, epoch=0, version=0))
    with pytest.raises(IllegalStateError, match="no first state"):
        check_invariants(partition, of(1, 1, 2, version=3))


def test_an_older_controller_writes_nothing_after_a_newer_one() -> None:
    before = PartitionState(1, 0, (1,), 7, 0, admitted=((1, 5),))
    partition = ClusterPartition(topic("t", 1), 0, (1, 2), before)
    with pytest.raises(IllegalStateError, match="controller epoch below 7"):
        check_invariants(partition, of(1, 1, 2))


MOVING = Placement((1, 2, 3, 4), (1, 2, 3), (2, 3, 4), (5,), "plan")


def test_replicas_are_those_of_the_state() -> None:
    partition = ClusterPartition(topic("t"), 0, (1, 2, 3), phase=PartitionPhase.ONLINE)
    partition.take(of(1, 1, 2, epoch=0, version=0))
    assert partition.placement == Placement((1, 2, 3)), "an older release wrote it"
    entry = partition.leader_and_isr()
    assert (entry.replicas, entry.origin, entry.target) == ([1, 2, 3], None, None)
    partition.take(of(1, 1, 2, placement=MOVING))
    entry = partition.leader_and_isr()
    assert (entry.replicas, entry.origin, entry.target) == ([1, 2, 3, 4], [1, 2, 3], [2, 3, 4])
    assert partition.placement.holders == (1, 2, 3, 4, 5)
    partition.topic.partitions.append(partition)
    assert partition.topic.holders() == [[1, 2, 3, 4, 5]]


BAD_PLACEMENTS: dict[str, tuple[Placement, str]] = {
    "twice": (Placement((1, 2, 2)), "placed twice"),
    "leaves and stays": (Placement((1, 2, 3), leaving=(3,)), "placed twice"),
    "no end": (Placement((1, 2, 3), (1, 2, 3)), "cannot be"),
    "no beginning": (Placement((1, 2, 3), (), (1, 2)), "cannot be"),
    "an end without a replica": (Placement((1, 2, 3), (1, 2, 3), (4,)), "cannot be"),
    "a beginning without a replica": (Placement((1, 2), (1, 2, 3), (1, 2)), "cannot be"),
    "an end twice": (Placement((1, 2, 3), (1, 2), (3, 3)), "placed twice"),
    "nobody": (Placement(()), "no replicas"),
    "not the members": (Placement((1, 3, 4)), "none of the replicas"),
}


@pytest.mark.parametrize("name", BAD_PLACEMENTS)
def test_placements_that_may_not_exist(name: str) -> None:
    placement, fault = BAD_PLACEMENTS[name]
    partition = ClusterPartition(topic("t"), 0, (1, 2, 3), of(1, 1, 2, epoch=0, version=0))
    check_invariants(partition, of(1, 1, 2, placement=MOVING))
    with pytest.raises(IllegalStateError, match=fault):
        check_invariants(partition, of(1, 1, 2, placement=placement))


def test_other_replicas_begin_an_epoch() -> None:
    before = of(1, 1, 2, epoch=0, version=0)
    partition = ClusterPartition(topic("t"), 0, (1, 2, 3), before)
    check_invariants(partition, of(1, 1, 2, epoch=0, placement=Placement((1, 2, 3))))
    for placement in (MOVING, Placement((2, 1, 3)), Placement((1, 2))):
        check_invariants(partition, of(1, 1, 2, placement=placement))
        with pytest.raises(IllegalStateError, match="other replicas in epoch 0"):
            check_invariants(partition, of(1, 1, 2, epoch=0, placement=placement))


def test_those_who_have_left_need_no_epoch() -> None:
    gone, left = Placement((1, 2), leaving=(3, 4)), Placement((1, 2), leaving=(4,))
    before = of(1, 1, 2, epoch=0, version=0, placement=gone)
    partition = ClusterPartition(topic("t"), 0, (1, 2), before)
    check_invariants(partition, of(1, 1, 2, epoch=0, placement=left))


def test_replicas_that_are_added_do_not_count_for_min_isr() -> None:
    made = Topic("t", "id", parse_topic_config({"min_insync_replicas": "2"}))
    partition = ClusterPartition(made, 0, (1,), phase=PartitionPhase.ONLINE)
    partition.take(of(1, 1, epoch=0, version=0))
    added = Placement((1, 2), (1,), (1, 2))
    with pytest.raises(IllegalStateError, match="an ELR beside an ISR of 1"):
        check_invariants(partition, of(1, 1, elr=(2,), placement=added))
    partition.take(of(1, 1, placement=added))
    assert partition.min_isr == 1
    done = of(1, 1, elr=(2,), epoch=2, version=2, placement=Placement((1, 2)))
    check_invariants(partition, done)
    partition.take(done)
    assert partition.min_isr == 2


def test_min_isr_is_bounded_by_the_replicas() -> None:
    made = Topic("t", "id", parse_topic_config({"min_insync_replicas": "3"}))
    assert ClusterPartition(made, 0, (1, 2)).min_isr == 2
    assert ClusterPartition(made, 0, (1, 2, 3, 4)).min_isr == 3
