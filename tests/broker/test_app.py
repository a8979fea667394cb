"""Whole brokers in one process start, serve, replicate, fail over, expire, stop, and refuse."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from pathlib import Path

import pytest

from oncelog_broker.app import SESSION_FILE, Broker
from oncelog_broker.config import ConfigError, ListenerConfig
from oncelog_broker.log import checkpoint
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_controller.store import Create, StoreDisconnectedError
from oncelog_protocol.errors import (
    InvalidTopicError,
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigEntry,
    ConfigResource,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    PartitionGrowth,
)
from oncelog_protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.channel import RequestChannel
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.server import Canary
from support.waiting import eventually


def names_below(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*"))


def leads_elsewhere(cluster: Cluster, broker_id: int) -> bool:
    """Some other broker is controller, and others lead every partition."""
    return any(b.runner.is_active for b in cluster.brokers.values()) and all(
        order.leader not in (broker_id, -1)
        for topic in cluster.controller.image.topics.values()
        for order in topic.partitions.values()
    )


def partition_count_is(broker: Broker, topic: str, count: int) -> bool:
    return len(broker.image.topics[topic].partitions) == count


def retention_is(log: PartitionLog, retention_ms: int) -> bool:
    return log.config.retention_ms == retention_ms


def has_nothing(broker: Broker) -> bool:
    return broker.image.topics == {} and broker.logs.all() == []


def known_everywhere(cluster: Cluster, topic: str) -> bool:
    return all(topic in broker.image.topics for broker in cluster.brokers.values())


async def test_one_broker_from_empty_directory_to_records_read_back(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t", partitions=2)
        channel = await cluster.channel(1)
        for partition in range(2):
            for n in range(3):
                answer = await produce(channel, "t", partition, [b"%d" % n, b"x"])
                assert (answer.error_code, answer.base_offset) == (0, 2 * n)
            values = await fetch_values(channel, "t", partition, 1)
            assert values == [b"x", b"1", b"x", b"2", b"x"]
        assert (await produce(channel, "none", 0, [b""])).error_code == (
            UnknownTopicOrPartitionError.code
        )
        channel.close()


async def test_records_outlive_a_clean_stop(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        await produce(channel, "t", 0, [b"a", b"b"])
        cluster_id, epoch = cluster.brokers[1].image.cluster_id, cluster.brokers[1].broker_epoch
        await cluster.stop_broker(1)
        assert (tmp_path / "broker-1" / checkpoint.CLEAN_SHUTDOWN).exists()
        again = await cluster.start_broker(1)
        assert again.logs.was_clean
        assert again.logs.previous_broker_epoch == epoch
        assert again.image.cluster_id == cluster_id
        assert again.broker_epoch > epoch
        assert not (tmp_path / "broker-1" / checkpoint.CLEAN_SHUTDOWN).exists()
        await eventually(lambda: again.image.partition(TopicPartition("t", 0)) is not None)
        channel = await cluster.channel(1)
        assert await fetch_values(channel, "t", 0) == [b"a", b"b"]
        channel.close()


async def test_three_brokers_replicate_and_survive_each_stop(tmp_path: Path) -> None:
    """A rolling restart: what was acknowledged stays, leadership moves before a broker goes."""
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", partitions=1, replication_factor=3, min_insync_replicas=2)
        sent: list[bytes] = []
        for n in range(6):
            leader = cluster.leader("t")
            channel = await cluster.channel(leader)
            values = [b"%d-%d" % (n, i) for i in range(10)]
            assert (await produce(channel, "t", 0, values)).error_code == 0
            sent += values
            channel.close()
            await cluster.stop_broker(leader)
            await eventually(partial(leads_elsewhere, cluster, leader))
            await cluster.start_broker(leader)
            await cluster.converged()
            await eventually(lambda: len(cluster.state("t").isr) == 3, timeout_s=10)
        channel = await cluster.channel(cluster.leader("t"))
        assert await fetch_values(channel, "t", 0) == sent
        channel.close()


async def test_a_leader_that_dies_is_replaced_without_waiting_for_its_session(
    tmp_path: Path,
) -> None:
    """Failover by evidence: its session lives on, its host refuses connections."""
    async with Cluster(tmp_path, 3, zookeeper_session_timeout_ms=60_000) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        for victim in (cluster.controller.broker_id, cluster.leader("t")):
            await eventually(lambda: len(cluster.state("t").isr) == 3, timeout_s=10)
            leader = cluster.leader("t")
            channel = await cluster.channel(leader)
            assert (await produce(channel, "t", 0, [b"x"])).error_code == 0
            channel.close()
            await cluster.crash_broker(victim)
            await eventually(
                partial(leads_elsewhere, cluster, victim), timeout_s=10, what="new leaders"
            )
            channel = await cluster.channel(cluster.leader("t"))
            assert (await produce(channel, "t", 0, [b"y"], timeout_ms=10_000)).error_code == 0
            channel.close()
            await cluster.start_broker(victim)
            await cluster.converged()


async def test_a_leader_whose_directory_fails_hands_over_and_keeps_its_other_replicas(
    tmp_path: Path,
) -> None:
    """[K26]: the controller is told, asks which replicas are concerned, and elects others."""
    async with Cluster(tmp_path) as cluster:
        for broker_id in (2, 3):
            directories = [str(tmp_path / f"broker-{broker_id}-{name}") for name in "ab"]
            await cluster.start_broker(broker_id, log_dirs=directories)
        await cluster.converged()
        await cluster.create_topic("t", partitions=6, replication_factor=3)
        victim = cluster.brokers[2]
        led = [p for p in range(6) if cluster.leader("t", p) == 2]
        replica = victim.logs.get(TopicPartition("t", led[0]))
        assert replica is not None
        replica.log_dir.fail("the test says so", OSError("input/output error"))
        in_it = [
            log.topic_partition.partition
            for log in victim.logs.all()
            if log.log_dir is replica.log_dir
        ]
        await eventually(lambda: all(2 not in cluster.state("t", p).isr for p in in_it))
        assert all(cluster.leader("t", p) in (1, 3) for p in in_it)
        spared = [p for p in range(6) if p not in in_it]
        assert all(2 in cluster.state("t", p).isr for p in spared)
        async with asyncio.timeout(10):
            channel = await cluster.channel(cluster.leader("t", led[0]))
            answer = await produce(channel, "t", led[0], [b"after"])
            channel.close()
        assert answer.error_code == 0


async def test_a_leader_that_contradicts_itself_hands_over_that_partition_only(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", partitions=3, replication_factor=3)
        victim = cluster.brokers[cluster.leader("t")]
        partition = victim.replicas.partition(TopicPartition("t", 0))
        partition.log.segments.active.next_offset += 1
        channel = await cluster.channel(victim.broker_id)
        assert (await produce(channel, "t", 0, [b"x"])).error_code == StorageError.code
        channel.close()
        await eventually(lambda: victim.broker_id not in cluster.state("t").isr, timeout_s=10)
        channel = await cluster.channel(cluster.leader("t"))
        assert (await produce(channel, "t", 0, [b"y"])).error_code == 0
        channel.close()
        assert all(victim.broker_id in cluster.state("t", p).isr for p in (1, 2))
        assert not victim.failed.done()


async def test_a_leader_with_rot_hands_over_and_is_fetched_again(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        victim = cluster.brokers[cluster.leader("t")]
        channel = await cluster.channel(victim.broker_id)
        assert (await produce(channel, "t", 0, [b"x"])).error_code == 0
        channel.close()
        partition = victim.replicas.partition(TopicPartition("t", 0))
        partition.corruption_found(CorruptBatchError("the test says so"))
        assert partition.log.needs_refetch
        await eventually(lambda: cluster.leader("t") not in (-1, victim.broker_id), timeout_s=10)
        await eventually(lambda: len(cluster.state("t").isr) == 3, timeout_s=10)
        assert (partition.log.log_end_offset, partition.log.damage) == (1, "")


async def test_an_expired_session_is_replaced_while_the_broker_goes_on_serving(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        broker = cluster.brokers[1]
        before = broker.broker_epoch
        session = cluster.machine(1).session_id
        channel = await cluster.channel(1)
        async with Canary(await cluster.channel(1), MetadataRequest(None)) as canary:
            cluster.zookeeper.expire(session)
            await eventually(lambda: broker.broker_epoch > before)
            await eventually(lambda: broker.runner.is_active)
            await canary.still_sings()
        assert broker.replicas.broker_epoch == broker.broker_epoch
        await eventually(lambda: broker.image.brokers[1].broker_epoch == broker.broker_epoch)
        assert (await produce(channel, "t", 0, [b"x"])).error_code == 0
        channel.close()
        assert not broker.failed.done()


async def test_a_broker_that_crashed_removes_its_own_registration(tmp_path: Path) -> None:
    """It remembers its session; nobody has to wait for that to expire."""
    async with Cluster(tmp_path, 1, zookeeper_session_timeout_ms=60_000) as cluster:
        session = cluster.machine(1).session_id
        remembered = json.loads((tmp_path / "broker-1" / SESSION_FILE).read_text())
        assert remembered == {"session_id": session}
        await cluster.crash_broker(1)
        async with asyncio.timeout(10):
            await cluster.start_broker(1)


async def test_admin_requests_reach_the_controller(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t", replication_factor=2, retention_ms=5000)
        controller = cluster.controller.broker_id
        other = next(b for b in cluster.brokers if b != controller)

        grown = await cluster.call(
            controller, CreatePartitionsRequest([PartitionGrowth("t", 3)], 5000)
        )
        assert grown.topics[0].error_code == 0
        for broker in cluster.brokers.values():
            await eventually(partial(partition_count_is, broker, "t", 3))

        altered = await cluster.call(
            controller,
            AlterConfigsRequest(
                [ConfigAlteration(RESOURCE_TOPIC, "t", [ConfigEntry("retention_ms", "7000")])]
            ),
        )
        assert altered.resources[0].error_code == 0
        await eventually(
            lambda: cluster.brokers[other].image.overrides("t").get("retention_ms") == "7000"
        )
        described = await cluster.call(
            other,
            DescribeConfigsRequest(
                [
                    ConfigResource(RESOURCE_TOPIC, "t", ["retention.ms"]),
                    ConfigResource(RESOURCE_BROKER, str(other), ["flush"]),
                ]
            ),
        )
        topic, broker_result = described.resources
        assert [(v.key, v.value, v.source) for v in topic.values] == [
            ("retention_ms", "7000", "topic")
        ]
        assert [(v.value, v.source) for v in broker_result.values] == [("commit", "default")]
        for running in cluster.brokers.values():
            log = running.logs.get(TopicPartition("t", 0))
            assert log is not None
            await eventually(partial(retention_is, log, 7000))

        seen = await cluster.call(other, DescribeClusterRequest())
        assert seen.controller_id == controller
        assert [b.broker_id for b in seen.brokers] == [1, 2]
        dirs = await cluster.call(other, DescribeLogDirsRequest(None))
        assert [len(d.replicas) for d in dirs.log_dirs] == [3]
        assert (await cluster.call(controller, ElectLeadersRequest(False, None))).error_code == 0

        gone = await cluster.call(controller, DeleteTopicsRequest(["t"], 5000))
        assert gone.topics[0].error_code == 0
        for broker in cluster.brokers.values():
            await eventually(partial(has_nothing, broker))


async def test_a_topic_deleted_and_made_again_begins_empty(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster:
        for n in range(3):
            await cluster.create_topic("t", replication_factor=2)
            channel = await cluster.channel(cluster.leader("t"))
            answer = await produce(channel, "t", 0, [b"%d" % n])
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert await fetch_values(channel, "t", 0) == [b"%d" % n]
            channel.close()
            await cluster.call(cluster.controller.broker_id, DeleteTopicsRequest(["t"], 5000))


async def test_metadata_names_the_asking_listener(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster:
        for listener in ("internal", "external"):
            answer = await cluster.call(1, MetadataRequest([]), listener=listener)
            assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
                (b, *cluster.brokers[b].addresses[listener]) for b in (1, 2)
            ]
            assert answer.topics == []


async def test_topics_are_created_on_demand_where_that_is_allowed(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2, auto_create_topics_enable=True, num_partitions=2) as cluster:
        for broker_id in cluster.brokers:
            name = f"wanted-{broker_id}"
            await cluster.call(broker_id, MetadataRequest([name], False))
            answer = await cluster.call(broker_id, MetadataRequest([name], True))
            assert answer.topics[0].error_code == 5
            await eventually(partial(known_everywhere, cluster, name))
            assert len(cluster.brokers[1].image.topics[name].partitions) == 2


async def test_who_is_not_leader_says_so(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2) as cluster:
        await cluster.create_topic("t", replication_factor=1)
        other = next(b for b in cluster.brokers if b != cluster.leader("t"))
        channel = await cluster.channel(other)
        answer = await produce(channel, "t", 0, [b"x"])
        assert answer.error_code == NotLeaderOrFollowerError.code
        channel.close()


NAMES = [
    ("39", ""),
    ("40", "."),
    ("40", ".."),
    ("40", "../../etc/passwd"),
    ("40", "a/b"),
    ("40", "a\\b"),
    ("41", "/tmp/x"),
    ("42", "a\0b"),
    ("42", "a\nb"),
    ("42", "a\x1bb"),
    ("42", "\u202egnirts"),
    ("42", "\U0001f980"),
    ("43", "x" * 250),
    ("43", "x" * 1024),
    ("47", "__consumer_offsets"),
    ("47", "__transaction_state"),
    ("38", "e\u0301"),
]


async def test_names_that_must_not_become_topics(tmp_path: Path) -> None:
    """Create, delete, grow, alter, describe, produce and ask: an error each, nothing made."""
    async with Cluster(tmp_path, 1, auto_create_topics_enable=True) as cluster:
        before = names_below(tmp_path)
        channel = await cluster.channel(1)
        async with Canary(await cluster.channel(1), MetadataRequest(None)) as canary:
            for line, name in NAMES:
                await _refused_everywhere(channel, line, name)
            await canary.still_sings()
        channel.close()
        assert cluster.brokers[1].image.topics == {}
        assert cluster.brokers[1].logs.all() == []
        assert names_below(tmp_path) == before


async def _refused_everywhere(channel: RequestChannel, line: str, name: str) -> None:
    invalid = InvalidTopicError.code
    created = await channel.call(
        CreateTopicsRequest([CreatableTopic(name, 1, 1)], 2000), timeout_s=5
    )
    assert created.message.topics[0].error_code == invalid, line
    deleted = await channel.call(DeleteTopicsRequest([name], 2000), timeout_s=5)
    assert deleted.message.topics[0].error_code == invalid, line
    grown = await channel.call(
        CreatePartitionsRequest([PartitionGrowth(name, 2)], 2000), timeout_s=5
    )
    assert grown.message.topics[0].error_code == invalid, line
    alteration = ConfigAlteration(RESOURCE_TOPIC, name, [ConfigEntry("retention_ms", "1")])
    altered = await channel.call(AlterConfigsRequest([alteration]), timeout_s=5)
    assert altered.message.resources[0].error_code == 42, line
    asked = await channel.call(MetadataRequest([name], True), timeout_s=5)
    assert asked.message.topics[0].error_code in (invalid, 3), line
    assert (await produce(channel, name, 0, [b"x"])).error_code in (invalid, 3), line


async def test_collisions_partitions_and_traversal(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("a.b")
        channel = await cluster.channel(1)
        collision = await channel.call(
            CreateTopicsRequest([CreatableTopic("a_b", 1, 1)], 2000), timeout_s=5
        )
        assert collision.message.topics[0].error_code in (0, InvalidTopicError.code)
        await cluster.create_topic("Case")
        await cluster.create_topic("case")
        for partition in (-1, 2**31 - 1, 1):
            code = (await produce(channel, "a.b", partition, [b"x"])).error_code
            assert code == UnknownTopicOrPartitionError.code
            with pytest.raises(UnknownTopicOrPartitionError):
                await fetch_values(channel, "a.b", partition)
        for key, value in (("log_dirs", "../../etc"), ("cleanup_policy", "../x"), ("a/b", "1")):
            alteration = ConfigAlteration(RESOURCE_TOPIC, "a.b", [ConfigEntry(key, value)])
            altered = await channel.call(AlterConfigsRequest([alteration]), timeout_s=5)
            assert altered.message.resources[0].error_code == 40
        channel.close()


async def test_unacknowledged_produce_is_not_answered(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        await cluster.create_topic("t")
        channel = await cluster.channel(1)
        channel.send_oneway(ProduceRequest(None, 0, 1000, []))
        assert (await produce(channel, "t", 0, [b"x"])).base_offset == 0
        channel.close()


# -- what keeps a broker from starting ----------------------------------------------------------


async def test_a_port_in_use_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        cluster = Cluster(tmp_path, 1)
        listeners = [
            ListenerConfig(name="internal"),
            ListenerConfig(name="external", port=taken.getsockname()[1]),
        ]
        with pytest.raises(ConfigError, match=r"listeners\.1: cannot listen on 127.0.0.1"):
            await cluster.start_broker(1, listeners=listeners)
        await cluster.close()
    assert names_below(tmp_path) == []
    assert cluster.zookeeper.sessions() == []


async def test_a_directory_of_another_broker_is_refused(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        other_dir = str(tmp_path / "broker-1")
        with pytest.raises(ConfigError, match="holds the data of broker 1, and broker_id is 2"):
            await cluster.start_broker(2, log_dirs=[other_dir])
        with pytest.raises(ConfigError, match="in use by another broker"):
            await cluster.make_broker(1, listeners=[ListenerConfig(name="internal")]).start()


async def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 2):
        pass
    async with Cluster(tmp_path / "elsewhere", 1, seed=2) as other:
        with pytest.raises(ConfigError, match="cluster_id"):
            await other.start_broker(2, log_dirs=[str(tmp_path / "broker-2")])
        assert 1 in other.brokers


async def test_a_new_metadata_store_takes_the_cluster_id_of_the_data(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        cluster_id = cluster.brokers[1].image.cluster_id
    async with Cluster(tmp_path, 1) as cluster:
        assert cluster.brokers[1].image.cluster_id == cluster_id


@pytest.mark.parametrize("kind", ["file", "below a file", "foreign"])
async def test_paths_that_cannot_be_log_directories(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place"
    if kind == "foreign":
        path.mkdir()
        (path / "holiday.jpg").write_bytes(b"x")
    else:
        path.write_bytes(b"x")
    wanted = path / "deep" / "er" if kind == "below a file" else path
    cluster = Cluster(tmp_path, 1)
    with pytest.raises(ConfigError, match="log_dirs"):
        await cluster.start_broker(1, log_dirs=[str(wanted)])
    await cluster.close()
    assert names_below(tmp_path) in (["place"], ["holiday.jpg", "place"])


async def test_two_brokers_of_one_id(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        with pytest.raises(ConfigError, match="broker_id: broker id 1 is registered by another"):
            await cluster.make_broker(
                1,
                log_dirs=[str(tmp_path / "copy")],
                listeners=[ListenerConfig(name="internal")],
            ).start()


async def test_a_cluster_that_uses_what_this_release_does_not_know(tmp_path: Path) -> None:
    async with Cluster(tmp_path, 1) as cluster:
        features = b'{"version":1,"features":{"tomorrow":1}}'
        cluster.zookeeper.apply(Create("/cluster/features", features))
        with pytest.raises(ConfigError, match=r"uses tomorrow, .* does not know\. Start a release"):
            await cluster.start_broker(2)


async def test_without_a_metadata_store_the_start_fails_and_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path, 1)
    cluster.zookeeper.stop()
    with pytest.raises(StoreDisconnectedError):
        await cluster.start_broker(1)
    cluster.zookeeper.start()
    async with cluster:
        assert cluster.brokers[1].dispatcher.ready
