"""A whole cluster in one process: real brokers with their controllers, real clients, on simulated
hosts with disks that forget, one ZooKeeper in memory, and virtual time.

    loop = SimLoop(seed)
    async def main():
        cluster = SimCluster(loop, Knobs(), SeededEntropy(seed))
        await cluster.start()
    loop.run(main())

Rules: nothing of the product is changed but through its ports. Each broker runs as a process of its
own and is supervised as by systemd: one that fails, or whose start fails, is started again, unless
the test holds it down. A crash drops the object graph; a start builds a new one over what the disk
kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from oncelog.security import Security
from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig, ListenerConfig
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.log.dir_jobs import SYNC
from oncelog_broker.log.move_marks import MOVED_MARK
from oncelog_controller.features import KAFKA_BATCHES
from oncelog_controller.safeguards import SAFE
from oncelog_controller.znodes import broker_path, state_path
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.messages.replication import TopicOverrides, UpdateMetadataRequest
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy, SeededEntropy
from oncelog_testing.memory.files import Keep, MemoryFiles
from oncelog_testing.memory.store import MemoryMetadataStore
from oncelog_testing.memory.zookeeper import Delay, MemoryZooKeeper
from simulation.kafka_door import open_door
from simulation.knobs import Knobs
from simulation.loop import Process, ProcessKilledError, SimLoop, until
from simulation.network import Network
from simulation.older_clients import open_older_door
from simulation.secured import APP, MECHANISM, broker_settings, secure, security_of
from simulation.sound_members import SoundMembers
from simulation.store import SimMetadataStore

logger = logging.getLogger("simulation")

EPOCH_MS = 1_700_000_000_000
DATA = "/data"
RESTART_S = 0.5
STOP_S = 20.0
LOAD_PIECES = 8
JOB_HANGS_S = 20.0
SUBJECTS_TOPIC = "t"
"""The subjects of a secured run have rights on this topic, the workload's."""


class SimClock:
    """It is a host's wall clock: virtual time from a date, with an error that faults may change."""

    def __init__(self, loop: SimLoop, error_ms: int = 0) -> None:
        self._loop = loop
        self.error_ms = error_ms
        self.usual_error_ms = error_ms
        """While no fault changes it."""

    def now_ms(self) -> int:
        """See ``WallClock``."""
        return EPOCH_MS + int(self._loop.now_s * 1000) + self.error_ms


class SimCluster:
    """It has brokers 1 to N, ZooKeeper on "zk", and clients where ``client_process`` puts them.

    :param safeguards: arguments for every ``Broker``, to go without a rule; also ``files``, what it
        is given as its disk, ``settings``, which go before those of the knobs, and
        ``expire_hung_loops``, a rule of the store's client.
    """

    def __init__(
        self,
        loop: SimLoop,
        knobs: Knobs,
        entropy: SeededEntropy,
        *,
        safeguards: Mapping[str, Any] | None = None,
    ) -> None:
        self.loop = loop
        self.knobs = knobs
        self.entropy = entropy
        self.more_for_brokers = more = dict(safeguards or {})
        self.as_disk: Callable[[MemoryFiles], Any] = more.pop("files", lambda disk: disk)
        self._settings: dict[str, Any] = more.pop("settings", {})
        self._expire_hung_loops: bool = more.pop("expire_hung_loops", True)
        self.controller_safeguards = more.pop("controller_safeguards", SAFE)
        self.sound_members = SoundMembers()
        self.network = Network(loop, entropy.fork("network"))
        self.network.latency_s, self.network.jitter_s = knobs.latency_s, knobs.jitter_s
        self.network.split = knobs.split
        self.ids = list(range(1, knobs.brokers + 1))
        self.brokers: dict[int, Broker] = {}
        """Those that run, by id; present from the moment their objects exist."""
        self.serving: dict[int, None] = {}
        """Those whose start has succeeded."""
        self.stores: dict[int, SimMetadataStore] = {}
        self.disks: dict[int, MemoryFiles] = {}
        self.clocks: dict[int, SimClock] = {}
        self.client_clock = SimClock(loop)
        self.leapt: list[int] = []
        """Brokers whose wall clocks are days off, or were so lately that others may remember."""
        self.on_broker: list[Callable[[int, Broker], None]] = []
        """Told of every new broker object."""
        self.on_down: list[Callable[[int], None]] = []
        self.sync_stall_s: dict[int, float] = {}
        """Jobs of a broker's executor take so much longer, while it is set."""
        self.deaf: dict[int, None] = {}
        """Brokers that refuse what controllers tell of the cluster; it is sent again."""
        self.hangs: dict[tuple[int, str], float] = {}
        """By broker and directory: how much longer a sync takes there; a job, ``JOB_HANGS_S``."""
        self.remounts: dict[int, tuple[str, Keep]] = {}
        """Volumes that are mounted again, without a restart of the machine, as soon as the broker
        that has given them up ends; and what is left of them."""
        self.zookeeper_delays: list[Delay] = []
        """Of faults: added to what its messages take as it is."""
        self._wanted = {broker_id: asyncio.Event() for broker_id in self.ids}
        self._lives = dict.fromkeys(self.ids, 0)
        self._disk_chance = entropy.fork("disk")
        self.network.add_host("zk")
        self.zookeeper_process = self.network.start("zk")
        self.zookeeper = self.zookeeper_process.run(MemoryZooKeeper)
        self.zookeeper.delay = self._zookeeper_delay
        self._zookeeper_chance, self._load_chance = entropy.fork("zookeeper"), entropy.fork("load")
        clocks = entropy.fork("clocks")
        self._rates: dict[int, float] = {}
        for broker_id in self.ids:
            self.network.add_host(self.host(broker_id))
            self.disks[broker_id] = self._new_disks()
            self.clocks[broker_id] = SimClock(loop, clocks.randint(-500, 500))
            self._rates[broker_id] = 1 + knobs.clock_rate_spread * (clocks.random() - 0.5)

    @property
    def clocks_differ_ms(self) -> int:
        """Return the most that two brokers' wall clocks differ by, while no fault moves one."""
        errors_ms = [clock.usual_error_ms for clock in self.clocks.values()]
        return max(errors_ms) - min(errors_ms)

    def _zookeeper_delay(self, kind: str, session_id: int) -> float:
        usual_s = self.knobs.zookeeper_latency_s * (0.5 + self._zookeeper_chance.random())
        more_s = sum(delay(kind, session_id) for delay in self.zookeeper_delays)
        return more_s if kind == "ephemeral" else usual_s + more_s

    @staticmethod
    def host(broker_id: int) -> str:
        """Return the name of a broker's host."""
        return f"broker-{broker_id}"

    # -- brokers -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start them all; return when each knows every other."""
        await self.secure(self.zookeeper)
        for broker_id in self.ids:
            self.loop.create_task(self._supervise(broker_id), name=f"supervisor-{broker_id}")
            self._wanted[broker_id].set()
        await self.converged(timeout_s=30)

    def start_broker(self, broker_id: int) -> None:
        """Let its supervisor start it."""
        self._wanted[broker_id].set()

    def process(self, broker_id: int) -> Process | None:
        """Return the broker's process, if one is alive."""
        process = self.network.hosts[self.host(broker_id)].process
        return process if process is not None and process.alive else None

    async def _supervise(self, broker_id: int) -> None:
        name = self.host(broker_id)
        while True:
            await self._wanted[broker_id].wait()
            self._lives[broker_id] += 1
            process = self.network.start(
                name, rate=self._rates[broker_id], offset_s=self.knobs.clock_offset_s * broker_id
            )
            process.job_delay = lambda _: self._job_delay(broker_id)
            process.lane_delay = lambda lane: self._lane_delay(broker_id, lane)
            self.loop.trace(f"start {name}")
            try:
                broker = process.run(self._make, broker_id, process)
                for listener in self.on_broker:
                    listener(broker_id, broker)
                await process.call(broker.start(), "start")
                self.serving[broker_id] = None
                self.loop.trace(f"serving {name}")
                await process.call(_failure_of(broker), "failure")
            except (ProcessKilledError, asyncio.CancelledError):
                pass  # killed, or stopped: its last future was cancelled
            except Exception as error:
                self.loop.trace(f"failed {name} {type(error).__name__}")  # texts may have addresses
                logger.info("broker %d failed: %r", broker_id, error)
            if process.alive:
                self.crash_broker(broker_id, hold=False, remount=True)
            await asyncio.sleep(RESTART_S)

    def _make(self, broker_id: int, process: Process) -> Broker:
        store = SimMetadataStore(
            self.zookeeper,
            process=process,
            server_process=self.zookeeper_process,
            session_timeout_ms=self.knobs.zookeeper_session_timeout_ms,
            expire_hung_loops=self._expire_hung_loops,
        )
        self.stores[broker_id] = store
        broker = Broker(
            self.config(broker_id),
            files=self.as_disk(self.disks[broker_id]),
            clock=self.clocks[broker_id],
            entropy=self.entropy.fork(f"broker-{broker_id}-{self._lives[broker_id]}"),
            metadata_store=store,
            controller_safeguards=self.sound_members.watching(
                broker_id, self.controller_safeguards
            ),
            wants=[KAFKA_BATCHES] if self.knobs.kafka else [],
            **self.more_for_brokers,
        )
        if self.knobs.kafka:
            open_door(broker)
        if self.knobs.older:
            open_older_door(broker)
        self.brokers[broker_id] = broker
        hearing(broker, self.deaf)
        if self.knobs.coordinator_load_s:
            slow_loading(broker, self.knobs.coordinator_load_s, self._load_chance)
        return broker

    def config(self, broker_id: int) -> BrokerConfig:
        """Return the settings of one broker."""
        address = self.network.hosts[self.host(broker_id)].address
        sasl: list[Any] = [str(MECHANISM)] if self.knobs.secured else []
        secured: dict[str, Any] = {}
        if self.knobs.secured:
            secured = broker_settings(broker_id, self.knobs.security_stale_max_ms)
        return BrokerConfig(
            broker_id=broker_id,
            log_dirs=[f"{DATA}/{index}" for index in range(self.knobs.log_dirs)],
            listeners=[
                ListenerConfig(name="internal", host=address, port=9001, sasl_mechanisms=sasl),
                ListenerConfig(name="external", host=address, port=9002, sasl_mechanisms=sasl),
            ],
            **self.knobs.broker_settings() | secured | self._settings,
        )

    def _job_delay(self, broker_id: int) -> float:
        chance = self._disk_chance
        base_s = self.knobs.sync_s * (0.2 + 1.6 * chance.random())
        return base_s + self.sync_stall_s.get(broker_id, 0.0) * chance.random()

    def _lane_delay(self, broker_id: int, lane: str) -> float:
        hangs_s = self.hangs.get((broker_id, lane.removesuffix(SYNC)), 0.0)
        return hangs_s if lane.endswith(SYNC) else min(hangs_s, JOB_HANGS_S)

    def crash_broker(
        self,
        broker_id: int,
        *,
        power: bool = False,
        keep: Keep | None = None,
        hold: bool = True,
        remount: bool = False,
    ) -> None:
        """End it without a word. Without ``power`` as kill -9: its disk keeps everything, its
        kernel resets connections. With it the machine goes: the disk keeps what ``keep`` says.
        ``hold``: it stays down until ``start_broker``; ``remount``: see ``remounts``."""
        name = self.host(broker_id)
        if hold:
            self._wanted[broker_id].clear()
        self.serving.pop(broker_id, None)
        broker = self.brokers.pop(broker_id, None)
        if broker is None:
            if self.process(broker_id) is not None:  # it failed before it had a broker
                self.network.kill(name)
            return
        self.loop.trace(f"{'power' if power else 'kill'} {name}")
        self.network.kill(name, power=power)
        if keep is None:
            keep = "none" if power else "all"
        path = None
        if remount and broker_id in self.remounts:
            path, keep = self.remounts.pop(broker_id)
            self.disks[broker_id].heal()
            self.loop.trace(f"remount {name} {path}")
        self.disks[broker_id] = self.disks[broker_id].reborn(keep, remount=path)
        store = self.stores.pop(broker_id)
        store.crash()
        for listener in self.on_down:
            listener(broker_id)

    def wipe_disks(self, broker_id: int) -> None:
        """Give new, empty disks to a broker that is down."""
        self.loop.trace(f"wipe {self.host(broker_id)}")
        self.disks[broker_id] = self._new_disks()

    def replace_disk(self, broker_id: int, number: int) -> list[TopicPartition]:
        """Put a new, empty disk in the place of one of several, of a broker that is down. Returns
        the partitions that were on it, or may have gone there."""
        path, files = f"{DATA}/{number}", self.disks[broker_id]
        self.loop.trace(f"replace {self.host(broker_id)} {path}")
        found = list(files.list_dir(path))
        for other in (f"{DATA}/{index}" for index in range(self.knobs.log_dirs)):
            found += [n for n in files.list_dir(other) if files.exists(f"{other}/{n}/{MOVED_MARK}")]
        names = [name.rpartition("-") for name in set(found)]
        lost = [TopicPartition(topic, int(index)) for topic, _, index in names if index.isdigit()]
        files.remove_tree_now(path)
        files.make_dirs(path)
        files.sync_dir(DATA)
        return sorted(lost)

    def _new_disks(self) -> MemoryFiles:
        return MemoryFiles(DATA, *(f"{DATA}/{index}" for index in range(self.knobs.log_dirs)))

    async def stop_broker(self, broker_id: int, *, hold: bool = True) -> None:
        """Send SIGTERM, and SIGKILL when it takes too long."""
        process = self.process(broker_id)
        broker = self.brokers.get(broker_id)
        if process is None or broker is None:
            return
        if hold:
            self._wanted[broker_id].clear()
        self.serving.pop(broker_id, None)
        self.loop.trace(f"stop {self.host(broker_id)}")
        try:
            async with asyncio.timeout(STOP_S):
                await process.call(broker.stop(), "stop")
        except (TimeoutError, ProcessKilledError):
            pass
        finally:  # whoever waited may have been cancelled
            if self.brokers.get(broker_id) is broker:
                self.crash_broker(broker_id, hold=hold)

    def pause_broker(self, broker_id: int) -> None:
        """Stop it as SIGSTOP does; its session with ZooKeeper runs out if it stays so."""
        process = self.process(broker_id)
        if process is None or process.paused:
            return
        self.loop.trace(f"pause {process.name}")
        process.pause()
        self.cut_from_zookeeper(broker_id)

    def resume_broker(self, broker_id: int) -> None:
        """Let it go on, as SIGCONT does."""
        process = self.process(broker_id)
        if process is None or not process.paused:
            return
        self.loop.trace(f"resume {process.name}")
        process.resume()
        self.join_zookeeper(broker_id)

    # -- ZooKeeper ---------------------------------------------------------------------------

    def cut_from_zookeeper(self, broker_id: int) -> None:
        """Break its connection and keep it broken."""
        session = self._session(broker_id)
        if session in self.zookeeper.sessions():
            assert session is not None
            self.zookeeper_process.run(self.zookeeper.disconnect, session)

    def join_zookeeper(self, broker_id: int) -> None:
        """Let it find the server again."""
        session = self._session(broker_id)
        if session is not None:
            try:
                self.zookeeper_process.run(self.zookeeper.reconnect, session)
            except KeyError:
                pass  # closed or replaced meanwhile

    def expire(self, broker_id: int) -> None:
        """End its session as if its time had passed."""
        session = self._session(broker_id)
        if session in self.zookeeper.sessions():
            assert session is not None
            self.loop.trace(f"expire {self.host(broker_id)}")
            self.zookeeper_process.run(self.zookeeper.expire, session)

    def expire_of_host(self, broker_id: int) -> None:
        """End the sessions of a broker that is down, as if their time had passed."""
        owner = self.zookeeper.owner(broker_path(broker_id))
        if owner in self.zookeeper.sessions():
            self.zookeeper_process.run(self.zookeeper.expire, owner)

    def _session(self, broker_id: int) -> int | None:
        store = self.stores.get(broker_id)
        return None if store is None or store.session is None else store.session.session_id

    def partition_state(self, topic: str, partition: int) -> bytes | None:
        """Return the partition's state znode."""
        return self.zookeeper.data(state_path(topic, partition))

    # -- all of it ---------------------------------------------------------------------------

    def settled(self) -> bool:
        """Every broker runs, knows every other, and all agree on the controller."""
        if sorted(self.serving) != self.ids:
            return False
        images = [self.brokers[i].image for i in self.ids]
        return len({i.controller_id for i in images}) == 1 and all(
            sorted(i.brokers) == self.ids for i in images
        )

    async def converged(self, *, timeout_s: float) -> None:
        """Wait until ``settled``."""
        await until(self.settled, timeout_s=timeout_s, what="all brokers serving")

    async def secure(self, zookeeper: MemoryZooKeeper) -> None:
        """Give a store its first users and ACLs, if the run is secured."""
        if not self.knobs.secured:
            return

        async def write() -> None:
            store = MemoryMetadataStore(zookeeper)
            await store.start()
            await secure(store, self.entropy.fork("secured"), self.ids, SUBJECTS_TOPIC)
            await store.close()

        await self.zookeeper_process.call(write(), "secure")

    @property
    def security(self) -> Security | None:
        """Return how clients authenticate as the application; None: nobody does."""
        return security_of(APP) if self.knobs.secured else None

    @property
    def bootstrap(self) -> str:
        """Return where clients begin."""
        hosts = [self.network.hosts[self.host(broker_id)] for broker_id in self.ids]
        return ",".join(f"{host.address}:9002" for host in hosts)

    def client_process(self, name: str) -> Process:
        """Start a process on a host of that name, made if there is none."""
        if name not in self.network.hosts:
            self.network.add_host(name)
        return self.network.start(name)


def hearing(broker: Broker, deaf: dict[int, None]) -> None:
    """While a broker is in ``deaf``, its idea of the cluster stays as it is."""
    heard = broker.image.apply

    def apply(update: UpdateMetadataRequest) -> list[TopicOverrides]:
        if broker.broker_id in deaf:
            raise BrokerNotAvailableError("deaf")
        return heard(update)

    broker.image.apply = apply  # type: ignore[method-assign]


def slow_loading(broker: Broker, seconds: float, chance: Entropy) -> None:
    """Let a coordinator read its partition as slowly as if there were a million records: in pieces,
    all together about ``seconds``."""
    gateway = broker.coordination.gateway
    read = gateway.read

    async def slowly(
        topic_partition: TopicPartition, leader_epoch: int, offset: int = 0
    ) -> AsyncGenerator[Sequence[CoordinatorRecord], None]:
        async with aclosing(read(topic_partition, leader_epoch, offset)) as batches:
            async for records in batches:
                size = 1 + len(records) // LOAD_PIECES
                for first in range(0, len(records), size):
                    await asyncio.sleep(2 * seconds / LOAD_PIECES * chance.random())
                    yield records[first : first + size]

    gateway.read = slowly  # type: ignore[method-assign]


async def _failure_of(broker: Broker) -> None:
    await broker.failed
