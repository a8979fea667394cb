"""The brokers of a cluster in one process have their HTTP ports, as ``__main__`` gives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from oncelog_broker.observability.endpoint import Endpoint
from oncelog_runtime.observe import precise_time
from support.cluster import Cluster
from support.http_get import get, metrics

__all__ = ["Observed", "observed"]

Samples = dict[str, dict[tuple[str, ...], float]]


class Observed:
    """It has the cluster, and asks its ports."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.endpoints: dict[int, Endpoint] = {}

    async def attach(self, broker_id: int) -> Endpoint:
        """Give a running broker its port; the old one's is closed."""
        await self.detach(broker_id)
        endpoint = Endpoint(self.cluster.brokers[broker_id], precise_time)
        await endpoint.start()
        self.endpoints[broker_id] = endpoint
        return endpoint

    async def detach(self, broker_id: int) -> None:
        """Close a broker's port."""
        if broker_id in self.endpoints:
            await self.endpoints.pop(broker_id).close()

    async def get(self, path: str, broker_id: int = 1) -> Any:
        """Return what a path answers."""
        return await get(self.endpoints[broker_id].address, path)

    async def metrics(self, broker_id: int = 1) -> Samples:
        """Return every sample, see ``http_get.metrics``."""
        return await metrics(self.endpoints[broker_id].address)


@asynccontextmanager
async def observed(
    tmp_path: Path, brokers: int = 1, *, kind: type[Cluster] = Cluster, **settings: Any
) -> AsyncIterator[Observed]:
    """Start it, with a port each."""
    async with kind(tmp_path, brokers, metrics_port=0, **settings) as cluster:
        seen = Observed(cluster)
        try:
            for broker_id in sorted(cluster.brokers):
                await seen.attach(broker_id)
            yield seen
        finally:
            await asyncio.gather(*map(seen.detach, sorted(seen.endpoints)))
