"""Records that are deleted stay deleted: over kill -9, power cuts' like, and changes of leaders."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.waiting import eventually

TP = TopicPartition("t", 0)
NO_CHECKPOINTS: dict[str, Any] = {"log_checkpoint_interval_ms": 3_600_000}
"""Only those that somebody waits for."""


async def fill(cluster: Cluster, topic: str = "t", records: int = 6) -> None:
    channel = await cluster.channel(cluster.leader(topic))
    for number in range(records):
        answer = await produce(channel, topic, 0, [b"%d" % number])
        assert answer.error_code == 0
    channel.close()
    await channel.wait_closed()


async def beginning(cluster: Cluster, tp: TopicPartition = TP) -> int:
    async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        return (await consumer.beginning_offsets([tp]))[tp]


async def test_the_next_leader_begins_there(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3, **NO_CHECKPOINTS) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        await fill(cluster)
        async with Admin(cluster.bootstrap) as admin:
            (outcome,) = (await admin.delete_records({TP: 4})).raise_for_errors()
            assert (outcome.partition, outcome.low_watermark) == (TP, 4)
            former = cluster.leader("t")
            await cluster.crash_broker(former)
            await eventually(
                lambda: all(
                    (order := broker.image.partition(TP)) is not None and order.leader != former
                    for broker in cluster.brokers.values()
                ),
                timeout_s=15,
                what="another leader",
            )
            assert await beginning(cluster) == 4
            # This client still has the former leader in mind.
            (outcome,) = (await admin.delete_records({TP: -1})).raise_for_errors()
            assert outcome.low_watermark == 6
        await cluster.start_broker(former)
        log = cluster.brokers[former].replicas.partition(TP).log
        await eventually(
            lambda: log.log_dir.starts.durable(log) == 6,
            timeout_s=15,
            what="the one that was away hearing of it",
        )
        await eventually(
            lambda: sorted(cluster.state("t").isr) == [1, 2, 3],
            timeout_s=15,
            what="the whole ISR",
        )


async def test_a_killed_broker_begins_there(tmp_path: Path) -> None:
    async with Cluster(tmp_path, **NO_CHECKPOINTS) as cluster:
        await cluster.create_topic("t")
        await fill(cluster)
        async with Admin(cluster.bootstrap) as admin:
            (await admin.delete_records({TP: 3})).raise_for_errors()
        await cluster.crash_broker(1)
        await cluster.start_broker(1)
        await eventually(lambda: cluster.leader("t") == 1, timeout_s=15, what="a leader")
        assert await beginning(cluster) == 3


async def test_each_partition_has_its_own_outcome(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        await cluster.create_topic("kept", cleanup_policy="compact")
        await fill(cluster, records=2)
        asked = {
            TP: 1,
            TopicPartition("t", 9): 0,
            TopicPartition("kept", 0): 0,
        }
        async with Admin(cluster.bootstrap) as admin:
            outcomes = await admin.delete_records(asked)
            assert [outcome.partition for outcome in outcomes] == list(asked)
            assert [outcome.error and outcome.error.name for outcome in outcomes] == [
                None,
                "UNKNOWN_TOPIC_OR_PARTITION",
                "POLICY_VIOLATION",
            ]
            (outcome,) = await admin.delete_records({TP: 3})
            assert outcome.error is not None
            assert outcome.error.name == "OFFSET_OUT_OF_RANGE"
            assert "t-0" in str(outcome.error)


async def test_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        await fill(cluster, records=2)
        leader = cluster.leader("t")
        starts = cluster.brokers[3 - leader].replicas.partition(TP).log.log_dir.starts
        monkeypatch.setattr(starts, "when_durable", lambda *_: None)  # a disk that takes its time
        async with Admin(cluster.bootstrap) as admin:
            (outcome,) = await asyncio.wait_for(
                admin.delete_records({TP: 1}, timeout_ms=500), timeout=10
            )
            assert outcome.error is not None
            assert outcome.error.name == "REQUEST_TIMED_OUT"
            assert not outcome.error.definite
