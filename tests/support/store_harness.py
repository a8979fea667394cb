"""A test of the ``MetadataStore`` port does such things to a store, over the fake and the real."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kazoo.client import KazooClient

from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.store import MetadataStore
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_access import ZooKeeperAccess
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.tcp_proxy import TcpProxy

SESSION_TIMEOUT_MS = 1000


class StoreHarness(Protocol):
    """It makes stores of one tree, and does to them what networks and servers do."""

    async def open(self) -> MetadataStore:
        """Open a started store with a session of its own."""
        ...

    async def unreachable(self) -> MetadataStore:
        """Return a store, not started, whose server does not answer."""
        ...

    async def disconnect(self, store: MetadataStore) -> None:
        """Break the connection; the session stays until its time is up."""
        ...

    async def reconnect(self, store: MetadataStore) -> None:
        """Do the opposite."""
        ...

    async def expire(self, store: MetadataStore) -> None:
        """The server ends the session of a connected store."""
        ...

    async def lose_next_reply(self, store: MetadataStore) -> None:
        """The next write is applied, its reply is lost with the connection."""
        ...

    async def close(self) -> None:
        """Close all stores."""
        ...


class MemoryHarness:
    """It uses ``MemoryZooKeeper``."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self._stores: list[MemoryMetadataStore] = []

    async def open(self) -> MetadataStore:
        store = MemoryMetadataStore(self.server, session_timeout_ms=SESSION_TIMEOUT_MS)
        self._stores.append(store)
        await store.start()
        return store

    async def unreachable(self) -> MetadataStore:
        server = MemoryZooKeeper()
        server.stop()
        return MemoryMetadataStore(server)

    async def disconnect(self, store: MetadataStore) -> None:
        self.server.disconnect(_session(store))

    async def reconnect(self, store: MetadataStore) -> None:
        self.server.reconnect(_session(store))

    async def expire(self, store: MetadataStore) -> None:
        self.server.expire(_session(store))

    async def lose_next_reply(self, store: MetadataStore) -> None:
        self.server.lose_reply(_session(store))

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class RealHarness:
    """It uses a ZooKeeper process; each store talks through a proxy of its own."""

    def __init__(
        self,
        server: ZooKeeperServer,
        chroot: str,
        *,
        port: int = 0,
        access: ZooKeeperAccess | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """``port`` is that of the server; 0: its plain one."""
        self._session_timeout_ms = session_timeout_ms
        self._server = server
        self._port = port or server.port
        self._chroot = chroot
        self._access = access
        self._proxies: dict[MetadataStore, TcpProxy] = {}

    async def open(self, session_timeout_ms: int = 0) -> MetadataStore:
        proxy = TcpProxy("127.0.0.1", self._port)
        await proxy.start()
        store = ZooKeeperStore(
            f"127.0.0.1:{proxy.port}",
            chroot=self._chroot,
            session_timeout_ms=session_timeout_ms or self._session_timeout_ms,
            access=self._access,
        )
        self._proxies[store] = proxy
        await store.start()
        return store

    async def unreachable(self) -> MetadataStore:
        proxy = TcpProxy("127.0.0.1", self._port)
        await proxy.start()
        await proxy.close()
        return ZooKeeperStore(f"127.0.0.1:{proxy.port}", connect_timeout_ms=300)

    def proxy(self, store: MetadataStore) -> TcpProxy:
        """Return the wire of a store."""
        return self._proxies[store]

    async def disconnect(self, store: MetadataStore) -> None:
        self._proxies[store].cut()

    async def reconnect(self, store: MetadataStore) -> None:
        self._proxies[store].mend()

    async def expire(self, store: MetadataStore) -> None:
        """As ZooKeeper's own tests do it: a second client takes the session over and closes it."""
        assert isinstance(store, ZooKeeperStore)
        assert store._client is not None
        identity = store._client.client_id
        await asyncio.to_thread(self._end_session, identity)

    def _end_session(self, identity: tuple[int, bytes]) -> None:
        thief = KazooClient(self._server.address, client_id=identity, timeout=5.0)
        thief.start()
        thief.stop()
        thief.close()

    async def lose_next_reply(self, store: MetadataStore) -> None:
        self._proxies[store].cut_at_next_reply()

    async def close(self) -> None:
        for store, proxy in self._proxies.items():
            await store.close()
            await proxy.close()


def _session(store: MetadataStore) -> int:
    assert store.session_id is not None
    return store.session_id
