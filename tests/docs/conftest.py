"""The folder has one host of commands, one loop for its clusters, and a fresh cluster a page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from docs import host as hosts
from oncelog.loop_thread import LoopThread
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


@pytest.fixture(scope="session")
def shims() -> Iterator[Path]:
    """This folder of commands goes in front of the path."""
    with tempfile.TemporaryDirectory() as folder, hosts.host(Path(folder)) as shims:
        yield shims


@pytest.fixture(scope="session")
def clusters_of_pages() -> Iterator[Callable[[Path], AbstractContextManager[str]]]:
    """Make a cluster of three brokers in a folder, and say where it is."""
    loop = LoopThread("clusters of pages")

    @contextmanager
    def made(folder: Path) -> Iterator[str]:
        cluster = Cluster(folder, 3, files=RoomyFiles(), **SETTINGS)
        loop.call(cluster.__aenter__())
        try:
            yield cluster.bootstrap
        finally:
            loop.call(cluster.close())

    try:
        yield made
    finally:
        loop.stop()
