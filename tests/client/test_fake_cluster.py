"""The client's tests stand on this fake: it appends, serves, refuses and breaks as told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.config import Address
from oncelog.core.connection import open_channel
from oncelog_protocol.errors import MessageTooLargeError, NotLeaderOrFollowerError
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.schema import Span
from oncelog_runtime.channel import ChannelClosedError, RequestChannel
from support.fake_cluster import Action, FakeCluster, values_of


async def connect(cluster: FakeCluster, broker: int = 1) -> RequestChannel:
    return await open_channel(Address("127.0.0.1", cluster.brokers[broker].port), "test", 5)


async def close(channel: RequestChannel) -> None:
    channel.close()
    await channel.wait_closed()


async def call(channel: RequestChannel, request: Request, *payload: Any) -> Any:
    return (await channel.call(request, payload, timeout_s=5)).message


def produce(batch: Any) -> ProduceRequest:
    return ProduceRequest(
        None, -1, 1000, [ProduceTopic("t", [ProducePartition(0, Span(0, len(batch)))])]
    )


def fetch(offset: int, wait_ms: int = 0) -> FetchRequest:
    topics = [FetchTopic("t", [FetchPartition(0, offset, 1000)])]
    return FetchRequest(-1, -1, wait_ms, 1, 1000, 0, -1, topics)


BATCH = encode_batch([b"a", b"b"], timestamps=0)


async def test_what_is_produced_can_be_fetched() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        channel = await connect(cluster)
        for base in (0, 2):
            answer = await call(channel, produce(BATCH), BATCH)
            assert answer.topics[0].partitions[0].base_offset == base
        reply = await channel.call(fetch(3), timeout_s=5)
        span = reply.message.topics[0].partitions[0].records
        columns = decode_batch(reply.payload[span.offset : span.offset + span.length])
        assert (columns.base_offset, columns.values) == (2, [b"a", b"b"])
        assert values_of(cluster, "t") == {0: [b"a", b"b"] * 2}
        await close(channel)


async def test_a_long_poll_is_woken_by_data_or_by_time() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        reader, writer = await connect(cluster), await connect(cluster)
        empty = await call(reader, fetch(0, 10))
        assert empty.topics[0].partitions[0].records.length == 0
        waiting = asyncio.create_task(call(reader, fetch(0, 60_000)))
        await call(writer, produce(BATCH), BATCH)
        assert (await waiting).topics[0].partitions[0].records.length == len(BATCH)
        await close(reader)
        await close(writer)


async def test_only_the_leader_answers() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        channel = await connect(cluster, 2)
        answer = await call(channel, produce(BATCH), BATCH)
        assert answer.topics[0].partitions[0].error_code == NotLeaderOrFollowerError.code
        cluster.move_leader("t", 0, 2)
        metadata = await call(channel, MetadataRequest(None))
        assert (metadata.topics[0].partitions[0].leader, len(metadata.brokers)) == (2, 2)
        assert metadata.topics[0].partitions[0].leader_epoch == 1
        await close(channel)


@pytest.mark.parametrize(
    ("action", "appended"),
    [(Action.ERROR, 0), (Action.ERROR_AFTER, 2), (Action.DROP_BEFORE, 0), (Action.DROP_AFTER, 2)],
)
async def test_rules(action: Action, appended: int) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        rule = cluster.rule(ApiKey.PRODUCE, action, error=MessageTooLargeError)
        channel = await connect(cluster)
        if action in (Action.ERROR, Action.ERROR_AFTER):
            answer = await call(channel, produce(BATCH), BATCH)
            assert answer.topics[0].partitions[0].error_code == MessageTooLargeError.code
        else:
            with pytest.raises(ChannelClosedError):
                await call(channel, produce(BATCH), BATCH)
        assert rule.met == 1
        assert cluster.partition("t").next_offset == appended
        await close(channel)


async def test_holding_and_stopping() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        rule = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        channel = await connect(cluster)
        waiting = asyncio.create_task(call(channel, produce(BATCH), BATCH))
        while not rule.met:
            await asyncio.sleep(0)
        assert cluster.partition("t").next_offset == 0
        await cluster.brokers[1].stop()
        with pytest.raises(ChannelClosedError):
            await waiting
        with pytest.raises(ConnectionRefusedError):
            await connect(cluster)
        await cluster.brokers[1].start()
        await close(await connect(cluster))
        await close(channel)
