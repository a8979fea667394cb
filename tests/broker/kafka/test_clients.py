"""Real brokers serve clients of Kafka as their users have them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from docs.blocks import blocks_of
from oncelog import Consumer, Producer, Record
from oncelog_protocol.messages.base import ApiKey
from support.house import ROOT
from support.kafka_cluster import KafkaCluster
from support.waiting import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka

T = TypeVar("T")
COUNT = 2000
WAIT_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(work, *args)


def confluent_produce(servers: str, topic: str, values: list[bytes], **config: Any) -> None:
    """Send all values by an idempotent producer; fail if one of them is not acknowledged."""
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, **config}
    errors: list[Any] = []
    producer = ConfluentProducer(settings)
    for value in values:
        producer.produce(
            topic, value, key=value, headers=[("n", value), ("none", None)],
            on_delivery=lambda error, _: errors.append(error),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert len(errors) == len(values)
    assert not any(errors)


def confluent_consume(servers: str, topic: str, group: str, count: int) -> list[Any]:
    """Return ``count`` messages, read in a group from where it has come; commit behind them."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), WAIT_S)
        assert messages, f"{len(found)} of {count} came"
        found += messages
    assert not any(each.error() for each in found)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def values_of(count: int, prefix: bytes = b"v") -> list[bytes]:
    return [prefix + b"%d" % index for index in range(count)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_confluent_kafka_produces_and_consumes(tmp_path: Path, codec: str) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=2)
        servers = cluster.kafka_servers
        values = values_of(COUNT)
        config = {"compression.type": codec}
        await in_thread(lambda: confluent_produce(servers, "t", values, **config))
        found = await in_thread(confluent_consume, servers, "t", "g", COUNT)
        assert sorted(each.value() for each in found) == sorted(values)
        assert all(each.key() == each.value() for each in found)
        assert found[0].headers() == [("n", found[0].value()), ("none", None)]


async def test_aiokafka_produces_and_consumes_in_a_group(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", partitions=6, replication_factor=3)
        servers = cluster.kafka_servers
        async with AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, compression_type="gzip"
        ) as producer:
            await asyncio.gather(*[await producer.send("t", value) for value in values_of(500)])
        read: list[bytes] = []
        async with AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            while len(read) < 500:
                batches = await consumer.getmany(timeout_ms=1000)
                read += [each.value for batch in batches.values() for each in batch]
            await consumer.commit()
        assert sorted(read) == sorted(values_of(500))


async def test_kafka_python_produces_and_consumes(tmp_path: Path) -> None:
    def work(servers: str) -> list[bytes]:
        producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
        for each in [producer.send("t", value) for value in values_of(300)]:
            each.get(WAIT_S)
        producer.close()
        consumer = kafka.KafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        )
        read: list[bytes] = []
        while len(read) < 300:
            batches = consumer.poll(timeout_ms=1000)
            read += [each.value for batch in batches.values() for each in batch]
        consumer.commit()
        consumer.close()
        return read

    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=2)
        assert sorted(await in_thread(work, cluster.kafka_servers)) == sorted(values_of(300))


async def test_topics_come_and_go(tmp_path: Path) -> None:
    def work(servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        new = NewTopic("t", 3, 1, config={"retention.ms": "3600000"})
        admin.create_topics([new])["t"].result(WAIT_S)
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([new])["t"].result(WAIT_S)
        assert len(admin.list_topics("t", timeout=WAIT_S).topics["t"].partitions) == 3
        admin.delete_topics(["t"])["t"].result(WAIT_S)

    async with KafkaCluster(tmp_path, 1) as cluster:
        await in_thread(work, cluster.kafka_servers)
        await eventually(lambda: "t" not in cluster.brokers[1].image.topics)


async def test_clients_administer_a_cluster(tmp_path: Path) -> None:
    """It is done by librdkafka's, kafka-python's and aiokafka's clients for administrators."""
    async with KafkaCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", partitions=2)
        await cluster.create_topic("moves")
        servers = cluster.kafka_servers
        await in_thread(administer_by_confluent, servers)
        images = [broker.image for broker in cluster.brokers.values()]
        await eventually(lambda: all(len(each.topics["t"].partitions) == 4 for each in images))
        await in_thread(administer_by_kafka_python, servers)
        await administer_by_aiokafka(servers)
        await eventually(lambda: all(len(each.topics["t"].partitions) == 5 for each in images))
        replicas = images[0].topics["moves"].partitions[0].replicas
        assert len(replicas) == 2


def administer_by_confluent(servers: str) -> None:
    confluent_produce(servers, "t", values_of(100))
    assert len(confluent_consume(servers, "t", "g", 100)) == 100
    admin = AdminClient({"bootstrap.servers": servers})
    cluster = admin.describe_cluster().result(WAIT_S)
    assert len(cluster.nodes) == 3
    entries = [
        ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    topic = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=entries)
    admin.incremental_alter_configs([topic])[topic].result(WAIT_S)

    def has_changed() -> bool:  # brokers hear of it one after the other
        found = admin.describe_configs([topic])[topic].result(WAIT_S)
        assert found["min.insync.replicas"].value == "1"
        return (found["retention.ms"].value, found["cleanup.policy"].value) == (
            "7200000", "delete,compact",
        )  # fmt: skip

    until(has_changed)
    admin.create_partitions([NewPartitions("t", 4)])["t"].result(WAIT_S)
    part = ConfluentPartition("t", 0, 5)
    assert admin.delete_records([part])[part].result(WAIT_S).low_watermark == 5
    elected = admin.elect_leaders(ElectionType.PREFERRED, [part]).result(WAIT_S)
    assert [error.name() for error in elected.values() if error] in ([], ["ELECTION_NOT_NEEDED"])
    admin.delete_consumer_groups(["g"])["g"].result(WAIT_S)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["g"])["g"].result(WAIT_S)


def administer_by_kafka_python(servers: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    (told,) = admin.describe_topic_partitions(["t"])["topics"]
    assert len(told["partitions"]) == 4
    brokers = {each["broker"] for each in admin.describe_log_dirs()}
    assert brokers == {1, 2, 3}
    part = kafka.TopicPartition("moves", 0)
    (before,) = admin.describe_topic_partitions(["moves"])["topics"]
    old = before["partitions"][0]["replica_nodes"]
    new = [*old, *({1, 2, 3} - set(old))][:2]
    assert admin.alter_partition_reassignments({part: new}) == {part: None}
    until(lambda: not admin.list_partition_reassignments())
    admin.close()


async def administer_by_aiokafka(servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_partitions({"t": AioNewPartitions(5)})
    resource = AioConfigResource(AioConfigResourceType.TOPIC, "t", {"retention.ms": None})
    (answer,) = await admin.describe_configs([resource])
    (told,) = answer.resources
    assert (told[0], told[3], [row[:2] for row in told[4]]) == (
        *(0, "t", [("retention.ms", "7200000")]),
    )
    await admin.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait in a thread until ``condition`` holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_one_topic_is_read_and_written_by_clients_of_both_kinds(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        servers = cluster.kafka_servers
        ours = ",".join(f"{h}:{p}" for h, p in [cluster.brokers[1].addresses["external"]])
        await in_thread(confluent_produce, servers, "t", values_of(100, b"kafka-"))
        async with Producer(ours) as producer:
            for value in values_of(100, b"ours-"):
                await producer.send("t", value, key=value, headers=[("n", value)])
            await producer.flush()
        await in_thread(confluent_produce, servers, "t", values_of(100, b"again-"))
        expected = values_of(100, b"kafka-") + values_of(100, b"ours-") + values_of(100, b"again-")

        found = await in_thread(confluent_consume, servers, "t", "g", 300)
        assert [each.value() for each in found] == expected
        assert [each.offset() for each in found] == list(range(300))
        assert found[150].headers() == [("n", found[150].value())]

        read: list[Record] = []
        consumer = Consumer("t", bootstrap_servers=ours, auto_offset_reset="earliest")
        async with consumer, asyncio.timeout(WAIT_S):
            while len(read) < 300:
                for records in (await consumer.getmany(timeout_ms=5000)).values():
                    read += records
        assert [each.value for each in read] == expected
        # A group moves from one kind of client to the other: its offsets are common to both.
        assert (await in_thread(committed, servers, "g")) == 300


def committed(servers: str, group: str) -> int:
    consumer = ConfluentConsumer({"bootstrap.servers": servers, "group.id": group})
    (found,) = consumer.committed([ConfluentPartition("t", 0)], timeout=WAIT_S)
    consumer.close()
    offset: int = found.offset
    return offset


async def test_producers_go_on_while_a_leader_dies(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        servers = cluster.kafka_servers
        small = {"batch.num.messages": 100}  # many requests
        first = asyncio.ensure_future(
            in_thread(lambda: confluent_produce(servers, "t", values_of(20_000), **small))
        )
        leader = cluster.leader("t")
        written = cluster.brokers[leader].dispatcher.stats.of(ApiKey.PRODUCE)
        await eventually(lambda: written.answered > 2)
        await cluster.crash_broker(leader)
        await first
        await cluster.start_broker(leader)  # it may coordinate the group
        found = await in_thread(confluent_consume, servers, "t", "g", 20_000)
        assert [each.value() for each in found] == values_of(20_000)


async def test_clients_that_keep_their_epoch_are_told_that_they_have_no_transactions(
    tmp_path: Path,
) -> None:
    def confluent(servers: str) -> None:
        producer = ConfluentProducer({"bootstrap.servers": servers, "transactional.id": "x"})
        with pytest.raises(KafkaException, match="does not know KIP-890") as raised:
            producer.init_transactions(WAIT_S)
        assert raised.value.args[0].fatal()

    def kafka_python(servers: str) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=servers, transactional_id="x")
        with pytest.raises(kafka.errors.KafkaError, match="UnsupportedVersion"):
            producer.init_transactions()
        producer.close(1)

    async with KafkaCluster(tmp_path, 1, transaction_by_number_enable=False) as cluster:
        servers = cluster.kafka_servers
        await in_thread(confluent, servers)
        await in_thread(kafka_python, servers)
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="x")
        with pytest.raises(AioKafkaError, match="UnsupportedVersion"):
            await producer.start()
        await producer.stop()


async def test_the_first_program_of_the_guide(tmp_path: Path) -> None:
    page = "docs/kafka.md"
    blocks = blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))
    here = "tests/broker/kafka/test_clients.py"
    (program,) = [block.text for block in blocks if block.get("elsewhere") == here]
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("orders")
        await cluster.converged()
        program = program.replace("localhost:9192", cluster.kafka_servers)
        assert await in_thread(printed, program) == "b'table 7' b'one coffee'\n"


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
