"""A fleet of ``oncelog_testing`` runs on a test's own loop: every part of its brokers can be looked
at, and a test may speak the protocol with them by hand.

    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", partitions=6, replication_factor=3)
        channel = await cluster.channel(cluster.leader("t", 0))
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

from oncelog_broker.app import Broker
from oncelog_broker.phases import BrokerPhase
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.admin import (
    ConfigEntry,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncelog_protocol.messages.base import Request
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import Files
from oncelog_testing.faults import FaultPlan
from oncelog_testing.fleet import Fleet

__all__ = ["Cluster"]

SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": 1000,
    "replica_lag_time_max_ms": 1000,
    "leader_imbalance_check_interval_ms": 500,
    "default_replication_factor": 1,
    "log_checkpoint_interval_ms": 500,
    "controlled_shutdown_timeout_ms": 3000,
}
"""Tests change these defaults: shorter times."""


class Cluster(Fleet):
    """Its parameters are those of ``Fleet``; ``settings`` go to every broker."""

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
        super().__init__(
            brokers,
            clock=SystemWallClock(),
            entropy=SeededEntropy(seed),
            plan=FaultPlan(lambda work: work()),
            settings={**SETTINGS, **settings},
            directory=directory,
            files=files,
            options=options,
        )

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*map(self.start_broker, self.machines))
            await self.converged()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def converged(self, timeout_s: float = 15.0) -> None:
        """Wait longer than a user's test: many of ours run beside each other."""
        await super().converged(timeout_s)

    # -- brokers -----------------------------------------------------------------------------

    @property
    def brokers(self) -> dict[int, Broker]:
        """Return those that serve, by id."""
        return {b.broker_id: b for b in self.running() if b.phase is BrokerPhase.SERVING}

    async def start_broker(self, broker_id: int, **settings: Any) -> Broker:
        """Start it, again if it was stopped, or one broker more; returns when it serves clients."""
        machine = self.machines.get(broker_id) or self.add(broker_id)
        await machine.start(**settings)
        return machine.running

    def make_broker(self, broker_id: int, **settings: Any) -> Broker:
        """Return a broker that is not started: see ``Machine.make_broker``."""
        return self.machine(broker_id).make_broker(**settings)

    async def stop_broker(self, broker_id: int, *, clean: bool = True) -> None:
        """Stop it; without ``clean`` no leadership is moved first and no clean file is left."""
        await self.machine(broker_id).stop(clean=clean)

    async def crash_broker(self, broker_id: int) -> None:
        """Crash it as ``kill -9`` does: see ``Machine.kill``."""
        await self.machine(broker_id).kill(power_loss=False)

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
        for partition in range(partitions):
            await self.wait_for_leader(topic, partition)

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
