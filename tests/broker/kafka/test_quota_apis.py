"""Quotas are shown to clients of Kafka, and changed by them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog_broker.kafka.versions import OFFERED
from oncelog_broker.kafka.wire.codec import decode
from oncelog_broker.kafka.wire.declaration import KafkaRequest
from oncelog_broker.kafka.wire.messages.alter_client_quotas import (
    KafkaAlterClientQuotasRequest,
    KafkaAlterClientQuotasRequestEntityData,
    KafkaAlterClientQuotasRequestEntryData,
    KafkaAlterClientQuotasRequestOpData,
)
from oncelog_broker.kafka.wire.messages.describe_client_quotas import (
    KafkaDescribeClientQuotasRequest,
    KafkaDescribeClientQuotasRequestComponentData,
)
from oncelog_broker.kafka.wire.messages.fetch import (
    KafkaFetchRequest,
    KafkaFetchRequestPartition,
    KafkaFetchRequestTopic,
)
from oncelog_broker.kafka.wire.messages.heartbeat import KafkaHeartbeatRequest
from oncelog_broker.kafka.wire.messages.metadata import KafkaMetadataRequest
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceRequestPartitionProduceData,
    KafkaProduceRequestTopicProduceData,
    KafkaProduceResponse,
)
from oncelog_protocol.acls import DESCRIBE, READ, WRITE
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.quotas import AlterQuotasRequest, QuotaChange
from oncelog_protocol.quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from support.kafka_client import RawClient
from support.kafka_secured import SecuredKafkaCluster

INVALID_REQUEST = 42
RATE = "producer_byte_rate"
EXACT, DEFAULT, SPECIFIED = range(3)
Entity = dict[str, str | None]
component = KafkaDescribeClientQuotasRequestComponentData


def entry(
    entity: Entity, value: float | None, key: str = RATE
) -> KafkaAlterClientQuotasRequestEntryData:
    return KafkaAlterClientQuotasRequestEntryData(
        [KafkaAlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items()],
        [KafkaAlterClientQuotasRequestOpData(key, value or 0.0, remove=value is None)],
    )


async def described(
    client: RawClient,
    *components: KafkaDescribeClientQuotasRequestComponentData,
    strict: bool = False,
) -> list[tuple[Entity, float]]:
    """Return the entities that are chosen, each with the value of its only quota."""
    request = KafkaDescribeClientQuotasRequest(list(components), strict)
    answer = await client.ask(request, 1)
    assert (answer.error_code, answer.error_message) == (0, None)
    return [
        ({part.entity_type: part.entity_name for part in each.entity}, each.values[0].value)
        for each in answer.entries
    ]


async def test_quotas_are_set_and_taken_away(tmp_path: Path) -> None:
    till: Entity = {"user": "till"}
    both: Entity = {"user": "till", "client-id": None}
    address: Entity = {"ip": "10.1.2.3"}
    async with SecuredKafkaCluster(tmp_path, 1) as cluster:
        client = await cluster.super_client()
        wanted = [
            entry(till, 1000.0),
            entry({"planet": "mars"}, 1.0),
            entry(both, 500.0),
            entry(address, 7.0, "connection_creation_rate"),
            entry(till, 5.0, "request_percentage"),
            entry({"user": ""}, 5.0),
        ]
        made = await client.ask(KafkaAlterClientQuotasRequest(wanted), 1)
        codes = [each.error_code for each in made.entries]
        assert codes == [0, INVALID_REQUEST, 0, 0, INVALID_REQUEST, INVALID_REQUEST]
        assert [part.entity_name for part in made.entries[2].entity] == ["till", None]
        every = await described(client)
        assert len(every) == 3
        of_till = component("user", EXACT, "till")
        assert await described(client, of_till, strict=True) == [(till, 1000.0)]
        assert len(await described(client, of_till)) == 2
        with_client = component("client-id", SPECIFIED, None)
        assert await described(client, with_client) == [(both, 500.0)]
        assert await described(client, component("client-id", DEFAULT, None)) == [(both, 500.0)]
        assert await described(client, component("ip", SPECIFIED, None)) == [(address, 7.0)]
        for bad in ([of_till, of_till], [component("user", 9, None)], [component("x", 2, None)]):
            refused = await client.ask(KafkaDescribeClientQuotasRequest(bad), 1)
            assert (refused.error_code, refused.entries) == (INVALID_REQUEST, None)
        only_looked = KafkaAlterClientQuotasRequest([entry(till, None)], validate_only=True)
        assert (await client.ask(only_looked, 0)).entries[0].error_code == 0
        assert len(await described(client, of_till)) == 2
        gone = KafkaAlterClientQuotasRequest([entry(till, None), entry(both, None)])
        assert {each.error_code for each in (await client.ask(gone, 0)).entries} == {0}
        assert await described(client, of_till) == []
        client.close()


# ---- who exceeds a quota is told, and held (KIP-219)

APP = QuotaEntity("app")


@asynccontextmanager
async def limited(
    directory: Path, key: str, rate: float
) -> AsyncIterator[tuple[SecuredKafkaCluster, RawClient, RawClient]]:
    """Give a broker with a topic, a client of ``app`` that may have so much in a second, and one of
    the super user, who has no quotas."""
    async with SecuredKafkaCluster(directory, 1) as cluster:
        await cluster.create_topic("t")
        await cluster.allow(READ, WRITE, DESCRIBE)
        other, client = await cluster.super_client(), await cluster.client_of("app")
        await other.ask(a_produce(), 9, [BATCH])
        response = await cluster.call(
            cluster.controller.broker_id, AlterQuotasRequest([QuotaChange(*APP, key, rate)])
        )
        assert [response.error_code, response.results[0].error_code] == [0, 0]
        yield cluster, client, other
        client.close()
        other.close()


def a_produce() -> KafkaProduceRequest:
    part = KafkaProduceRequestPartitionProduceData(0, Span(0, len(BATCH)))
    topic = KafkaProduceRequestTopicProduceData("t", partition_data=[part])
    return KafkaProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])


def a_fetch() -> KafkaFetchRequest:
    part = KafkaFetchRequestPartition(0, fetch_offset=0, partition_max_bytes=2**20)
    topics = [KafkaFetchRequestTopic("t", partitions=[part])]
    return KafkaFetchRequest(topics=topics, max_wait_ms=0, max_bytes=2**20)


BATCH = bytes(encode_batch([b"v" * 1000], timestamps=2**40, magic=KAFKA_MAGIC))
TOLD_SINCE = {ApiKey.PRODUCE: 1, ApiKey.FETCH: 1, ApiKey.METADATA: 3}
"""Answers from this version on say for how long their connection is held."""


@pytest.mark.parametrize(
    ("quota", "request_", "payload"),
    [
        (PRODUCER_BYTE_RATE, a_produce(), [BATCH]),
        (CONSUMER_BYTE_RATE, a_fetch(), []),
        (REQUEST_RATE, KafkaMetadataRequest([]), []),
    ],
    ids=["produce", "fetch", "request"],
)
async def test_who_exceeds_a_quota_is_told_in_every_version_that_can(
    tmp_path: Path, quota: str, request_: KafkaRequest, payload: list[bytes]
) -> None:
    async with limited(tmp_path, quota, 0.01) as (cluster, _, _):
        api_key = ApiKey(request_.api_key)
        first, last = OFFERED[api_key]
        for version in range(first, last + 1):
            client = await cluster.client_of("app")
            answer = await client.ask(request_, version, payload)
            assert (answer.throttle_time_ms > 0) == (version >= TOLD_SINCE[api_key])
            client.close()


async def test_who_exceeds_a_quota_is_held(tmp_path: Path) -> None:
    async with limited(tmp_path, PRODUCER_BYTE_RATE, 0.01) as (cluster, client, other):
        stats = cluster.brokers[1].dispatcher.stats.of(ApiKey.PRODUCE)
        before = stats.started
        answer = await client.ask(a_produce(), 9, [BATCH])
        assert answer.responses[0].partition_responses[0].error_code == 0  # it is written
        # What keeps a member in its group is served, and says the hold again.
        beat = await client.ask(KafkaHeartbeatRequest("g", 1, "m"), 4)
        assert beat.throttle_time_ms > 0
        client.send(a_produce(), 9, [BATCH])
        for _ in range(20):  # others are served, and it is not
            assert (await other.ask(KafkaMetadataRequest([]), 9)).throttle_time_ms == 0
        assert (stats.started, stats.waiting) == (before + 1, 0)


async def test_a_held_client_is_served_afterwards(tmp_path: Path) -> None:
    async with limited(tmp_path, PRODUCER_BYTE_RATE, 5.0 * len(BATCH)) as (_, client, _):
        for _ in range(7):
            client.send(a_produce(), 9, [BATCH])
        answers = [
            decode(KafkaProduceResponse, 9, memoryview(await client.frame()), 5) for _ in range(7)
        ]
        parts = [each.responses[0].partition_responses[0] for each in answers]
        assert [each.base_offset for each in parts] == list(range(1, 8))
        assert any(each.throttle_time_ms for each in answers)
