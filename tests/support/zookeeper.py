"""Tests use one real ZooKeeper process a test session, on a free port; it is gone at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog_cli.local.zookeeper import ZooKeeperServer

__all__ = ["zookeeper"]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """It is a running server. Tests keep apart by a chroot each; one that stops, kills or pauses
    the server leaves it running when it ends."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    try:
        yield server
    finally:
        server.stop()
