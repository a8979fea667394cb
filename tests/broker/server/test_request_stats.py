"""Requests are counted once each, errors by code, and made-up APIs not at all."""

from __future__ import annotations

from oncelog_broker.server.request_stats import UNKNOWN_API, RequestStats
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.messages.metadata import MetadataResponse
from oncelog_protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
)


def test_apis_that_nobody_knows_share_one_count() -> None:
    stats = RequestStats()
    for key in (9999, -7, 2**15, 9999):
        stats.count_start(key)
    assert [(each.key, each.started, each.name) for each in stats.all()] == [
        (UNKNOWN_API, 4, "Unknown")
    ]


def test_names_are_those_of_the_protocol() -> None:
    stats = RequestStats()
    assert stats.of(ApiKey.PRODUCE).name == "Produce"
    assert stats.of(int(ApiKey.LEADER_AND_ISR)).name == "LeaderAndIsr"
    assert stats.of(ApiKey.PRODUCE) is stats.of(0)


def test_errors_of_whole_requests_and_of_partitions() -> None:
    stats = RequestStats()
    produce, fetch, metadata = (
        stats.of(key) for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)
    )
    bad = [
        ProducePartitionResponse(0, 6),
        ProducePartitionResponse(1),
        ProducePartitionResponse(2, 6),
    ]
    produce.count_answer(ProduceResponse(0, [ProduceTopicResponse("t", bad)]), None)
    produce.count_answer(ProduceResponse(35), None)
    fetch.count_answer(
        FetchResponse(0, [FetchTopicResponse("t", [FetchPartitionResponse(0, 1)])]), None
    )
    metadata.count_answer(MetadataResponse("", -1), None)
    assert produce.errors == {6: 2, 35: 1}
    assert fetch.errors == {1: 1}
    assert metadata.errors == {}
    assert [stats.answered for stats in (produce, fetch, metadata)] == [2, 1, 1]


def test_an_answer_without_message_is_counted_and_its_latency_where_it_was_measured() -> None:
    stats = RequestStats().count_start(ApiKey.PRODUCE)
    stats.count_answer(None, None)
    assert (stats.answered, stats.latency.count) == (1, 0)
    stats.count_answer(None, 0.25)
    assert (stats.answered, stats.latency.count, stats.errors) == (2, 1, {})


def test_what_waits() -> None:
    stats = RequestStats()
    for _ in range(4):
        fetch = stats.count_start(ApiKey.FETCH)
    fetch.count_answer(None, None)
    fetch.count_drop()
    assert fetch.waiting == 2
