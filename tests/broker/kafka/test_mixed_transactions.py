"""Transactions of one kind of clients are read by the other, committed ones and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from oncelog import Consumer, Producer, TopicPartition
from support.kafka_client import connected
from support.kafka_cluster import KafkaCluster
from support.kafka_readers import read_with_confluent, read_with_kafka_python
from support.kafka_transactions import a_batch, end, send, started
from support.waiting import eventually, in_thread

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def native(cluster: KafkaCluster) -> str:
    host, port = cluster.brokers[1].addresses["external"]
    return f"{host}:{port}"


async def transactions_of_ours(cluster: KafkaCluster) -> None:
    """Commit, abort, commit, each with two records."""
    async with Producer(native(cluster), transactional_id="ours") as producer:
        for number, commits in enumerate((True, False, True)):
            await producer.begin_transaction()
            for index in range(2):
                await producer.send("t", b"%d-%d" % (number, index), partition=0)
            await (producer.commit_transaction() if commits else producer.abort_transaction())


COMMITTED = [b"0-0", b"0-1", b"2-0", b"2-1"]
"""They are seen. The last lies behind all that was aborted."""
END = 9
"""Six records and a marker of each transaction."""


async def stable(cluster: KafkaCluster, offset: int) -> None:
    """Wait until all transactions before ``offset`` have ended in the partition."""
    log = cluster.brokers[1].replicas.partition(TopicPartition("t", 0))
    await eventually(lambda: log.last_stable_offset >= offset)


@pytest.mark.slow
async def test_what_ours_commit_is_what_clients_of_kafka_read(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        await transactions_of_ours(cluster)
        await stable(cluster, END)
        servers = cluster.kafka_servers
        assert await in_thread(read_with_confluent, servers, "t", "read_committed") == COMMITTED
        assert await in_thread(read_with_kafka_python, servers, "t", len(COMMITTED)) == COMMITTED
        where = AioPartition("t", 0)
        read: list[bytes] = []
        async with AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level="read_committed"
        ) as consumer:
            consumer.assign([where])
            await consumer.seek_to_beginning()
            while len(read) < len(COMMITTED):
                batches = await consumer.getmany(timeout_ms=500)
                read += [each.value for batch in batches.values() for each in batch]
        assert read == COMMITTED
        everything = await in_thread(read_with_confluent, servers, "t", "read_uncommitted")
        assert len(everything) == 6


async def test_what_clients_of_kafka_commit_is_what_ours_read(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        client = await connected(cluster)
        producer = await started(client)
        for number, commits in enumerate((True, False, True)):
            values = [b"%d-%d" % (number, index) for index in range(2)]
            assert await send(client, a_batch(producer, *values)) == 0
            ended = await end(client, producer, commits)
            assert ended.error_code == 0
            producer = ended.producer_id, ended.producer_epoch
        client.close()
        await stable(cluster, END)
        where = TopicPartition("t", 0)
        read: list[bytes | None] = []
        async with Consumer(
            bootstrap_servers=native(cluster), auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([where])
            while await consumer.position(where) < END:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    read += [record.value for record in records]
        assert read == COMMITTED
