"""Brokers coordinate transactions: the topic is made on first use, and those concerned are told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    RequestTimedOutError,
)
from oncelog_protocol.messages.groups import COORDINATOR_TRANSACTION, FindCoordinatorRequest
from oncelog_protocol.messages.transactions import InitPidRequest
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_producer import HandProducer
from support.waiting import eventually
from unsafe.coordinators import without

SETTINGS: dict[str, Any] = {"transaction_state_log_num_partitions": 6, "min_insync_replicas": 2}


def coordinator(cluster: Cluster, name: str) -> int:
    return cluster.leader(TRANSACTION_TOPIC, coordinator_partition(name, 6))


async def test_the_topic_is_made_on_first_use(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        asked = FindCoordinatorRequest("a", COORDINATOR_TRANSACTION)
        assert (await cluster.call(1, asked)).error_code == CoordinatorNotAvailableError.code
        assert (await HandProducer(cluster, "a").init()).error_code == 0
        image = cluster.brokers[1].image
        assert sorted(image.topics[TRANSACTION_TOPIC].partitions) == list(range(6))
        overrides = image.overrides(TRANSACTION_TOPIC)
        assert overrides["cleanup_policy"] == "compact"
        assert overrides["unclean_leader_election_enable"] == "false"
        engines = {b: broker.transactions.engine for b, broker in cluster.brokers.items()}
        await eventually(lambda: sum(len(engine.led) for engine in engines.values()) == 6)
        for broker_id, engine in engines.items():
            if broker_id != coordinator(cluster, "a"):
                refused = await cluster.call(broker_id, InitPidRequest("a", 60_000))
                assert refused.error_code == NotCoordinatorError.code
                assert engine.refusal("a") == NotCoordinatorError.code


async def test_one_broker_alone_and_min_insync_of_two(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1, **SETTINGS) as cluster:
        assert (await HandProducer(cluster, "a").init()).error_code == 0
        overrides = cluster.brokers[1].image.overrides(TRANSACTION_TOPIC)
        assert overrides["min_insync_replicas"] == "1"


async def test_who_waits_for_a_commit_when_the_broker_stops_is_told(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        producer = HandProducer(cluster, "a")
        await producer.init()
        broker_id = coordinator(cluster, "a")
        for other in [each for each in cluster.brokers if each != broker_id]:
            await cluster.crash_broker(other)
        broker = cluster.brokers[broker_id]
        number = coordinator_partition("a", 6)
        log = broker.replicas.partition(TopicPartition(TRANSACTION_TOPIC, number)).log
        before = log.log_end_offset
        waiting = asyncio.ensure_future(cluster.call(broker_id, InitPidRequest("a", 60_000)))
        await eventually(lambda: log.log_end_offset > before)
        await cluster.stop_broker(broker_id, clean=False)
        assert (await waiting).error_code in (
            RequestTimedOutError.code,
            NotCoordinatorError.code,
        )
        assert broker.transactions.engine.led == []


async def test_switches_reach_the_coordinators(tmp_path: Path) -> None:
    options = {"coordinator_safeguards": without("bump_epoch_per_txn")}
    async with Cluster(tmp_path, 1, options=options, **SETTINGS) as cluster:
        await cluster.create_topic("t")
        producer = HandProducer(cluster, "a")
        await producer.init()
        epoch = producer.epoch
        assert (await producer.send("t", 0, b"v")).error_code == 0
        assert (await producer.end(True)).error_code == 0
        assert producer.epoch == epoch
