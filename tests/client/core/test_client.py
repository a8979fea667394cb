"""These tests check what all clients say of themselves."""

from __future__ import annotations

import pytest

from oncelog import Admin, Consumer, Producer
from oncelog.core.client import ClusterClient
from oncelog.errors import ClosedError
from support.fake_cluster import FakeCluster


async def test_health_is_that_of_a_client_which_runs() -> None:
    async with FakeCluster() as cluster:
        clients: list[ClusterClient] = [
            Producer(cluster.bootstrap),
            Consumer(bootstrap_servers=cluster.bootstrap),
            Admin(cluster.bootstrap),
        ]
        for client in clients:
            with pytest.raises(ClosedError):
                client.health()
        async with Producer(cluster.bootstrap) as producer:
            assert producer.health().ok
        with pytest.raises(ClosedError):
            producer.health()
