"""Snapshots show what clients count at brokers that fail as told, and at real ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, Producer, TopicPartition, blocking
from oncelog.errors import ApiError, UndeliveredRecordsError
from oncelog.observability.metrics import Latency
from oncelog_protocol.errors import MessageTooLargeError, NotLeaderOrFollowerError
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.observe import Histogram
from support.cluster import Cluster
from support.fake_cluster import Action, FakeCluster

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def producer_of(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(cluster.bootstrap, linger_ms=0, entropy=SeededEntropy(1), **options)


def test_a_latency_is_read_off_its_buckets() -> None:
    histogram = Histogram()
    empty = Latency.of(histogram)
    assert (empty.count, empty.mean_s, empty.quantile_s(0.5)) == (0, None, None)
    for seconds in (0.001, 0.001, 0.001, 0.1, 1000):
        histogram.observe(seconds)
    latency = Latency.of(histogram)
    assert latency.count == 5
    assert latency.mean_s == pytest.approx(200.0206)
    median = latency.quantile_s(0.5)
    assert median is not None
    assert 0.001 <= median <= 0.0021
    assert latency.quantile_s(1.0) == float("inf")
    with pytest.raises(ValueError, match="between 0 and 1"):
        latency.quantile_s(95)


async def test_a_producer_counts_records_batches_and_topics() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("a")
        cluster.create_topic("b")
        async with producer_of(cluster) as producer:
            before = producer.metrics()
            assert (before.record_send_total, before.buffer_used_bytes) == (0, 0)
            await producer.send("a", b"1")
            await producer.send_many("b", [b"x"] * 10)
            delivery = await producer.enqueue("a", b"2")
            waiting = producer.metrics()
            assert waiting.record_queue_count == 1
            assert waiting.buffer_used_bytes > 0
            await delivery
            metrics = producer.metrics()
        assert metrics.client_id == "oncelog-producer"
        assert metrics.record_send_total == 12
        assert metrics.batch_total == metrics.request_total == 3
        assert metrics.topic_record_totals == {"a": 2, "b": 10}
        assert (metrics.record_error_total, metrics.record_retry_total) == (0, 0)
        assert metrics.request_latency.count == metrics.delivery_latency.count == 3
        assert metrics.outgoing_byte_total > 12
        assert metrics.connection_count >= 1
        assert metrics.connection_creation_total >= metrics.connection_count
        assert metrics.metadata_refresh_total >= 1
        closed = producer.metrics()
        assert (closed.record_send_total, closed.connection_count) == (12, 0)


async def test_a_producer_counts_what_goes_wrong() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("a")
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotLeaderOrFollowerError, times=2)
        async with producer_of(cluster) as producer:
            await producer.send("a", b"retried twice")
            metrics = producer.metrics()
            assert (metrics.record_send_total, metrics.record_retry_total) == (1, 2)
            assert metrics.request_total == 3
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=MessageTooLargeError, times=1)
            with pytest.raises((ApiError, UndeliveredRecordsError)):
                await producer.send("a", None, key=b"k" * 10)
            metrics = producer.metrics()
        assert metrics.record_error_total == 1
        assert metrics.topic_error_totals == {"a": 1}
        assert metrics.record_send_total == 1


async def test_a_consumer_counts_what_it_has_handed_out() -> None:
    async with FakeCluster() as cluster:
        for topic in ("a", "b"):
            cluster.create_topic(topic)
            async with producer_of(cluster) as producer:
                await producer.send_many(topic, [b"v"] * 10)
        async with Consumer(
            "a",
            "b",
            bootstrap_servers=cluster.bootstrap,
            auto_offset_reset="earliest",
            entropy=SeededEntropy(1),
        ) as consumer:
            assert consumer.metrics().records_lag_max is None
            first = await consumer.getone()
            metrics = consumer.metrics()
            assert metrics.records_consumed_total == 1
            assert metrics.topic_record_totals == {first.topic: 1}
            assert metrics.records_lag[TopicPartition(first.topic, 0)] == 9
            consumer.seek(TopicPartition(first.topic, 0), 5)
            assert consumer.metrics().records_consumed_total == 1, "the rest was not handed out"
            count = 1
            while count < 16:
                count += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
            metrics = consumer.metrics()
        assert metrics.records_consumed_total == 16
        assert metrics.records_lag == {A: 0, B: 0}
        assert metrics.records_lag_max == 0
        assert (metrics.assigned_partitions, metrics.paused_partitions) == (2, 0)
        assert metrics.bytes_consumed_total > 20
        assert metrics.fetch_total == metrics.fetch_latency.count >= 2


async def test_columns_count_too_and_only_what_is_handed_out() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("a")
        async with producer_of(cluster) as producer:
            await producer.send_many("a", [b"v"] * 10)
        async with Consumer(
            "a", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            batches = await consumer.getbatches(A, 4)
            assert sum(map(len, batches)) == 4
            assert consumer.metrics().records_consumed_total == 4
            assert len(await consumer.getbatch()) == 6
            assert consumer.metrics().records_consumed_total == 10


async def test_lost_connections_and_failed_fetches_show() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("a")
        async with producer_of(cluster) as producer:
            await producer.send("a", b"v")
        cluster.rule(ApiKey.FETCH, Action.DROP_BEFORE, times=1)
        async with Consumer(
            "a", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.getone()
            metrics = consumer.metrics()
        assert metrics.fetch_error_total == 1
        assert metrics.connection_creation_total > metrics.connection_count


async def test_groups_commits_and_admin_clients_at_real_brokers(tmp_path: Path) -> None:
    async with Cluster(
        tmp_path, offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1
    ) as cluster:
        await cluster.create_topic("a")
        async with (
            Producer(cluster.bootstrap) as producer,
            Producer(cluster.bootstrap, transactional_id="x") as transactional,
            Consumer(
                "a", bootstrap_servers=cluster.bootstrap, group_id="g", auto_offset_reset="earliest"
            ) as consumer,
            Admin(cluster.bootstrap) as admin,
        ):
            await producer.send("a", b"v")
            await consumer.getone()
            await consumer.commit()
            metrics = consumer.metrics()
            assert (metrics.commit_total, metrics.commit_error_total) == (1, 0)
            assert metrics.rebalance_total == 1
            assert metrics.commit_latency.count == 1
            assert metrics.records_lag == {A: 0}
            async with transactional.transaction() as txn:
                await txn.send("a", b"kept")
            async with transactional.transaction() as txn:
                await txn.send("a", b"taken back")
                await txn.abort()
            ends = transactional.metrics()
            assert (ends.transaction_commit_total, ends.transaction_abort_total) == (1, 1)
            assert producer.metrics().transaction_commit_total == 0
            await admin.list_topics()
            assert admin.metrics().client_id == "oncelog-admin"
            assert admin.metrics().connection_count >= 1


async def test_the_blocking_face_tells_the_same_also_after_close() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("a")

        def work() -> None:
            with blocking.Producer(cluster.bootstrap, linger_ms=0) as producer:
                producer.send("a", b"v")
                assert producer.metrics().record_send_total == 1
            assert producer.metrics().record_send_total == 1

        await asyncio.to_thread(work)
