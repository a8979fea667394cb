"""The client proves against real brokers in this process what the fake takes for granted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog.core.client import ClusterClient
from support.cluster import Cluster
from support.waiting import eventually


async def test_produce_consume_and_administer(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster, Admin(cluster.bootstrap) as admin:
        topic = NewTopic("t", partitions=3, replication_factor=3)
        (await admin.create_topics([topic])).raise_for_errors()
        (described,) = await admin.describe_topics(["t"])
        assert sorted(p.leader for p in described.partitions) == [1, 2, 3]
        values = [b"%06d" % number for number in range(5000)]
        async with Producer(cluster.bootstrap) as producer:
            metadata = await producer.send_many("t", values, keys=values)
            assert metadata.record_count == 5000
            deliveries = [await producer.enqueue("t", value) for value in values]
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)
        consumer = Consumer("t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        async with consumer:
            seen = [(await consumer.getone()).value for _ in range(10_000)]
            assert sorted(seen, key=lambda v: v or b"") == sorted(values * 2)
            assert set((await consumer.lag()).values()) == {0}
        assert len(await admin.describe_log_dirs()) == 3
        (await admin.alter_configs({"t": {"retention_ms": "5000"}})).raise_for_errors()
        (config,) = await admin.describe_configs(topics=["t"], keys=["retention_ms"])
        assert config.settings["retention_ms"].value == "5000"
        (await admin.create_partitions({"t": 4})).raise_for_errors()
        (await admin.delete_topics(["t"])).raise_for_errors()


async def test_a_leader_dies_under_load(tmp_path: Path) -> None:
    """Acknowledged records are all read back, in the order in which they were first written."""
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        partition = TopicPartition("t", 0)
        acknowledged: list[bytes] = []
        over = False

        async def pour(producer: Producer) -> None:
            number = 0
            while not over:
                value = b"%08d" % number
                number += 1
                await producer.send("t", value)
                acknowledged.append(value)

        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            pouring = asyncio.create_task(pour(producer))
            await eventually(lambda: len(acknowledged) > 50)
            victim = cluster.state("t").leader
            before = len(acknowledged)
            await cluster.crash_broker(victim)
            await eventually(lambda: len(acknowledged) > before + 50, timeout_s=20)
            over = True
            await pouring
        async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            end = (await consumer.end_offsets([partition]))[partition]
            seen = [(await consumer.getone()).value for _ in range(end)]
        first_seen = list(dict.fromkeys(seen))
        assert first_seen == sorted(first_seen, key=lambda value: value or b"")
        assert set(acknowledged) <= set(first_seen)


async def test_reading_until_idle(tmp_path: Path) -> None:
    """It reads over markers and what was aborted too, in a group, and again when more has come."""
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        servers = cluster.bootstrap
        consumer = Consumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        )
        async with Producer(servers, transactional_id="p") as producer, consumer:
            for number in range(4):
                await producer.begin_transaction()
                for partition in range(3):
                    await producer.send("t", b"%d" % number, partition=partition)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
            seen = [record.value async for record in consumer.until_idle(1)]
            assert sorted(seen, key=str) == [b"0"] * 3 + [b"2"] * 3
            assert set((await consumer.lag()).values()) == {0}
            async with producer.transaction() as transaction:
                await transaction.send("t", b"later")
            assert [record.value async for record in consumer.until_idle(1)] == [b"later"]


async def test_a_cluster_that_dies_while_clients_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They know since when nobody answers, and say so, long before their calls would end."""
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        async with (
            Producer(cluster.bootstrap, linger_ms=0) as producer,
            Consumer("t", bootstrap_servers=cluster.bootstrap) as consumer,
            Admin(cluster.bootstrap) as admin,
        ):
            clients: tuple[ClusterClient, ...] = (producer, consumer, admin)
            await producer.send("t", b"before")
            for broker in (1, 2):
                await cluster.crash_broker(broker)
            await eventually(lambda: all(client.health().silent_s > 0 for client in clients))
            await eventually(lambda: caplog.text.count("no broker has answered for") >= 3)
            for broker in (1, 2):
                await cluster.start_broker(broker)
            await eventually(lambda: all(each.health().ok for each in clients), timeout_s=20)
            await producer.send("t", b"after")
