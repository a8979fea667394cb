"""Answers refuse with errors where the API has them."""

from __future__ import annotations

import pytest

from oncelog.errors import NotLeaderOrFollowerError, StorageError, UnknownTopicOrPartitionError
from oncelog_protocol import schema
from oncelog_protocol.messages import admin, fetch, groups, metadata, offsets, produce, transactions
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.schema import Span
from oncelog_testing.answers import api_key, error_class, refuse, refuse_topics, topics_of

PRODUCE = produce.ProduceRequest(
    None,
    -1,
    1000,
    [
        produce.ProduceTopic("a", [produce.ProducePartition(n, Span(n, 1)) for n in (0, 1)]),
        produce.ProduceTopic("b", [produce.ProducePartition(7, Span(2, 1))]),
    ],
)
FETCH = fetch.FetchRequest(
    -1, -1, 10, 1, 1024, 0, -1, [fetch.FetchTopic("a", [fetch.FetchPartition(3, 5, 1024)])]
)
LIST_OFFSETS = offsets.ListOffsetsRequest(
    0, [offsets.ListOffsetsTopic("a", [offsets.ListOffsetsPartition(1, -1)])]
)
EPOCHS = offsets.OffsetForLeaderEpochRequest(
    [offsets.EpochQueryTopic("a", [offsets.EpochQuery(2, 0, 0)])]
)


@pytest.mark.parametrize(
    ("request_", "partitions"),
    [
        (PRODUCE, {"a": [0, 1], "b": [7]}),
        (FETCH, {"a": [3]}),
        (LIST_OFFSETS, {"a": [1]}),
        (EPOCHS, {"a": [2]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_partition_has_the_error(request_: Request, partitions: dict[str, list[int]]) -> None:
    response = refuse(request_, NotLeaderOrFollowerError)
    assert response.error_code == 0
    assert {t.topic: [p.partition for p in t.partitions] for t in response.topics} == partitions
    assert {p.error_code for t in response.topics for p in t.partitions} == {6}
    assert schema.encode(response, 0), "it can be sent"


@pytest.mark.parametrize(
    "request_",
    [
        admin.CreateTopicsRequest([admin.CreatableTopic("a", 1, 1)], 1000),
        admin.DeleteTopicsRequest(["a"], 1000),
        admin.CreatePartitionsRequest([admin.PartitionGrowth("a", 2)], 1000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_topic_has_the_error(request_: Request) -> None:
    response = refuse(request_, StorageError)
    assert response.error_code == 0
    assert [(t.topic, t.error_code) for t in response.topics] == [("a", StorageError.code)]


def test_everything_else_is_refused_at_its_head() -> None:
    for request in (
        groups.HeartbeatRequest("g", 1, "m", None),
        groups.FindCoordinatorRequest("g"),
        transactions.InitPidRequest("t", 1000),
    ):
        assert refuse(request, StorageError).error_code == StorageError.code


def test_what_is_never_answered_is_not_refused() -> None:
    assert refuse(produce.ProduceRequest(None, 0, 1000, []), StorageError) is None


def test_metadata_keeps_its_brokers() -> None:
    def topic(name: str) -> metadata.MetadataTopic:
        partition = metadata.MetadataPartition(0, 0, 1, 0, [1], [1], [])
        return metadata.MetadataTopic(0, name, "id", False, [partition])

    brokers = [metadata.MetadataBroker(1, "localhost", 1)]
    response = metadata.MetadataResponse("c", 1, brokers, [topic("a"), topic("b")])
    refused = refuse_topics(response, UnknownTopicOrPartitionError, "b")
    assert refused.brokers == brokers
    found = [(t.topic, t.error_code, len(t.partitions)) for t in refused.topics]
    assert found == [("a", 0, 1), ("b", 3, 0)]
    everywhere = refuse_topics(response, UnknownTopicOrPartitionError, None)
    assert [t.error_code for t in everywhere.topics] == [3, 3]
    assert [t.error_code for t in response.topics] == [0, 0], "a broker keeps its answers"


def test_topics_of_requests() -> None:
    assert topics_of(PRODUCE) == {"a", "b"}
    assert topics_of(metadata.MetadataRequest(["x"])) == {"x"}
    assert topics_of(metadata.MetadataRequest(None)) == set()
    assert topics_of(groups.HeartbeatRequest("g", 1, "m", None)) == set()


def test_apis_and_errors_by_name() -> None:
    assert api_key("produce") is api_key("Produce") is api_key(ApiKey.PRODUCE) is ApiKey.PRODUCE
    assert api_key("offset-commit") is ApiKey.OFFSET_COMMIT
    with pytest.raises(ValueError, match="'produse' is not an API; did you mean 'produce'"):
        api_key("produse")
    for like in (StorageError, StorageError("text"), "STORAGE_ERROR", "storage_error", 56):
        assert error_class(like) is StorageError
    with pytest.raises(ValueError, match="did you mean 'STORAGE_ERROR'"):
        error_class("STORAGE_EROR")
    with pytest.raises(ValueError, match="4711 is not an error"):
        error_class(4711)
