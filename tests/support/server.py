"""A listener has handlers of the test's own, and raw peers may break every rule."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any

import msgpack

from oncelog_broker.server.address_quotas import AddressQuotas
from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.handlers.api_versions import ApiVersionsHandler
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.listener_security import OPEN, ListenerSecurity
from oncelog_broker.server.metadata_image import MetadataImage, TopicImage
from oncelog_broker.server.quotas import BytePool, ConnectionLimits
from oncelog_broker.server.request import ConnectionState, RequestContext, Respond
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.tasks import Tasks
from support.room_settings import connection_settings

__all__ = [
    "Canary",
    "ControllerStub",
    "DenyAll",
    "Only",
    "Parked",
    "RawPeer",
    "ServerUnderTest",
    "answer",
    "frame",
    "image_of_two_topics",
    "make_context",
    "request_head",
]


def image_of_two_topics() -> MetadataImage:
    """Return an image with topics t (partitions 0 and 1) and secret (0)."""
    made = MetadataImage("cluster")
    for topic, count in (("t", 2), ("secret", 1)):
        orders = {
            n: LeaderAndIsrPartition(topic, topic, n, 1, 0, [1], 0, [1], False)
            for n in range(count)
        }
        made.topics[topic] = TopicImage(topic, topic, orders)
    return made


def request_head(
    api_key: int, body: Any, *, version: int = 0, correlation_id: int = 0, client_id: Any = "raw"
) -> list[Any]:
    """Return the head of a request as nested lists."""
    return [api_key, version, correlation_id, client_id, body]


def frame(head: Any, payload: bytes = b"") -> bytes:
    """Return a whole frame; a head given as bytes travels as it is."""
    packed = head if isinstance(head, bytes) else msgpack.packb(head)
    return struct.pack(">II", 4 + len(packed) + len(payload), len(packed)) + packed + payload


HELLO = frame(request_head(ApiKey.API_VERSIONS, ["test", "1", "", -1, -1], version=1))
"""A legal first request, of a client that knows nobody yet."""


def make_context(
    *, internal: bool = True, listener: str = "internal", api_version: int = 0
) -> RequestContext:
    """Return a context for handlers that are called directly."""
    return RequestContext(
        listener, 2 if internal else None, "User:test", "c", "t:1", api_version, ConnectionState()
    )


class Parked:
    """This handler keeps every request, to be answered by the test."""

    def __init__(self) -> None:
        self.requests: list[tuple[RequestContext, Any, bytes, Respond]] = []

    def handle(
        self, context: RequestContext, request: Any, payload: memoryview, respond: Respond
    ) -> None:
        self.requests.append((context, request, bytes(payload), respond))


class RawPeer:
    """It is a TCP client that sends bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: tuple[str, int], hello: bool = False) -> RawPeer:
        peer = cls(*await asyncio.open_connection(*address))
        if hello:
            peer.send(HELLO)
            await peer.response()
        return peer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def response(self, timeout_s: float = 5.0) -> tuple[int, Any, bytes]:
        """Return (correlation id, body, payload) of the next response."""
        async with asyncio.timeout(timeout_s):
            size, head_bytes = struct.unpack(">II", await self.reader.readexactly(8))
            rest = await self.reader.readexactly(size - 4)
        head = msgpack.unpackb(rest[:head_bytes])
        return head[0], head[1], rest[head_bytes:]

    async def closed_within(self, timeout_s: float) -> bool:
        """Read on until the other side closes; false when it does not."""
        try:
            async with asyncio.timeout(timeout_s):
                while await self.reader.read(1 << 20):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Close at once, and drop what is unsent."""
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


class ServerUnderTest:
    """It is one listener on a free port of loopback."""

    def __init__(
        self,
        handlers: Mapping[ApiKey, Any] | None = None,
        async_handlers: Mapping[ApiKey, Any] | None = None,
        *,
        internal: bool = False,
        ready: bool = True,
        limits: ConnectionLimits | None = None,
        pool_bytes: int = 64 * 1024 * 1024,
        authorizer: Authorizer | None = None,
        identity: Identity = UNKNOWN,
        security: ListenerSecurity = OPEN,
        addresses: AddressQuotas | None = None,
    ) -> None:
        self.identity = identity
        self.tasks = Tasks("test")
        self.dispatcher = RequestDispatcher(self.tasks, authorizer or AllowAllAuthorizer())
        self.dispatcher.install({ApiKey.API_VERSIONS: ApiVersionsHandler(identity, "none")}, {})
        self.dispatcher.install(handlers or {}, async_handlers or {})
        if ready:
            self.dispatcher.serve_clients()
        self.pool = BytePool(pool_bytes)
        self._peers: list[RawPeer] = []
        name = "internal" if internal else "external"
        self.listener = Listener(
            name,
            internal=internal,
            dispatcher=self.dispatcher,
            limits=limits or connection_settings(sweep_s=0.02),
            pool=self.pool,
            security=security,
            wall_clock=SystemWallClock(),
            addresses=addresses,
        )

    async def __aenter__(self) -> ServerUnderTest:
        await self.listener.bind("127.0.0.1", 0)
        await self.listener.serve(self.identity)
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in self._peers:
            await peer.close()
        await self.listener.close()
        await self.tasks.close()
        self.pool.close()

    @property
    def address(self) -> tuple[str, int]:
        return self.listener.address

    async def peer(self, hello: bool = False) -> RawPeer:
        """Open a raw client; it is closed with the server."""
        peer = await RawPeer.connect(self.address, hello)
        self._peers.append(peer)
        return peer

    async def channel(self, own_broker_id: int = NO_BROKER) -> RequestChannel:
        """Open a legal peer that means this server; it is a broker if it says which."""
        machine = ClientConnection("test", meant=self.identity, own_broker_id=own_broker_id)
        return await RequestChannel.open(*self.address, machine)


class Canary:
    """It is a well-behaved client that asks one question again and again, and counts failures."""

    def __init__(self, channel: RequestChannel, request: Any) -> None:
        self._channel = channel
        self._request = request
        self._task: asyncio.Task[None] | None = None
        self.answered = 0
        self.slowest_s = 0.0
        self.error: BaseException | None = None

    async def __aenter__(self) -> Canary:
        self._task = asyncio.get_running_loop().create_task(self._sing())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._channel.close()
        await self._channel.wait_closed()

    async def _sing(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                begun = loop.time()
                reply = await self._channel.call(self._request, timeout_s=5.0)
                assert reply.message.error_code == 0
                self.slowest_s = max(self.slowest_s, loop.time() - begun)
                self.answered += 1
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            self.error = exc

    async def still_sings(self) -> None:
        """Wait for one more answer to a question asked from now on."""
        before = self.answered
        async with asyncio.timeout(5):
            while self.answered < before + 2:
                if self.error is not None:
                    raise AssertionError("the canary died") from self.error
                await asyncio.sleep(0.001)


class ControllerStub:
    """It answers with what the test says, and remembers what it was asked."""

    def __init__(self, *responses: Any) -> None:
        self.responses = list(responses)
        self.requests: list[Any] = []
        self.internal: list[bool] = []
        self.askers: list[str] = []

    async def handle(self, request: Any, *, internal: bool = False, asker: str = "") -> Any:
        self.requests.append(request)
        self.internal.append(internal)
        self.askers.append(asker)
        return self.responses.pop(0)


class ElsewhereStub:
    """It is the controller, in another broker: it answers always the same, or never."""

    def __init__(self, answer: Any) -> None:
        """Answer so; None: never in time."""
        self.answer = answer
        self.requests: list[Any] = []

    async def call(self, request: Any, *, timeout_s: float) -> Any:
        """Remember what was asked.

        :raises TimeoutError: it does not answer.
        """
        self.requests.append(request)
        if self.answer is None:
            raise TimeoutError
        return self.answer


class DenyAll(AllowAllAuthorizer):
    """It says no to everything."""

    def authorize(self, context: RequestContext, operation: str, *resource: str) -> bool:
        return False

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        return False

    def denies(self, context: RequestContext, operation: str, *resource: str) -> bool:
        return True


class Only(AllowAllAuthorizer):
    """It allows (operation, resource type, resource name) and nothing else, but denies nothing."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.allowed = frozenset(allowed)

    def authorize(
        self, context: RequestContext, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        return (operation, resource_type, resource_name) in self.allowed

    def authorize_any(self, context: RequestContext, operation: str, resource_type: str) -> bool:
        return any(each[:2] == (operation, resource_type) for each in self.allowed)

    def denies(self, context: RequestContext, operation: str, *resource: str) -> bool:
        return False


def answer(handler: Any, request: Any, context: RequestContext | None = None) -> Any:
    """Return what a handler that answers at once says."""
    given: list[Any] = []

    def respond(message: Any, payload: Any = ()) -> None:
        given.append(message)

    handler.handle(context or make_context(), request, memoryview(b""), respond)
    (message,) = given
    return message
