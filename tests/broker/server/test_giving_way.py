"""A leader whose disk is full, or does not answer, gives way to one that can be written to."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from oncelog_protocol.errors import NotLeaderOrFollowerError, StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import DiskSpace, File, SystemFiles
from support.cluster import Cluster
from support.hand_records import fetch_values, produce
from support.waiting import eventually


class Disks(SystemFiles):
    """Each broker has a disk; some are full."""

    def __init__(self) -> None:
        super().__init__()
        self.full: list[int] = []

    def disk_space(self, path: str) -> DiskSpace:
        space = super().disk_space(path)
        if any(f"/broker-{broker_id}" in path for broker_id in self.full):
            return DiskSpace(total_bytes=space.total_bytes, free_bytes=4096)
        return space


async def send(cluster: Cluster, broker_id: int, value: bytes) -> int:
    channel = await cluster.channel(broker_id)
    try:
        return (await produce(channel, "t", 0, [value])).error_code
    finally:
        channel.close()


def leads(cluster: Cluster, broker_id: int) -> bool:
    replica = cluster.brokers.get(broker_id)
    return replica is not None and replica.replicas.partition(TopicPartition("t", 0)).is_leader


@pytest.mark.slow
async def test_writes_go_on_where_there_is_room(tmp_path: Path) -> None:
    disks = Disks()
    async with Cluster(tmp_path, brokers=3, files=disks) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        former = cluster.leader("t")
        disks.full = [former]
        assert await send(cluster, former, b"refused") == StorageError.code
        await eventually(lambda: leads(cluster, cluster.leader("t")) and not leads(cluster, former))
        assert await send(cluster, cluster.leader("t"), b"taken") == 0
        disks.full = []
        await eventually(lambda: len(cluster.state("t").isr) == 3)
        channel = await cluster.channel(cluster.leader("t"))
        assert await fetch_values(channel, "t", 0) == [b"taken"]
        channel.close()


async def test_where_nobody_has_room_the_leader_stays_and_serves_readers(tmp_path: Path) -> None:
    disks = Disks()
    async with Cluster(tmp_path, brokers=3, files=disks) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        former = cluster.leader("t")
        disks.full = [1, 2, 3]
        assert await send(cluster, former, b"refused") == StorageError.code
        for _ in range(3):
            await cluster.brokers[former]._giving_way.look()
            await asyncio.sleep(0)
        assert cluster.leader("t") == former
        assert len(cluster.state("t").isr) == 3
        channel = await cluster.channel(former)
        assert await fetch_values(channel, "t", 0) == []
        channel.close()


THREADED: dict[str, Any] = {"flush_inline_bytes_max": 0, "log_dir_sync_timeout_ms": 30_000}
"""Syncs are not made on the loop."""


class StallingDisks(SystemFiles):
    """One disk for each broker, of which some do not answer before ``answers`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.stalled: list[int] = []
        self.answers = threading.Event()

    def open(self, path: str, *, create: bool = False) -> File:
        return cast(File, _Stalling(super().open(path, create=create), self, path))

    def wait(self, path: str) -> None:
        if any(f"/broker-{broker_id}" in path for broker_id in self.stalled):
            self.answers.wait(30)


class _Stalling:
    def __init__(self, file: File, disks: StallingDisks, path: str) -> None:
        self._file, self._disks, self._path = file, disks, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None:
        self._disks.wait(self._path)
        self._file.sync()


@pytest.mark.slow
async def test_writes_go_on_where_the_disk_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog_broker.log.flusher.STALL_SHARE", 0.01)
    disks = StallingDisks()
    async with Cluster(tmp_path, brokers=3, files=disks, **THREADED) as cluster:
        await cluster.create_topic("t", replication_factor=3, min_insync_replicas=2)
        former = cluster.leader("t")
        assert await send(cluster, former, b"before") == 0
        disks.stalled = [former]
        waits = asyncio.create_task(send(cluster, former, b"waits"))
        await eventually(lambda: leads(cluster, cluster.leader("t")) and not leads(cluster, former))
        assert await waits == NotLeaderOrFollowerError.code
        assert await send(cluster, cluster.leader("t"), b"taken") == 0
        assert former not in cluster.state("t").isr
        assert all(log_dir.online for log_dir in cluster.brokers[former].logs.dirs)
        disks.stalled = []
        disks.answers.set()
        await eventually(lambda: len(cluster.state("t").isr) == 3)
        channel = await cluster.channel(cluster.leader("t"))
        assert await fetch_values(channel, "t", 0) == [b"before", b"waits", b"taken"]
        channel.close()


async def test_a_leader_without_a_better_follower_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog_broker.log.flusher.STALL_SHARE", 0.01)
    disks = StallingDisks()
    async with Cluster(tmp_path, brokers=2, files=disks, **THREADED) as cluster:
        await cluster.create_topic("t", replication_factor=2, min_insync_replicas=2)
        former = cluster.leader("t")
        broker = cluster.brokers[former]
        disks.stalled = [1, 2]
        waits = asyncio.create_task(send(cluster, former, b"waits"))
        log_dir = broker.logs.dirs[0]
        await eventually(lambda: log_dir.flusher.stalled_since is not None)
        for _ in range(3):
            await broker._giving_way.look_at_stall(log_dir)
        assert leads(cluster, former)
        disks.answers.set()
        assert await waits == 0
        assert leads(cluster, former)
