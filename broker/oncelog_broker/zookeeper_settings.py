"""The settings of ZooKeeper become the store that a broker is given."""

from __future__ import annotations

from oncelog_broker.config import BrokerConfig
from oncelog_controller.zookeeper import ZooKeeperStore


def zookeeper_store(config: BrokerConfig) -> ZooKeeperStore:
    """Return ZooKeeper at ``zookeeper_connect``, whose chroot follows the first slash."""
    return ZooKeeperStore.from_connect_string(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connect_timeout_ms=config.zookeeper_connection_timeout_ms,
    )
