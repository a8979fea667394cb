"""Whole brokers have shared transactions: several writers, one commit that names the winners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    InvalidRequestError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.messages.shared_transactions import (
    ORDINAL_KEY,
    BeginSharedTxnRequest,
    EndSharedTxnRequest,
    EndSharedTxnResponse,
    JoinTxnRequest,
    JoinTxnResponse,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    DescribeTransactionsRequest,
)
from oncelog_protocol.messages.transactions import EndTxnRequest
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_producer import HandProducer, call_coordinator, end_offset, read
from support.waiting import eventually

SETTINGS: dict[str, Any] = {"transaction_state_log_num_partitions": 3, "min_insync_replicas": 2}
NAME = "job"


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        yield cluster


async def begin(cluster: Cluster) -> int:
    response = await call_coordinator(cluster, ORDINAL_KEY, BeginSharedTxnRequest())
    assert response.error_code == 0
    ordinal: int = response.ordinal
    return ordinal


async def join(
    cluster: Cluster, ordinal: int, tag: int, writer: str, *, timeout_ms: int = 60_000
) -> tuple[JoinTxnResponse, HandProducer]:
    request = JoinTxnRequest(NAME, ordinal, tag, writer, timeout_ms)
    response: JoinTxnResponse = await call_coordinator(cluster, NAME, request)
    made = HandProducer(cluster, NAME)
    made.adopt(response.producer_id, response.producer_epoch)
    return response, made


async def writer(cluster: Cluster, ordinal: int, tag: int, name: str, **more: Any) -> HandProducer:
    response, made = await join(cluster, ordinal, tag, name, **more)
    assert response.error_code == 0
    return made


async def end(
    cluster: Cluster, ordinal: int, tag: int, commit: bool, *winners: int
) -> EndSharedTxnResponse:
    request = EndSharedTxnRequest(NAME, ordinal, tag, commit, list(winners))
    response: EndSharedTxnResponse = await call_coordinator(cluster, NAME, request)
    return response


async def decided(cluster: Cluster, *ends: int) -> list[list[bytes | None]]:
    """Return what read_committed sees of partitions 0, 1, ... once all is decided."""
    async with asyncio.timeout(15):
        for partition, last in enumerate(ends):
            while await end_offset(cluster, "t", partition, committed=True) != last:
                await asyncio.sleep(0.01)
    return [(await read(cluster, "t", partition)).values for partition in range(len(ends))]


async def test_winners_are_seen_and_nobody_else(cluster: Cluster) -> None:
    ordinal = await begin(cluster)
    names = ["task-0", "task-1", "task-1 again"]
    first, second, again = [await writer(cluster, ordinal, 5, name) for name in names]
    assert len({each.producer_id for each in (first, second, again)}) == 3
    assert (await first.send("t", 0, b"0")).error_code == 0
    assert (await first.send("t", 1, b"0")).error_code == 0
    assert (await second.send("t", 0, b"1 half")).error_code == 0
    assert (await again.send("t", 0, b"1")).error_code == 0
    assert (await again.send("t", 2, b"1")).error_code == 0
    assert (await read(cluster, "t", 0)).values == []
    done = await end(cluster, ordinal, 5, True, first.producer_id, again.producer_id)
    assert (done.error_code, done.committed, done.already) == (0, True, False)
    assert await decided(cluster, 6, 2, 2) == [[b"0", b"1"], [b"0"], [b"1"]]
    assert (await second.send("t", 0, b"late")).error_code
    assert (await first.send("t", 0, b"late")).error_code
    done = await end(cluster, ordinal, 5, True, first.producer_id, again.producer_id)
    assert (done.error_code, done.committed, done.already) == (0, True, True)
    done = await end(cluster, ordinal, 5, False)
    assert (done.committed, done.already) == (True, True)
    assert await decided(cluster, 6, 2, 2) == [[b"0", b"1"], [b"0"], [b"1"]]


async def test_a_tag_is_committed_once(cluster: Cluster) -> None:
    for tag in (3, 4):
        ordinal = await begin(cluster)
        made = await writer(cluster, ordinal, tag, "w")
        assert (await made.send("t", 0, b"%d" % tag)).error_code == 0
        assert (await end(cluster, ordinal, tag, True, made.producer_id)).committed
    ordinal = await begin(cluster)
    for tag in (2, 3, 4):
        response, _ = await join(cluster, ordinal, tag, "w")
        assert response.error_code == TransactionAlreadyCommittedError.code
        assert response.last_committed_tag == 4
    assert (await writer(cluster, ordinal, 5, "w")).producer_id >= 0
    assert await decided(cluster, 4) == [[b"3", b"4"]]


async def test_a_newer_owner_fences_the_older_one(cluster: Cluster) -> None:
    older, newer = await begin(cluster), await begin(cluster)
    assert newer > older
    old = await writer(cluster, older, 1, "w")
    assert (await old.send("t", 0, b"old")).error_code == 0
    new = await writer(cluster, newer, 1, "w")
    assert new.producer_id != old.producer_id
    assert (await old.send("t", 1, b"old")).error_code
    assert (await join(cluster, older, 1, "x"))[0].error_code == ProducerFencedError.code
    fenced = await end(cluster, older, 1, True, old.producer_id)
    assert fenced.error_code == ProducerFencedError.code
    assert (await new.send("t", 0, b"new")).error_code == 0
    assert (await end(cluster, newer, 1, True, new.producer_id)).committed
    assert await decided(cluster, 4) == [[b"new"]]


async def test_time_is_up(cluster: Cluster) -> None:
    ordinal = await begin(cluster)
    made = await writer(cluster, ordinal, 1, "w", timeout_ms=300)
    assert (await made.send("t", 0, b"slow")).error_code == 0
    assert await decided(cluster, 2) == [[]]
    late = await end(cluster, ordinal, 1, True, made.producer_id)
    assert late.error_code == ProducerFencedError.code
    assert (await join(cluster, ordinal, 1, "x"))[0].error_code == ProducerFencedError.code


async def test_refusals(cluster: Cluster) -> None:
    ordinal = await begin(cluster)
    made = await writer(cluster, ordinal, 1, "w")
    assert (await writer(cluster, ordinal, 1, "w")).producer_id == made.producer_id, "a repeat"
    response, _ = await join(cluster, ordinal, 2, "w")
    assert response.error_code == InvalidTxnStateError.code
    foreign = await end(cluster, ordinal, 1, True, made.producer_id, 10**9)
    assert foreign.error_code == InvalidRequestError.code
    assert (await HandProducer(cluster, NAME).init()).error_code == InvalidTxnStateError.code
    request = EndTxnRequest(NAME, made.producer_id, made.epoch, True)
    plain = await call_coordinator(cluster, NAME, request)
    assert plain.error_code == InvalidTxnStateError.code
    assert (await end(cluster, ordinal, 1, False)).error_code == 0


async def test_the_coordinator_dies_after_the_decision(cluster: Cluster) -> None:
    ordinal = await begin(cluster)
    writers = [await writer(cluster, ordinal, 7, f"w{number}") for number in range(6)]
    for number, each in enumerate(writers):
        assert (await each.send("t", number % 3, b"%d" % number)).error_code == 0
    winners = [each.producer_id for each in writers if each is not writers[1]]
    coordinator = cluster.leader(TRANSACTION_TOPIC, coordinator_partition(NAME, 3))
    assert (await end(cluster, ordinal, 7, True, *winners)).committed
    await cluster.crash_broker(coordinator)
    await everybody_knows(cluster)
    assert await decided(cluster, 4, 4, 4) == [[b"0", b"3"], [b"4"], [b"2", b"5"]]
    done = await end(cluster, ordinal, 7, True, *winners)
    assert (done.error_code, done.committed, done.already) == (0, True, True)
    response, _ = await join(cluster, await begin(cluster), 7, "w")
    assert response.error_code == TransactionAlreadyCommittedError.code


async def everybody_knows(cluster: Cluster) -> None:
    """Wait until every partition is led by somebody who lives."""

    def known() -> bool:
        return any(broker.runner.is_active for broker in cluster.brokers.values()) and all(
            (order := broker.image.partition(TopicPartition(topic, number))) is not None
            and order.leader in cluster.brokers
            for broker in cluster.brokers.values()
            for topic in ("t", TRANSACTION_TOPIC)
            for number in range(3)
        )

    await eventually(known, timeout_s=15)


async def test_it_is_described(cluster: Cluster) -> None:
    ordinal = await begin(cluster)
    made = await writer(cluster, ordinal, 3, "w")
    assert (await made.send("t", 2, b"v")).error_code == 0
    coordinator = cluster.leader(TRANSACTION_TOPIC, coordinator_partition(NAME, 3))
    response = await cluster.call(coordinator, DescribeTransactionsRequest([NAME]))
    (told,) = response.transactions
    assert isinstance(told, DescribedTransaction)
    assert (told.error_code, told.shared, told.ordinal, told.tag) == (0, True, ordinal, 3)
    assert (told.state, told.last_committed_tag) == ("Ongoing", -1)
    assert [(w.writer, w.producer_id) for w in told.writers] == [("w", made.producer_id)]
    assert [(t.topic, t.partitions) for t in told.topics] == [("t", [2])]
