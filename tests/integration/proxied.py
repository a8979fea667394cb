"""Brokers of this cluster send their clients through proxies, which keep what clients ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from integration.processes import SETTINGS
from oncelog_cli.local.broker import NOTHING, LocalBroker
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import free_port
from oncelog_cli.local.toml_writer import Value
from support.frame_proxy import Captured, FrameProxy


class ProxiedBroker(LocalBroker):
    """It tells clients the port of its proxy; other brokers reach it directly."""

    advertised_port = 0

    def write_config(
        self,
        zookeeper_connect: str,
        settings: Mapping[str, Value],
        *,
        internal: Mapping[str, Value] = NOTHING,
        external: Mapping[str, Value] = NOTHING,
    ) -> None:
        """Write it as ever, but for where clients find it."""
        there = {**external, "advertised_port": self.advertised_port}
        super().write_config(zookeeper_connect, settings, internal=internal, external=there)


class ProxiedCluster:
    """Three brokers have a proxy each, to which ``bootstrap`` leads: ``await start()``."""

    def __init__(self, directory: Path) -> None:
        self.cluster = LocalCluster(directory, brokers=3, settings=SETTINGS)
        self.proxies: list[FrameProxy] = []

    async def start(self) -> None:
        """Start proxies, then brokers."""
        for broker_id, plain in list(self.cluster.brokers.items()):
            broker = ProxiedBroker(broker_id, plain.directory, port=free_port(), internal_port=0)
            proxy = FrameProxy("127.0.0.1", broker.port)
            await proxy.start()
            broker.advertised_port = proxy.port
            self.cluster.brokers[broker_id] = broker
            self.proxies.append(proxy)

    async def close(self) -> None:
        """Drop the proxies."""
        for proxy in self.proxies:
            await proxy.close()

    @property
    def bootstrap(self) -> str:
        """Return addresses of the proxies."""
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.proxies)

    def captured(self, *api_keys: int) -> list[Captured]:
        """Return requests of these kinds that came by, broker by broker."""
        return [c for proxy in self.proxies for c in proxy.captured if c.api_key in api_keys]

    def withhold(self, api_key: int, count: int) -> None:
        """Keep the next ``count`` requests of a kind from arriving."""
        left = [count]

        def decide(key: int) -> bool:
            if key != api_key or not left[0]:
                return False
            left[0] -= 1
            return True

        for proxy in self.proxies:
            proxy.withhold = decide

    def forget(self) -> None:
        """Forget what was captured, and withhold nothing more."""
        for proxy in self.proxies:
            proxy.captured.clear()
            proxy.withhold = lambda api_key: False
