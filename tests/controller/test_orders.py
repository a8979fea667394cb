"""Bundles of orders: newer replaces older, nothing is forgotten, the sequence is right."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from oncelog_controller.order_sizes import ORDER_BYTES_MAX, entry_bytes
from oncelog_controller.orders import SLICE_PARTITIONS, Orders, Whole, bundle, is_slice, weight
from oncelog_controller.security_orders import SecurityOrder
from oncelog_protocol.frame import Frame, FrameReader, encode_frame
from oncelog_protocol.limits import FRAME_BYTES_MAX, HEAD_BYTES_MAX, TOPIC_CHARS_MAX
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopPartition,
    StopReplicaRequest,
    TopicOverrides,
    UpdateMetadataRequest,
)
from oncelog_protocol.messages.security import FULL, UpdateSecurityRequest
from oncelog_protocol.schema import decode, encode
from oncelog_protocol.types import TopicPartition

LIVE = [ClusterBroker(1, 10, []), ClusterBroker(2, 20, [])]


def order(
    topic: str, epoch: int, *, topic_id: str = "id", leader: int = 1, is_new: bool = False
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(topic, topic_id, 0, leader, epoch, [1], epoch, [1, 2], is_new)


def tell(
    *orders: LeaderAndIsrPartition, full: bool = False, live: list[ClusterBroker] = LIVE
) -> Orders:
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


def test_a_partition_stays_new_through_a_full_order() -> None:
    """A directory failed at a broker that had not heard of a new partition: it is told everything
    again, and must still make the replica, not miss it."""
    merged = tell(order("a", 0, is_new=True)).merged_with(tell(order("a", 0), full=True))
    assert merged.replicas is not None
    assert merged.replicas[TopicPartition("a", 0)].is_new
    other = tell(order("a", 0, is_new=True)).merged_with(
        tell(order("a", 0, topic_id="other"), full=True)
    )
    assert other.replicas is not None
    assert not other.replicas[TopicPartition("a", 0)].is_new
    gone = tell(order("a", 0, is_new=True)).merged_with(tell(full=True))
    assert gone.replicas == {}


def many(count: int) -> dict[TopicPartition, LeaderAndIsrPartition]:
    return {
        TopicPartition("t", index): LeaderAndIsrPartition(
            "t", "id", index, 1, 0, [1], 0, [1, 2], is_new=False
        )
        for index in range(count)
    }


def updates(orders: Orders, *, sliced: bool = True) -> list[UpdateMetadataRequest]:
    requests = orders.requests(1, 1, 1, sliced=sliced)
    return [request for request in requests if isinstance(request, UpdateMetadataRequest)]


def test_a_description_goes_in_slices() -> None:
    partitions = many(2 * SLICE_PARTITIONS + 1)
    configs = {
        f"c{n:04}": TopicOverrides(f"c{n:04}", 0, [], []) for n in range(SLICE_PARTITIONS + 1)
    }
    whole = Whole(partitions, configs)
    orders = Orders(LIVE, metadata=partitions, metadata_full=True, configs=configs, whole=whole)
    slices = updates(orders)
    assert [(len(u.partitions), len(u.configs)) for u in slices] == [
        (SLICE_PARTITIONS, SLICE_PARTITIONS),
        (SLICE_PARTITIONS, 1),
        (1, 0),
    ]
    assert [(u.full, u.first, u.last) for u in slices] == [
        (True, True, False),
        (True, False, False),
        (True, False, True),
    ]
    assert all(map(is_slice, slices))
    again = updates(orders)
    assert all(a.partitions is b.partitions for a, b in zip(slices, again, strict=True)), "shared"
    (plain,) = updates(orders, sliced=False)
    assert len(plain.partitions) == len(partitions)
    assert (plain.full, is_slice(plain)) == (True, False)


def test_a_small_or_empty_description_is_one_slice() -> None:
    for count in (0, 1, SLICE_PARTITIONS):
        (update,) = updates(Orders(LIVE, metadata=many(count), metadata_full=True))
        assert (update.full, update.first, update.last, len(update.partitions)) == (
            True,
            True,
            True,
            count,
        )
        assert not is_slice(update)


def test_what_changes_in_a_description_that_waits_is_in_it() -> None:
    partitions = many(SLICE_PARTITIONS + 1)
    whole = Whole(partitions, {})
    waiting = Orders(LIVE, metadata=partitions, metadata_full=True, whole=whole)
    assert waiting.merged_with(stop("x")).whole is whole
    name = TopicPartition("t", 3)
    newer = replace(partitions[name], leader=2, leader_epoch=1)
    merged = waiting.merged_with(Orders(LIVE, metadata={name: newer}))
    assert merged.whole is None
    assert updates(merged)[0].partitions[3].leader == 2
    assert partitions[name].leader == 1, "what others are told is left alone"
    later = merged.merged_with(waiting)
    assert later.whole is whole


def test_changes_are_made_once_for_all_brokers() -> None:
    partitions = many(SLICE_PARTITIONS + 2)
    gone = TopicPartition("t", SLICE_PARTITIONS + 1)
    partitions[gone] = replace(partitions[gone], leader=-2)
    changes = Whole(partitions, {})
    first, second, late = Orders(LIVE), Orders(LIVE), Orders(LIVE)
    for orders in (first, second, late):
        orders.add_changes(changes)
    name = TopicPartition("t", 3)
    late.add_changes(Whole({name: replace(partitions[name], leader=2)}, {}))
    told, same = updates(first), updates(second)
    assert [len(update.partitions) for update in told] == [SLICE_PARTITIONS, 2]
    assert told[0].partitions[0].leader == -2, "what is no more comes first"
    assert not any(update.full or is_slice(update) for update in told)
    assert all(a.partitions is b.partitions for a, b in zip(told, same, strict=True)), "shared"
    assert partitions[name].leader == 1, "what others are told is left alone"
    assert updates(late)[0].partitions[4].leader == 2
    merged = Orders(LIVE).merged_with(first)
    assert merged.whole is changes
    assert merged.merged_with(stop("x")).whole is changes
    assert merged.merged_with(late).whole is None


def test_what_changes_after_everything_was_told_keeps_the_settings() -> None:
    config = TopicOverrides("t", 0, ["retention_ms"], ["1"])
    whole = Whole({}, {"t": config})
    orders = Orders(LIVE, metadata={}, metadata_full=True, configs=whole.configs, whole=whole)
    orders.add_changes(Whole(many(1), {}))
    (update,) = updates(orders)
    assert (update.full, len(update.partitions), update.configs) == (True, 1, [config])


def test_slices_that_were_not_answered_stand_for_the_whole_description() -> None:
    partitions = many(3 * SLICE_PARTITIONS)
    orders = Orders(LIVE, metadata=partitions, metadata_full=True, whole=Whole(partitions, {}))
    unanswered = updates(orders)[1:]
    change = Orders(LIVE, metadata=dict(tell(order("a", 1)).metadata or {}))
    again = bundle([*unanswered, *change.requests(1, 1, 1)], orders.description())
    assert again is not None
    assert again.metadata_full
    assert again.metadata is not None
    assert len(again.metadata) == len(partitions) + 1


def test_long_orders_are_several() -> None:
    partitions = many(2 * SLICE_PARTITIONS + 1)
    requests = Orders(LIVE, replicas=dict(partitions), metadata=partitions).requests(1, 1, 1)
    assert [(type(r).__name__[:6], weight(r)) for r in requests] == [
        ("Leader", SLICE_PARTITIONS),
        ("Leader", SLICE_PARTITIONS),
        ("Leader", 1),
        ("Update", SLICE_PARTITIONS),
        ("Update", SLICE_PARTITIONS),
        ("Update", 1),
    ]
    (full,) = Orders(LIVE, replicas=dict(partitions), replicas_full=True).requests(1, 1, 1)
    assert weight(full) == len(partitions), "a full one says what else is stray"


def test_settings_of_many_topics_go_before_a_full_order() -> None:
    orders_of = [order(f"t{number:04}", 1) for number in range(SLICE_PARTITIONS + 1)]
    partitions = {TopicPartition(each.topic, 0): each for each in orders_of}
    configs = {tp.topic: TopicOverrides(tp.topic, 1, [], []) for tp in partitions}
    configs["elsewhere"] = TopicOverrides("elsewhere", 1, [], [])
    orders = Orders(LIVE, replicas=dict(partitions), replicas_full=True, configs=configs)
    requests = orders.requests(1, 1, 1)
    told = [
        (request.full, len(request.partitions), len(request.configs))
        for request in requests
        if isinstance(request, LeaderAndIsrRequest)
    ]
    assert told == [(False, 0, SLICE_PARTITIONS), (False, 0, 1), (True, SLICE_PARTITIONS + 1, 0)]
    again = bundle(requests)
    assert again is not None
    assert [*again.requests(1, 1, 1)] == requests
    first = bundle(requests[:1])
    assert first is not None
    assert first.requests(1, 1, 1) == requests[:1], "also alone"


def test_an_order_of_all_that_a_broker_may_have_fits_a_frame() -> None:
    name, factor = "n" * TOPIC_CHARS_MAX, 3
    count = ORDER_BYTES_MAX // entry_bytes(name, factor)
    assert count > 10_000
    members = list(range(2**31 - factor, 2**31))
    id_, last = str(UUID(int=1)), 2**31 - 1
    entry = LeaderAndIsrPartition(name, id_, last, last, last, members, last, members, False)
    brokers = [
        ClusterBroker(
            last - n, 2**63 - 1, [ListenerAddress("internal", "h" * 60, 9092)] * 2, http="h" * 60
        )
        for n in range(1000)
    ]
    orders = Orders(
        brokers,
        replicas={TopicPartition(name, number): entry for number in range(count)},
        replicas_full=True,
        configs={name: TopicOverrides(name, 1, ["retention_ms"], ["1"])},
    )
    (request,) = orders.requests(last, last, 2**63 - 1)
    newest = LeaderAndIsrRequest.versions[1]
    wire = b"".join(encode_frame([encode(request, newest)]))
    assert ORDER_BYTES_MAX * 0.9 < len(wire) < HEAD_BYTES_MAX
    (frame,) = received(wire)
    assert decode(LeaderAndIsrRequest, frame.head[0], newest) == request


def received(wire: bytes) -> list[Frame]:
    """Return what the other end takes."""
    reader, frames = FrameReader(frame_bytes_max=FRAME_BYTES_MAX, reuse=False), list[Frame]()
    while wire:
        buffer = reader.get_buffer(len(wire))
        size = min(len(buffer), len(wire))
        buffer[:size] = wire[:size]
        frames += reader.received(size)
        wire = wire[size:]
    return frames


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
    orders.configs = {name: TopicOverrides(name, 1, [], []) for name in ("b", "a")}
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


def test_what_brokers_decide_by_goes_before_all_else() -> None:
    orders = tell(order("a", 1)).merged_with(Orders([], security=SecurityOrder(2, 3, {})))
    assert orders.live_brokers == LIVE
    assert names(orders)[0] == "UpdateSecurityRequest"
    alone = Orders([], security=SecurityOrder(2, 3, {}))
    assert not alone.empty
    (request,) = alone.requests(1, 7, 30)
    assert isinstance(request, UpdateSecurityRequest)
    assert (request.controller_epoch, request.broker_epoch) == (7, 30)
    again = bundle([request])
    assert again is not None
    assert again.security is not None
    assert (again.security.base, again.security.version) == (2, 3)
    assert again.metadata is None
    assert again.replicas is None


def test_slices_of_security_do_not_bring_back_an_older_description_of_the_cluster() -> None:
    partitions = many(2 * SLICE_PARTITIONS)
    whole = Orders(LIVE, metadata=partitions, metadata_full=True, whole=Whole(partitions, {}))
    described = whole.description().merged_with(Orders([], security=SecurityOrder(FULL, 3, {})))
    slices = [
        UpdateSecurityRequest(1, 1, 1, FULL, 3, [], first, not first) for first in (True, False)
    ]
    again = bundle(slices[1:], described)
    assert again is not None
    assert again.metadata is None
    assert again.security is described.security
    both = bundle([*updates(whole)[1:], *slices], described)
    assert both is not None
    assert both.metadata_full
    assert both.security is described.security
