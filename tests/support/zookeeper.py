"""Tests use one real ZooKeeper process a test session, on a free port; it is gone at the end.

Those of TLS use another one, which has a port with TLS as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from oncelog_cli.local.zookeeper import ZooKeeperServer

if TYPE_CHECKING:
    from support.tls_zookeeper import TlsZooKeeper

__all__ = ["tls_zookeeper", "zookeeper"]


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


@pytest.fixture(scope="session")
def tls_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsZooKeeper]:
    """It is a running server. Tests keep apart by a chroot each."""
    # What makes certificates is for those only that want some.
    from support.tls_zookeeper import TlsZooKeeper

    made = TlsZooKeeper(tmp_path_factory.mktemp("tls-zookeeper"))
    made.server.start()
    try:
        yield made
    finally:
        made.server.stop()
