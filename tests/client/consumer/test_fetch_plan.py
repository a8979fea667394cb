"""These tests check whom to ask for what, and what an answer means. No network."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.consumer.fetch_plan import (
    SHORT_WAIT_MS,
    FetchVerdict,
    RequestedPartition,
    last_batch,
    make_request,
    plan_fetches,
    rotate,
    take_answer,
)
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.core.cluster import ClusterMetadata
from oncelog_protocol.errors import ERRORS
from oncelog_protocol.messages.fetch import AbortedTransaction, EpochEnd, FetchPartitionResponse
from oncelog_protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition


def cluster_of(*leaders: int) -> ClusterMetadata:
    cluster = ClusterMetadata()
    partitions = [
        MetadataPartition(0, number, leader, 3, [1], [1], [])
        for number, leader in enumerate(leaders)
    ]
    brokers = [MetadataBroker(1, "h", 1), MetadataBroker(2, "h", 2)]
    topic = MetadataTopic(0, "t", "id", False, partitions)
    cluster.apply(MetadataResponse("c", 1, brokers, [topic]), ["t"])
    return cluster


def states_of(count: int) -> list[TopicPartitionState]:
    states = [TopicPartitionState(TopicPartition("t", number)) for number in range(count)]
    for state in states:
        state.seek(10)
    return states


def plan(states: list[TopicPartitionState], cluster: ClusterMetadata, **options: Any) -> Any:
    given: dict[str, Any] = {
        "now": 0.0,
        "busy": (),
        "wait_ms": 500,
        "partition_bytes": 100,
        "buffer_bytes": 1000,
        "buffered": sum(state.buffered for state in states),
    }
    return plan_fetches(states, cluster, **{**given, **options})


def test_each_leader_is_asked_for_its_partitions() -> None:
    states = states_of(4)
    plans, needs_metadata, wake_at = plan(states, cluster_of(1, 2, 1, -1))
    assert [(p.leader, [s.tp.partition for s in p.partitions]) for p in plans] == [
        (1, [0, 2]),
        (2, [1]),
    ]
    assert needs_metadata, "nobody leads the last one"
    assert wake_at is None
    assert all(p.wait_ms == 500 for p in plans)


def test_who_is_left_out() -> None:
    states = states_of(5)
    states[0].paused = True
    states[1].error = ValueError()
    states[2].offset = None
    states[3].retry_at = 9.0
    plans, _, wake_at = plan(states, cluster_of(1, 1, 1, 1, 2), busy=[2])
    assert plans == []
    assert wake_at == 9.0


def test_full_partitions_wait_and_let_nobody_wait_long_for_them() -> None:
    states = states_of(3)
    states[0].fetched(memoryview(bytes(100)), 20, 3)
    plans, _, _ = plan(states, cluster_of(1, 1, 2))
    assert [(p.leader, p.wait_ms) for p in plans] == [(1, SHORT_WAIT_MS), (2, 500)]
    assert [s.tp.partition for s in plans[0].partitions] == [1]


def test_nothing_is_fetched_while_too_much_is_held() -> None:
    plans, _, _ = plan(states_of(2), cluster_of(1, 2), buffered=1000)
    assert plans == []


def test_the_request_carries_positions_and_epochs() -> None:
    states = states_of(2)
    states[1].fetched(memoryview(bytes(5)), 15, 2)
    cluster = cluster_of(1, 1)
    plans, _, _ = plan(states, cluster)
    request, asked = make_request(
        plans[0], cluster, min_bytes=1, max_bytes=50, partition_bytes=7, isolation_level=1
    )
    (topic,) = request.topics
    assert [
        (p.partition, p.fetch_offset, p.max_bytes, p.leader_epoch, p.last_fetched_epoch)
        for p in topic.partitions
    ] == [(0, 10, 7, 3, -1), (1, 15, 7, 3, 2)]
    assert (request.replica_id, request.session_epoch, request.isolation_level) == (-1, -1, 1)
    assert [a.offset for a in asked] == [10, 15]


def answered(
    state: TopicPartitionState, answer: FetchPartitionResponse, payload: bytes = b""
) -> Any:
    asked = RequestedPartition(state, state.version, state.fetch_offset)
    return take_answer(asked, answer, memoryview(payload))


def test_records_are_kept_raw_and_move_only_the_fetch_offset() -> None:
    (state,) = states_of(1)
    state.trouble_since = 1.0
    first = bytes(encode_batch([b"a", b"b"], timestamps=0, base_offset=9, leader_epoch=4))
    second = bytes(encode_batch([b"c"], timestamps=0, base_offset=11, leader_epoch=5))
    payload = b"xx" + first + second + first[:30]
    answer = FetchPartitionResponse(0, 0, 20, 20, 2, Span(2, len(payload) - 2))
    assert answered(state, answer, payload) == (FetchVerdict.OK, None)
    assert bytes(state.chunks[0].data) == first + second, "the cut-off batch is left out"
    assert (state.offset, state.fetch_offset, state.fetch_epoch) == (10, 12, 5)
    assert (state.high_watermark, state.log_start_offset) == (20, 2)
    assert state.trouble_since is None


def test_what_was_asked_before_a_seek_is_ignored() -> None:
    (state,) = states_of(1)
    asked = RequestedPartition(state, state.version, state.fetch_offset)
    state.seek(10)
    verdict = take_answer(asked, FetchPartitionResponse(0, 1), memoryview(b""))
    assert verdict == (FetchVerdict.STALE, None)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("OFFSET_OUT_OF_RANGE", FetchVerdict.RESET),
        ("NOT_LEADER_OR_FOLLOWER", FetchVerdict.REFRESH),
        ("FENCED_LEADER_EPOCH", FetchVerdict.REFRESH),
        ("UNKNOWN_LEADER_EPOCH", FetchVerdict.REFRESH),
        ("UNKNOWN_TOPIC_OR_PARTITION", FetchVerdict.REFRESH),
        ("STORAGE_ERROR", FetchVerdict.REFRESH),
        ("CORRUPT_MESSAGE", FetchVerdict.RAISE),
        ("TOPIC_AUTHORIZATION_FAILED", FetchVerdict.RAISE),
        ("UNKNOWN_SERVER_ERROR", FetchVerdict.RAISE),
    ],
)
def test_errors(name: str, verdict: FetchVerdict) -> None:
    (state,) = states_of(1)
    code = next(code for code, cls in ERRORS.items() if cls.name == name)
    found, error = answered(state, FetchPartitionResponse(0, code))
    assert found is verdict
    assert error is not None
    assert error.code == code
    assert state.fetch_offset == 10


def test_divergence_uses_nothing_else_of_the_answer() -> None:
    (state,) = states_of(1)
    answer = FetchPartitionResponse(0, 0, 99, diverging=EpochEnd(2, 8))
    assert answered(state, answer) == (FetchVerdict.TRUNCATED, None)
    assert state.high_watermark == -1


def test_a_corrupt_first_header_is_kept_for_the_decoder_to_name() -> None:
    data = memoryview(bytes(80))
    assert last_batch(data, 10) == (80, 10, -1, 0)
    good = bytes(encode_batch([b"a"], timestamps=0, base_offset=10))
    assert last_batch(memoryview(good + bytes(80)), 10) == (len(good), 11, -1, 0)


def test_rotate() -> None:
    states = states_of(3)
    assert rotate(states, 4) == [states[1], states[2], states[0]]
    assert rotate([], 4) == []


def test_markers_and_aborted_transactions_make_a_sieve() -> None:
    batch = bytes(encode_batch([b"a"], timestamps=0, base_offset=10))
    marker = bytes(
        encode_marker(
            ControlType.COMMIT,
            producer_id=1,
            producer_epoch=1,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=11,
        )
    )
    for payload, aborted, has_one in (
        (batch, None, False),
        (batch, [], False),
        (batch, [AbortedTransaction(1, 3)], True),
        (batch + marker, None, True),
    ):
        (state,) = states_of(1)
        answer = FetchPartitionResponse(0, 0, 20, 20, 2, Span(0, len(payload)), None, aborted)
        assert answered(state, answer, payload) == (FetchVerdict.OK, None)
        assert (state.chunks[0].sieve is not None) is has_one
