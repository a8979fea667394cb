"""Clients of Kafka's and native ones write and read the same topics, each in its format."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from oncelog import Consumer, Producer
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.fetch import (
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.records.batch import HEADER_BYTES, KAFKA_MAGIC, MAGIC, iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.kafka_door import converted
from simulation.knobs import Knobs
from simulation.loop import until
from simulation.play import play_cluster
from simulation.workload import TOPIC

NATIVE, KAFKAS = "native-2", "kafkas-3"
TP = TopicPartition(TOPIC, 0)
EXPECTED = [b"a", b"b", b"c", b"d"]


async def work(cluster: SimCluster, work: Any) -> Any:
    process = cluster.client_process("client")
    result = await process.call(work)
    process.kill()
    return result


async def send(cluster: SimCluster, client_id: str, value: bytes, *, commit: bool | None) -> None:
    """Send one record; in a transaction, unless ``commit`` is None."""
    transactional_id = None if commit is None else client_id
    async with Producer(
        cluster.bootstrap,
        entropy=SeededEntropy(1),
        clock=cluster.client_clock,
        client_id=client_id,
        transactional_id=transactional_id,
    ) as producer:
        if commit is None:
            await producer.send(TOPIC, value=value, headers=[("h", b"1")], partition=0)
            return
        await producer.begin_transaction()
        await producer.send(TOPIC, value=value, partition=0)
        await (producer.commit_transaction() if commit else producer.abort_transaction())


async def read(cluster: SimCluster, client_id: str) -> list[bytes | None]:
    async with Consumer(
        bootstrap_servers=cluster.bootstrap,
        entropy=SeededEntropy(1),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        client_id=client_id,
    ) as consumer:
        consumer.assign([TP])
        (end,) = (await consumer.end_offsets([TP])).values()
        values: list[bytes | None] = []
        while await consumer.position(TP) < end:
            records = await consumer.getmany(timeout_ms=200)
            values += [record.value for record in chain.from_iterable(records.values())]
        return values


def formats(cluster: SimCluster, broker_id: int) -> list[tuple[int, bool]]:
    """Return the magic of each batch in a replica, and whether it is a marker."""
    log = cluster.brokers[broker_id].replicas.partition(TP).log
    data = log.read(0, 1 << 20, upto=log.log_end_offset)
    return [(header.magic, header.is_control) for _, header in iter_headers(data)]


def test_both_kinds_of_clients_write_and_read_one_topic() -> None:
    async def scene(cluster: SimCluster) -> None:
        await work(cluster, send(cluster, NATIVE, b"a", commit=None))
        await work(cluster, send(cluster, KAFKAS, b"b", commit=None))
        await work(cluster, send(cluster, KAFKAS, b"-", commit=False))
        await work(cluster, send(cluster, KAFKAS, b"c", commit=True))
        await work(cluster, send(cluster, NATIVE, b"d", commit=True))
        for reader in (NATIVE, KAFKAS):
            assert await work(cluster, read(cluster, reader)) == EXPECTED
        written = [(MAGIC, False), (KAFKA_MAGIC, False)]
        written += [(KAFKA_MAGIC, False), (MAGIC, True)] * 2 + [(MAGIC, False), (MAGIC, True)]
        for broker_id in cluster.ids:
            await until(
                lambda: formats(cluster, broker_id) == written,  # noqa: B023
                timeout_s=10,
                what=f"the replica of broker {broker_id}",
            )

    play_cluster(scene, Knobs(partitions=1, kafka=True))


def test_what_is_read_isconverted() -> None:
    ours = bytes(encode_batch([b"v"], timestamps=1))
    rotten = ours[:-1] + b"x"
    answers = [
        FetchPartitionResponse(0, records=Span(0, len(ours))),
        FetchPartitionResponse(1),
        FetchPartitionResponse(2, records=Span(len(ours), len(rotten))),
    ]
    message, pieces = converted(
        FetchResponse(0, [FetchTopicResponse("t", answers)]), [ours, rotten]
    )
    data = b"".join(pieces)
    first, second, third = (answer.records for answer in message.topics[0].partitions)
    assert [header.magic for _, header in iter_headers(data[: first.length])] == [KAFKA_MAGIC]
    assert second.length == 0
    assert data[third.offset : third.offset + third.length] == rotten, "the reader is to see that"
    assert len(data) > HEADER_BYTES * 2


@pytest.mark.parametrize("kafka", [True, False])
def test_the_door_stands_before_produce_and_fetch_only_where_it_is_wanted(kafka: bool) -> None:
    async def scene(cluster: SimCluster) -> None:
        await work(cluster, send(cluster, KAFKAS, b"a", commit=None))
        assert formats(cluster, 1)[0] == (KAFKA_MAGIC if kafka else MAGIC, False)
        assert {ApiKey.PRODUCE, ApiKey.FETCH} <= cluster.brokers[1].dispatcher.served

    play_cluster(scene, Knobs(partitions=1, kafka=kafka))
