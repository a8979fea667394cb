"""Whole brokers and a real producer: what is sent again is there once, and in its place [K1]."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oncelog import Producer
from oncelog_broker.app import Broker
from oncelog_broker.server.handlers.produce import ProduceHandler
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidRequestError,
    OutOfOrderSequenceNumberError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from oncelog_protocol.messages.transactions import AllocateProducerIdsRequest, InitPidRequest
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import Buffer, TopicPartition
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster
from support.hand_records import fetch_values
from support.waiting import eventually

TP = TopicPartition("t", 0)
STAMP_MS = 1_700_000_000_000


class LosesAnswers(ProduceHandler):
    """It closes the connection where every k-th answer was to be written: the records are there,
    and nobody has heard of it."""

    def __init__(self, broker: Broker, every: int) -> None:
        super().__init__(broker.replicas, broker.authorizer, broker.transactions.verifier)
        self.every = every
        self.answers = self.lost = 0

    def handle(
        self,
        context: RequestContext,
        request: ProduceRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        def answer(message: Any, payload: Sequence[Buffer] = ()) -> None:
            self.answers += 1
            if self.answers % self.every == 0:
                self.lost += 1
                respond(None, close_after=True)  # type: ignore[call-arg]
            else:
                respond(message)

        super().handle(context, request, payload, answer)


def lose_answers(cluster: Cluster, broker_id: int, every: int) -> LosesAnswers:
    broker = cluster.brokers[broker_id]
    handler = LosesAnswers(broker, every)
    broker.dispatcher.install({ApiKey.PRODUCE: handler}, {})
    return handler


def make_producer(cluster: Cluster, **options: Any) -> Producer:
    given = {"linger_ms": 0, "batch_size": 200, "retry_backoff_ms": 5, **options}
    return Producer(cluster.bootstrap, entropy=SeededEntropy(1), **given)


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number + b"." * 60 for number in range(count)]


async def values_of(cluster: Cluster, topic: str = "t") -> list[bytes | None]:
    """Return all records of partition 0, however many fetches they take."""
    channel = await cluster.channel(cluster.leader(topic))
    values: list[bytes | None] = []
    while found := await fetch_values(channel, topic, 0, len(values), wait_ms=100):
        values += found
    channel.close()
    return values


async def send(
    channel: RequestChannel, sequence: int, *, pid: int, epoch: int = 0, value: bytes = b"v"
) -> ProducePartitionResponse:
    """Send one batch of one record, as a producer that numbers by hand."""
    batch = encode_batch(
        [value],
        timestamps=STAMP_MS,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    topics = [ProduceTopic("t", [ProducePartition(0, Span(0, len(batch)))])]
    reply = await channel.call(ProduceRequest(None, -1, 5000, topics), [batch], timeout_s=10)
    answer: ProducePartitionResponse = reply.message.topics[0].partitions[0]
    return answer


@pytest.mark.parametrize("every", range(1, 7))
async def test_answers_are_lost(tmp_path: Path, every: int) -> None:
    """[K1]: every k-th acknowledgement is dropped, five requests in flight."""
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        handler = lose_answers(cluster, 1, max(2, every))
        values = numbered(60)
        async with make_producer(cluster) as producer:
            deliveries = [await producer.enqueue("t", value) for value in values]
            if every == 1:  # no answer ever comes, for a while
                handler.every = 1
                await eventually(lambda: handler.lost >= 8)
                handler.every = 1 << 30
            await producer.flush()
            offsets = [(await delivery).offset for delivery in deliveries]
        assert handler.lost > 3
        assert await values_of(cluster) == values
        known = [offset for offset in offsets if offset >= 0]
        assert known == sorted(set(known))


async def test_the_leader_dies_between_append_and_answer(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        leader = cluster.leader("t")
        values = numbered(40)
        async with make_producer(cluster) as producer:
            await producer.send("t", values[0])
            handler = lose_answers(cluster, leader, 1)
            deliveries = [await producer.enqueue("t", value) for value in values[1:]]
            await eventually(lambda: handler.lost >= 1)
            await cluster.crash_broker(leader)
            await producer.flush()
            offsets = [(await delivery).offset for delivery in deliveries]
        assert await values_of(cluster) == values
        assert offsets == list(range(1, 40))


@pytest.mark.parametrize("clean", [True, False])
async def test_a_retry_after_a_restart_finds_its_first_offset(tmp_path: Path, clean: bool) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        first = [await send(channel, sequence, pid=9, value=b"a") for sequence in range(5)]
        assert [answer.base_offset for answer in first] == [0, 1, 2, 3, 4]
        if clean:
            await cluster.stop_broker(1)
        else:
            await cluster.crash_broker(1)
        await cluster.start_broker(1)
        await eventually(lambda: cluster.brokers[1].replicas.partition(TP).is_leader)
        channel = await cluster.channel(1)
        assert len(await values_of(cluster)) == 5
        log = cluster.brokers[1].replicas.partition(TP).log
        assert log.producers.contradiction() == ""
        for sequence in range(5):
            again = await send(channel, sequence, pid=9, value=b"a")
            assert (again.error_code, again.base_offset) == (0, sequence)
        assert log.log_end_offset == 5
        refused = await send(channel, 3, pid=9, value=b"other")
        assert refused.error_code == OutOfOrderSequenceNumberError.code
        channel.close()


async def test_refusals_are_told_and_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        assert (await send(channel, 0, pid=9, epoch=2)).error_code == 0
        with caplog.at_level(logging.INFO):
            for _ in range(20):
                gap = await send(channel, 7, pid=9, epoch=2)
                assert (gap.error_code, gap.base_offset) == (OutOfOrderSequenceNumberError.code, -1)
                old = await send(channel, 1, pid=9, epoch=1)
                assert old.error_code == InvalidProducerEpochError.code
        assert not [r for r in caplog.records if "sequence" in r.getMessage()]
        assert (await send(channel, 1, pid=9, epoch=2)).base_offset == 1
        channel.close()


async def test_every_producer_gets_an_id_of_its_own_from_any_broker(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        answers = await asyncio.gather(
            *[cluster.call(1 + number % 3, InitPidRequest()) for number in range(30)]
        )
        assert {answer.error_code for answer in answers} == {0}
        assert {answer.producer_epoch for answer in answers} == {0}
        assert len({answer.producer_id for answer in answers}) == 30
        refused = await cluster.call(1, InitPidRequest(""))
        assert refused.error_code == InvalidRequestError.code
        foreign = await cluster.call(1, AllocateProducerIdsRequest(1, 0))
        assert foreign.error_code == ClusterAuthorizationFailedError.code


async def test_new_producers_begin_while_the_metadata_store_is_silent(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        brokers = list(cluster.brokers.values())
        await eventually(lambda: all(broker.producer_ids.left for broker in brokers))
        cluster.zookeeper.stop()
        try:
            answers = [await cluster.call(broker_id, InitPidRequest()) for broker_id in (1, 2, 3)]
        finally:
            cluster.zookeeper.start()
        assert [answer.error_code for answer in answers] == [0, 0, 0]
        assert len({answer.producer_id for answer in answers}) == 3


async def test_producers_write_on_while_the_controller_moves(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        await cluster.crash_broker(cluster.controller.broker_id)
        async with make_producer(cluster) as producer:
            for value in numbered(5):
                await producer.send("t", value)
        assert await values_of(cluster) == numbered(5)
