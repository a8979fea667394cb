"""Ends of own partitions are looked up, leaders are asked for others, and unknown ones are None."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from oncelog_broker.server import end_offsets
from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_broker.server.end_offsets import EndOffsets
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import IsolationLevel, TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.server import Parked, ServerUnderTest
from support.waiting import eventually


def of(cluster: Cluster, broker_id: int) -> EndOffsets:
    broker = cluster.brokers[broker_id]
    connector = BrokerConnector(broker_id, broker.image, "internal")
    return EndOffsets(broker_id, broker.image, broker.replicas, connector)


async def fill(cluster: Cluster, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """Partition n gets n + 1 records."""
    for number in range(partitions):
        channel = await cluster.channel(cluster.leader(topic, number))
        await produce(channel, topic, number, [b"x"] * (number + 1))
        channel.close()
    return {TopicPartition(topic, number): number + 1 for number in range(partitions)}


async def test_every_broker_knows_the_same(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", partitions=4)
        ends = await fill(cluster, "t", 4)
        leaders = {cluster.leader("t", number) for number in range(4)}
        assert leaders == {1, 2}, "own ones, and others'"
        missing = TopicPartition("none", 0)
        for broker_id in (1, 2):
            asker = of(cluster, broker_id)
            found = await asker.fetch([*ends, missing])
            assert found == {**{tp: (0, end) for tp, end in ends.items()}, missing: None}
            assert await asker.fetch([]) == {}
            asker.close()


async def test_a_leader_that_is_gone_harms_no_other(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", partitions=2)
        ends = await fill(cluster, "t", 2)
        asker = of(cluster, 1)
        theirs = next(tp for tp in ends if cluster.leader(*tp) == 2)
        own = next(tp for tp in ends if cluster.leader(*tp) == 1)
        assert (await asker.fetch([theirs])) == {theirs: (0, ends[theirs])}
        await cluster.crash_broker(2)
        expected = {own: (0, ends[own]), theirs: None}
        assert await asker.fetch([own, theirs]) == expected, "refused"
        await eventually(lambda: 2 not in cluster.brokers[1].image.brokers, timeout_s=10)
        assert await asker.fetch([own, theirs]) == expected, "nobody leads"
        await cluster.start_broker(2)
        await cluster.converged()
        await eventually(lambda: cluster.leader(*theirs) == 2, timeout_s=10)
        assert await asker.fetch([theirs]) == {theirs: (0, ends[theirs])}, "connected again"
        asker.close()


async def test_a_replica_out_of_service_has_no_end(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        tp = TopicPartition("t", 0)
        partition = cluster.brokers[1].replicas.partition(tp)
        partition.fail()
        assert await of(cluster, 1).fetch([tp]) == {tp: None}


class Leader:
    """It answers ListOffsets with 5 and 9, or with an error, and counts requests."""

    def __init__(self) -> None:
        self.requests: list[ListOffsetsRequest] = []
        self.error_code = 0
        self.item_error_code = 0

    async def handle_async(self, context: object, request: ListOffsetsRequest) -> object:
        self.requests.append(request)
        if self.error_code:
            return ListOffsetsResponse(self.error_code)
        return ListOffsetsResponse(
            0,
            [
                ListOffsetsTopicResponse(
                    topic.topic,
                    [
                        ListOffsetsPartitionResponse(
                            item.partition,
                            self.item_error_code,
                            offset=5 if item.timestamp == -2 else 9,
                        )
                        for item in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )


@asynccontextmanager
async def asking(
    tmp_path: Path, handlers: dict[ApiKey, object], async_handlers: dict[ApiKey, object]
) -> AsyncIterator[tuple[EndOffsets, list[TopicPartition]]]:
    """Start broker 1 of a real cluster; the test makes broker 2, which leads the partitions."""
    async with (
        Cluster(tmp_path, brokers=2) as cluster,
        ServerUnderTest(handlers, async_handlers, internal=True) as server,
    ):
        await cluster.create_topic("t", partitions=6)
        image = cluster.brokers[1].image
        image.brokers[2].listeners[:] = [ListenerAddress("internal", *server.address)]
        asker = of(cluster, 1)
        yield asker, [TopicPartition("t", p) for p in range(6) if cluster.leader("t", p) == 2]
        asker.close()


async def test_one_question_a_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader()
    async with asking(tmp_path, {}, {ApiKey.LIST_OFFSETS: leader}) as (asker, partitions):
        assert await asker.fetch(partitions) == dict.fromkeys(partitions, (5, 9))
        (request,) = leader.requests
        assert request.isolation_level == IsolationLevel.READ_COMMITTED
        monkeypatch.setattr(end_offsets, "ENTRIES_PER_REQUEST_MAX", 4)
        assert await asker.fetch(partitions) == dict.fromkeys(partitions, (5, 9))
        assert len(leader.requests) == 3, "two at a time"
        leader.item_error_code = 6
        assert await asker.fetch(partitions) == dict.fromkeys(partitions)
        leader.error_code = 42
        assert await asker.fetch(partitions) == dict.fromkeys(partitions)


async def test_a_silent_leader_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Parked()
    monkeypatch.setattr(end_offsets, "DEADLINE_S", 0.1)
    async with asking(tmp_path, {ApiKey.LIST_OFFSETS: silent}, {}) as (asker, partitions):
        own = TopicPartition("t", next(p for p in range(6) if ("t", p) not in partitions))
        found = await asker.fetch([own, *partitions])
        assert found == {own: (0, 0), **dict.fromkeys(partitions)}
        assert len(silent.requests) == 1


async def test_closing_lets_go_of_everybody(tmp_path: Path) -> None:
    silent = Parked()
    async with asking(tmp_path, {ApiKey.LIST_OFFSETS: silent}, {}) as (asker, partitions):
        waiting = asyncio.create_task(asker.fetch(partitions))
        await eventually(lambda: silent.requests)
        asker.close()
        assert await waiting == dict.fromkeys(partitions)
        assert await asker.fetch(partitions) == dict.fromkeys(partitions)


async def test_where_partitions_ended_at_other_times(tmp_path: Path) -> None:
    """The timestamps of records decide: the same from every broker, whoever leads."""
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", partitions=2)
        tps = [TopicPartition("t", number) for number in range(2)]
        for tp in tps:
            channel = await cluster.channel(cluster.leader(*tp))
            for time_ms in (1_000, 2_000, 3_000):
                batch = encode_batch([b"x", b"y"], timestamps=[time_ms, time_ms + 10])
                topics = [ProduceTopic("t", [ProducePartition(tp.partition, Span(0, len(batch)))])]
                request = ProduceRequest(None, -1, 5_000, topics)
                reply = (await channel.call(request, [batch], timeout_s=5)).message
                assert reply.topics[0].partitions[0].error_code == 0
            channel.close()
        missing = TopicPartition("none", 0)
        for broker_id in (1, 2):
            asker = of(cluster, broker_id)
            found = await asker.at_times([*tps, missing], [500, 1_005, 2_000, 3_010, 3_011])
            assert found == {**{tp: [0, 1, 2, 5, -1] for tp in tps}, missing: None}
            asker.close()
