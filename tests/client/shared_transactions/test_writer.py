"""Writers of shared transactions join, send, fail, and give receipts that mean something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog import Receipt, SharedTransaction, SharedWriter, join
from oncelog.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidTxnStateError,
    Kind,
    NoTransactionError,
    TransactionAbortableError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    InvalidRecordError,
    PolicyViolationError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import parse_header
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster, committed_of
from support.transactional import make
from support.waiting import eventually


async def begin(cluster: FakeCluster, tag: int = 0) -> SharedTransaction:
    return await SharedTransaction.begin(
        bootstrap_servers=cluster.bootstrap, transactional_id="etl", tag=tag, max_block_ms=3_000
    )


async def writer_of(txn: SharedTransaction, name: str = "w", **options: Any) -> SharedWriter:
    given: dict[str, Any] = {"linger_ms": 0, "entropy": SeededEntropy(1), **options}
    return await join(txn.ticket, writer=name, **given)


async def test_everything_a_producer_sends_with() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        txn = await begin(cluster)
        async with await writer_of(txn) as writer:
            assert writer.ticket is txn.ticket
            assert await writer.partitions_for("t") == 2
            assert (await writer.send("t", b"a", partition=1)).offset == 0
            delivery = await writer.enqueue("t", b"b", key=b"k")
            writer.send_nowait("t", b"c")
            await writer.flush()
            assert delivery.done()
            assert writer.unacknowledged_count == 0
            assert (await writer.send_many("t", [b"d"] * 4)).record_count == 4
        await txn.commit([writer.receipt])
        assert len(committed_of(cluster, "t")) == 7
        headers = [parse_header(b) for p in cluster.topics["t"] for b in p.batches]
        assert {(h.producer_epoch, h.is_transactional) for h in headers if not h.is_control} == {
            (0, True)
        }


async def test_no_receipt_before_everything_is_acknowledged_and_nothing_after_it() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with await writer_of(await begin(cluster)) as writer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            await writer.enqueue("t", b"a")
            with pytest.raises(NoTransactionError, match="not acknowledged"):
                _ = writer.receipt
            held.release.set()
            await writer.flush()
            receipt = writer.receipt
            assert receipt == writer.receipt
            with pytest.raises(NoTransactionError):
                await writer.send("t", b"late")


async def test_who_has_failed_sends_nothing_and_has_no_receipt() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        writer = await writer_of(await begin(cluster))
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
        await writer.enqueue("t", b"lost")
        await eventually(lambda: writer.unacknowledged_count == 0)
        with pytest.raises(TransactionAbortableError) as caught:
            await writer.send("t", b"more")
        assert caught.value.kind is Kind.ABORTABLE
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        with pytest.raises(TransactionAbortableError):
            await writer.close()
        with pytest.raises(TransactionAbortableError):
            _ = writer.receipt
        assert cluster.partition("t").batches == []


async def test_leaving_with_an_exception_is_failing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        writer = await writer_of(await begin(cluster))

        async def work() -> None:
            async with writer:
                await writer.send("t", b"lost")
                raise KeyError("why")

        with pytest.raises(KeyError):
            await work()
        with pytest.raises(TransactionAbortableError, match="why"):
            _ = writer.receipt


async def test_a_close_that_gives_up_leaves_no_receipt() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        writer = await writer_of(await begin(cluster))
        cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await writer.enqueue("t", b"v")
        with pytest.raises(TransactionAbortableError):
            await writer.close(timeout_ms=20)
        with pytest.raises(TransactionAbortableError):
            _ = writer.receipt


async def test_a_repeated_join_is_the_same_writer() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        cluster.rule(ApiKey.JOIN_TXN, Action.DROP_AFTER)
        async with await writer_of(txn, "a") as first, await writer_of(txn, "b") as second:
            pass
        assert first.receipt.producer_id != second.receipt.producer_id
        ids = list(cluster.transactions.shared["etl"].writers.values())
        assert ids == [first.receipt.producer_id, second.receipt.producer_id]


async def test_two_processes_under_one_name_are_two_writers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        async with await writer_of(txn, "w", entropy=SeededEntropy(1)) as first:
            await first.send_many("t", [b"first"] * 3)
        async with await writer_of(txn, "w", entropy=SeededEntropy(2)) as second:
            await second.send("t", b"second")
        assert first.receipt.writer == second.receipt.writer == "w"
        await txn.commit([second.receipt])
        assert committed_of(cluster, "t") == [b"second"]
        with pytest.raises(ConfigurationError, match="writer"):
            await writer_of(txn, "x" * 1020)


async def test_joining_fails_with_its_reason_and_leaves_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, transactional_id="etl"):
            pass
        txn = await begin(cluster)
        with pytest.raises(InvalidTxnStateError):
            await writer_of(txn)
        cluster.transactions.forget("etl")
        cluster.rule(ApiKey.JOIN_TXN, Action.ERROR, error=PolicyViolationError)
        with pytest.raises(PolicyViolationError):
            await writer_of(txn)
        rule = {"error": CoordinatorNotAvailableError, "times": 10**6}
        cluster.rule(ApiKey.JOIN_TXN, Action.ERROR, **rule)
        with pytest.raises(DeadlineExceededError):
            await writer_of(txn, max_block_ms=60)
        with pytest.raises(ConfigurationError, match="writer"):
            await writer_of(txn, "")
        await eventually(lambda: cluster.brokers[1].connection_count == 0)


async def sealed(writer: SharedWriter) -> Receipt:
    await writer.flush()
    return writer.receipt


async def test_who_has_a_receipt_joins_again_over_the_same_connections() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        async with await writer_of(await begin(cluster)) as writer:
            for tag in range(3):
                txn = await begin(cluster, tag)
                with pytest.raises(NoTransactionError, match="receipt"):
                    await writer.rejoin(txn.ticket, writer="w")
                await sealed(writer)
                await writer.rejoin(txn.ticket, writer="w")
                assert writer.ticket == txn.ticket
                await writer.enqueue_many("t", [b"%d" % tag] * 4, partition=tag % 2)
                await txn.commit([await sealed(writer)])
                with pytest.raises(TransactionAlreadyCommittedError):
                    await writer.rejoin(txn.ticket, writer="w")
                with pytest.raises(NoTransactionError):
                    await writer.enqueue_many("t", [b"between"])
                await writer.rejoin((await begin(cluster, tag + 1)).ticket, writer="w")
            await sealed(writer)
            elsewhere = replace(txn.ticket, bootstrap_servers="127.0.0.1:1")
            with pytest.raises(ConfigurationError, match="127.0.0.1:1"):
                await writer.rejoin(elsewhere, writer="w")
        with pytest.raises(NoTransactionError):
            await writer.rejoin(txn.ticket, writer="w")
        assert sorted(map(str, committed_of(cluster, "t"))) == sorted(
            str(b"%d" % tag) for tag in range(3) for _ in range(4)
        )


async def test_two_attempts_of_one_process_in_one_transaction_are_two_writers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        async with await writer_of(txn) as writer:
            await writer.enqueue_many("t", [b"first"])
            first = await sealed(writer)
            await writer.rejoin(txn.ticket, writer="w")
            await writer.enqueue_many("t", [b"second"])
            second = await sealed(writer)
            assert second.producer_id != first.producer_id
            await txn.commit([second])
        assert committed_of(cluster, "t") == [b"second"]


async def test_who_has_failed_does_not_join_again() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        writer = await writer_of(txn)
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
        await writer.enqueue_many("t", [b"lost"])
        await eventually(lambda: writer.unacknowledged_count == 0)
        with pytest.raises(TransactionAbortableError):
            await writer.rejoin(txn.ticket, writer="w")
        with pytest.raises(TransactionAbortableError):
            await writer.close()
