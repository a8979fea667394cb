"""A broker of a cluster for tests has such a machine: its disk, its ports, its session.
The machine knows what becomes of them when the broker is stopped, killed or started again.

The disk is in memory, or a directory that the caller gives. A life of the broker is one object of
the product's ``Broker``; the machine outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig, ConfigError, ListenerConfig
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files, SystemFiles
from oncelog_runtime.tasks import Tasks
from oncelog_testing.faults import FaultPlan, TestableBroker
from oncelog_testing.memory.files import MemoryFiles
from oncelog_testing.memory.store import MemoryMetadataStore
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from oncelog_testing.ports import Ports

__all__ = ["DATA", "DISK_BYTES", "Machine", "NotRunningError"]

DATA = "/data"
LISTENERS = ("internal", "external")

ACCEPT_ROUNDS = 8
"""Rounds of the loop until a connection that was just accepted has reached its listener."""

DISK_BYTES = 1 << 40
"""Room on a disk in memory: more than a test will fill."""


class NotRunningError(RuntimeError):
    """A call needs a broker that runs, or one that does not."""


class Machine:
    """It is where one broker lives. On the cluster's loop only.

    :param settings: of every life, as in the broker's configuration file.
    :param directory: it holds the data, on the real disk; None: the disk is in memory.
    :param files: how a real disk is used; None: as the system does it.
    :param options: more arguments of ``Broker``, such as safeguards to switch off.
    :param listeners: what a listener of a name has beside its address.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        zookeeper: MemoryZooKeeper,
        clock: WallClock,
        entropy: Entropy,
        plan: FaultPlan,
        settings: Mapping[str, Any],
        directory: str | None,
        files: Files | None = None,
        options: Mapping[str, Any] | None = None,
        listeners: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker: Broker | None = None
        """The life that runs now."""
        self.failure: BaseException | None = None
        """What the last life ended with, if it failed."""
        self.store: MemoryMetadataStore | None = None
        self.memory = None if directory is not None else MemoryFiles("/", total_bytes=DISK_BYTES)
        """The disk, when it is in memory."""
        self._zookeeper = zookeeper
        self._clock = clock
        self._entropy = entropy
        self._plan = plan
        self._settings = settings
        self._directory = directory
        self._files = files if files is not None else SystemFiles()
        self._options = options or {}
        self._listeners = listeners or {}
        self._lives = 0
        self._ports = Ports()
        self._ends = Tasks(f"machine-{broker_id}")
        self._ending: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Machine of broker {self.broker_id}, {'up' if self.broker else 'down'}>"

    @property
    def running(self) -> Broker:
        """Return the broker. :raises NotRunningError: it is down."""
        if self.broker is None:
            raise NotRunningError(f"broker {self.broker_id} does not run{self._why()}")
        return self.broker

    @property
    def session_id(self) -> int:
        """Return the id of the broker's session with the metadata store. :raises NotRunningError:
        it has none."""
        store = self.store
        if self.broker is None or store is None or store.session_id is None:
            raise NotRunningError(f"broker {self.broker_id} has no session{self._why()}")
        return store.session_id

    def _why(self) -> str:
        return f": it failed with {self.failure!r}" if self.failure else ": start it first"

    def config(self, **settings: Any) -> BrokerConfig:
        """Return the settings of a life, ``settings`` before those of every life.

        :raises ConfigError: one of them is of a broker that has a process of its own.
        :raises ValidationError: one of them does not hold.
        """
        given: dict[str, Any] = {
            "broker_id": self.broker_id,
            "log_dirs": [self._directory or f"{DATA}/{self.broker_id}"],
            "listeners": [
                ListenerConfig(name=name, **self._listeners.get(name, {})) for name in LISTENERS
            ],
        }
        config = BrokerConfig(**{**given, **self._settings, **settings})
        if config.audit_log_file is not None:
            problem = "the brokers of a test have one process, whose logging is the test's"
            remedy = (
                "Read the lines from the logger oncelog.audit, with pytest's caplog for example"
            )
            raise ConfigError("audit_log_file", problem, remedy)
        return config

    def make_broker(self, **settings: Any) -> Broker:
        """Return a broker that is not started, and that this machine leaves to the caller; it will
        listen at ports of its own."""
        config = self.config(**settings)
        return self._make(config, self._make_store(config))

    def _make_store(self, config: BrokerConfig) -> MemoryMetadataStore:
        timeout_ms = config.zookeeper_session_timeout_ms
        return MemoryMetadataStore(self._zookeeper, session_timeout_ms=timeout_ms)

    def _make(self, config: BrokerConfig, store: MemoryMetadataStore) -> Broker:
        self._lives += 1  # who draws the same ids twice finds directories that it does not have
        return TestableBroker(
            config,
            plan=self._plan,
            files=self._files if self.memory is None else self.memory,
            clock=self._clock,
            entropy=self._entropy.fork(f"life-{self._lives}"),
            metadata_store=store,
            **self._options,
        )

    def _at_its_ports(self, config: BrokerConfig) -> BrokerConfig:
        listeners = [
            listener.model_copy(
                update={"port": listener.port or self._ports.of(listener.name, listener.host)}
            )
            for listener in config.listeners
        ]
        return config.model_copy(update={"listeners": listeners})

    async def start(self, **settings: Any) -> None:
        """Start a life of the broker, with ``settings`` of its own; returns when it serves clients.

        A listener without a port is where it was in the life before.

        :raises NotRunningError: it runs already. :raises ConfigError: see ``Broker.start``.
        """
        if self.broker is not None:
            raise NotRunningError(f"broker {self.broker_id} runs already")
        await self._ended_whole()
        config = self.config(**settings)
        self.store = self._make_store(config)
        broker = self._make(self._at_its_ports(config), self.store)
        self.broker, self.failure = broker, None
        broker.failed.add_done_callback(lambda _: self._ended(broker))
        try:
            await broker.start()
        except BaseException:
            self.broker = None
            raise
        self._ports.note(broker.addresses)

    def _ended(self, broker: Broker) -> None:
        """A broker that cannot go on is stopped, as its process does it."""
        if broker is not self.broker or broker.failed.cancelled():
            return
        self.broker, self.failure = None, broker.failed.exception()
        self._ending = self._ends.spawn("stopping", broker.stop(clean=False))

    async def _ended_whole(self) -> None:
        """Wait until a broker that failed is stopped: half stopped, it keeps its ports."""
        if self._ending is not None:
            await asyncio.gather(self._ending, return_exceptions=True)

    async def close(self) -> None:
        """End what runs, not cleanly."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.stop(clean=False)
        await self._ended_whole()
        await self._ends.close()
        self._ports.release()

    async def stop(self, *, clean: bool = True) -> None:
        """Stop the broker as an operator does: its leaderships move first, unless not ``clean``."""
        broker = self.running
        self.broker = None
        await broker.stop(clean=clean)

    async def kill(self, *, power_loss: bool) -> None:
        """End the broker at once, as ``kill -9``: connections break, its port refuses, its session
        lives on until it times out. With ``power_loss`` all that was not synced is gone as well.

        :raises NotRunningError: it is down; or the disk is real, and cannot lose its power.
        """
        broker, store = self.running, self.store
        if power_loss and self.memory is None:
            raise NotRunningError("power_loss needs disks in memory: leave out directory=")
        assert store is not None
        self.broker = None
        for _ in range(ACCEPT_ROUNDS):  # asyncio forgets who is accepted while a port closes
            await asyncio.sleep(0)
        closing = [asyncio.ensure_future(each.close()) for each in broker.listeners.values()]
        await asyncio.sleep(0)  # the ports refuse now: who is cut off must not come back
        if self.memory is not None:
            # What the dead life still does to its disk reaches nobody.
            self.memory = self.memory.image("none" if power_loss else "all")
        if store.session_id is not None and store.session_id in self._zookeeper.sessions():
            self._zookeeper.disconnect(store.session_id)
        store.crash()
        for listener in broker.listeners.values():
            for connection in list(listener.connections):
                connection.abort("killed by the test")
        await asyncio.gather(*closing)
        await broker.stop(clean=False)
