"""Settings change while brokers run: from the client to every room, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import Admin
from oncelog.errors import InvalidConfigError
from oncelog_broker.app import Broker
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.waiting import eventually

ALL: dict[str, str | None] = {
    "topic_defaults.retention_ms": "123456",
    "min_insync_replicas": "2",
    "replica_lag_time_max_ms": "4321",
    "queued_max_bytes": "2000000",
    "group_max_size": "17",
    "transaction_max_timeout_ms": "60000",
    "log_cleaner_enable": "false",
}


def lives_by_all(broker: Broker) -> bool:
    return (
        broker.logs.default_config.retention_ms == 123456
        and broker.logs.default_config.min_insync_replicas == 2
        and broker.live.replicas.replica_lag_time_max_ms == 4321
        and broker.pool.bytes_max == 2_000_000
        and broker.live.groups.group_max_size == 17
        and broker.live.transactions.transaction_max_timeout_ms == 60_000
        and not broker.live.log.cleaner.enable
    )


def lives_as_it_was_started(broker: Broker) -> bool:
    config = broker.config
    return (
        broker.live.current == config
        and broker.logs.default_config.retention_ms == 604_800_000
        and broker.pool.bytes_max == config.queued_max_bytes
        and broker.live.log.cleaner.enable
    )


async def test_set_for_all_survived_by_all_and_taken_back(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        await cluster.create_topic("own", replication_factor=3, retention_ms=99)
        async with Admin(cluster.bootstrap) as admin:
            (outcome,) = await admin.alter_broker_configs({None: ALL})
            assert outcome.error is None
            brokers = cluster.brokers
            await eventually(lambda: all(lives_by_all(b) for b in brokers.values()))
            for broker in brokers.values():
                inherited = broker.logs.get(TopicPartition("t", 0))
                own = broker.logs.get(TopicPartition("own", 0))
                assert inherited is not None
                assert own is not None
                assert inherited.config.retention_ms == 123456
                assert inherited.config.min_insync_replicas == 2
                assert own.config.retention_ms == 99

            # A restarted broker, and a new controller, know them too.
            gone = cluster.controller.broker_id
            await cluster.stop_broker(gone)
            await cluster.converged()
            restarted = await cluster.start_broker(gone)
            await cluster.converged()
            assert lives_by_all(restarted)
            assert cluster.controller.broker_id != gone

        async with Admin(cluster.bootstrap) as admin:
            (described,) = await admin.describe_configs(brokers=[None])
            assert {k: s.value for k, s in described.settings.items()} == ALL
            (topic,) = await admin.describe_configs(topics=["t"], keys=["retention_ms"])
            assert topic.settings["retention_ms"].source == "dynamic_default"
            reset = dict.fromkeys(ALL)
            (outcome,) = await admin.alter_broker_configs({None: reset})
            assert outcome.error is None
            await eventually(
                lambda: all(lives_as_it_was_started(b) for b in cluster.brokers.values())
            )


async def test_a_default_of_topics_counts_at_once_for_who_writes(tmp_path: Path) -> None:
    """When min_insync_replicas of all topics that do not say is raised, writes are refused; lowered
    again, they go on."""
    async with Cluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        await cluster.stop_broker(2)
        await cluster.converged()
        channel = await cluster.channel(1)
        log = cluster.brokers[1].logs.get(TopicPartition("t", 0))
        assert log is not None
        async with Admin(cluster.bootstrap) as admin:
            await admin.alter_broker_configs({None: {"min_insync_replicas": "2"}})
            await eventually(lambda: log.config.min_insync_replicas == 2)
            assert (await produce(channel, "t", 0, [b"x"])).error_code == 19
            await admin.alter_broker_configs({None: {"min_insync_replicas": None}})
            await eventually(lambda: log.config.min_insync_replicas == 1)
            assert (await produce(channel, "t", 0, [b"x"])).error_code == 0
        channel.close()


async def test_set_for_one_and_refused(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster, Admin(cluster.bootstrap) as admin:
        one, two = cluster.brokers[1], cluster.brokers[2]
        wishes: dict[int | None, dict[str, str | None]] = {
            2: {"max_connections": "100", "max_connections_per_ip": "3"},
            None: {"rack": "x"},
        }
        changed = {o.name: o.error for o in await admin.alter_broker_configs(wishes)}
        assert changed["2"] is None
        refused = changed[""]
        assert isinstance(refused, InvalidConfigError)
        assert "needs a restart" in str(refused)
        await eventually(lambda: two.live.connections.connections_per_ip_max == 3)
        assert one.live.current == one.config

        # The listener that is open lives by it: four of one host are one too many.
        open_now = len(two.listeners["external"].connections)
        channels = [await cluster.channel(2) for _ in range(3 - open_now)]
        with pytest.raises((OSError, EOFError, ConnectionError)):
            await cluster.channel(2)
        for channel in channels:
            channel.close()
        (described,) = await admin.describe_configs(brokers=[1], keys=["max_connections"])
        assert described.settings["max_connections"].source == "default"
