"""These settings of replication are changed while the broker runs."""

from __future__ import annotations

import asyncio

from oncelog_broker.replication.replica_manager import CONFIGS_PER_TURN
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import TopicPartition
from support.replication_cluster import Cluster
from support.room_settings import replica_settings
from support.turns import Turns
from support.waiting import eventually

TP, OWN = TopicPartition("t", 0), TopicPartition("own", 0)


async def test_defaults_of_topics_reach_those_that_do_not_say() -> None:
    async with Cluster() as cluster:
        for tp in (TP, OWN):
            cluster.lead(tp, 1)
        node = cluster[1]
        node.replicas.reconfigure_topic("own", {"min_insync_replicas": "1"})
        node.logs.config.topic_defaults = {"min_insync_replicas": "2"}
        node.replicas.settings_changed()
        assert node.partition(TP).log.config.min_insync_replicas == 2
        assert node.partition(OWN).log.config.min_insync_replicas == 1
        node.logs.config.topic_defaults = {}
        node.replicas.settings_changed()
        assert node.partition(TP).log.config.min_insync_replicas == 1


async def test_partitions_share_what_holds_for_them() -> None:
    """A broker has thousands, and what holds for a topic is half a kilobyte."""
    async with Cluster() as cluster:
        others = [TopicPartition("own", 1), TopicPartition("u", 0)]
        for tp in (TP, OWN, *others):
            cluster.lead(tp, 1)
        node = cluster[1]

        def configs() -> list[TopicConfig]:
            return [node.partition(tp).log.config for tp in (TP, OWN, *others)]

        assert len(set(map(id, configs()))) == 1
        node.replicas.reconfigure_topic("own", {"min_insync_replicas": "2"})
        cluster.lead(TopicPartition("own", 2), 1)
        plain, own, own_too, plain_too = configs()
        assert plain is plain_too
        assert own is own_too is node.partition(TopicPartition("own", 2)).log.config
        assert (plain.min_insync_replicas, own.min_insync_replicas) == (1, 2)
        node.replicas.reconfigure_topic("own", {})
        assert len(set(map(id, configs()))) == 1


async def test_a_shorter_lag_time_counts_although_the_check_rests_by_the_longer_one() -> None:
    async with Cluster(config=replica_settings(replica_lag_time_max_ms=3_600_000)) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a")
        cluster[3].cut()
        answer = cluster.produce(TP, b"b")
        assert sorted(cluster.orders[TP].isr) == [1, 2, 3]
        cluster.config.replica_lag_time_max_ms = 50
        cluster[1].replicas.settings_changed()
        await cluster.isr_is(TP, 1, 2)
        assert (await answer.wait()).topics[0].partitions[0].error_code == 0


async def test_many_logs_take_on_changed_settings_in_turns() -> None:
    """The last settings hold for all of them, and what was deleted meanwhile stays so."""
    async with Cluster() as cluster, Turns() as turns:
        node = cluster[1]
        logs = [
            node.logs.create(TopicPartition("t", number), "id of t", node.logs.default_config)
            for number in range(4 * CONFIGS_PER_TURN)
        ]
        before = turns.count
        for retention_ms in ("1", "2"):
            node.logs.config.topic_defaults = {"retention_ms": retention_ms}
            node.replicas.settings_changed()
            assert sum(log.config.retention_ms == int(retention_ms) for log in logs) < len(logs)
            await asyncio.sleep(0)
        deleted = asyncio.create_task(node.logs.delete(logs[-1].topic_partition))
        await eventually(lambda: all(log.config.retention_ms == 2 for log in logs[:-1]))
        assert turns.count - before >= 3
        await deleted
        assert logs[-1].config.retention_ms != 2
