"""Batches of Kafka for compacted topics are looked at for keys while others are served, and records
without one are named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from oncelog_broker.kafka.data_apis import NO_KEY_MESSAGE, RECORD_ERRORS_MAX
from oncelog_broker.kafka.versions import OFFERED
from oncelog_broker.kafka.wire.codec import decode
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceRequestPartitionProduceData,
    KafkaProduceRequestTopicProduceData,
    KafkaProduceResponse,
)
from oncelog_broker.server.handlers.key_checks import WORK_A_TURN
from oncelog_protocol.errors import InvalidRecordError
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.schema import Span
from support.kafka_client import WAIT_S, RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.turns import Turns
from support.waiting import eventually, in_thread

LARGE = 50 * WORK_A_TURN
RECORD_ERRORS_SINCE = 8


def batch_of(keys: list[bytes | None] | None, count: int, codec: Codec = Codec.NONE) -> bytes:
    values = [b"v"] * count
    return bytes(encode_batch(values, keys=keys, timestamps=2**40, codec=codec, magic=KAFKA_MAGIC))


def a_produce(batch: bytes) -> KafkaProduceRequest:
    part = KafkaProduceRequestPartitionProduceData(0, Span(0, len(batch)))
    topics = [KafkaProduceRequestTopicProduceData("t", partition_data=[part])]
    return KafkaProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)


async def answer_of(client: RawClient, version: int = 8) -> Any:
    """Return what the next answer says of the partition."""
    answer = decode(KafkaProduceResponse, version, memoryview(await client.frame()), 4)
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
async def test_what_comes_behind_a_large_batch_is_written_behind_it(
    tmp_path: Path, codec: Codec
) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", cleanup_policy="compact")
        client = await connected(cluster)
        large, small = batch_of([b"k"] * LARGE, LARGE, codec), batch_of([b"k"], 1)
        async with Turns() as turns:
            for batch in (large, small):
                client.send(a_produce(batch), 8, [batch])
            first = await answer_of(client)
            assert turns.count >= LARGE // WORK_A_TURN  # and whoever else came was served
        second = await answer_of(client)
        assert (first.error_code, first.base_offset) == (0, 0)
        assert (second.error_code, second.base_offset) == (0, LARGE)
        client.close()


async def test_of_a_connection_that_ends_meanwhile_nothing_is_written(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", cleanup_policy="compact")
        stats = cluster.brokers[1].dispatcher.stats.of(ApiKey.PRODUCE)
        client = await connected(cluster)
        large = batch_of([b"k"] * LARGE, LARGE, Codec.GZIP)
        client.send(a_produce(large), 8, [large])
        async with asyncio.timeout(WAIT_S):
            while not stats.waiting:  # it is not to be missed
                await asyncio.sleep(0)
        client.close()
        await eventually(lambda: stats.dropped == 1)
        later = await connected(cluster)
        for expected in (0, LARGE):
            later.send(a_produce(large), 8, [large])
            answer = await answer_of(later)
            assert (answer.error_code, answer.base_offset) == (0, expected)
        later.close()


async def refused(cluster: KafkaCluster, batch: bytes, version: int) -> Any:
    client = await connected(cluster)
    answer = await client.ask(a_produce(batch), version, [batch])
    client.close()
    return answer.responses[0].partition_responses[0]


async def test_records_without_a_key_are_named_to_clients_that_take_that(tmp_path: Path) -> None:
    batch = batch_of([b"k", None, b"k", None], 4)
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", cleanup_policy="compact")
        for version in range(3, OFFERED[ApiKey.PRODUCE][1] + 1):
            part = await refused(cluster, batch, version)
            assert (part.error_code, part.base_offset) == (InvalidRecordError.code, -1)
            named = [
                (each.batch_index, each.batch_index_error_message) for each in part.record_errors
            ]
            if version < RECORD_ERRORS_SINCE:
                assert (named, part.error_message) == ([], None)
            else:
                assert named == [(1, NO_KEY_MESSAGE), (3, NO_KEY_MESSAGE)]
                assert "2 of 4 records have no key" in part.error_message


async def test_so_many_records_without_a_key_are_named(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", cleanup_policy="compact")
        count = 2 * RECORD_ERRORS_MAX
        part = await refused(cluster, batch_of(None, count, Codec.GZIP), 8)
        named = [each.batch_index for each in part.record_errors]
        assert named == list(range(RECORD_ERRORS_MAX))
        assert f"{count} of {count}" in part.error_message


async def test_the_bound_is_that_of_all_partitions_together(tmp_path: Path) -> None:
    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=2, cleanup_policy="compact")
        batch = batch_of(None, RECORD_ERRORS_MAX - 10)
        parts = [
            KafkaProduceRequestPartitionProduceData(n, Span(n * len(batch), len(batch)))
            for n in range(2)
        ]
        topics = [KafkaProduceRequestTopicProduceData("t", partition_data=parts)]
        client = await connected(cluster)
        request = KafkaProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
        answer = await client.ask(request, 9, [batch, batch])
        counts = [len(p.record_errors) for p in answer.responses[0].partition_responses]
        assert counts == [RECORD_ERRORS_MAX - 10, 10]
        client.close()


async def test_librdkafka_says_of_each_record_what_is_wrong(tmp_path: Path) -> None:
    outcomes: dict[bytes, int] = {}

    def work(servers: str) -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 1000})
        for value, key in ((b"0", b"k"), (b"1", None), (b"2", b"k"), (b"3", None)):
            producer.produce(
                "t", value, key=key, partition=0,
                on_delivery=lambda error, each: outcomes.update({each.value(): error.code()}),
            )  # fmt: skip
        assert producer.flush(WAIT_S) == 0

    async with KafkaCluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", cleanup_policy="compact")
        await in_thread(work, cluster.kafka_servers)
    wrong, other = KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD
    assert outcomes == {b"0": other, b"1": wrong, b"2": other, b"3": wrong}
