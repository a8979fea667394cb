"""Whole brokers have transactions: all or none of what was written, whoever dies meanwhile.

The producer is one by hand, so that every request can be repeated, held back and forged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    TransactionAbortableError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages.admin import DeleteTopicsRequest
from oncelog_protocol.messages.transaction_admin import (
    AbortTransactionRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from oncelog_protocol.messages.transactions import TxnMarker, TxnTopic, WriteTxnMarkersRequest
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, TopicPartition
from support.cluster import Cluster
from support.hand_producer import (
    HandProducer,
    committed_offset,
    end_offset,
    read,
)
from support.waiting import eventually

SETTINGS: dict[str, Any] = {
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "min_insync_replicas": 2,
}


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        yield cluster


def of(cluster: Cluster, key: str) -> int:
    """Return the broker that coordinates a transactional id."""
    count = SETTINGS["transaction_state_log_num_partitions"]
    return cluster.leader(TRANSACTION_TOPIC, coordinator_partition(key, count))


async def producer(cluster: Cluster, name: str = "a", **more: Any) -> HandProducer:
    made = HandProducer(cluster, name, **more)
    assert (await made.init()).error_code == 0
    return made


async def all_values(cluster: Cluster, *, committed: bool = True) -> dict[int, list[Any]]:
    return {p: (await read(cluster, "t", p, committed=committed)).values for p in range(3)}


async def markers_are_there(cluster: Cluster, **ends: int) -> None:
    """Wait until the last stable offset of each partition (p0=...) is at its end."""
    async with asyncio.timeout(10):
        for name, end in ends.items():
            while await end_offset(cluster, "t", int(name[1:]), committed=True) != end:
                await asyncio.sleep(0.01)


async def test_a_commit_shows_all_at_once(cluster: Cluster) -> None:
    p = await producer(cluster)
    for number in range(3):
        assert (await p.send("t", number, b"x%d" % number, b"y%d" % number)).error_code == 0
    assert await all_values(cluster) == {0: [], 1: [], 2: []}
    assert await all_values(cluster, committed=False) == {
        n: [b"x%d" % n, b"y%d" % n] for n in range(3)
    }
    assert await end_offset(cluster, "t", 0, committed=True) == 0
    assert await end_offset(cluster, "t", 0, committed=False) == 2
    first = p.producer_id, p.epoch
    assert (await p.end(True)).error_code == 0
    assert (p.producer_id, p.epoch) == (first[0], first[1] + 1)
    await markers_are_there(cluster, p0=3, p1=3, p2=3)
    assert await all_values(cluster) == {n: [b"x%d" % n, b"y%d" % n] for n in range(3)}
    seen = await read(cluster, "t", 0)
    assert (seen.control, seen.high_watermark, seen.last_stable_offset) == (1, 3, 3)
    assert seen.aborted == []


async def test_an_abort_shows_nothing_and_is_named(cluster: Cluster) -> None:
    p = await producer(cluster)
    other = await producer(cluster, "b")
    pid = p.producer_id
    assert (await p.send("t", 0, b"no")).error_code == 0
    assert (await other.send("t", 0, b"yes")).error_code == 0
    assert (await p.send("t", 0, b"no")).error_code == 0
    assert (await p.end(False)).error_code == 0
    assert (await other.end(True)).error_code == 0
    await markers_are_there(cluster, p0=5)
    seen = await read(cluster, "t", 0)
    assert seen.values == [b"yes"]
    assert seen.aborted == [(pid, 0)]
    assert (await read(cluster, "t", 0, committed=False)).values == [b"no", b"yes", b"no"]
    assert (await read(cluster, "t", 0, offset=4)).aborted == []


async def test_one_transaction_after_the_other(cluster: Cluster) -> None:
    p = await producer(cluster)
    expected = []
    for number in range(12):
        value = b"%d" % number
        for partition in (0, number % 3):
            assert (await p.send("t", partition, value)).error_code == 0
        commit = number % 4 != 3
        assert (await p.end(commit)).error_code == 0
        if commit:
            expected += [value] * (1 + (number % 3 == 0))
    async with asyncio.timeout(10):
        while (await read(cluster, "t", 0)).values != expected:
            await asyncio.sleep(0.01)


async def test_a_late_produce_touches_no_later_transaction(cluster: Cluster) -> None:
    p = await producer(cluster)
    pid, epoch = p.producer_id, p.epoch
    refusals = (
        InvalidProducerEpochError.code,
        ProducerFencedError.code,
        TransactionAbortableError.code,
    )
    assert (await p.send("t", 0, b"first")).error_code == 0
    for _ in range(3):
        assert (await p.end(True)).error_code == 0
        late = await p.send("t", 0, b"late", epoch=epoch, sequence=1)
        assert late.error_code in refusals
        elsewhere = await p.send("t", 1, b"late", epoch=epoch, sequence=0)
        assert elsewhere.error_code in refusals
        assert (await p.send("t", 0, b"next")).error_code == 0
        again = await p.send("t", 0, b"late", epoch=epoch, sequence=1)
        assert again.error_code == InvalidProducerEpochError.code
    assert (await p.end(True)).error_code == 0
    assert p.producer_id == pid
    await markers_are_there(cluster, p0=8)
    assert (await read(cluster, "t", 0)).values == [b"first", b"next", b"next", b"next"]
    assert (await read(cluster, "t", 1, committed=False)).values == []


async def test_a_late_end_touches_no_later_transaction(cluster: Cluster) -> None:
    p = await producer(cluster)
    olds: list[int] = []
    for number in range(4):
        assert (await p.send("t", 0, b"%d" % number)).error_code == 0
        for epoch in olds[:-1]:
            for commit in (True, False):
                late = await p.repeat_end(commit, p.producer_id, epoch)
                assert late.error_code == ProducerFencedError.code
        if olds:  # the last one is a repeat of what was decided, and is answered so
            again = await p.repeat_end(number % 2 == 0, p.producer_id, olds[-1])
            refused = await p.repeat_end(number % 2 == 1, p.producer_id, olds[-1])
            codes = {again.error_code, refused.error_code}
            assert codes <= {ProducerFencedError.code, InvalidTxnStateError.code, 0}
        olds.append(p.epoch)
        assert (await read(cluster, "t", 0)).values == [b"%d" % n for n in range(0, number, 2)]
        assert (await p.end(number % 2 == 0)).error_code == 0
        await markers_are_there(cluster, p0=2 * (number + 1))


async def test_a_repeated_end_is_answered_alike(cluster: Cluster) -> None:
    p = await producer(cluster)
    old = p.producer_id, p.epoch
    assert (await p.send("t", 0, b"v")).error_code == 0
    first = await p.end(True)
    again = await p.repeat_end(True, *old)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (
        0,
        first.producer_id,
        first.producer_epoch,
    )
    assert (await p.repeat_end(False, *old)).error_code == InvalidTxnStateError.code
    await markers_are_there(cluster, p0=2)
    assert (await p.repeat_end(True, *old)).error_code == 0
    assert (await read(cluster, "t", 0)).values == [b"v"]


async def test_a_newer_instance_fences_the_older_one(cluster: Cluster) -> None:
    old = await producer(cluster)
    assert (await old.send("t", 0, b"old")).error_code == 0
    new = await producer(cluster)
    assert (new.producer_id, new.epoch > old.epoch) == (old.producer_id, True)
    assert (await old.send("t", 1, b"old")).error_code == ProducerFencedError.code
    assert (await old.send("t", 0, b"old")).error_code in (
        ProducerFencedError.code,
        InvalidProducerEpochError.code,
    )
    assert (await old.end(True)).error_code == ProducerFencedError.code
    assert await old.send_offset("g", "t", 0, 1) == ProducerFencedError.code
    assert (await new.send("t", 0, b"new")).error_code == 0
    assert (await new.end(True)).error_code == 0
    await markers_are_there(cluster, p0=4)
    assert (await read(cluster, "t", 0)).values == [b"new"]


async def test_time_is_up_and_the_producer_goes_on(cluster: Cluster) -> None:
    p = await producer(cluster, timeout_ms=300)
    assert (await p.send("t", 0, b"slow")).error_code == 0
    await markers_are_there(cluster, p0=2)
    abortable = TransactionAbortableError.code, InvalidProducerEpochError.code
    assert (await p.send("t", 0, b"more")).error_code in abortable
    assert (await p.send("t", 1, b"more")).error_code == TransactionAbortableError.code
    assert await p.send_offset("g", "t", 0, 5) == TransactionAbortableError.code
    late = await p.end(True)
    assert late.error_code == TransactionAbortableError.code
    assert (await p.end(False)).error_code == 0
    assert (await p.send("t", 0, b"next")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=4)
    assert (await read(cluster, "t", 0)).values == [b"next"]


async def test_a_producer_that_was_timed_out_may_begin_anew(cluster: Cluster) -> None:
    """[K10]: it is not taken for a zombie, unless there is a newer one."""
    p = await producer(cluster, timeout_ms=300)
    assert (await p.send("t", 0, b"slow")).error_code == 0
    await markers_are_there(cluster, p0=2)
    pair = p.producer_id, p.epoch
    again = await p.init(producer_id=pair[0], producer_epoch=pair[1])
    assert (again.error_code, again.producer_id) == (0, pair[0])
    assert (await p.send("t", 0, b"next")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await producer(cluster)
    refused = await p.init(producer_id=pair[0], producer_epoch=pair[1])
    assert refused.error_code == ProducerFencedError.code
    await markers_are_there(cluster, p0=4)
    assert (await read(cluster, "t", 0)).values == [b"next"]


async def test_empty_transactions(cluster: Cluster) -> None:
    p = await producer(cluster)
    assert (await p.end(True)).error_code == InvalidTxnStateError.code
    assert (await p.end(False)).error_code == 0
    assert (await p.send("t", 0, b"v")).error_code == 0
    assert (await p.end(True)).error_code == 0
    assert (await p.end(False)).error_code == 0
    assert (await p.end(False)).error_code == 0
    assert (await p.send("t", 0, b"w")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=4)
    assert (await read(cluster, "t", 0)).values == [b"v", b"w"]


async def test_offsets_are_the_groups_when_the_transaction_commits(cluster: Cluster) -> None:
    p = await producer(cluster)
    assert await p.send_offset("g", "t", 0, 5) == 0
    assert await committed_offset(cluster, "g", "t") == (UnstableOffsetCommitError.code, -1)
    assert await committed_offset(cluster, "g", "t", stable=False) == (0, -1)
    assert (await p.send("t", 0, b"v")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=2)
    await is_stable(cluster, 5)
    assert await p.send_offset("g", "t", 0, 9) == 0
    assert (await p.end(False)).error_code == 0
    await is_stable(cluster, 5)
    assert await p.send_offset("g", "t", 0, 7) == 0, "offsets alone"
    assert (await p.end(True)).error_code == 0
    await is_stable(cluster, 7)


async def is_stable(cluster: Cluster, offset: int) -> None:
    async with asyncio.timeout(10):
        while (found := await committed_offset(cluster, "g", "t"))[0]:
            assert found[0] == UnstableOffsetCommitError.code
            await asyncio.sleep(0.01)
    assert found == (0, offset)


async def test_refusals_of_produce(cluster: Cluster) -> None:
    p = await producer(cluster)
    refused = [
        (await p.send("t", 0, b"v", acks=1), InvalidRequiredAcksError),
        (await p.send("t", 0, b"v", acks=0 + 1, transactional=False), InvalidRequiredAcksError),
        (await p.send("t", 0, b"v", transactional=False), InvalidRequestError),
        (await p.send("t", 0, b"v", transactional_id=None), InvalidRequestError),
        (await p.send("t", 0, b"v", transactional_id=""), InvalidRequestError),
        (await p.send("t", 0, b"v", transactional_id="__ordinals"), InvalidRequestError),
        (await p.send("t", 0, b"v", epoch=p.epoch + 1), ProducerFencedError),
        (await p.send("t", 0, b"v", producer_id=10**12), InvalidProducerIdMappingError),
        (await p.send("t", 0, b"v", transactional_id="nobody"), InvalidProducerIdMappingError),
        (await p.send("t", 0, b"v", sequence=3), OutOfOrderSequenceNumberError),
    ]
    for answer, error in refused:
        assert answer.error_code == error.code
    assert (await read(cluster, "t", 0, committed=False)).values == []
    assert (await p.send("t", 0, b"v")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=2)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_time_out_that_cannot_be(cluster: Cluster, timeout_ms: int) -> None:
    made = HandProducer(cluster, "a", timeout_ms)
    assert (await made.init()).error_code == InvalidTransactionTimeoutError.code


@pytest.mark.parametrize("how", ["stopped", "crashed"])
async def test_the_coordinator_goes_and_the_transaction_stays(cluster: Cluster, how: str) -> None:
    p = await producer(cluster)
    for number in range(3):
        assert (await p.send("t", number, b"v")).error_code == 0
    if how == "stopped":
        await cluster.stop_broker(of(cluster, "a"))
    else:
        await cluster.crash_broker(of(cluster, "a"))
    await leaders_are_known(cluster)
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=2, p1=2, p2=2)
    assert (await p.send("t", 0, b"w")).error_code == 0
    assert (await p.end(False)).error_code == 0
    await markers_are_there(cluster, p0=4)
    assert await all_values(cluster) == {0: [b"v"], 1: [b"v"], 2: [b"v"]}


async def leaders_are_known(cluster: Cluster) -> None:
    """Wait until every partition of t is led by somebody who lives, and all know so."""

    def known() -> bool:
        if not any(broker.runner.is_active for broker in cluster.brokers.values()):
            return False
        return all(
            (order := broker.image.partition(TopicPartition("t", number))) is not None
            and order.leader in cluster.brokers
            for broker in cluster.brokers.values()
            for number in range(3)
        )

    await eventually(known, timeout_s=15)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_leader_dies_in_an_open_transaction(cluster: Cluster, commit: bool) -> None:
    p = await producer(cluster)
    for number in range(3):
        assert (await p.send("t", number, b"v")).error_code == 0
    await cluster.crash_broker(cluster.leader("t", 0))
    await leaders_are_known(cluster)
    assert await end_offset(cluster, "t", 0, committed=True) == 0, "the new leader knows of it"
    assert (await p.send("t", 0, b"w")).error_code == 0
    assert (await p.end(commit)).error_code == 0
    await markers_are_there(cluster, p0=3, p1=2, p2=2)
    expected = {0: [b"v", b"w"], 1: [b"v"], 2: [b"v"]}
    nothing: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    assert await all_values(cluster) == (expected if commit else nothing)


async def test_a_partition_that_is_down_holds_up_only_itself(tmp_path: Path) -> None:
    settings = {**SETTINGS, "min_insync_replicas": 1}
    async with Cluster(tmp_path, 3, **settings) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=1)
        p, other = await producer(cluster), await producer(cluster, "b")
        down = next(n for n in range(3) if cluster.leader("t", n) != of(cluster, "a"))
        up = next(n for n in range(3) if n != down)
        for number in range(3):
            assert (await p.send("t", number, b"v")).error_code == 0
        broker = cluster.leader("t", down)
        await cluster.stop_broker(broker)
        assert (await p.end(True)).error_code == 0
        await markers_are_there(cluster, **{f"p{up}": 2})
        assert (await read(cluster, "t", up)).values == [b"v"]
        parked = await p.send("t", up, b"next")
        assert parked.error_code == ConcurrentTransactionsError.code
        assert (await other.send("t", up, b"other")).error_code == 0
        assert (await other.end(True)).error_code == 0
        await markers_are_there(cluster, **{f"p{up}": 4})
        await cluster.start_broker(broker)
        await eventually(lambda: cluster.leader("t", down) == broker, timeout_s=10)
        await markers_are_there(cluster, **{f"p{down}": 2})
        assert (await p.send("t", up, b"next")).error_code == 0


async def test_everything_outlives_a_stop_of_all(cluster: Cluster) -> None:
    p, other = await producer(cluster), await producer(cluster, "b")
    assert (await p.send("t", 0, b"no")).error_code == 0
    assert (await p.end(False)).error_code == 0
    assert (await other.send("t", 0, b"yes")).error_code == 0
    await markers_are_there(cluster)
    ids = list(cluster.brokers)
    for broker_id in ids:
        await cluster.crash_broker(broker_id)
    await asyncio.gather(*(cluster.start_broker(broker_id) for broker_id in ids))
    await cluster.converged()
    await leaders_are_known(cluster)
    assert (await other.send("t", 0, b"more")).error_code == 0
    assert (await other.end(True)).error_code == 0
    await markers_are_there(cluster, p0=5)
    seen = await read(cluster, "t", 0)
    assert seen.values == [b"yes", b"more"]
    assert seen.aborted == [(p.producer_id, 0)]


async def test_a_topic_is_deleted_in_an_open_transaction(cluster: Cluster) -> None:
    await cluster.create_topic("gone", replication_factor=3)
    p = await producer(cluster)
    assert (await p.send("gone", 0, b"v")).error_code == 0
    assert (await p.send("t", 0, b"v")).error_code == 0
    response = await cluster.call(
        cluster.controller.broker_id, DeleteTopicsRequest(["gone"], 10_000)
    )
    assert response.topics[0].error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=2)
    assert (await p.send("t", 0, b"w")).error_code == 0
    assert (await p.end(True)).error_code == 0
    await markers_are_there(cluster, p0=4)


async def test_many_producers_at_once(cluster: Cluster) -> None:
    async def run(name: str) -> None:
        p = await producer(cluster, name)
        for number in range(5):
            value = f"{name}:{number}".encode()
            answers = await asyncio.gather(*(p.send("t", n, value) for n in range(3)))
            assert [answer.error_code for answer in answers] == [0, 0, 0]
            assert (await p.end(number != 2)).error_code == 0

    names = [f"p{number}" for number in range(12)]
    await asyncio.gather(*(run(name) for name in names))
    expected = sorted(f"{name}:{n}".encode() for name in names for n in (0, 1, 3, 4))
    async with asyncio.timeout(10):
        for partition in range(3):
            while sorted(filter(None, (await read(cluster, "t", partition)).values)) != expected:
                await asyncio.sleep(0.02)


async def test_a_late_marker_touches_no_later_transaction(cluster: Cluster) -> None:
    """[K14]: it is told again when the next transaction is open, and when it is over."""
    p = await producer(cluster)
    for value in (b"first", b"second"):
        assert (await p.send("t", 0, value)).error_code == 0
        assert (await p.end(True)).error_code == 0
    assert (await p.send("t", 0, b"third")).error_code == 0
    await markers_are_there(cluster, p0=4)
    for epoch in (p.epoch - 1, p.epoch):
        late = TxnMarker(p.producer_id, epoch, 1000, True, [TxnTopic("t", [0])])
        assert await told(cluster, late) == InvalidProducerEpochError.code
    assert (await read(cluster, "t", 0)).values == [b"first", b"second"]
    assert (await p.end(False)).error_code == 0
    await markers_are_there(cluster, p0=6)
    repeated = TxnMarker(p.producer_id, p.epoch, 1000, True, [TxnTopic("t", [0])])
    assert await told(cluster, repeated) == 0, "nothing is open, and nothing is written"
    assert await end_offset(cluster, "t", 0, committed=False) == 6
    assert (await read(cluster, "t", 0)).values == [b"first", b"second"]


async def told(cluster: Cluster, marker: TxnMarker) -> int:
    """Return what the leader of the one partition of ``marker`` says."""
    response = await cluster.call(
        cluster.leader("t", 0), WriteTxnMarkersRequest([marker]), listener="internal"
    )
    code: int = response.markers[0].topics[0].partitions[0].error_code
    return code


async def test_a_transaction_that_hangs_is_seen_and_ended(cluster: Cluster) -> None:
    p = await producer(cluster)
    leader = cluster.leader("t", 0)
    partition = cluster.brokers[leader].replicas.partition(TopicPartition("t", 0))
    batch = encode_batch(
        [b"hangs"],
        timestamps=1_700_000_000_000,
        producer_id=p.producer_id,
        producer_epoch=p.epoch,
        base_sequence=0,
        transactional=True,
    )
    guard = partition.log.producers.take_guard(p.producer_id, p.epoch)
    now = cluster.brokers[leader].replicas.now()
    partition.append_as_leader(memoryview(batch), Acks.ALL, now, guard)
    await eventually(lambda: partition.high_watermark == 1)
    assert await end_offset(cluster, "t", 0, committed=True) == 0
    asked = DescribeProducersRequest([TxnTopic("t", [0])])
    (known,) = (await cluster.call(leader, asked)).topics[0].partitions[0].producers
    assert (known.producer_id, known.txn_start_offset) == (p.producer_id, 0)
    coordinator = of(cluster, "a")
    (described,) = (
        await cluster.call(coordinator, DescribeTransactionsRequest(["a"]))
    ).transactions
    assert (described.state, described.topics) == ("Empty", [])
    (listed,) = (await cluster.call(coordinator, ListTransactionsRequest())).transactions
    assert (listed.transactional_id, listed.producer_id) == ("a", p.producer_id)
    abort = AbortTransactionRequest("t", 0, p.producer_id, p.epoch)
    assert (await cluster.call(leader, abort)).error_code == 0
    await markers_are_there(cluster, p0=2)
    assert (await read(cluster, "t", 0)).values == []
    assert (await cluster.call(leader, abort)).error_code == InvalidTxnStateError.code
