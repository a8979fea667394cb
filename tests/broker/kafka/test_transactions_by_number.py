"""Clients of Kafka that keep their epoch have transactions, as their users write them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from oncelog import Consumer, Producer
from support.kafka_cluster import KafkaCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka

T = TypeVar("T")
WAIT_S = 60.0
PARTITIONS = 3

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

COMMITTED = [b"%d-%d" % (number, item) for number in (0, 2, 3) for item in range(4)]
"""The second and the last of five transactions are aborted."""


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(work, *args)


def is_committed(number: int) -> bool:
    return number not in (1, 4)


def by_confluent(servers: str) -> None:
    producer = ConfluentProducer({"bootstrap.servers": servers, "transactional.id": "c"})
    producer.init_transactions(WAIT_S)
    for number in range(5):
        producer.begin_transaction()
        for item in range(4):
            producer.produce("t", b"%d-%d" % (number, item), partition=item % PARTITIONS)
        producer.flush(WAIT_S)
        if is_committed(number):
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)


def by_kafka_python(servers: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id="k")
    producer.init_transactions()
    for number in range(5):
        producer.begin_transaction()
        for item in range(4):
            sent = producer.send("t", b"%d-%d" % (number, item), partition=item % PARTITIONS)
            sent.get(WAIT_S)
        if is_committed(number):
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close(WAIT_S)


async def by_aiokafka(servers: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="a")
    await producer.start()
    for number in range(5):
        await producer.begin_transaction()
        for item in range(4):
            await producer.send_and_wait(
                "t", b"%d-%d" % (number, item), partition=item % PARTITIONS
            )
        if is_committed(number):
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    await producer.stop()


def native_servers(cluster: KafkaCluster) -> str:
    return ",".join(f"{h}:{p}" for h, p in [cluster.brokers[1].addresses["external"]])


async def committed(cluster: KafkaCluster, topic: str, count: int) -> list[bytes]:
    """Return the values that a reader of committed records gets, of all partitions."""
    found: list[bytes] = []
    ours = native_servers(cluster)
    async with Consumer(topic, bootstrap_servers=ours, auto_offset_reset="earliest") as reader:
        async with asyncio.timeout(WAIT_S):
            while len(found) < count:
                for records in (await reader.getmany(timeout_ms=1000)).values():
                    found += [record.value or b"" for record in records]
        for records in (await reader.getmany(timeout_ms=300)).values():
            found += [record.value or b"" for record in records]
    return found


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
async def test_several_transactions_in_a_row(tmp_path: Path, client: str) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        await cluster.create_topic("t", partitions=PARTITIONS)
        servers = cluster.kafka_servers
        if client == "confluent":
            await in_thread(by_confluent, servers)
        elif client == "kafka-python":
            await in_thread(by_kafka_python, servers)
        else:
            await by_aiokafka(servers)
        found = await committed(cluster, "t", len(COMMITTED))
        assert sorted(found) == sorted(COMMITTED)


def copy_by_confluent(servers: str, count: int) -> None:
    """Read, transform and write, with the offsets in the transaction; every third one aborts."""
    reader = ConfluentConsumer(
        {
            "bootstrap.servers": servers, "group.id": "copier", "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    reader.subscribe(["in"])
    producer = ConfluentProducer({"bootstrap.servers": servers, "transactional.id": "copier"})
    producer.init_transactions(WAIT_S)
    done = rounds = 0
    while done < count:
        messages = reader.consume(7, 0.5)
        if not messages:
            continue
        rounds += 1
        producer.begin_transaction()
        for each in messages:
            producer.produce("out", each.value())
        producer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), WAIT_S
        )
        if rounds % 3:
            producer.commit_transaction(WAIT_S)
            done += len(messages)
            continue
        producer.abort_transaction(WAIT_S)
        first: dict[int, int] = {}
        for each in messages:
            first.setdefault(each.partition(), each.offset())
        for partition, offset in first.items():
            reader.seek(ConfluentPartition("in", partition, offset))
    reader.close()


async def test_what_was_read_is_written_once(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 3, transaction_by_number_enable=True) as cluster:
        for topic in ("in", "out"):
            await cluster.create_topic(topic, replication_factor=3)
        values = [b"%d" % number for number in range(100)]

        def fill(servers: str) -> None:
            producer = ConfluentProducer({"bootstrap.servers": servers})
            for value in values:
                producer.produce("in", value)
            assert not producer.flush(WAIT_S)

        await in_thread(fill, cluster.kafka_servers)
        await in_thread(copy_by_confluent, cluster.kafka_servers, len(values))
        assert await committed(cluster, "out", len(values)) == values


async def test_offsets_go_into_transactions_of_aiokafka(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        await cluster.create_topic("t")
        producer = AIOKafkaProducer(bootstrap_servers=cluster.kafka_servers, transactional_id="a")
        await producer.start()
        for offset in (5, 6):
            async with producer.transaction():
                await producer.send_and_wait("t", b"x", partition=0)
                await producer.send_offsets_to_transaction({AioPartition("t", 0): offset}, "g")
        await producer.stop()

        def committed_offset() -> int:
            reader = ConfluentConsumer(
                {"bootstrap.servers": cluster.kafka_servers, "group.id": "g"}
            )
            (told,) = reader.committed([ConfluentPartition("t", 0)], WAIT_S)
            reader.close()
            return int(told.offset)

        assert await in_thread(committed_offset) == 6


async def test_a_member_of_a_group_goes_on_by_transactions_of_aiokafka(tmp_path: Path) -> None:
    """It names no member with its offsets, as nobody did before KIP-447."""
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        for topic in ("in", "out"):
            await cluster.create_topic(topic)
        values = [b"%d" % number for number in range(20)]
        async with Producer(cluster.bootstrap) as producer:
            await producer.send_many("in", values, partition=0)
        for _ in range(2):  # the second one goes on where the first has come to
            await copy_half_by_aiokafka(cluster.kafka_servers, len(values) // 2)
        assert await committed(cluster, "out", len(values)) == values


async def copy_half_by_aiokafka(servers: str, count: int) -> None:
    consumer = AIOKafkaConsumer(
        "in", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )  # fmt: skip
    writer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="a")
    async with consumer, writer:
        for _ in range(count):
            record = await consumer.getone()
            async with writer.transaction():
                await writer.send_and_wait("out", record.value, partition=0)
                where = AioPartition("in", record.partition)
                await writer.send_offsets_to_transaction({where: record.offset + 1}, "g")


async def test_a_zombie_is_fenced(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        await cluster.create_topic("t")

        def work(servers: str) -> None:
            config = {"bootstrap.servers": servers, "transactional.id": "z"}
            zombie = ConfluentProducer(config)
            zombie.init_transactions(WAIT_S)
            zombie.begin_transaction()
            zombie.produce("t", b"of the zombie")
            zombie.flush(WAIT_S)
            newer = ConfluentProducer(config)
            newer.init_transactions(WAIT_S)
            newer.begin_transaction()
            newer.produce("t", b"newer")
            newer.commit_transaction(WAIT_S)
            with pytest.raises(KafkaException) as raised:
                zombie.commit_transaction(WAIT_S)
            assert raised.value.args[0].fatal()

        await in_thread(work, cluster.kafka_servers)
        assert await committed(cluster, "t", 1) == [b"newer"]


async def test_a_client_of_the_newer_kind_and_one_of_the_older_share_a_topic(
    tmp_path: Path,
) -> None:
    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=True) as cluster:
        await cluster.create_topic("t", partitions=PARTITIONS)
        await in_thread(by_confluent, cluster.kafka_servers)
        ours = Producer(native_servers(cluster), transactional_id="c")
        async with ours as producer, producer.transaction():
            await producer.send("t", b"ours")  # under the id that was the other's
        await in_thread(by_confluent, cluster.kafka_servers)
        found = await committed(cluster, "t", 2 * len(COMMITTED) + 1)
        assert sorted(found) == sorted([*COMMITTED, *COMMITTED, b"ours"])
