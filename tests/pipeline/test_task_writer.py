"""One attempt at a task writes, skips or fails at a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog import Producer, Receipt, SharedTransaction, Ticket
from oncelog.errors import OncelogError, ProducerFencedError
from oncelog_protocol.errors import InvalidRecordError
from oncelog_protocol.messages.base import ApiKey
from pipeline.spark_task import SCHEMA, beside, rows, sink_options
from pyspark_oncelog import connections
from pyspark_oncelog.commit_message import Outcome, TaskMessage
from pyspark_oncelog.outgoing_columns import SinkRowError
from pyspark_oncelog.sink_schema import Layout, layout_of
from pyspark_oncelog.task_writer import (
    CheckpointBehindError,
    write_at_once,
    write_in_transaction,
)
from support.fake_cluster import Action, FakeCluster, committed_of, values_of

LAYOUT = layout_of(SCHEMA, topic="t")


def ordinal(cluster: FakeCluster) -> int:
    servers = cluster.bootstrap
    return asyncio.run(SharedTransaction.next_ordinal(bootstrap_servers=servers))


def ticket(cluster: FakeCluster, tag: int = 0) -> Ticket:
    return Ticket(cluster.bootstrap, "spark-q", ordinal(cluster), tag)


def commit(*messages: TaskMessage) -> None:
    found = next(message.ticket for message in messages if message.ticket is not None)
    receipts = [Receipt.from_json(m.receipt) for m in messages if m.receipt is not None]
    asyncio.run(SharedTransaction(Ticket.from_json(found)).commit(receipts))


async def test_the_winners_rows_and_no_others_become_visible() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        options = sink_options(cluster.bootstrap)

        def work() -> None:
            for tag in range(3):
                own = ticket(cluster, tag)
                batches = [rows(b"%d" % tag), rows(), rows(b"%d" % tag, b"%d" % tag)]
                write_in_transaction(batches, options, LAYOUT, own, attempt="loser")
                won = write_in_transaction(batches, options, LAYOUT, own, attempt="winner")
                assert (won.outcome, won.row_count) == (Outcome.WRITTEN, 3)
                commit(won)

        await beside(work)
        assert Counter(committed_of(cluster, "t")) == {b"0": 3, b"1": 3, b"2": 3}


async def test_a_committed_batch_is_read_to_its_end_and_dropped() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap)
        left = [rows(b"again"), rows(b"again")]

        def drained() -> Iterator[pa.RecordBatch]:
            while left:
                yield left.pop()

        def work() -> None:
            commit(
                write_in_transaction([rows(b"v")], options, LAYOUT, ticket(cluster), attempt="w")
            )
            again = write_in_transaction(drained(), options, LAYOUT, ticket(cluster), attempt="w")
            assert again == TaskMessage(Outcome.ALREADY_COMMITTED, repeats=again.repeats)
            # The writer is still good for the next batch.
            own = ticket(cluster, 1)
            commit(write_in_transaction([rows(b"next")], options, LAYOUT, own, attempt="w"))

        await beside(work)
        assert not left
        assert committed_of(cluster, "t") == [b"v", b"next"]
        assert cluster.partition("t").values() == [b"v", b"next"]


async def test_a_checkpoint_that_is_older_than_the_log_is_refused() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap)

        def write(tag: int) -> TaskMessage:
            return write_in_transaction(
                [rows(b"%d" % tag)], options, LAYOUT, ticket(cluster, tag), attempt="w"
            )

        def work() -> None:
            for tag in (3, 4):
                commit(write(tag))
            with pytest.raises(CheckpointBehindError, match="batch 3 .* has committed batch 4"):
                write(3)
            assert write(4).outcome is Outcome.ALREADY_COMMITTED
            commit(write(5))

        await beside(work)
        assert committed_of(cluster, "t") == [b"3", b"4", b"5"]


async def test_without_rows_nothing_is_asked() -> None:
    async with FakeCluster() as cluster:
        options = sink_options("127.0.0.1:1")

        def work() -> None:
            own = Ticket("127.0.0.1:1", "spark-q", 1, 0)
            for batches in ([], [rows()]):
                message = write_in_transaction(batches, options, LAYOUT, own, attempt="w")
                assert message == TaskMessage(Outcome.EMPTY)
                assert write_at_once(batches, options, LAYOUT) == TaskMessage(Outcome.EMPTY)

        await beside(work)
        assert not cluster.topics


async def test_a_zombie_is_fenced_and_its_successor_is_not_disturbed() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap)

        def work() -> None:
            old, new = ticket(cluster, 5), ticket(cluster, 5)

            def slow() -> Iterator[pa.RecordBatch]:
                yield rows(b"zombie")
                winner.append(
                    write_in_transaction([rows(b"new")], options, LAYOUT, new, attempt="n")
                )
                yield rows(b"zombie")

            winner: list[TaskMessage] = []
            message = None
            try:
                message = write_in_transaction(slow(), options, LAYOUT, old, attempt="z")
            except OncelogError:
                pass
            if message is not None:  # it wrote before it could be told: its commit hears of it
                with pytest.raises(ProducerFencedError):
                    commit(message)
            commit(*winner)
            with pytest.raises(OncelogError):
                write_in_transaction(
                    [rows(b"zombie")],
                    options,
                    LAYOUT,
                    Ticket(cluster.bootstrap, "spark-q", old.ordinal, 6),
                    attempt="z",
                )

        await beside(work)
        assert committed_of(cluster, "t") == [b"new"]


async def test_what_fails_has_no_message_and_the_next_attempt_a_new_writer() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap)

        def work() -> None:
            own = ticket(cluster)
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
            with pytest.raises(OncelogError, match="first failure"):
                write_in_transaction([rows(b"lost")], options, LAYOUT, own, attempt="w")
            commit(write_in_transaction([rows(b"found")], options, LAYOUT, own, attempt="w"))

        await beside(work)
        assert committed_of(cluster, "t") == [b"found"]


async def test_a_row_that_cannot_be_a_record_fails_the_attempt() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap)
        batch = pa.RecordBatch.from_pydict({"value": [b"a"], "partition": [-1]})
        layout = Layout(value=0, partition=1)

        def work() -> None:
            with pytest.raises(SinkRowError, match="partition"):
                write_in_transaction([batch], options, layout, ticket(cluster), attempt="w")
            with pytest.raises(SinkRowError, match="partition"):
                write_at_once([batch], options, layout)

        await beside(work)
        assert committed_of(cluster, "t") == []


@pytest.mark.parametrize("partitioner", ["default", "murmur2"])
async def test_keys_land_where_the_sdk_puts_them(partitioner: str) -> None:
    keys = [b"key-%d" % (number % 97) for number in range(500)]
    async with FakeCluster(2) as cluster:
        for topic in ("t", "theirs"):
            cluster.create_topic(topic, 7)
        options = sink_options(cluster.bootstrap, partitioner=partitioner)

        def work() -> None:
            batches = [rows(*keys[:300], keys=keys[:300]), rows(*keys[300:], keys=keys[300:])]
            commit(write_in_transaction(batches, options, LAYOUT, ticket(cluster), attempt="w"))

        await beside(work)
        async with Producer(cluster.bootstrap, partitioner=partitioner) as producer:
            for key in keys:
                await producer.enqueue("theirs", key, key=key)
        assert values_of(cluster, "t") == values_of(cluster, "theirs")


async def test_at_least_once_keeps_its_producer_until_it_fails() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap, deliveryGuarantee="at-least-once")

        def work() -> None:
            message = write_at_once([rows(b"a"), rows(b"b", b"c")], options, LAYOUT)
            assert message == TaskMessage(Outcome.WRITTEN, 3)
            kept = [key for key in connections.here()._kept if key[0] == "producer"]
            assert len(kept) == 1
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
            with pytest.raises(OncelogError):
                write_at_once([rows(b"lost")], options, LAYOUT)
            assert not [key for key in connections.here()._kept if key[0] == "producer"]
            assert write_at_once([rows(b"d")], options, LAYOUT).row_count == 1

        await beside(work)
        assert committed_of(cluster, "t") == [b"a", b"b", b"c", b"d"]


async def test_a_small_buffer_has_small_batches() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = sink_options(cluster.bootstrap, **{"oncelog.buffer.memory": "20000"})

        def work() -> None:
            batches = [rows(*[b"%03d" % number + bytes(97) for number in range(1000)])]
            commit(write_in_transaction(batches, options, LAYOUT, ticket(cluster), attempt="w"))

        await beside(work)
        found = [(value or b"")[:3] for value in committed_of(cluster, "t")]
        assert found == [b"%03d" % number for number in range(1000)]
        assert len(cluster.partition("t").batches) > 5
