"""Bundles of orders: newer replaces older, nothing is forgotten, the sequence is right."""

from __future__ import annotations

from dataclasses import replace

from oncelog_controller.orders import Orders, bundle
from oncelog_protocol.messages.metadata import ClusterBroker
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrRequest,
    PartitionOrder,
    StopPartition,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from oncelog_protocol.types import TopicPartition

LIVE = [ClusterBroker(1, 10, []), ClusterBroker(2, 20, [])]


def order(
    topic: str, epoch: int, *, topic_id: str = "id", leader: int = 1, is_new: bool = False
) -> PartitionOrder:
    return PartitionOrder(topic, topic_id, 0, leader, epoch, [1], epoch, [1, 2], is_new)


def tell(*orders: PartitionOrder, full: bool = False, live: list[ClusterBroker] = LIVE) -> Orders:
    listed = {TopicPartition(o.topic, o.partition): o for o in orders}
    return Orders(
        live, replicas=dict(listed), replicas_full=full, metadata=dict(listed), metadata_full=full
    )


def stop(topic: str, topic_id: str = "id", *, delete: bool = True) -> Orders:
    wanted = StopPartition(topic, topic_id, 0, -2, delete)
    return Orders(LIVE, stops={(TopicPartition(topic, 0), topic_id): wanted})


def names(orders: Orders) -> list[str]:
    return [type(request).__name__ for request in orders.requests(1, 2, 3)]


def test_the_newest_order_of_a_partition_counts() -> None:
    merged = tell(order("a", 1), order("b", 1)).merged_with(tell(order("a", 2)))
    leader_and_isr, update = merged.requests(1, 7, 30)
    assert isinstance(leader_and_isr, LeaderAndIsrRequest)
    assert isinstance(update, UpdateMetadataRequest)
    assert [(p.topic, p.leader_epoch) for p in leader_and_isr.partitions] == [("a", 2), ("b", 1)]
    assert (leader_and_isr.controller_epoch, leader_and_isr.broker_epoch) == (7, 30)
    assert update.live_brokers == LIVE


def test_a_full_order_replaces_all_and_stays_full() -> None:
    merged = tell(order("a", 1)).merged_with(tell(order("b", 1), full=True))
    merged = merged.merged_with(tell(order("c", 1)))
    first = merged.requests(1, 1, 1)[0]
    assert isinstance(first, LeaderAndIsrRequest)
    assert first.full
    assert [p.topic for p in first.partitions] == ["b", "c"]


def test_a_partition_stays_new_until_it_was_heard_of() -> None:
    merged = tell(order("a", 0, is_new=True)).merged_with(tell(order("a", 1)))
    assert merged.replicas is not None
    assert merged.replicas[TopicPartition("a", 0)] == replace(order("a", 1), is_new=True)


def test_a_stop_takes_back_an_earlier_start() -> None:
    merged = tell(order("a", 1), order("b", 1)).merged_with(stop("a"))
    assert merged.replicas is not None
    assert [name.topic for name in merged.replicas] == ["b"]
    assert names(merged) == ["LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaRequest"]


def test_a_deletion_outlives_a_full_order_that_went_out_behind_it() -> None:
    """A topic was deleted and made anew while the broker was down; its first answer is an error."""
    orders = tell(order("a", 0, topic_id="new"), full=True).merged_with(stop("a", "old"))
    again = bundle(orders.requests(1, 1, 1))
    assert again is not None
    assert names(again) == names(orders)
    assert again.stops == orders.stops
    assert not stop("a", delete=False).merged_with(tell(full=True)).stops


def test_a_start_takes_back_an_earlier_stop_that_keeps_data() -> None:
    assert not stop("a", delete=False).merged_with(tell(order("a", 1))).stops
    assert stop("a", delete=True).merged_with(tell(order("a", 1))).stops


def test_a_topic_made_anew_is_started_after_the_old_one_stopped() -> None:
    merged = stop("a", "old").merged_with(tell(order("a", 0, topic_id="new")))
    assert names(merged)[0] == "StopReplicaRequest"
    other = tell(order("a", 0, topic_id="new")).merged_with(stop("a", "old"))
    assert names(other)[0] == "StopReplicaRequest"
    assert other.replicas, "the stop is of another topic id"


def test_deleted_partitions_are_listed_first() -> None:
    gone = replace(order("b", 3), leader=-2)
    update = tell(order("a", 1), gone).requests(1, 1, 1)[1]
    assert isinstance(update, UpdateMetadataRequest)
    assert [p.topic for p in update.partitions] == ["b", "a"]


def test_settings_travel_with_those_whom_they_concern() -> None:
    orders = tell(order("a", 1))
    orders.configs = {name: TopicConfig(name, 1, [], []) for name in ("b", "a")}
    leader_and_isr, update = orders.requests(1, 1, 1)
    assert isinstance(leader_and_isr, LeaderAndIsrRequest)
    assert isinstance(update, UpdateMetadataRequest)
    assert [c.topic for c in leader_and_isr.configs] == ["a"]
    assert [c.topic for c in update.configs] == ["a", "b"]
    newer = Orders(LIVE, metadata={}, metadata_full=True, configs={})
    assert orders.merged_with(newer).configs == {}


def test_nothing_to_say() -> None:
    assert Orders(LIVE).empty
    assert Orders(LIVE, replicas={}).requests(1, 1, 1) == []
    assert not Orders(LIVE, metadata={}).empty


def test_unanswered_requests_become_a_bundle_again() -> None:
    orders = tell(order("a", 1), full=True).merged_with(stop("z"))
    requests = orders.requests(1, 1, 1)
    again = bundle(requests)
    assert again is not None
    assert again.requests(1, 1, 1) == requests
    assert bundle([]) is None


def test_what_came_since_goes_over_what_was_not_answered() -> None:
    sent = tell(order("a", 1), order("b", 1)).requests(1, 1, 1)
    older = bundle(sent)
    assert older is not None
    newest = [ClusterBroker(2, 20, [])]
    merged = older.merged_with(tell(order("a", 2), live=newest))
    assert merged.replicas is not None
    assert [o.leader_epoch for o in merged.replicas.values()] == [2, 1]
    assert merged.live_brokers == newest


def test_live_brokers_survive_a_bundle_that_knows_none() -> None:
    stops = bundle([StopReplicaRequest(1, 1, 1, [StopPartition("z", "id", 0, -2, True)])])
    assert stops is not None
    assert tell(order("a", 1)).merged_with(stops).live_brokers == LIVE


def set_for_all(version: int) -> list[BrokerOverrides]:
    return [BrokerOverrides(-1, version, ["log_level"], ["debug"])]


def test_what_is_set_for_brokers_stays_until_others_come() -> None:
    older = Orders(LIVE, metadata={}, broker_configs=set_for_all(1))
    assert older.merged_with(tell(order("a", 1))).broker_configs == set_for_all(1)
    newer = Orders(LIVE, metadata={}, broker_configs=[])
    assert older.merged_with(newer).broker_configs == []
    (update,) = older.requests(1, 1, 1)
    assert isinstance(update, UpdateMetadataRequest)
    assert update.broker_configs == set_for_all(1)
    (silent,) = Orders(LIVE, metadata={}).requests(1, 1, 1)
    assert isinstance(silent, UpdateMetadataRequest)
    assert silent.broker_configs is None


def test_what_was_not_answered_is_sent_again_with_what_is_set_for_brokers() -> None:
    first = Orders(LIVE, metadata={}, broker_configs=set_for_all(1)).requests(1, 1, 1)
    again = bundle([*first, *tell(order("a", 1)).requests(1, 1, 1)])
    assert again is not None
    assert again.broker_configs == set_for_all(1)
