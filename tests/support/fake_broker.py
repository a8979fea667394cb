"""The controller sees this broker: a real loopback listener that takes orders, keeps them, and
answers as the test says. It knows epochs as brokers do, and can die and come back on its port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from oncelog_protocol.connection import IncomingRequest, ServerConnection
from oncelog_protocol.errors import StaleBrokerEpochError, StaleControllerEpochError
from oncelog_protocol.identity import UNKNOWN, Identity, Introduction
from oncelog_protocol.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from oncelog_protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedBroker,
    ListenerAddress,
)
from oncelog_protocol.messages.replication import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    ReplicaResult,
    UpdateMetadataRequest,
)
from oncelog_protocol.messages.security import (
    FULL,
    UpdateSecurityRequest,
    UpdateSecurityResponse,
)
from oncelog_protocol.registry import supported_ranges
from oncelog_protocol.types import TopicPartition

__all__ = ["FakeBroker"]


class FakeBroker:
    """It listens at ``port`` (0: a free one, kept over restarts)."""

    def __init__(self, broker_id: int, port: int = 0, *, cluster_id: str = "") -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        """"": it answers to every name."""
        self.port = port
        self.orders: list[Any] = []
        """Every order that was obeyed, in order."""
        self.refused: list[Any] = []
        """Every order that was fenced."""
        self.misled: list[str] = []
        """Why connections were refused."""
        self.askers: set[Introduction] = set()
        """As whom connections came whose requests were served."""
        self.controller_epoch = -1
        self.broker_epoch = -1
        self.replicas: dict[TopicPartition, LeaderAndIsrPartition] = {}
        """As the last LeaderAndIsr of each said, applied only with a newer leader epoch."""
        self.metadata: dict[TopicPartition, LeaderAndIsrPartition] = {}
        self._slices: dict[TopicPartition, LeaderAndIsrPartition] = {}
        self.live_brokers: list[int] = []
        self.security_version = -1
        self.muted = False
        """Takes requests and answers none."""
        self.answer: Callable[[Any], int] = lambda request: 0
        """The whole-request error of each answer."""
        self.connections: list[asyncio.Transport] = []
        self.accepted = 0
        self._server: asyncio.Server | None = None

    @property
    def listeners(self) -> list[ListenerAddress]:
        return [ListenerAddress("internal", "127.0.0.1", self.port)]

    async def start(self) -> FakeBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Peer(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def identity(self) -> Identity:
        return Identity(self.cluster_id, self.broker_id) if self.cluster_id else UNKNOWN

    @property
    def alive(self) -> bool:
        return self._server is not None

    async def die(self) -> None:
        """Like kill -9: the listener and all connections are gone, and nothing was said."""
        server, self._server = self._server, None
        if server is not None:
            # A connection that was accepted in this very round must find its server open: CPython
            # 3.11 leaks its socket otherwise.
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            for _ in range(3):
                await asyncio.sleep(0)
            server.close()
        self.break_connections()
        for _ in range(2):
            await asyncio.sleep(0)  # aborted transports end in later rounds

    def break_connections(self) -> None:
        """A fault of the network: connections break, the process lives."""
        connections, self.connections = self.connections, []
        for transport in connections:
            transport.abort()

    def restart(self) -> None:
        """Forget what a new process would not know."""
        self.orders.clear()
        self.replicas.clear()
        self.metadata.clear()
        self.controller_epoch = self.broker_epoch = self.security_version = -1

    async def __aenter__(self) -> FakeBroker:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    def leaders(self) -> dict[TopicPartition, int]:
        """Return those that its metadata has."""
        return {name: order.leader for name, order in self.metadata.items()}

    def take(self, request: Any) -> Any:
        """Obey, or refuse as a broker does."""
        if isinstance(request, ApiVersionsRequest):
            me = self.identity
            return ApiVersionsResponse(0, supported_ranges(), me.cluster_id, me.broker_id)
        if isinstance(request, DescribeClusterRequest):
            own = [DescribedBroker(self.broker_id, self.broker_epoch, [])]
            described = own if self.broker_epoch >= 0 else []
            return DescribeClusterResponse(0, None, self.cluster_id, brokers=described)
        code = self._fence(request) or self.answer(request)
        if code:
            self.refused.append(request)
            return request.response(code)
        self.orders.append(request)
        if isinstance(request, LeaderAndIsrRequest):
            for order in request.partitions:
                name = TopicPartition(order.topic, order.partition)
                known = self.replicas.get(name)
                newer = known is None or order.leader_epoch > known.leader_epoch
                if newer or (known is not None and known.topic_id != order.topic_id):
                    self.replicas[name] = order
        elif isinstance(request, UpdateMetadataRequest):
            if request.full and request.first:
                self._slices.clear()
            told = self._slices if request.full else self.metadata
            for order in request.partitions:
                name = TopicPartition(order.topic, order.partition)
                if order.leader == -2:
                    told.pop(name, None)
                else:
                    told[name] = order
            if request.full and request.last:
                self.metadata = dict(self._slices)
            self.live_brokers = [broker.broker_id for broker in request.live_brokers]
            return request.response()
        elif isinstance(request, UpdateSecurityRequest):
            return self._take_security(request)
        else:
            for stop in request.partitions:
                self.replicas.pop(TopicPartition(stop.topic, stop.partition), None)
        results = [ReplicaResult(p.topic, p.partition, 0) for p in request.partitions]
        return request.response(0, results)

    def _take_security(self, request: UpdateSecurityRequest) -> UpdateSecurityResponse:
        fits = request.base in (FULL, self.security_version)
        if fits and request.last:
            self.security_version = request.version
        return UpdateSecurityResponse(0, self.security_version, not fits)

    def _fence(self, request: Any) -> int:
        if request.controller_epoch < self.controller_epoch:
            return StaleControllerEpochError.code
        if request.broker_epoch < self.broker_epoch:
            return StaleBrokerEpochError.code
        self.controller_epoch = request.controller_epoch
        return 0


class _Peer(asyncio.BufferedProtocol):
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self._machine = ServerConnection(reuse=False, identity=broker.identity)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of another family
        if not self._broker.alive:
            self._transport.abort()
            return
        self._broker.accepted += 1
        self._broker.connections.append(self._transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._transport in self._broker.connections:
            self._broker.connections.remove(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._machine.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        for incoming in self._machine.received(nbytes):
            self._serve(incoming)

    def _serve(self, incoming: IncomingRequest) -> None:
        hello = isinstance(incoming.message, ApiVersionsRequest)
        if self._broker.muted and not hello:
            return
        if incoming.misfit is not None:
            self._broker.misled.append(str(incoming.misfit))
            identity = self._broker.identity
            response: Any = ApiVersionsResponse(
                incoming.misfit.code, [], identity.cluster_id, identity.broker_id
            )
        else:
            response = self._broker.take(incoming.message)
            if not hello:
                self._broker.askers.add(self._machine.introduction)
        assert self._transport is not None
        self._transport.writelines(self._machine.encode_response(incoming, response))
