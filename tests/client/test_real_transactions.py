"""Transactions prove against real brokers in this process what the fake takes for granted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oncelog import Consumer, Producer, SharedTransaction, join
from oncelog.errors import (
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.coordinators import coordinator_partition
from oncelog_protocol.messages.groups import (
    COORDINATOR_TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from oncelog_protocol.messages.transactions import EndTxnRequest
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.waiting import eventually

SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
}


async def cluster_of(tmp_path: Path, brokers: int = 3) -> Cluster:
    settings = (
        SETTINGS
        if brokers > 1
        else {
            **SETTINGS,
            "transaction_state_log_replication_factor": 1,
            "offsets_topic_replication_factor": 1,
        }
    )
    return Cluster(tmp_path, brokers=brokers, **settings)


def make(cluster: Cluster, **options: Any) -> Producer:
    given: dict[str, Any] = {
        "linger_ms": 0,
        "entropy": SeededEntropy(1),
        "transactional_id": "x",
        **options,
    }
    return Producer(cluster.bootstrap, **given)


async def visible(cluster: Cluster, topic: str, **options: Any) -> list[bytes | None]:
    """Return what a reader of committed records finds, up to the end."""
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap, **given) as consumer:
        found: list[bytes | None] = []
        async with asyncio.timeout(20):
            while any((await consumer.lag()).values()) or not await consumer.lag():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    found += [record.value for record in records]
        return found


async def visible_are(cluster: Cluster, topic: str, *values: bytes) -> None:
    """Markers come a moment behind the answer to a commit."""
    seen: list[Counter[bytes | None]] = []
    async with asyncio.timeout(20):
        while not seen or seen[-1] != Counter(values):
            seen.append(Counter(await visible(cluster, topic)))
    assert all(counted <= Counter(values) for counted in seen)


async def test_a_life_with_transactions(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        expected: list[bytes] = []
        async with make(cluster) as producer:
            for number in range(12):
                value = b"%d" % number
                await producer.begin_transaction()
                for partition in range(3):
                    await producer.enqueue("t", value, partition=partition)
                await producer.send_many("t", [value] * 5)
                if number % 3 == 2:
                    await producer.flush()
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    expected += [value] * 8
            await visible_are(cluster, "t", *expected)
            everything = await visible(cluster, "t", isolation_level="read_uncommitted")
            assert len(everything) == 12 * 8


async def test_a_zombie_and_its_successor(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        async with make(cluster) as zombie:
            await zombie.begin_transaction()
            await zombie.send("t", b"zombie")
            async with make(cluster) as successor:
                with pytest.raises(ProducerFencedError):
                    await zombie.commit_transaction()
                async with successor.transaction() as block:
                    await block.send("t", b"new")
                await visible_are(cluster, "t", b"new")
                with pytest.raises(ProducerFencedError):
                    await zombie.begin_transaction()


async def test_time_over_and_ends_that_come_late(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=2)
        with pytest.raises(InvalidTransactionTimeoutError):
            await make(cluster, transaction_timeout_ms=10**8).start()
        async with make(cluster, transaction_timeout_ms=300) as producer:
            transactions = producer._transactions
            assert transactions is not None
            await producer.begin_transaction()
            await producer.send("t", b"slow", partition=0)
            old = transactions.identity
            await asyncio.sleep(0.5)
            with pytest.raises(TransactionAbortableError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction() as block:
                await block.send("t", b"fast", partition=0)
                await block.send("t", b"fast", partition=1)
                for commit in (True, False):
                    late = EndTxnRequest("x", *old, commit)
                    answer = await cluster.call(1, late)
                    assert answer.error_code != 0
            await visible_are(cluster, "t", b"fast", b"fast")


async def producer_coordinator(producer: Producer, key: str) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key, COORDINATOR_TRANSACTION)
    deadline = asyncio.get_running_loop().time() + 5
    answer: FindCoordinatorResponse = await producer._router.call_any(request, deadline)
    return answer


async def test_a_coordinator_dies_again_and_again(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3, min_insync_replicas=2)
        expected: list[bytes] = []
        coordinator = "__transaction_state", coordinator_partition("x", 3)
        async with make(cluster, delivery_timeout_ms=60_000) as producer:
            for number in range(9):
                value = b"%d" % number
                async with producer.transaction() as block:
                    for partition in range(3):
                        await block.send("t", value, partition=partition)
                    if number in (2, 6):
                        victim = cluster.leader(*coordinator)
                        asked = (await producer_coordinator(producer, "x")).broker_id
                        assert asked == victim
                        await cluster.crash_broker(victim)
                    if number in (4, 8):
                        (dead,) = {1, 2, 3} - set(cluster.brokers)
                        await cluster.start_broker(dead)
                expected += [value] * 3
            await visible_are(cluster, "t", *expected)


async def test_many_write_and_one_commits(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)

        async def begin(tag: int) -> SharedTransaction:
            return await SharedTransaction.begin(
                bootstrap_servers=cluster.bootstrap, transactional_id="s", tag=tag
            )

        txn = await begin(1)
        receipts = []
        for number in range(4):
            writer = await join(txn.ticket, writer=f"w{number}", linger_ms=0)
            async with writer:
                await writer.send_many("t", [b"%d" % number] * 3)
            receipts.append(writer.receipt)
        assert await visible(cluster, "t") == []
        assert await txn.commit(receipts[:3]) == (True, False)
        assert await txn.commit(receipts[:3]) == (True, True)
        await visible_are(cluster, "t", *[b"%d" % number for number in range(3)] * 3)
        again = await begin(1)
        with pytest.raises(TransactionAlreadyCommittedError):
            await join(again.ticket, writer="w")
        old, new = await begin(2), await begin(2)
        first = await join(old.ticket, writer="w")
        async with await join(new.ticket, writer="w") as second:
            await second.send("t", b"second")
        await first.close()
        with pytest.raises(ProducerFencedError):
            await old.commit([first.receipt])
        await new.commit([second.receipt])
        with pytest.raises(InvalidTxnStateError):
            await make(cluster, transactional_id="s").start()
        await visible_are(cluster, "t", *[b"%d" % n for n in range(3)] * 3, b"second")


async def test_a_copy_with_a_crash_in_the_middle(tmp_path: Path) -> None:
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("in", partitions=2, replication_factor=3)
        await cluster.create_topic("out", replication_factor=3)
        values = [b"%03d" % number for number in range(300)]
        async with make(cluster, transactional_id=None) as producer:
            await producer.send_many("in", values)
        group: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
        }

        async def copy(stop_at: int) -> int:
            """Copy until there is nothing more, or fail after so many records."""
            done = 0
            async with Consumer("in", **group) as consumer, make(cluster) as producer:
                while True:
                    async with producer.transaction(consumer) as block:
                        for records in (await consumer.getmany(timeout_ms=300)).values():
                            for record in records[:40]:
                                await block.enqueue("out", record.value)
                                done += 1
                        if done >= stop_at:
                            raise KeyError
                    if done and not any((await consumer.lag()).values()):
                        return done

        group["max_poll_records"] = 40
        with pytest.raises(KeyError):
            await copy(100)
        await copy(10**6)
        await visible_are(cluster, "out", *values)


async def test_markers_catch_up_with_a_partition_that_was_down(tmp_path: Path) -> None:
    """A partition without a leader holds up its own markers only."""
    async with await cluster_of(tmp_path) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=1)
        names = {cluster.leader("t", number): number for number in range(3)}
        assert len(names) == 3
        async with make(cluster) as producer:
            coordinators = {cluster.leader("__transaction_state", n) for n in range(3)}
            victim = next(iter(sorted(set(names) - coordinators)), 3)
            await producer.begin_transaction()
            for partition in range(3):
                await producer.send("t", b"v", partition=partition)
            await cluster.stop_broker(victim)
            await producer.commit_transaction()
            await cluster.start_broker(victim)
            await eventually(lambda: len(cluster.brokers) == 3)
            await visible_are(cluster, "t", *[b"v"] * 3)
