"""These handlers of ListOffsets and OffsetForLeaderEpoch are given a table of questions."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.offsets import (
    ListOffsetsHandler,
    OffsetForLeaderEpochHandler,
)
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.offsets import (
    EpochAnswer,
    EpochQuery,
    EpochQueryTopic,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
)
from oncelog_protocol.types import Acks, TopicPartition
from support.replicas import NOW_MS, batch_of
from support.replication_cluster import Cluster, Node, call
from support.server import DenyAll
from support.waiting import eventually

TP = TopicPartition("t", 0)


def ask(
    node: Node,
    timestamp: int,
    *,
    epoch: int = -1,
    partition: int = 0,
    isolation: int = 0,
    authorizer: Any = None,
) -> ListOffsetsPartitionResponse:
    handler = ListOffsetsHandler(node.replicas, authorizer or AllowAllAuthorizer())
    request = ListOffsetsRequest(
        isolation, [ListOffsetsTopic("t", [ListOffsetsPartition(partition, timestamp, epoch)])]
    )
    answer: ListOffsetsPartitionResponse = call(handler, request).message.topics[0].partitions[0]
    return answer


def ask_epoch(
    node: Node, epoch: int, *, current: int = -1, partition: int = 0, authorizer: Any = None
) -> EpochAnswer:
    handler = OffsetForLeaderEpochHandler(node.replicas, authorizer or AllowAllAuthorizer())
    request = OffsetForLeaderEpochRequest(
        [EpochQueryTopic("t", [EpochQuery(partition, current, epoch)])]
    )
    answer: EpochAnswer = call(handler, request).message.topics[0].partitions[0]
    return answer


async def two_epochs(cluster: Cluster) -> Node:
    """Write offsets 0 and 1 in epoch 0, 2 in epoch 1, a second apart, and commit all."""
    for epoch in range(2):
        cluster.lead(TP, 1)
        for number in range(2 - epoch):
            partition = cluster[1].partition(TP)
            stamp_ms = NOW_MS + 1000 * (epoch * 2 + number)
            append = partition.append_as_leader(
                batch_of(b"v", timestamp_ms=stamp_ms), Acks.ALL, 0.0
            )
            assert append.base_offset == epoch * 2 + number
    await cluster.produced(TP, b"end")
    return cluster[1]


@pytest.mark.parametrize(
    ("timestamp", "offset", "stamp_ms"),
    [
        (-2, 0, -1),
        (-1, 4, -1),
        (-3, 2, NOW_MS + 2000),
        (0, 0, NOW_MS),
        (NOW_MS, 0, NOW_MS),
        (NOW_MS + 1, 1, NOW_MS + 1000),
        (NOW_MS + 2000, 2, NOW_MS + 2000),
        (NOW_MS + 2001, -1, -1),
    ],
)
async def test_list_offsets(timestamp: int, offset: int, stamp_ms: int) -> None:
    async with Cluster() as cluster:
        node = await two_epochs(cluster)
        answer = ask(node, timestamp)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, stamp_ms)


async def test_uncommitted_records_are_not_listed() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        cluster[2].cut()
        cluster.produce(TP, b"b")
        assert ask(cluster[1], -1).offset == 1
        assert ask(cluster[1], -1, isolation=1).offset == 1
        assert ask(cluster[1], NOW_MS).offset == 0


async def test_a_new_leader_that_may_know_too_low_an_end_says_so() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        for broker_id in (1, 3):
            cluster[broker_id].cut()
        cluster[2].partition(TP).high_watermark = 0  # it has not heard of more
        cluster.lead(TP, 2)
        code = OffsetNotAvailableError.code
        assert ask(cluster[2], -1).error_code == code
        assert ask(cluster[2], NOW_MS).error_code == code
        assert (ask(cluster[2], -2).error_code, ask(cluster[2], -2).offset) == (0, 0)
        for broker_id in (1, 3):
            cluster[broker_id].reachable = True
        await eventually(lambda: ask(cluster[2], -1).error_code == 0)
        assert ask(cluster[2], -1).offset == 1


@pytest.mark.parametrize(
    ("epoch", "code"), [(1, 0), (0, FencedLeaderEpochError.code), (2, UnknownLeaderEpochError.code)]
)
async def test_questions_are_fenced(epoch: int, code: int) -> None:
    async with Cluster() as cluster:
        node = await two_epochs(cluster)
        assert ask(node, -1, epoch=epoch).error_code == code
        assert ask_epoch(node, 0, current=epoch).error_code == code


async def test_who_does_not_lead_does_not_answer() -> None:
    async with Cluster() as cluster:
        await two_epochs(cluster)
        assert ask(cluster[2], -1).error_code == NotLeaderOrFollowerError.code
        assert ask(cluster[1], -1, partition=9).error_code == UnknownTopicOrPartitionError.code
        assert ask_epoch(cluster[2], 0).error_code == NotLeaderOrFollowerError.code


async def test_bad_questions() -> None:
    async with Cluster() as cluster:
        node = await two_epochs(cluster)
        assert ask(node, -4).error_code == InvalidRequestError.code
        with pytest.raises(InvalidRequestError):
            ask(node, -1, isolation=2)
        refused = TopicAuthorizationFailedError.code
        assert ask(node, -1, authorizer=DenyAll()).error_code == refused
        assert ask_epoch(node, 0, authorizer=DenyAll()).error_code == refused


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, (0, 2)), (1, (1, 4)), (2, (-1, -1)), (-1, (-1, -1)), (2**31 - 1, (-1, -1))],
)
async def test_where_epochs_end(epoch: int, expected: tuple[int, int]) -> None:
    async with Cluster() as cluster:
        node = await two_epochs(cluster)
        answer = ask_epoch(node, epoch)
        assert answer.error_code == 0
        assert (answer.leader_epoch, answer.end_offset) == expected
