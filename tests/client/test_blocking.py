"""The blocking face has everything that the asynchronous one has, and the same outcomes."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import oncelog
from oncelog import NewTopic, TopicPartition, blocking
from support.client_threads import client_threads, in_thread
from support.fake_cluster import FakeCluster, committed_of
from support.fake_members import GroupCluster
from support.group_members import committed, fill

PAIRS = [
    (oncelog.Producer, blocking.Producer),
    (oncelog.Consumer, blocking.Consumer),
    (oncelog.Admin, blocking.Admin),
    (oncelog.SharedTransaction, blocking.SharedTransaction),
    (oncelog.SharedWriter, blocking.SharedWriter),
    (oncelog.Transaction, blocking.Transaction),
]
MADE_BY_OTHERS = (oncelog.SharedWriter, oncelog.Transaction)
"""Nobody calls their constructors."""
DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__init__": "__init__",
}


def members(cls: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in inspect.getmembers(cls)
        if not name.startswith("_") or (name in DUNDERS and inspect.isfunction(value))
    }


@pytest.mark.parametrize(("source", "face"), PAIRS)
def test_parity(source: type, face: type) -> None:
    """No method, parameter or default of one is missing from the other."""
    for name, value in members(source).items():
        if name == "__init__" and source in MADE_BY_OTHERS:
            continue
        counterpart = getattr(face, DUNDERS.get(name, name), None)
        assert counterpart is not None, f"{face.__name__} lacks {name}"
        if not inspect.isfunction(value):
            continue
        assert not inspect.iscoroutinefunction(counterpart), name
        theirs = list(inspect.signature(value).parameters.values())[1:]
        ours = list(inspect.signature(counterpart).parameters.values())[1:]
        assert [(p.name, p.kind, p.default) for p in ours] == [
            (p.name, p.kind, p.default) for p in theirs
        ], name
    extra = set(members(face)) - set(members(source)) - set(DUNDERS.values())
    assert not extra


def test_joining_takes_the_same_parameters() -> None:
    assert inspect.signature(blocking.join) == inspect.signature(oncelog.join)
    for name in ("begin", "next_ordinal"):
        ours = getattr(blocking.SharedTransaction, name)
        theirs = getattr(oncelog.SharedTransaction, name)
        assert inspect.signature(ours) == inspect.signature(theirs)


def test_deliveries_have_the_same_methods() -> None:
    assert set(members(oncelog.Delivery)) == set(members(blocking.Delivery))


async def test_produce_and_consume() -> None:
    async with FakeCluster(2) as cluster:

        def work() -> None:
            with blocking.Admin(cluster.bootstrap) as admin:
                admin.create_topics([NewTopic("t", partitions=2)]).raise_for_errors()
            with blocking.Producer(cluster.bootstrap, linger_ms=0) as producer:
                assert producer.partitions_for("t") == 2
                assert producer.send("t", b"a", partition=0).offset == 0
                delivery = producer.enqueue("t", b"b", partition=0)
                seen: list[Any] = []
                delivery.add_done_callback(seen.append)
                assert delivery.result(5).offset == 1
                assert delivery.done()
                assert delivery.exception() is None
                assert producer.send_nowait("t", b"c", partition=0).result().offset == 2
                metadata = producer.send_many("t", [b"d"] * 100, partition=1)
                assert metadata.record_count == 100
                producer.flush()
                assert producer.unacknowledged_count == 0
            servers = cluster.bootstrap
            options: dict[str, Any] = {"auto_offset_reset": "earliest"}
            with blocking.Consumer("t", bootstrap_servers=servers, **options) as consumer:
                first = TopicPartition("t", 0)
                records = []
                for record in consumer:
                    records.append(record)
                    assert consumer.position(TopicPartition(*record[:2])) == record.offset + 1
                    if len(records) == 103:
                        break
                assert {record.value for record in records} == {b"a", b"b", b"c", b"d"}
                assert set(consumer.lag().values()) == {0}
                consumer.seek(first, 1)
                assert consumer.getone().value == b"b"
                consumer.seek_to_beginning(first)
                assert list(consumer.getmany(timeout_ms=1000)) == [first]
                consumer.pause(first)
                assert consumer.paused() == [first]
                consumer.seek_to_beginning()
                for batch in consumer.batches():
                    assert batch.partition == 1
                    break

        await in_thread(work)


async def test_a_seek_cuts_a_loop_short() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with blocking.Producer(cluster.bootstrap) as producer:
                producer.send_many("t", [b"%d" % n for n in range(10)])
            servers = cluster.bootstrap
            consumer = blocking.Consumer(
                "t", bootstrap_servers=servers, auto_offset_reset="earliest"
            )
            seen = []
            with consumer:
                for record in consumer:
                    seen.append(record.offset)
                    if len(seen) == 2:
                        consumer.seek(TopicPartition("t", 0), 8)
                    if record.offset == 9:
                        consumer.close()
            assert seen == [0, 1, 8, 9]

        await in_thread(work)


async def test_a_member_of_a_group() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 5, 0)

        def work() -> None:
            heard: list[tuple[str, list[TopicPartition]]] = []

            class Listener(oncelog.RebalanceListener):
                def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
                    heard.append(("assigned", list(partitions)))

                def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                    heard.append(("revoked", list(partitions)))

            tp = TopicPartition("t", 0)
            options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
            with blocking.Consumer(bootstrap_servers=cluster.bootstrap, **options) as consumer:
                consumer.subscribe(["t"], listener=Listener())
                for record in consumer:
                    if record.offset == 2:
                        break
                assert consumer.group_metadata().generation_id == 1
                consumer.commit()
                offset = consumer.committed([tp])[tp]
                assert offset is not None
                assert offset.offset == 3
                consumer.commit_async({tp: 2}).result(5)
                consumer.commit_async({tp: 3}).result(5)
                with pytest.raises(oncelog.CommitFailedError):
                    consumer.commit_async({TopicPartition("t", 7): 4}).result(5)
                consumer.enforce_rebalance("why not")
                consumer.unsubscribe()
                assert consumer.assignment() == []
            assert heard == [("assigned", [tp]), ("revoked", [tp])]

        await in_thread(work)
        assert committed(cluster) == {TopicPartition("t", 0): 3}


# ---------------------------------------------------------------- transactions


async def test_transactions() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        tp = TopicPartition("in", 0)

        def lose(producer: blocking.Producer) -> None:
            with producer.transaction() as txn:
                txn.send("t", b"lost")
                raise KeyError

        def work() -> None:
            options: dict[str, Any] = {"transactional_id": "x", "linger_ms": 0}
            with blocking.Producer(cluster.bootstrap, **options) as producer:
                with producer.transaction() as txn:
                    assert txn.send("t", b"a", partition=0).offset == 0
                    assert txn.enqueue("t", b"b").result().topic == "t"
                    txn.send_nowait("t", b"c")
                    txn.send_many("t", [b"d"] * 2)
                    txn.flush()
                    txn.send_offsets({tp: 5}, oncelog.GroupMetadata("g"))
                with pytest.raises(KeyError):
                    lose(producer)
                with producer.transaction() as txn:
                    txn.send("t", b"lost")
                    txn.abort()
                producer.begin_transaction()
                producer.send("t", b"e")
                producer.send_offsets({tp: 6}, oncelog.GroupMetadata("g"))
                producer.commit_transaction()
                producer.begin_transaction()
                producer.send("t", b"lost")
                producer.abort_transaction()

        await in_thread(work)
        assert Counter(committed_of(cluster, "t")) == {b"a": 1, b"b": 1, b"c": 1, b"d": 2, b"e": 1}
        assert cluster.transactions.committed["g", tp].offset == 6
        assert not client_threads()


async def test_a_transaction_with_a_consumer_that_lives_in_another_thread() -> None:
    async with GroupCluster() as cluster:
        cluster.create_topic("t")
        cluster.create_topic("out")
        fill(cluster, 6, 0)

        def copy(producer: Any, consumer: Any, count: int, fail: bool = False) -> None:
            with producer.transaction(consumer) as txn:
                for _ in range(count):
                    txn.send("out", consumer.getone().value)
                if fail:
                    raise KeyError

        def work() -> None:
            servers = cluster.bootstrap
            reading: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
            with (
                blocking.Producer(servers, transactional_id="x", linger_ms=0) as producer,
                blocking.Consumer("t", bootstrap_servers=servers, **reading) as consumer,
            ):
                copy(producer, consumer, 2)
                with pytest.raises(KeyError):
                    copy(producer, consumer, 3, fail=True)
                member = consumer.group_metadata().member_id
                cluster_call(lambda: cluster.group().expel(member))
                with pytest.raises(oncelog.TransactionAbortableError):
                    copy(producer, consumer, 1)
                copy(producer, consumer, 4)

        loop = asyncio.get_running_loop()

        def cluster_call(act: Callable[[], None]) -> None:
            done = threading.Event()
            loop.call_soon_threadsafe(act)
            loop.call_soon_threadsafe(done.set)
            assert done.wait(5)

        await in_thread(work)
        assert committed_of(cluster, "out") == [b"%d" % number for number in range(6)]
        assert committed(cluster) == {TopicPartition("t", 0): 6}


async def test_shared_transactions() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            begin = blocking.SharedTransaction.begin
            options: dict[str, Any] = {"transactional_id": "etl"}
            with begin(bootstrap_servers=cluster.bootstrap, tag=1, **options) as txn:
                with blocking.join(txn.ticket, writer="a", linger_ms=0) as writer:
                    writer.send("t", b"v")
                    writer.enqueue("t", b"v").result()
                    writer.send_nowait("t", b"v")
                    writer.send_many("t", [b"v"] * 2)
                    writer.enqueue_many("t", [b"v"] * 2)
                    writer.flush()
                    assert writer.partitions_for("t") == 1
                    assert writer.unacknowledged_count == 0
                    assert writer.ticket == txn.ticket
                with blocking.join(txn.ticket, writer="b") as loser:
                    loser.send("t", b"loser")
                other = blocking.SharedTransaction(txn.ticket)
                assert other.commit([writer.receipt]) == (True, False)
                assert txn.abort() == (True, True)
            with pytest.raises(oncelog.TransactionAlreadyCommittedError):
                blocking.join(txn.ticket, writer="c")
            with blocking.Admin(cluster.bootstrap) as admin:
                ask = blocking.SharedTransaction.next_ordinal
                ordinal = ask(bootstrap_servers=cluster.bootstrap)
                assert ask(bootstrap_servers=cluster.bootstrap, over=admin) > ordinal
                servers = cluster.bootstrap
                with begin(bootstrap_servers=servers, tag=2, over=admin, **options) as later:
                    blocking.join(later.ticket, writer="d").close()
                    assert later.commit([]) == (True, False)

        await in_thread(work)
        assert committed_of(cluster, "t") == [b"v"] * 7
        assert not client_threads()
