"""The metadata image takes full and partial updates, deletions, recreations and configs."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.metadata_image import DELETED_LEADER, MetadataImage
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.metadata import ClusterBroker, ListenerAddress
from oncelog_protocol.messages.replication import (
    BrokerOverrides,
    LeaderAndIsrPartition,
    TopicOverrides,
    UpdateMetadataRequest,
)
from oncelog_protocol.schema import decode, encode
from oncelog_protocol.types import TopicPartition


def order(
    topic: str, partition: int, leader: int = 1, topic_id: str = "id"
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(topic, topic_id, partition, leader, 3, [1, 2], 5, [1, 2], False)


def update(
    *partitions: LeaderAndIsrPartition,
    full: bool = False,
    configs: list[TopicOverrides] | None = None,
) -> UpdateMetadataRequest:
    brokers = [
        ClusterBroker(2, 20, [ListenerAddress("internal", "b", 2)]),
        ClusterBroker(1, 10, [ListenerAddress("internal", "a", 1)]),
    ]
    return UpdateMetadataRequest(1, 4, 10, full, list(partitions), brokers, configs or [])


def test_a_partial_update_changes_what_it_names() -> None:
    image = MetadataImage("c")
    image.apply(update(order("t", 0), order("t", 1), full=True))
    image.apply(update(order("t", 1, leader=2)))
    assert [p.leader for p in image.topics["t"].partitions.values()] == [1, 2]
    known = image.partition(TopicPartition("t", 1))
    assert known is not None
    assert known.leader == 2
    assert image.partition(TopicPartition("t", 2)) is None
    assert image.partition(TopicPartition("u", 0)) is None
    assert (image.controller_id, image.controller_epoch) == (1, 4)
    assert list(image.brokers) == [1, 2]


@pytest.mark.parametrize(
    ("version", "told"), [(0, ("active", "")), (2, ("active", "")), (3, ("draining", "h:9"))]
)
def test_controllers_of_older_releases_say_nothing_of_states(
    version: int, told: tuple[str, str]
) -> None:
    """They take no broker out of service."""
    sent = update(order("t", 0), full=True)
    sent.live_brokers = [ClusterBroker(1, 10, [], "rack", "draining", "h:9")]
    image = MetadataImage("c")
    image.apply(decode(UpdateMetadataRequest, encode(sent, version), version))
    assert (image.brokers[1].state, image.brokers[1].http) == told
    assert image.topics["t"].partitions[0] == order("t", 0)


def test_only_an_update_makes_it_known() -> None:
    image = MetadataImage("c")
    image.note_controller(1, 1, [])
    before = image.updated
    image.apply(update(full=True))
    assert (before, image.updated) == (False, True)


def test_a_full_update_replaces_everything() -> None:
    image = MetadataImage("c")
    image.apply(
        update(order("old", 0), full=True, configs=[TopicOverrides("old", 1, ["a"], ["b"])])
    )
    image.apply(update(order("new", 0), full=True))
    assert list(image.topics) == ["new"]
    assert image.overrides("old") == {}


def test_a_deleted_partition_goes_only_from_the_topic_that_is_meant() -> None:
    image = MetadataImage("c")
    image.apply(update(order("t", 0, topic_id="second"), full=True))
    image.apply(update(order("t", 0, leader=DELETED_LEADER, topic_id="first")))
    assert "t" in image.topics
    image.apply(update(order("t", 0, leader=DELETED_LEADER, topic_id="second")))
    assert "t" not in image.topics


def test_a_recreated_topic_begins_empty() -> None:
    image = MetadataImage("c")
    image.apply(update(order("t", 0), order("t", 1), full=True))
    image.apply(update(order("t", 0, topic_id="other")))
    assert list(image.topics["t"].partitions) == [0]


def test_topics_that_come_and_go_are_told_from_partitions_that_change() -> None:
    image = MetadataImage("c")
    seen = []
    for orders in (
        [order("t", 0)],
        [order("t", 0, leader=2), order("t", 1)],
        [order("t", 0, topic_id="other")],
        [order("t", 0, leader=DELETED_LEADER, topic_id="other")],
    ):
        image.apply(update(*orders))
        seen.append(image.topics_version)
    assert seen == [1, 1, 2, 3]
    image.apply(update(full=True))
    assert image.topics_version == 4


def test_configs_that_changed_are_reported_once() -> None:
    image = MetadataImage("c")
    config = TopicOverrides("t", 1, ["retention_ms"], ["5"])
    assert image.apply(update(order("t", 0), configs=[config])) == [config]
    assert image.overrides("t") == {"retention_ms": "5"}
    assert image.apply(update(configs=[config])) == []
    newer = TopicOverrides("t", 2, [], [])
    assert image.apply(update(configs=[newer])) == [newer]
    assert image.overrides("t") == {}
    image.apply(update(configs=[config]))
    (reset,) = image.apply(update(order("t", 0), full=True))
    assert (reset.topic, reset.keys) == ("t", [])


def test_addresses_and_change_callbacks() -> None:
    image = MetadataImage("c")
    heard: list[int] = []
    image.on_change.append(lambda: heard.append(image.version))
    image.apply(update(full=True))
    assert heard == [image.version]
    address = image.address(2, "internal")
    assert address is not None
    assert (address.host, address.port) == ("b", 2)
    assert image.address(2, "external") is None
    assert image.address(9, "internal") is None


def test_what_is_set_for_brokers_stays_until_others_come() -> None:
    image = MetadataImage("c")
    one = [BrokerOverrides(-1, 0, ["log_level"], ["debug"])]
    for given, known in ((None, []), (one, one), (None, one), ([], [])):
        update = UpdateMetadataRequest(1, 4, 10, True, [], [], broker_configs=given)
        image.apply(update)
        assert image.broker_configs == known


def piece(
    *partitions: LeaderAndIsrPartition, first: bool = False, last: bool = False, **more: Any
) -> Any:
    found = update(*partitions, full=True, **more)
    found.first, found.last = first, last
    return found


def test_a_whole_image_in_slices_replaces_the_old_one_with_the_last() -> None:
    image = MetadataImage("c")
    image.apply(
        update(order("old", 0), full=True, configs=[TopicOverrides("old", 1, ["k"], ["v"])])
    )
    version = image.version
    config = TopicOverrides("b", 1, ["k"], ["v"])
    assert image.apply(piece(order("a", 0), first=True)) == []
    assert image.apply(piece(order("a", 1), order("b", 0), configs=[config])) == []
    assert (list(image.topics), image.version) == (["old"], version)
    changed = image.apply(piece(order("b", 1), last=True))
    assert changed == [TopicOverrides("old", 1, [], []), config]
    assert {name: sorted(topic.partitions) for name, topic in image.topics.items()} == {
        "a": [0, 1],
        "b": [0, 1],
    }
    assert image.overrides("b") == {"k": "v"}
    assert image.version == version + 1


def test_a_description_that_begins_anew_forgets_what_came_before() -> None:
    image = MetadataImage("c")
    image.apply(piece(order("a", 0), first=True))
    image.apply(piece(order("b", 0), first=True))
    image.apply(piece(last=True))
    assert list(image.topics) == ["b"]


def test_a_slice_without_those_before_it_is_refused() -> None:
    image = MetadataImage("c")
    with pytest.raises(InvalidRequestError):
        image.apply(piece(order("a", 0), last=True))
    image.apply(piece(order("a", 0), first=True))
    other = piece(order("b", 0), last=True)
    other.controller_epoch += 1
    with pytest.raises(InvalidRequestError):
        image.apply(other)
    assert not image.updated


def test_an_image_is_of_one_cluster() -> None:
    image = MetadataImage()
    image.begin("c")
    image.begin("c")
    with pytest.raises(ValueError, match="of cluster c, not of d"):
        image.begin("d")
    assert image.cluster_id == "c"
