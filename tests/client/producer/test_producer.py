"""The public face of transactions has options and four calls; a producer without them complains."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import GroupMetadata, Producer, TopicPartition
from oncelog.errors import ClosedError, ConfigurationError
from support.fake_cluster import FakeCluster, committed_of
from support.transactional import make, started

TP = TopicPartition("in", 0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"transactional_id": ""}, "1 to 1024"),
        ({"transactional_id": "x" * 1025}, "1 to 1024"),
        ({"transactional_id": 7}, "1 to 1024"),
        ({"transactional_id": "__ordinals"}, "reserved"),
        ({"transactional_id": "x", "enable_idempotence": False}, "enable_idempotence"),
        ({"transactional_id": "x", "acks": 1}, "acks"),
        ({"transactional_id": "x", "max_in_flight_requests_per_connection": 6}, "in_flight"),
        ({"transactional_id": "x", "transaction_timeout_ms": 0}, "transaction_timeout_ms"),
        ({"transaction_timeout_ms": 2**31}, "transaction_timeout_ms"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        Producer("localhost:9092", **options)


async def test_without_a_transactional_id_there_are_none() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, transactional_id=None) as producer:
            with pytest.raises(ConfigurationError, match="transactional_id"):
                producer.transaction()
            for call in (
                producer.begin_transaction(),
                producer.commit_transaction(),
                producer.abort_transaction(),
                producer.send_offsets({TP: 1}, GroupMetadata("g")),
            ):
                with pytest.raises(ConfigurationError, match="transactional_id"):
                    await call
            await producer.send("t", b"plain")
            assert cluster.partition("t").values() == [b"plain"]


async def test_a_producer_that_is_not_started_or_closed_says_so() -> None:
    async with started() as (cluster, producer):
        other = make(cluster)
        for one in (producer, other):
            if one is producer:
                await one.close()
            for call in (one.begin_transaction(), one.commit_transaction()):
                with pytest.raises(ClosedError):
                    await call


async def test_the_four_calls() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v")
        await producer.send_offsets({TP: 3}, GroupMetadata("g"))
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send("t", b"w")
        await producer.abort_transaction()
        assert committed_of(cluster, "t") == [b"v"]
        assert cluster.transactions.committed["g", TP].offset == 3
