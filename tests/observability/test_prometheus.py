"""A real Prometheus scrapes three brokers under load: every panel has data, every alert fires.

The brokers are whole ones, in this process, for their faults are made here. The alert rules are the
shipped ones, only in a hurry: windows and waiting times are seconds, and so are bounds on ages
(``test_alert_rules`` looks at them as they are).
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from oncelog import Consumer, Producer
from oncelog_broker.app import Broker
from oncelog_broker.coordinator.led_shard import ShardState
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import DiskSpace, File, SystemFiles
from support.cluster import Cluster
from support.hand_records import produce
from support.observed import Observed, observed
from support.prometheus import PrometheusServer
from support.shipped import all_alerts, every_panel_has_data, hurried_rules, load, scrape_config
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DEADLINE_S = 60.0
NOT_PROVOKED = {"OncelogBrokerRestarted"}
"""All three brokers are in one process; ``integration/test_scraped`` has processes."""


class Disk(SystemFiles):
    """It is the machine's files, with faults that a test asks for."""

    def __init__(self) -> None:
        self.full: set[str] = set()
        """Beginnings of paths without room."""
        self.slow: dict[str, float] = {}
        """Beginnings of paths, and how long a sync takes there."""

    def disk_space(self, path: str) -> DiskSpace:
        space = super().disk_space(path)  # as much room as a test of alerts needs, wherever it runs
        free = 0 if any(path.startswith(each) for each in self.full) else space.total_bytes // 2
        return replace(space, free_bytes=free)

    def open(self, path: str, *, create: bool = False) -> File:
        return SlowFile(super().open(path, create=create), path, self.slow)


class SlowFile:
    """Its sync takes as long as its disk says."""

    def __init__(self, file: File, path: str, slow: dict[str, float]) -> None:
        self._file, self._path, self._slow = file, path, slow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        for beginning, seconds in list(self._slow.items()):
            if self._path.startswith(beginning):
                time.sleep(seconds)
        self._file.sync()


class Scene:
    """It holds the cluster, its Prometheus, and what has fired so far."""

    def __init__(self, seen: Observed, prometheus: PrometheusServer, disk: Disk) -> None:
        self.seen, self.cluster = seen, seen.cluster
        self.prometheus = prometheus
        self.disk = disk
        self.fired: set[str] = set()

    async def fires(self, *alerts: str) -> None:
        """Wait until all of them have fired."""

        async def have_fired() -> bool:
            self.fired |= await self.prometheus.firing()
            return self.fired >= set(alerts)

        try:
            await self.prometheus.until(have_fired, DEADLINE_S, f"{alerts} fire")
        except AssertionError:
            missing = set(alerts) - self.fired
            raise AssertionError(f"did not fire: {sorted(missing)}") from None

    async def ceases(self, *alerts: str) -> None:
        """Wait until none of them fires."""

        async def silent() -> bool:
            return not await self.prometheus.firing() & set(alerts)

        await self.prometheus.until(silent, DEADLINE_S, f"{alerts} cease")


TOPICS: dict[str, dict[str, Any]] = {
    "orders": {"partitions": 6, "replication_factor": 3, "min_insync_replicas": 2},
    "strict": {"partitions": 3, "replication_factor": 3, "min_insync_replicas": 3},
    "single": {"partitions": 6, "replication_factor": 1},
    "loose": {"partitions": 3, "replication_factor": 2, "unclean_leader_election_enable": "true"},
}

SETTINGS: dict[str, Any] = {
    "metrics_lag_interval_ms": 200,
    "log_scrub_interval_ms": 2000,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "group_initial_rebalance_delay_ms": 50,
    "auto_leader_rebalance_enable": False,
    "move_stall_timeout_ms": 1000,
}


class TwoDirectories(Cluster):
    """Brokers have two log directories each, so that one may fail."""

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        dirs = [str(self.directory / f"broker-{broker_id}-{name}") for name in "ab"]
        return await super().start_broker(broker_id, log_dirs=dirs, **settings)


@asynccontextmanager
async def stage(tmp_path: Path) -> AsyncIterator[Scene]:
    disk = Disk()
    async with observed(tmp_path, 3, kind=TwoDirectories, files=disk, **SETTINGS) as seen:
        for topic, options in TOPICS.items():
            await seen.cluster.create_topic(topic, **options)
        addresses = [seen.endpoints[broker_id].address for broker_id in (1, 2, 3)]
        targets = [{"targets": [f"{host}:{port}" for host, port in addresses]}]
        config = scrape_config({"static_configs": targets})
        async with PrometheusServer(tmp_path / "prom", config, hurried_rules()) as server:
            yield Scene(seen, server, disk)


async def healthy(scene: Scene) -> None:
    """The cluster is under load, and there is nothing to complain of."""
    async with load(scene.cluster.bootstrap, "orders"):
        await every_panel_has_data(scene.prometheus, DEADLINE_S)
        await scene.ceases(*all_alerts())


async def clients_in_trouble(scene: Scene) -> None:
    """Consumers lag in records and in time, and nobody ends a transaction."""
    bootstrap = scene.cluster.bootstrap
    async with (
        Producer(bootstrap, transactional_id="forgotten") as producer,
        Consumer(
            "orders", bootstrap_servers=bootstrap, group_id="late", auto_offset_reset="earliest"
        ) as consumer,
    ):
        await consumer.getone()
        await consumer.commit()
        await producer.begin_transaction()
        await producer.send("strict", b"open")
        async with Producer(bootstrap) as other:
            await other.send_many("orders", [b"lag"] * 1200)
        await scene.fires("OncelogConsumerLag", "OncelogConsumerLagTime", "OncelogOpenTransaction")
        await producer.abort_transaction()


def rot(path: Path) -> None:
    """Other bits stand in the last byte than were written."""
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 0xFF]))


async def disks_in_trouble(scene: Scene) -> None:
    """Disks are full, slow, broken, rotten."""
    cluster, disk = scene.cluster, scene.disk
    channel = await cluster.channel(cluster.leader("single", 0))
    path = cluster.brokers[cluster.leader("single", 0)].logs.dirs[0].path
    disk.full.add(path)
    for log_dir in cluster.brokers[cluster.leader("single", 0)].logs.dirs:
        disk.full.add(log_dir.path)
        log_dir.credit_bytes = 0
    assert (await produce(channel, "single", 0, [b"x"])).error_code == StorageError.code
    await scene.fires("OncelogLogDirFull", "OncelogDiskSpaceLow")
    await move_without_room(scene, to=cluster.leader("single", 0))
    disk.full.clear()
    assert (await produce(channel, "single", 0, [b"x"])).error_code == 0
    disk.slow[str(scene.cluster.directory)] = 1.2
    for _ in range(2):
        assert (await produce(channel, "single", 0, [b"slow"], timeout_ms=20_000)).error_code == 0
    disk.slow.clear()
    await scene.fires("OncelogSyncSlow", "OncelogRequestLatency")
    rotten = cluster.brokers[cluster.leader("single", 0)].logs.get(TopicPartition("single", 0))
    assert rotten is not None
    await eventually(lambda: rotten.synced_offset == rotten.log_end_offset)
    rot(Path(rotten.directory, f"{0:020d}.log"))
    channel.close()
    broker = cluster.brokers[2]
    broken = next(each for each in broker.logs.dirs if each.logs)
    broken.fail("sync", OSError(errno.EIO, "Input/output error"))
    await scene.fires("OncelogDamagedLogs", "OncelogLogDirOffline", "OncelogFailedReplicas")


async def move_without_room(scene: Scene, to: int) -> None:
    """A partition is to move to a broker whose disks are full."""
    cluster = scene.cluster
    number = next(each for each in range(6) if cluster.leader("single", each) != to)
    channel = await cluster.channel(cluster.leader("single", number))
    assert (await produce(channel, "single", number, [b"x"])).error_code == 0
    channel.close()
    move = AlterPartitionReassignmentsRequest([ReassignedPartition("single", number, [to])])
    answer = await cluster.call(cluster.controller.broker_id, move)
    assert [item.error_code for item in answer.items] == [0]
    await scene.fires("OncelogMoveStalled")


async def process_in_trouble(scene: Scene) -> None:
    """A loop is kept busy, descriptors run out, an invariant breaks, and a shard cannot load."""
    for _ in range(4):
        time.sleep(0.4)  # noqa: ASYNC251  (that is what is to be noticed)
        await asyncio.sleep(0.12)
    await scene.fires("OncelogEventLoopLag")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = (await scene.seen.metrics(1))["process_open_fds"][()]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(used / 0.93), hard))
    try:
        await scene.fires("OncelogFileDescriptors")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    replica = next(
        each
        for each in scene.cluster.brokers[1].replicas.partitions()
        if each.topic_partition.topic == "orders" and not each.failed
    )
    replica.high_watermark = replica.log.log_end_offset + 1
    replica.check_invariants()
    await scene.fires("OncelogAssertionFailed")
    await unloadable(scene)


async def unloadable(scene: Scene) -> None:
    """A coordinator's partition cannot be read for a while."""
    engines = [broker.coordination.engine for broker in scene.cluster.brokers.values()]
    engine = next(each for each in engines if each.led)
    led = engine.led[0]

    class Unreadable:
        """This writer refuses to read."""

        def __init__(self, writer: Any) -> None:
            self.writer = writer

        def __getattr__(self, name: str) -> Any:
            return getattr(self.writer, name)

        async def read(self, *_: object) -> AsyncIterator[Any]:
            nothing: tuple[Any, ...] = ()
            for batch in nothing:
                yield batch
            raise StorageError("an unreadable segment")

    writer = engine._writer
    engine._writer = cast(Any, Unreadable(writer))
    engine._broken(led)
    try:
        await scene.fires("OncelogCoordinatorFailed")
    finally:
        engine._writer = writer
    await eventually(lambda: all(e.state is ShardState.ACTIVE for e in engine.led), timeout_s=20)


async def broker_lost(scene: Scene) -> None:
    """One broker stops, while a transaction waits for a partition that only it holds."""
    cluster = scene.cluster
    lost = next(p for p in range(6) if cluster.leader("single", p) == 3)
    async with Producer(cluster.bootstrap, transactional_id="stuck") as producer:
        await producer.begin_transaction()
        await producer.send("single", b"x", partition=lost)
        await cluster.stop_broker(3, clean=False)
        await producer.commit_transaction()
        await scene.fires(
            "OncelogBrokerNotReady",
            "OncelogBrokersMissing",
            "OncelogOfflinePartitions",
            "OncelogUnderMinIsr",
            "OncelogUnderReplicatedPartitions",
            "OncelogAtMinIsr",
            "OncelogTransactionEnding",
            "OncelogNoMessages",
        )


async def out_of_reach(scene: Scene) -> None:
    """A process is gone, a leader is elected from outside the ISR, and there is no ZooKeeper."""
    cluster = scene.cluster
    port = scene.seen.endpoints[3].address[1]
    await scene.seen.detach(3)
    await scene.fires("OncelogBrokerDown")
    # The other replica of a partition gets a record that broker 3 lacks, and is gone in its turn.
    states = [cluster.state("loose", number) for number in range(3)]
    state = next(each for each in states if 3 in each.replicas and each.leader > 0)
    number, leader = state.partition, state.leader
    channel = await cluster.channel(leader)
    assert (await produce(channel, "loose", number, [b"only here"])).error_code == 0
    channel.close()
    await scene.seen.detach(leader)
    await cluster.crash_broker(leader)
    await cluster.start_broker(3, metrics_port=port)
    await scene.seen.attach(3)
    await scene.fires("OncelogUncleanElection")
    cluster.zookeeper.stop()
    await scene.fires("OncelogZooKeeperDisconnected", "OncelogControllerCount")
    cluster.zookeeper.start()


async def test_panels_have_data_and_alerts_fire(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        for act in (
            healthy,
            clients_in_trouble,
            disks_in_trouble,
            process_in_trouble,
            broker_lost,
            out_of_reach,
        ):
            await act(scene)
        assert all_alerts() - scene.fired == NOT_PROVOKED
