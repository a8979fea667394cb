"""The folder has one host of commands, one loop for its clusters, and a fresh cluster a page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docs import host as hosts
from oncelog.loop_thread import LoopThread
from oncelog_broker.app import Broker
from oncelog_runtime.files import DiskSpace, SystemFiles
from support.cluster import Cluster

SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": 20_000,
    "replica_lag_time_max_ms": 20_000,
    "default_replication_factor": 3,
    "offsets_topic_num_partitions": 4,
    "transaction_state_log_num_partitions": 4,
    "group_initial_rebalance_delay_ms": 0,
}
"""Few internal partitions, no waiting for more members, and no faults on a machine that is busy."""


class RoomyFiles(SystemFiles):
    """The disk is half empty, whatever the machine has: pages show healthy clusters."""

    def disk_space(self, path: str) -> DiskSpace:
        """Return 100 GiB, of which the half is free."""
        return DiskSpace(total_bytes=100 << 30, free_bytes=50 << 30)


def log_dirs_of(folder: Path, broker_id: int, dirs: int) -> list[str]:
    """Return the directories of a broker of a page's cluster."""
    return [str(folder / f"broker-{broker_id}-{number}") for number in range(1, dirs + 1)]


class PagesCluster(Cluster):
    """It begins with three brokers. Each has ``dirs`` directories."""

    def __init__(self, folder: Path, dirs: int) -> None:
        super().__init__(folder, 3, files=RoomyFiles(), **SETTINGS)
        self._dirs = dirs

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        """Start it with directories of its own."""
        own = {"log_dirs": log_dirs_of(self.directory, broker_id, self._dirs)}
        return await super().start_broker(broker_id, **{**own, **settings})


@pytest.fixture(scope="session")
def shims() -> Iterator[Path]:
    """This folder of commands goes in front of the path."""
    with tempfile.TemporaryDirectory() as folder, hosts.host(Path(folder)) as shims:
        yield shims


class PageCluster(NamedTuple):
    """A page's cluster runs beside it."""

    bootstrap: str
    start_broker: Callable[[int], None]
    """It starts one broker more, with this id, and returns when that serves."""


@pytest.fixture(scope="session")
def clusters_of_pages() -> Iterator[Callable[[Path, int], AbstractContextManager[PageCluster]]]:
    """Make a cluster of three brokers in a folder, each with so many directories."""
    loop = LoopThread("clusters of pages")

    def started(cluster: PagesCluster, broker_id: int) -> None:
        loop.call(cluster.start_broker(broker_id))

    @contextmanager
    def made(folder: Path, dirs: int) -> Iterator[PageCluster]:
        cluster = PagesCluster(folder, dirs)
        loop.call(cluster.__aenter__())
        try:
            yield PageCluster(cluster.bootstrap, lambda broker_id: started(cluster, broker_id))
        finally:
            loop.call(cluster.close())

    try:
        yield made
    finally:
        loop.stop()
