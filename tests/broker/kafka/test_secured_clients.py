"""Real brokers know clients of Kafka by SCRAM, by passwords over TLS and by certificates."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from docs.blocks import blocks_of
from support.house import ROOT
from support.kafka_secured import SecuredKafkaCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    import kafka

WAIT_S = 60.0
SUPER = {"super_users": ["User:admin", "User:app"]}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WAYS = [
    ("kafka", "SCRAM-SHA-256"),
    ("kafka", "SCRAM-SHA-512"),
    ("kafka", "PLAIN"),
    ("kafka-plain", "SCRAM-SHA-256"),
    ("kafka-papers", "-"),
]


def produce_and_consume(settings: dict[str, Any], topic: str, value: bytes) -> None:
    """Send one record and read it in a group."""
    errors: list[Any] = []
    producer = Producer({**settings, "enable.idempotence": True})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]
    wanted = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **wanted})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert (message.error(), message.value()) == (None, value)
    consumer.close()


def first_error(settings: dict[str, Any]) -> KafkaError:
    """Return what a client is told first."""
    told: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": told.append})
    while not told:
        producer.poll(0.1)
    return told[0]


async def test_confluent_kafka(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 2, **SUPER) as cluster:
        await cluster.add_user()
        for number, (listener, mechanism) in enumerate(WAYS):
            topic = f"t{number}"
            await cluster.create_topic(topic, partitions=2, replication_factor=2)
            settings = cluster.kafka_settings(listener, mechanism=mechanism)
            async with asyncio.timeout(WAIT_S):
                await asyncio.to_thread(produce_and_consume, settings, topic, topic.encode())
        wrong = cluster.kafka_settings(password="pen")
        error = await asyncio.to_thread(first_error, wrong)
        assert error.code() == KafkaError._AUTHENTICATION
        assert "the password or the token is not right" in error.str()


async def test_the_settings_of_the_guide(tmp_path: Path) -> None:
    page, here = "docs/kafka.md", "tests/broker/kafka/test_secured_clients.py"
    blocks = blocks_of(page, (ROOT / page).read_text(encoding="utf-8"))
    (program,) = [block.text for block in blocks if block.get("elsewhere") == here]
    async with SecuredKafkaCluster(tmp_path, 1, **SUPER) as cluster:
        await cluster.add_user()
        await cluster.create_topic("t")
        program = program.replace("localhost:9192", cluster.servers("kafka"))
        program = program.replace("ca.pem", cluster.papers.ca_file)
        told: dict[str, Any] = {"Producer": dict}
        exec(program, told)
        await asyncio.to_thread(produce_and_consume, told["producer"], "t", b"value")


async def test_sessions_go_on(tmp_path: Path) -> None:
    """Who authenticates again in time keeps the connection."""
    settings = {**SUPER, "connections_max_reauth_ms": 3000}
    async with SecuredKafkaCluster(tmp_path, 1, **settings) as cluster:
        await cluster.add_user()
        await cluster.create_topic("t")
        where = cluster.kafka_settings()
        await asyncio.to_thread(produce_and_consume, where, "t", b"value")
        broker = cluster.brokers[1]
        listener, asked = broker.listeners["kafka"], broker.dispatcher.stats.of(36)
        producer = Producer(where)
        producer.produce("t", b"value")
        assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
        accepted, answered = listener.counters.accepted, asked.answered
        while asked.answered < answered + 2:
            await asyncio.to_thread(producer.poll, 0.1)
        producer.produce("t", b"value")
        assert await asyncio.to_thread(producer.flush, WAIT_S) == 0
        assert listener.counters.accepted == accepted


async def test_administration_by_confluent_kafka(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 2, **SUPER) as cluster:
        await cluster.add_user()
        await cluster.create_topic("t")
        mine = cluster.kafka_settings()
        other = {**mine, "sasl.username": "till", "sasl.password": "a password"}
        async with asyncio.timeout(WAIT_S):
            await asyncio.to_thread(let_somebody_write, mine, other)


def let_somebody_write(mine: dict[str, Any], other: dict[str, Any]) -> None:
    """Make a user who may write, and take all of it back."""
    admin = AdminClient(mine)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    wanted = [UserScramCredentialUpsertion("till", info, b"a password")]
    admin.alter_user_scram_credentials(wanted)["till"].result(WAIT_S)
    found = admin.describe_user_scram_credentials(["till"])["till"].result(WAIT_S)
    assert [each.iterations for each in found.scram_credential_infos] == [8192]
    allowed = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:till", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([allowed])[allowed].result(WAIT_S)
    told: list[Any] = []
    producer = Producer(other)
    producer.produce("t", b"value", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(WAIT_S) == 0
    assert told == [None]
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    assert admin.describe_acls(every).result(WAIT_S) == [allowed]
    assert admin.delete_acls([every])[every].result(WAIT_S) == [allowed]
    gone = UserScramCredentialDeletion("till", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([gone])["till"].result(WAIT_S)


async def test_aiokafka(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 2, **SUPER) as cluster:
        await cluster.add_user()
        context = ssl.create_default_context(cafile=cluster.papers.ca_file)
        certificate, key = cluster.papers.issue("app")
        shown = ssl.create_default_context(cafile=cluster.papers.ca_file)
        shown.load_cert_chain(certificate, key)
        user = {"sasl_plain_username": "app", "sasl_plain_password": "pencil"}
        for number, (listener, settings) in enumerate(
            (
                ("kafka", {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **user}),
                (
                    "kafka-plain",
                    {
                        "security_protocol": "SASL_PLAINTEXT",
                        "sasl_mechanism": "SCRAM-SHA-256",
                        **user,
                    },
                ),
                ("kafka-papers", {"security_protocol": "SSL"}),
            )
        ):
            topic = f"t{number}"
            await cluster.create_topic(topic)
            where = {
                "bootstrap_servers": cluster.servers(listener),
                "ssl_context": shown if listener == "kafka-papers" else context,
                **settings,
            }
            async with asyncio.timeout(WAIT_S):
                producer = AIOKafkaProducer(**where)
                await producer.start()
                await producer.send_and_wait(topic, b"value")
                await producer.stop()
                consumer = AIOKafkaConsumer(
                    topic, group_id=topic, auto_offset_reset="earliest", **where
                )
                await consumer.start()
                assert (await consumer.getone()).value == b"value"
                await consumer.stop()


async def test_kafka_python(tmp_path: Path) -> None:
    async with SecuredKafkaCluster(tmp_path, 1, **SUPER) as cluster:
        await cluster.add_user()
        certificate, key = cluster.papers.issue("app")
        by_tls = {"ssl_cafile": cluster.papers.ca_file}
        by_sasl = {"sasl_plain_username": "app", "sasl_plain_password": "pencil"}
        for number, (listener, settings) in enumerate(
            (
                (
                    "kafka",
                    {
                        "security_protocol": "SASL_SSL",
                        "sasl_mechanism": "SCRAM-SHA-512",
                        **by_tls,
                        **by_sasl,
                    },
                ),
                (
                    "kafka-papers",
                    {
                        "security_protocol": "SSL",
                        "ssl_certfile": certificate,
                        "ssl_keyfile": key,
                        **by_tls,
                    },
                ),
            )
        ):
            topic = f"t{number}"
            await cluster.create_topic(topic)
            where = {"bootstrap_servers": cluster.servers(listener), **settings}
            async with asyncio.timeout(WAIT_S):
                await asyncio.to_thread(send_and_read, where, topic)


def send_and_read(where: dict[str, Any], topic: str) -> None:
    """Send one record by kafka-python and read it."""
    producer = kafka.KafkaProducer(**where)
    producer.send(topic, b"value").get(WAIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, auto_offset_reset="earliest", **where)
    assert next(consumer).value == b"value"
    consumer.close()
