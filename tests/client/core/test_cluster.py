"""Metadata answers are merged: never back to an older leader, never trusted blindly."""

from __future__ import annotations

import pytest

from oncelog.config import Address
from oncelog.core.cluster import ClusterMetadata, topic_error
from oncelog.errors import (
    InvalidTopicError,
    RebootstrapRequiredError,
    RemoteProtocolError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)
from oncelog_protocol.types import TopicPartition

TP = TopicPartition("t", 0)


def answer(
    leader: int = 1, epoch: int = 0, *, topic_id: str = "id", count: int = 1, code: int = 0
) -> MetadataResponse:
    partitions = [
        MetadataPartition(0, number, leader, epoch, [1, 2], [1], []) for number in range(count)
    ]
    return MetadataResponse(
        "c",
        2,
        [MetadataBroker(2, "h", 2), MetadataBroker(1, "h", 1, "r1")],
        [MetadataTopic(code, "t", topic_id, False, [] if code else partitions)],
    )


def test_an_answer_fills_the_view() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(leader=1, epoch=3, count=2), ["t"])
    assert list(cluster.brokers) == [1, 2]
    assert cluster.brokers[1].address == Address("h", 1)
    assert cluster.brokers[1].rack == "r1"
    assert cluster.controller_id == 2
    assert (cluster.leader(TP), cluster.leader_epoch(TP)) == (1, 3)
    assert list(cluster.topic_partitions("t")) == [TP, TopicPartition("t", 1)]
    assert cluster.available("t") == [0, 1]
    assert cluster.version == 1


def test_the_first_cluster_is_held_on_to() -> None:
    cluster = ClusterMetadata()
    assert cluster.identity(1) == Identity("", 1)
    cluster.apply(answer(), ["t"])
    assert cluster.identity(1) == Identity("c", 1)
    stranger = answer(leader=2, epoch=9)
    stranger.cluster_id = "d"
    with pytest.raises(RebootstrapRequiredError, match="expected cluster 'c', found cluster 'd'"):
        cluster.apply(stranger, ["t"])
    assert (cluster.leader(TP), cluster.version) == (1, 1)
    cluster.leave()
    cluster.apply(stranger, ["t"])
    assert cluster.identity() == Identity("d")


def test_an_older_leader_epoch_changes_nothing() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(leader=2, epoch=5), ["t"])
    cluster.apply(answer(leader=1, epoch=4), ["t"])
    assert cluster.leader(TP) == 2
    cluster.apply(answer(leader=-1, epoch=5), ["t"])
    assert cluster.leader(TP) == -1
    assert cluster.available("t") == []


def test_a_topic_made_anew_begins_anew() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(leader=2, epoch=5, count=3), ["t"])
    cluster.apply(answer(leader=1, epoch=0, topic_id="other"), ["t"])
    assert cluster.leader(TP) == 1
    assert cluster.topics["t"].partition_count == 1


def test_partitions_never_go_away() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(epoch=1, count=3), ["t"])
    cluster.apply(answer(epoch=1, count=1), ["t"])
    assert cluster.topics["t"].partition_count == 3


def test_a_topic_missing_from_one_brokers_view_stays_usable() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(), ["t"])
    cluster.apply(answer(code=UnknownTopicOrPartitionError.code), ["t"])
    assert isinstance(cluster.errors["t"], UnknownTopicOrPartitionError)
    assert cluster.leader(TP) == 1
    cluster.apply(answer(), ["t"])
    assert not cluster.errors


def test_an_illegal_topic_is_forgotten() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(), ["t"])
    cluster.apply(answer(code=InvalidTopicError.code), ["t"])
    assert cluster.partition(TP) is None
    assert cluster.leader(TP) == -1
    assert cluster.leader_epoch(TP) == -1


def test_a_full_answer_without_the_topic_says_that_it_is_gone() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(), None)
    cluster.apply(MetadataResponse("c", 1, [MetadataBroker(1, "h", 1)]), None)
    assert isinstance(cluster.errors["t"], UnknownTopicOrPartitionError)


def test_an_answer_without_brokers_does_not_empty_the_view() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(), ["t"])
    cluster.apply(MetadataResponse("c", -1), ["t"])
    assert list(cluster.brokers) == [1, 2]


def test_unknown_partitions() -> None:
    cluster = ClusterMetadata()
    cluster.apply(answer(), ["t"])
    assert cluster.partition(TopicPartition("t", 7)) is None
    assert cluster.partition(TopicPartition("u", 0)) is None
    assert cluster.available("u") == []


@pytest.mark.parametrize("number", [-1, 2**31 - 1])
def test_a_hostile_partition_number_is_refused_before_anything_changes(number: int) -> None:
    cluster = ClusterMetadata()
    response = answer()
    response.topics[0].partitions[0].partition = number
    with pytest.raises(RemoteProtocolError):
        cluster.apply(response, ["t"])
    assert cluster.version == 0


def test_errors_name_the_topic() -> None:
    assert "'x'" in str(topic_error("x", InvalidTopicError.code))
    assert "'x'" in str(topic_error("x", -1))
