"""The settings of ZooKeeper become a store."""

from __future__ import annotations

import itertools

import pytest

from oncelog_broker.config import BrokerConfig
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_cli.local.zookeeper import ZooKeeperServer

NUMBERS = itertools.count()


@pytest.mark.zookeeper
async def test_the_store_takes_hosts_and_chroot_apart(zookeeper: ZooKeeperServer) -> None:
    address = zookeeper.address
    chroot = f"/settings/{next(NUMBERS)}"
    config = BrokerConfig(
        broker_id=1, log_dirs=["/d"], zookeeper_connect=f"{address},{address}{chroot}"
    )
    inside = zookeeper_store(config)
    outside = zookeeper_store(config.model_copy(update={"zookeeper_connect": address}))
    await inside.start()
    await outside.start()
    await inside.create("/here", b"x")
    assert (await outside.get(f"{chroot}/here"))[0] == b"x"
    await inside.close()
    await outside.close()
