"""The contract suites of the ports run on the simulator, beside the machine's own things.

pytest-asyncio runs a loop several times for one test: for fixtures, for the test, for their ends.
``ContractLoop`` lets it. The test itself is the simulator; what it opens belongs to processes of
their own: a server and a client, or each store's user and ZooKeeper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from contextvars import Context, copy_context
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

from oncelog_controller.store import MetadataStore
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from simulation.loop import CURRENT, Process, SimLoop
from simulation.network import Network
from simulation.store import SimMetadataStore
from support.store_harness import SESSION_TIMEOUT_MS
from support.stream_harness import Factory

T = TypeVar("T")


class ContractLoop(SimLoop):
    """It is a simulation that is run piece by piece, with hosts "server", "client" and "zk"."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        chance = SeededEntropy(seed)
        network = Network(self, chance.fork("network"))
        network.split = chance.choice([0.0, 0.1, 1.0])
        network.jitter_s = chance.choice([0.0, 0.0005, 0.05])
        for name in ("server", "client", "zk"):
            network.add_host(name)
            network.start(
                name, rate=1 + 0.1 * (chance.random() - 0.5), offset_s=1000 * chance.random()
            )

    def life(self, name: str) -> Process:
        """Return the process on a host."""
        process = self.network.hosts[name].process
        assert process is not None
        return process

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        if not self.is_running():  # from outside
            context = copy_context() if context is None else context
            context.run(CURRENT.set, self.root)
        return super().create_task(coro, name=name, context=context)

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        task = asyncio.ensure_future(future, loop=self)
        with self._on_stage():
            while not task.done():
                self._step()
        return task.result()

    def set_debug(self, enabled: bool) -> None:
        return

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    def close(self) -> None:
        self._clear()


# ---- streams


class SimStreams:
    """Its streams are between two simulated hosts."""

    def __init__(self, loop: ContractLoop) -> None:
        self._loop = loop
        self._server, self._client = loop.life("server"), loop.life("client")
        self.address = loop.network.hosts["server"].address
        self.unhandled = loop.unhandled

    async def serve(
        self, factory: Factory, *, port: int = 0, start_serving: bool = True
    ) -> asyncio.Server:
        """See ``StreamHarness``."""
        server: asyncio.Server = await self._server.call(
            self._loop.create_server(factory, self.address, port, start_serving=start_serving)
        )
        return server

    async def connect(self, factory: Factory, port: int) -> asyncio.Transport:
        """See ``StreamHarness``."""
        made = await self._client.call(self._loop.create_connection(factory, self.address, port))
        return made[0]


# ---- the metadata store


class SimStoreHarness:
    """This ``StoreHarness`` uses the simulator's store; the users of all stores are on "client"."""

    def __init__(self, loop: ContractLoop) -> None:
        self._client, self._zookeeper = loop.life("client"), loop.life("zk")
        self._server: MemoryZooKeeper = self._zookeeper.run(MemoryZooKeeper)
        chance = loop.network.entropy
        self._server.delay = lambda kind, session_id: (
            0.0 if kind == "ephemeral" else 0.001 * chance.random()
        )
        self._stores: list[MetadataStore] = []

    def _store(self, server: MemoryZooKeeper) -> MetadataStore:
        store = SimMetadataStore(
            server,
            process=self._client,
            server_process=self._zookeeper,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        return cast(MetadataStore, UsedElsewhere(store, self._client))

    async def open(self) -> MetadataStore:
        """See ``StoreHarness``."""
        store = self._store(self._server)
        self._stores.append(store)
        await store.start()
        return store

    async def unreachable(self) -> MetadataStore:
        """See ``StoreHarness``."""
        server = self._zookeeper.run(MemoryZooKeeper)
        self._zookeeper.run(server.stop)
        return self._store(server)

    async def disconnect(self, store: MetadataStore) -> None:
        """See ``StoreHarness``."""
        self._zookeeper.run(self._server.disconnect, _session(store))

    async def reconnect(self, store: MetadataStore) -> None:
        """See ``StoreHarness``."""
        self._zookeeper.run(self._server.reconnect, _session(store))

    async def expire(self, store: MetadataStore) -> None:
        """See ``StoreHarness``."""
        self._zookeeper.run(self._server.expire, _session(store))

    async def lose_next_reply(self, store: MetadataStore) -> None:
        """See ``StoreHarness``."""
        self._zookeeper.run(self._server.lose_reply, _session(store))

    async def close(self) -> None:
        """See ``StoreHarness``."""
        for store in self._stores:
            await store.close()


class UsedElsewhere:
    """Its own process makes the calls of this store, for a test that is another."""

    def __init__(self, store: MetadataStore, process: Process) -> None:
        self._store = store
        self._process = process

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not iscoroutinefunction(value):
            return value

        def call(*args: Any, **options: Any) -> Coroutine[Any, Any, Any]:
            return self._process.call(value(*args, **options))

        return call


def _session(store: MetadataStore) -> int:
    assert store.session_id is not None
    return store.session_id
