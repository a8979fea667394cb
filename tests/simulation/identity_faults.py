"""Addresses and directories are taken for what they are not; imported to register."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_controller.store import NodeStat
from oncelog_controller.znodes import BROKER_IDS, broker_path
from oncelog_protocol.errors import BrokerNotAvailableError
from oncelog_protocol.messages.admin import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_testing.memory.files import MemoryFiles
from oncelog_testing.memory.zookeeper import MemoryZooKeeper
from simulation.cluster import DATA, SimCluster
from simulation.loop import Process, ProcessKilledError, until
from simulation.nemesis import Nemesis, fault
from simulation.store import SimMetadataStore

logger = logging.getLogger("simulation")

STRANGER = "stranger"
"""The host of a broker of another cluster, and its cluster's only one."""


class OfTheLiving(SimMetadataStore):
    """It is the store of a clone. It may register only while its original lives, in a session that
    goes on: else it would be right to take over, and what was written since the copy would be lost
    by the fault and not by the product. Then nobody answers it, until the fault ends it."""

    def __init__(self, cluster: SimCluster, broker_id: int, **options: Any) -> None:
        super().__init__(cluster.zookeeper, server_process=cluster.zookeeper_process, **options)
        self._cluster = cluster
        self._broker_id = broker_id
        self._original = cluster.process(broker_id)
        self._session = cluster.zookeeper.owner(broker_path(broker_id))

    async def create(self, path: str, data: bytes, **options: Any) -> NodeStat:
        """See the port."""
        original = self._original
        lives = original is not None and original.alive and not original.paused
        lasts = self._session in self._cluster.zookeeper.sessions()
        if path.startswith(BROKER_IDS) and not (lives and lasts):
            await asyncio.Event().wait()
        return await super().create(path, data, **options)


class Tacit:
    """A client that begins with the stranger would rightly take it for its cluster, and hold on to
    that: it must not be described. Who knows its cluster is served, if nothing keeps it from that.
    """

    def handle(
        self, context: RequestContext, request: Request, payload: memoryview, respond: Respond
    ) -> None:
        """See ``Handler``."""
        raise BrokerNotAvailableError("the stranger says nothing of its cluster")


def elsewhere(cluster: SimCluster, broker_id: int, process: Process, name: str) -> BrokerConfig:
    """Return the settings of a broker, on another host."""
    address = cluster.network.hosts[name].address
    config = cluster.config(broker_id)
    listeners = [listener.model_copy(update={"host": address}) for listener in config.listeners]
    return config.model_copy(update={"listeners": listeners})


def make_broker(
    cluster: SimCluster, process: Process, config: BrokerConfig, files: MemoryFiles, store: Any
) -> Broker:
    return Broker(
        config,
        files=cluster.as_disk(files),
        clock=cluster.clocks[config.broker_id],
        entropy=cluster.entropy.fork(f"{process.name}-{cluster.loop.now_s}"),
        metadata_store=store,
        controller_safeguards=cluster.controller_safeguards,
        **cluster.more_for_brokers,
    )


async def stranger(cluster: SimCluster, broker_id: int) -> None:
    """Start a broker of another cluster, with the id of one of this cluster and its topics."""
    network, knobs = cluster.network, cluster.knobs
    image = cluster.brokers[broker_id].image  # it may be gone when the stranger is up
    if STRANGER not in network.hosts:
        network.add_host(STRANGER)
    process = network.start(STRANGER)
    zookeeper = cluster.zookeeper_process.run(MemoryZooKeeper)
    await cluster.secure(zookeeper)
    store = SimMetadataStore(
        zookeeper,
        process=process,
        server_process=cluster.zookeeper_process,
        session_timeout_ms=knobs.zookeeper_session_timeout_ms,
    )
    config = elsewhere(cluster, broker_id, process, STRANGER)
    files = MemoryFiles(DATA, *config.log_dirs)
    broker = process.run(make_broker, cluster, process, config, files, store)
    await process.call(broker.start(), "start")
    topics = [
        CreatableTopic(name, len(topic.partitions), 1, None, [])
        for name, topic in sorted(image.topics.items())
        if not name.startswith("__")
    ]
    process.run(broker.dispatcher.install, {ApiKey.METADATA: Tacit()}, {})
    request = CreateTopicsRequest(topics, 10_000)
    await process.call(broker.runner.handle(request), "create topics")
    await until(
        lambda: all(topic.topic in broker.image.topics for topic in topics),
        timeout_s=10,
        what="the stranger's topics",
    )


@fault
async def wrong_address(self: Nemesis) -> None:
    """The address of a broker leads to another one, or to one of another cluster with the same
    id, for everybody and for some time: a DNS entry, a port mapping, an address used again."""
    cluster, network = self.cluster, self.network
    ids = cluster.ids[:]
    self.chance.shuffle(ids)
    broker_id, other = ids[:2]
    if network.astray or broker_id not in cluster.serving:
        return
    target, leads_to = self._hosts([broker_id, other])
    try:
        if self.chance.random() < 0.5:
            network.astray[target] = leads_to = STRANGER
            await stranger(cluster, broker_id)
        network.astray[target] = leads_to
        cluster.loop.trace(f"astray {target} {leads_to}")
        for name in [*self._hosts(self._others(broker_id)), *self._clients()]:
            if self.chance.random() < 0.8:
                network.reset(name, target)
        if self.chance.random() < 0.3:
            await self._down(broker_id)
        await self._wait(0.5, 4 * self._session_s())
    except ProcessKilledError:
        pass  # the stranger's end
    finally:
        network.astray.pop(target, None)
        if STRANGER in network.hosts:
            network.kill(STRANGER)


@fault
async def clone(self: Nemesis) -> None:
    """A process is started on another machine over a copy of a running broker's disks."""
    cluster, network = self.cluster, self.network
    broker_id = self._any()
    name = f"clone-of-{broker_id}"
    if broker_id not in cluster.serving or broker_id in self._busy:
        return
    if name not in network.hosts:
        network.add_host(name)
    original = cluster.process(broker_id)
    if original is None or original.paused:
        return
    files = cluster.disks[broker_id].image("all")
    await self._wait(0.0, 1.0)
    if cluster.process(broker_id) is not original or original.paused:
        return
    other = network.hosts[name].process
    if other is not None and other.alive:
        return  # a second fault was faster
    process = network.start(name)
    cluster.loop.trace(f"clone broker-{broker_id}")
    store = OfTheLiving(
        cluster,
        broker_id,
        process=process,
        session_timeout_ms=cluster.knobs.zookeeper_session_timeout_ms,
    )
    config = elsewhere(cluster, broker_id, process, name)
    broker = process.run(make_broker, cluster, process, config, files, store)
    try:
        async with asyncio.timeout(0.5 + 3 * self._session_s()):
            await process.call(broker.start(), "start")
            cluster.loop.trace(f"deposed broker-{broker_id}")
            await self._wait(1.0, 3 * self._session_s())
    except (TimeoutError, ProcessKilledError):
        pass
    except Exception as error:
        cluster.loop.trace(f"refused {name} {type(error).__name__}")
        logger.info("clone of broker %d failed: %r", broker_id, error)
    finally:
        network.kill(name)
        store.crash()
