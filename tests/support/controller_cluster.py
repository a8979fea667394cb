"""Several controller runners share one ZooKeeper in memory, with fake brokers on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog_controller import znodes
from oncelog_controller.broker_lifecycle import BrokerLifecycle
from oncelog_controller.config import ControllerConfig
from oncelog_controller.runner import ControllerRunner
from oncelog_controller.state import DataClaim, DataLoss, PartitionState
from oncelog_controller.store import NodeStat
from oncelog_protocol.messages import admin
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from oncelog_testing.ports import Ports
from support.clock import ManualClock
from support.fake_broker import FakeBroker
from support.room_settings import controller_settings
from support.waiting import eventually

__all__ = ["ControllerCluster", "Member"]


class Member:
    """It is one broker process: listener, session, registration, controller runner."""

    def __init__(
        self,
        broker: FakeBroker,
        store: MemoryMetadataStore,
        config: ControllerConfig,
        previous_session: int | None,
    ) -> None:
        self.broker = broker
        self.store = store
        self.sessions: list[int] = []
        self.failures: list[BaseException] = []
        self.lifecycle = BrokerLifecycle(
            store,
            broker_id=broker.broker_id,
            listeners=broker.listeners,
            rack=None,
            cluster_id_hint=f"cluster-of-{broker.broker_id}",
            previous_session=previous_session,
            remember_session=self.sessions.append,
            claim_data=lambda _: DataClaim(0, None, DataLoss.NONE),
            inter_broker_listener="internal",
            session_timeout_s=6.0,
        )
        self.lifecycle.on_registered.append(self._registered)
        self.lifecycle.on_failed.append(self.failures.append)
        self.tasks = Tasks(f"member-{broker.broker_id}")
        self.runner = ControllerRunner(
            broker_id=broker.broker_id,
            store=store,
            clock=ManualClock(),
            entropy=SeededEntropy(broker.broker_id),
            config=config,
            tasks=self.tasks,
        )

    @property
    def broker_id(self) -> int:
        return self.broker.broker_id

    def _registered(self, broker_epoch: int) -> None:
        self.broker.broker_epoch = broker_epoch

    async def start(self) -> None:
        await self.store.start()
        await self.lifecycle.register()
        await self.runner.start()

    async def stop(self) -> None:
        """Stop cleanly."""
        await self.runner.stop()
        await self.tasks.close()
        await self.lifecycle.close()
        await self.store.close()
        await self.broker.die()

    async def kill(self) -> None:
        """kill -9: sockets are refused, the session and its nodes stay until they run out."""
        self.store.crash()
        await self.broker.die()
        await self.tasks.close()
        await self.runner._links.close()
        await self.lifecycle._tasks.close()


class ControllerCluster:
    """Enter it to start members: ``async with ControllerCluster(1, 2, 3) as cluster``."""

    def __init__(
        self,
        *broker_ids: int,
        config: ControllerConfig | None = None,
        session_timeout_ms: int = 60_000,
    ) -> None:
        self.zookeeper = MemoryZooKeeper()
        self.config = config or controller_settings(leader_rebalance_delay_ms=50)
        self.members: dict[int, Member] = {}
        self._broker_ids = broker_ids
        self._ports = Ports()
        self._session_timeout_ms = session_timeout_ms

    async def __aenter__(self) -> ControllerCluster:
        for broker_id in self._broker_ids:
            await self.start(broker_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in list(self.members.values()):
            await member.stop()
        self._ports.release()

    async def start(self, broker_id: int, *, previous_session: int | None = None) -> Member:
        name, host = str(broker_id), "127.0.0.1"
        port = self._ports.of(name, host)
        broker = await FakeBroker(broker_id, port, cluster_id="cluster").start()
        self._ports.note({name: (host, broker.port)})
        store = MemoryMetadataStore(self.zookeeper, session_timeout_ms=self._session_timeout_ms)
        member = Member(broker, store, self.config, previous_session)
        self.members[broker_id] = member
        await member.start()
        return member

    async def kill(self, broker_id: int) -> Member:
        member = self.members.pop(broker_id)
        await member.kill()
        return member

    async def stop(self, broker_id: int) -> None:
        await self.members.pop(broker_id).stop()

    # ---- looking

    async def controller(self, *, other_than: int | None = None) -> Member:
        """Return the active controller, as soon as there is one that answers."""

        def found() -> Member | None:
            for member in self.members.values():
                if member.runner.is_active and member.broker_id != other_than:
                    return member
            return None

        await eventually(found, what="a controller")
        member = found()
        assert member is not None
        return member

    async def ask(self, request: Any) -> Any:
        member = await self.controller()
        async with asyncio.timeout(5):
            return await member.runner.handle(request)

    async def create(self, topic: str, *assignment: list[int], **configs: str) -> None:
        entries = [admin.ConfigEntry(key, value) for key, value in configs.items()]
        new = admin.CreatableTopic(topic, -1, -1, list(assignment), entries)
        response = await self.ask(admin.CreateTopicsRequest([new], 5000))
        assert response.topics[0].error_code == 0, response

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        data = self.zookeeper.data(znodes.state_path(topic, partition))
        assert data is not None
        return znodes.decode_state(topic, partition, data, NodeStat(0, 0))
