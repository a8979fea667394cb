"""Clients above a quota of a real broker wait by themselves, lose nothing and slow nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog.errors import DeliveryTimeoutError, ThrottlingQuotaExceededError
from oncelog_protocol.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)
from support.cluster import Cluster
from support.waiting import eventually

GREEDY = "greedy"
TP = TopicPartition("t", 0)


@asynccontextmanager
async def bound(directory: Path, key: str, value: float) -> AsyncIterator[Cluster]:
    """Start a broker with a topic, and a quota of the client id ``GREEDY``."""
    async with Cluster(directory) as cluster:
        await cluster.create_topic("t")
        for broker in cluster.brokers.values():
            broker.quotas.take({QuotaEntity(None, GREEDY): {key: value}})
        yield cluster


def values(count: int) -> list[bytes]:
    return [b"%06d" % number + bytes(5000) for number in range(count)]


@pytest.mark.hostile(49)
@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_a_producer_over_its_quota_is_slower_and_loses_nothing(
    tmp_path: Path, acks: int | str
) -> None:
    async with bound(tmp_path, PRODUCER_BYTE_RATE, 200_000) as cluster:
        log = cluster.brokers[cluster.leader("t")].logs.get(TP)
        assert log is not None
        options: dict[str, Any] = {"acks": acks, "enable_idempotence": acks == "all"}
        async with (
            Producer(cluster.bootstrap, client_id=GREEDY, batch_size=20_000, **options) as greedy,
            Producer(cluster.bootstrap, client_id="calm", linger_ms=0) as calm,
        ):
            sending = asyncio.create_task(greedy.send_many("t", values(80)))
            await eventually(lambda: log.log_end_offset > 0)
            await calm.send("t", b"calm")
            await sending
            await greedy.flush()
            await eventually(lambda: log.log_end_offset == 81)
            assert greedy.metrics().record_error_total == 0
            assert (greedy.metrics().throttled_response_total > 0) == (acks != 0)
            assert (greedy.metrics().throttle_seconds_total > 0) == (acks != 0)
            assert calm.metrics().throttled_response_total == 0


async def test_a_consumer_over_its_quota_reads_everything_in_its_time(tmp_path: Path) -> None:
    async with bound(tmp_path, CONSUMER_BYTE_RATE, 200_000) as cluster:
        async with Producer(cluster.bootstrap, batch_size=20_000) as producer:
            await producer.send_many("t", values(80))
        async with Consumer(bootstrap_servers=cluster.bootstrap, client_id=GREEDY) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            seen = [(await consumer.getone()).value for _ in range(80)]
            assert seen == values(80)
            assert consumer.metrics().throttled_response_total > 0
            assert consumer.metrics().fetch_error_total == 0


async def test_a_member_of_a_group_stays_in_it_while_it_is_held(tmp_path: Path) -> None:
    async with bound(tmp_path, REQUEST_RATE, 30) as cluster:
        async with Producer(cluster.bootstrap) as producer:
            for value in values(10):
                await producer.send("t", value)
        consumer = Consumer(
            "t",
            group_id="g",
            bootstrap_servers=cluster.bootstrap,
            client_id=GREEDY,
            auto_offset_reset="earliest",
            session_timeout_ms=1000,
            heartbeat_interval_ms=200,
            fetch_max_wait_ms=10,
        )
        async with consumer:
            for _ in range(10):
                await consumer.getone()
            await eventually(lambda: consumer.metrics().throttle_seconds_total > 2)
            await consumer.commit()
            assert consumer.metrics().rebalance_total == 1


async def test_an_admin_over_its_quota_is_refused_and_served_later(tmp_path: Path) -> None:
    async with (
        bound(tmp_path, CONTROLLER_MUTATION_RATE, 10) as cluster,
        Admin(cluster.bootstrap, client_id=GREEDY) as admin,
    ):
        topics = [NewTopic("a", partitions=12), NewTopic("b", partitions=1)]
        first, second = await admin.create_topics(topics)
        assert first.error is None
        assert isinstance(second.error, ThrottlingQuotaExceededError)
        assert await admin.list_topics() == ["a", "t"]
        (await admin.create_topics(topics[1:])).raise_for_errors()
        assert await admin.list_topics() == ["a", "b", "t"]


@pytest.mark.hostile(47)
async def test_a_quota_of_0_stops_until_it_is_changed(tmp_path: Path) -> None:
    async with bound(tmp_path, PRODUCER_BYTE_RATE, 0) as cluster:
        broker = cluster.brokers[cluster.leader("t")]
        options: dict[str, Any] = {"request_timeout_ms": 300, "delivery_timeout_ms": 600}
        async with Producer(cluster.bootstrap, client_id=GREEDY, **options) as producer:
            with pytest.raises(DeliveryTimeoutError):
                await producer.send("t", b"v")
            assert producer.metrics().throttled_response_total > 0
        log = broker.logs.get(TP)
        assert log is not None
        assert log.log_end_offset == 0
        of_any = {PRODUCER_BYTE_RATE: float(1 << 20)}
        broker.quotas.take(
            {QuotaEntity(None, GREEDY): {}, QuotaEntity(None, DEFAULT_ENTITY): of_any}
        )
        async with Producer(cluster.bootstrap, client_id=GREEDY) as producer:
            await producer.send("t", b"v")
