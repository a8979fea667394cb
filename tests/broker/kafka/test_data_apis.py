"""Batches of Kafka for compacted topics are looked at for keys while others are served."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.kafka.wire.codec import decode
from oncelog_broker.kafka.wire.messages.produce import (
    KafkaProduceRequest,
    KafkaProduceRequestPartitionProduceData,
    KafkaProduceRequestTopicProduceData,
    KafkaProduceResponse,
)
from oncelog_broker.server.handlers.key_checks import WORK_A_TURN
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.schema import Span
from support.kafka_client import WAIT_S, RawClient, connected
from support.kafka_cluster import KafkaCluster
from support.turns import Turns
from support.waiting import eventually

LARGE = 50 * WORK_A_TURN


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
