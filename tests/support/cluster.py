"""One process runs a cluster of real brokers: loopback sockets, temporary directories, ZooKeeper in
memory. Fast to start, and every part can be looked at.

    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", partitions=6, replication_factor=3)
        channel = await cluster.channel(cluster.leader("t", 0))
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig, ListenerConfig
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.admin import (
    ConfigEntry,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.messages.transaction_admin import ListTransactionsRequest
from oncelog_protocol.records.batch import iter_headers
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import NO_BROKER, TopicPartition
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import Files, SystemFiles
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually

__all__ = ["Cluster", "all_marked", "fetch_values", "produce"]

SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": 1000,
    "replica_lag_time_max_ms": 1000,
    "leader_imbalance_check_interval_ms": 500,
    "default_replication_factor": 1,
    "log_checkpoint_interval_ms": 500,
    "controlled_shutdown_timeout_ms": 3000,
}
"""Tests change these defaults: shorter times."""


class Cluster:
    """It has brokers 1 to N; ``settings`` go to every one of them, and so do ``options``: more
    arguments of ``Broker``, such as rules to switch off."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        *,
        seed: int = 1,
        files: Files | None = None,
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.directory = directory
        self.zookeeper = MemoryZooKeeper()
        self.stores: dict[int, MemoryMetadataStore] = {}
        self.brokers: dict[int, Broker] = {}
        """The running ones, by id."""
        self._ports: dict[int, dict[str, int]] = {}
        self._ids = list(range(1, brokers + 1))
        self._files = files if files is not None else SystemFiles()
        self._entropy = SeededEntropy(seed)
        self._lives = 0
        self._options = options or {}
        replicas = min(brokers, 3)
        self._settings = {
            **SETTINGS,
            "offsets_topic_replication_factor": replicas,
            "transaction_state_log_replication_factor": replicas,
            **settings,
        }

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*(self.start_broker(broker_id) for broker_id in self._ids))
            await self.converged()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker_id in sorted(self.brokers, reverse=True):
            await self.stop_broker(broker_id, clean=False)

    # -- brokers -----------------------------------------------------------------------------

    def config(self, broker_id: int, **settings: Any) -> BrokerConfig:
        """Return the settings of one broker; its ports stay the same over restarts."""
        ports = self._ports.get(broker_id, {})
        listeners = [ListenerConfig(name=n, port=ports.get(n, 0)) for n in ("internal", "external")]
        given = {
            "broker_id": broker_id,
            "log_dirs": [str(self.directory / f"broker-{broker_id}")],
            "listeners": listeners,
            **self._settings,
            **settings,
        }
        return BrokerConfig(**given)

    def make_broker(self, broker_id: int, **settings: Any) -> Broker:
        """Return a broker that is not started, with a store of its own."""
        store = MemoryMetadataStore(
            self.zookeeper, session_timeout_ms=self._settings["zookeeper_session_timeout_ms"]
        )
        self.stores[broker_id] = store
        self._lives += 1  # who draws the same ids twice finds directories that it does not have
        return Broker(
            self.config(broker_id, **settings),
            files=self._files,
            clock=SystemWallClock(),
            entropy=self._entropy.fork(f"broker-{broker_id}-{self._lives}"),
            metadata_store=store,
            **self._options,
        )

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        """Start it, again if it was stopped; returns when it serves clients."""
        broker = self.make_broker(broker_id, **settings)
        await broker.start()
        self._ports[broker_id] = {name: port for name, (_, port) in broker.addresses.items()}
        self.brokers[broker_id] = broker
        return broker

    async def stop_broker(self, broker_id: int, *, clean: bool = True) -> None:
        """Stop it; without ``clean`` no leadership is moved first and no clean file is left."""
        await self.brokers.pop(broker_id).stop(clean=clean)

    async def crash_broker(self, broker_id: int) -> None:
        """Crash it as ``kill -9`` does: connections break, its port refuses, its session lives on
        until it times out, and nothing is written any more."""
        broker = self.brokers.pop(broker_id)
        store = self.stores[broker_id]
        if store.session_id is not None:
            self.zookeeper.disconnect(store.session_id)

        async def die() -> None:
            store.crash()

        store.close = die  # type: ignore[method-assign]
        await broker.stop(clean=False)

    async def converged(self) -> None:
        """Wait until every running broker knows every running broker and one controller."""

        def same() -> bool:
            running = sorted(self.brokers)
            images = [broker.image for broker in self.brokers.values()]
            return len({i.controller_id for i in images}) == 1 and all(
                sorted(i.brokers) == running for i in images
            )

        await eventually(same, timeout_s=15, what="every broker knowing every other")

    @property
    def controller(self) -> Broker:
        """Return the broker that is controller."""
        return next(b for b in self.brokers.values() if b.runner.is_active)

    @property
    def bootstrap(self) -> str:
        """Return where clients begin: host:port of every running broker, with commas."""
        addresses = [b.addresses["external"] for b in self.brokers.values()]
        return ",".join(f"{host}:{port}" for host, port in addresses)

    # -- topics ------------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, *, partitions: int = 1, replication_factor: int = 1, **configs: Any
    ) -> None:
        """Create it and wait until every running broker knows a leader for each partition."""
        entries = [ConfigEntry(key, str(value)) for key, value in configs.items()]
        new = CreatableTopic(topic, partitions, replication_factor, None, entries)
        response: CreateTopicsResponse = await self.call(
            self.controller.broker_id, CreateTopicsRequest([new], 10_000)
        )
        code = response.error_code or response.topics[0].error_code
        if code:
            raise error_for(code, response.topics[0].error_message or "")

        def known() -> bool:
            return all(
                (order := b.image.partition(TopicPartition(topic, p))) is not None
                and order.leader in self.brokers
                for b in self.brokers.values()
                for p in range(partitions)
            )

        await eventually(known, timeout_s=10, what=f"leaders of {topic}")

    def state(self, topic: str, partition: int = 0) -> LeaderAndIsrPartition:
        """Return the partition as the controller's broker knows it."""
        order = self.controller.image.partition(TopicPartition(topic, partition))
        assert order is not None
        return order

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the partition's leader."""
        return self.state(topic, partition).leader

    # -- requests ----------------------------------------------------------------------------

    async def channel(
        self, broker_id: int, listener: str = "external", *, own_broker_id: int = NO_BROKER
    ) -> RequestChannel:
        """Open a connection of one's own; it is a broker's if ``own_broker_id`` names one."""
        broker = self.brokers[broker_id]
        host, port = broker.addresses[listener]
        machine = ClientConnection("test", meant=broker.identity, own_broker_id=own_broker_id)
        return await RequestChannel.open(host, port, machine)

    async def call(self, broker_id: int, request: Request, *, listener: str = "external") -> Any:
        """Return the response to one request over a new connection; between brokers in the name of
        the broker that the request names."""
        own = NO_BROKER
        if listener == "internal":
            own = getattr(request, request.asker_field, broker_id)
        channel = await self.channel(broker_id, listener, own_broker_id=own)
        try:
            return (await channel.call(request, timeout_s=15)).message
        finally:
            channel.close()
            await channel.wait_closed()


async def produce(
    channel: RequestChannel,
    topic: str,
    partition: int,
    values: list[bytes],
    *,
    acks: int = -1,
    timeout_ms: int = 5000,
) -> ProducePartitionResponse:
    """Append one batch and return the partition's answer, whatever it says."""
    batch = encode_batch(values, timestamps=SystemWallClock().now_ms())
    topics = [ProduceTopic(topic, [ProducePartition(partition, Span(0, len(batch)))])]
    reply = await channel.call(
        ProduceRequest(None, acks, timeout_ms, topics), [batch], timeout_s=timeout_ms / 1000 + 5
    )
    response: ProduceResponse = reply.message
    if response.error_code:
        raise error_for(response.error_code)
    return response.topics[0].partitions[0]


async def fetch_values(
    channel: RequestChannel, topic: str, partition: int, offset: int = 0, *, wait_ms: int = 500
) -> list[bytes | None]:
    """Values from ``offset`` on that one fetch brings."""
    wanted = [FetchTopic(topic, [FetchPartition(partition, offset, 1 << 20)])]
    request = FetchRequest(-1, -1, wait_ms, 1, 1 << 22, 0, -1, wanted)
    reply = await channel.call(request, timeout_s=wait_ms / 1000 + 5)
    response: FetchResponse = reply.message
    answer = response.topics[0].partitions[0]
    if response.error_code or answer.error_code:
        raise error_for(response.error_code or answer.error_code)
    span = answer.records
    records = reply.payload[span.offset : span.offset + span.length]
    values: list[bytes | None] = []
    for position, header in iter_headers(records):
        columns = decode_batch(records[position : position + header.size_bytes])
        skip = max(0, offset - header.base_offset)
        values.extend(columns.values[skip:])
    return values


async def all_marked(cluster: Cluster) -> None:
    """Wait until the markers of every decided transaction are written: a commit is told of when it
    is decided, and read a moment later."""
    request = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
    async with asyncio.timeout(15):
        for broker_id in sorted(cluster.brokers):
            while True:  # asked again at once: it takes a few syncs
                answer = await cluster.call(broker_id, request)
                if not answer.error_code and not answer.transactions:
                    break
