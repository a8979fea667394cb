"""Several replica managers live in one process: real logs, handlers and fetch loops, no sockets.

Messages travel as they would on the wire (encoded, decoded, spans checked) over channels that can
be cut, and brokers can be made unreachable. The controller is a few lines: it gives the roles that
the test asks for and takes every ISR that a leader in the present epoch proposes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import ReplicaConfig, ReplyCallback
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.handlers.fetch import FetchHandler
from oncelog_broker.server.handlers.produce import ProduceHandler
from oncelog_broker.server.request import ConnectionState, RequestContext
from oncelog_protocol import schema
from oncelog_protocol.connection import Reply
from oncelog_protocol.errors import ApiError, FencedLeaderEpochError, InvalidTxnStateError
from oncelog_protocol.messages.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResponse,
    AlterPartitionResult,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    ReplicaResult,
    TopicOverrides,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.types import Acks, TopicPartition
from oncelog_runtime.channel import ChannelClosedError
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.replicas import NOW_MS, batch_of
from support.room_settings import log_settings, replica_settings
from support.waiting import at_once, eventually

__all__ = ["FAST", "Answer", "Cluster", "Node", "call", "make_context"]

FAST = replica_settings(
    replica_lag_time_max_ms=400,
    replica_fetch_wait_max_ms=50,
    replica_fetch_backoff_ms=2,
    replica_fetch_backoff_max_ms=20,
    isr_change_backoff_ms=2,
    isr_change_backoff_max_ms=20,
)


def make_context(
    *,
    internal: bool = False,
    connection: ConnectionState | None = None,
    principal: str = "User:test",
) -> RequestContext:
    """Return a request context; each has a connection of its own unless one is given."""
    listener = "internal" if internal else "external"
    state = connection if connection is not None else ConnectionState()
    broker_id = 2 if internal else None
    return RequestContext(listener, broker_id, principal, "test", "test:1", 0, state)


NEWEST = 2**15 - 1
"""No message has a version as high."""


def travel(message: Any) -> Any:
    """Return the message as the other side decodes it, of a release that knows every field."""
    body = msgpack.unpackb(msgpack.packb(schema.encode(message, NEWEST)))
    return schema.decode(type(message), body, NEWEST)


class Answer:
    """It has what a handler answered, once it has."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.message: Any = None
        self.payload = b""
        self.count = 0

    def __call__(self, message: Any, payload: Sequence[Any] = ()) -> None:
        self.count += 1
        assert self.count == 1, "answered twice"
        self.payload = b"".join(payload)
        if message is not None:
            assert schema.span_fault(message, len(self.payload)) == ""
            self.message = travel(message)
        self.done.set()

    async def wait(self, timeout_s: float = 5.0) -> Any:
        """Return the message; fail the test when there is none in time."""
        async with asyncio.timeout(timeout_s):
            await self.done.wait()
        return self.message


def call(
    handler: Any, request: Any, *, payload: bytes = b"", context: RequestContext | None = None
) -> Answer:
    """Hand a request to a handler; an ApiError that it raises is the test's to expect."""
    answer = Answer()
    view = memoryview(bytearray(payload))
    handler.handle(context or make_context(), travel(request), view, answer)
    return answer


class Verifier:
    """This transaction coordinator knows everything, or says what the test wants it to."""

    def __init__(self) -> None:
        self.code = 0
        self.holds = False
        """Whether answers wait until the test gives them."""
        self.asked: list[tuple[str, int, int, TopicPartition]] = []
        self.held: list[Callable[[int], None]] = []
        self.number = 1
        """It is that of the open transaction, for who asks."""
        self.adds = True
        """Whether leaders may add partitions."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int], None],
    ) -> None:
        if not self.adds:
            callback(InvalidTxnStateError.code)
            return
        self._ask((transactional_id, producer_id, producer_epoch, topic_partition), callback)

    def _ask(
        self, question: tuple[str, int, int, TopicPartition], callback: Callable[[int], None]
    ) -> None:
        self.asked.append(question)
        if self.holds:
            self.held.append(callback)
        else:
            callback(self.code)

    def verify_number(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        topic_partition: TopicPartition,
        callback: Callable[[int, int], None],
    ) -> None:
        def answered(code: int) -> None:
            callback(code, 0 if code else self.number)

        self._ask((transactional_id, producer_id, producer_epoch, topic_partition), answered)


class InProcessChannel:
    """It is a connection to a broker's internal listener."""

    def __init__(self, cluster: Cluster, source: int, target: Node) -> None:
        self.source = source
        self.target = target
        self.closed = False
        self.requests: list[Any] = []
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[ReplyCallback] = deque()
        self._ready: dict[int, Reply] = {}
        self._sent = 0
        self._next = 0
        self._state = ConnectionState()

    def send(self, request: Any, payload: Sequence[Any] = (), *, callback: ReplyCallback) -> None:
        number, self._sent = self._sent, self._sent + 1
        self.requests.append(request)
        self._waiting.append(callback)
        self._loop.call_soon(self._arrive, number, travel(request))

    def _arrive(self, number: int, request: Any) -> None:
        if self.closed:
            return

        def respond(message: Any, payload: Sequence[Any] = ()) -> None:
            data = bytearray(b"".join(payload))
            assert schema.span_fault(message, len(data)) == ""
            self._ready[number] = Reply(number, travel(message), memoryview(data))
            self._loop.call_soon(self._deliver)

        context = make_context(internal=True, connection=self._state)
        try:
            self.target.fetch.handle(context, request, memoryview(b""), respond)
        except ApiError as error:
            respond(type(request).response(error_code=error.code))

    def _deliver(self) -> None:
        while not self.closed and self._next in self._ready:
            reply = self._ready.pop(self._next)
            self._next += 1
            self._waiting.popleft()(reply, None)
            reply.payload[:] = bytes(len(reply.payload))  # the buffer is used again

    def close(self, reason: str = "") -> None:
        """Either side hangs up."""
        if self.closed:
            return
        self.closed = True
        for callback in self._state.close():
            callback()
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            waiter(None, ChannelClosedError(reason))


class Node:
    """It has one broker's logs and replicas. Its own ``LeaderConnector`` and ``IsrPort``."""

    def __init__(
        self,
        cluster: Cluster,
        broker_id: int,
        dirs: Sequence[str],
        files: MemoryFiles | None = None,
    ) -> None:
        """``files`` are those of an earlier life."""
        self.cluster = cluster
        self.broker_id = broker_id
        self.files = MemoryFiles(*dirs) if files is None else files
        self.reachable = True
        self.channels: list[InProcessChannel] = []
        self.failures: list[str] = []
        self.broken = 0
        """Replicas that contradicted themselves; a test that breaks one sets it back."""
        self.logs = LogManager(
            files=self.files,
            clock=ManualClock(NOW_MS),
            entropy=SeededEntropy(broker_id),
            config=log_settings(
                log_dirs=dirs, headroom_bytes=0, topic_defaults=dict(cluster.topic_defaults)
            ),
            broker_id=broker_id,
            on_dir_offline=lambda log_dir: self.replicas.directory_failed(log_dir),
        )
        self.replicas = ReplicaManager(
            broker_id=broker_id,
            logs=self.logs,
            clock=ManualClock(NOW_MS),
            entropy=SeededEntropy(100 + broker_id),
            config=cluster.config,
            isr_port=self,
            connector=self,
            safeguards=cluster.safeguards,
            on_failure=lambda name, error: self.failures.append(f"{name}: {error!r}"),
            on_broken_replica=self._count_broken,
            is_known=lambda topic_partition: topic_partition in cluster.known,
        )
        self.replicas.broker_epoch = broker_id * 100
        self.fetch = FetchHandler(self.replicas, AllowAllAuthorizer())
        self.verifier = Verifier()
        self.produce = ProduceHandler(self.replicas, AllowAllAuthorizer(), self.verifier)

    def _count_broken(self) -> None:
        self.broken += 1

    async def start(self) -> None:
        await self.logs.start("cluster")
        await self.replicas.start()

    async def stop(self) -> None:
        await self.replicas.stop()
        await self.logs.stop(clean=True)
        assert self.failures == []
        assert self.broken == 0

    async def open(self, broker_id: int) -> InProcessChannel:
        """Connect to another broker, as its ``LeaderConnector``."""
        await asyncio.sleep(0)
        target = self.cluster.nodes.get(broker_id)
        if target is None or not target.reachable or not self.reachable:
            raise ConnectionRefusedError(f"broker {broker_id} is not there")
        channel = InProcessChannel(self.cluster, self.broker_id, target)
        self.channels.append(channel)
        target.channels.append(channel)
        return channel

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        """Ask the controller, as its ``IsrPort``."""
        return await self.cluster.alter_partition(self.broker_id, items)

    def cut(self) -> None:
        """Nobody reaches this broker, and it reaches nobody."""
        self.reachable = False
        for channel in self.channels:
            channel.close("cut")
        self.channels.clear()

    def partition(self, topic_partition: TopicPartition) -> Partition:
        return self.replicas.partition(topic_partition)


def transact(node: Node, where: TopicPartition, *, pid: int = 7, epoch: int = 1) -> None:
    """Append the first batch of a transaction, of which no coordinator knows."""
    partition = node.partition(where)
    batch = encode_batch(
        [b"v"],
        timestamps=1,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    guard = partition.log.producers.take_guard(pid, epoch)
    partition.append_as_leader(memoryview(batch), Acks.ALL, node.replicas.now(), guard)


class Cluster:
    """It has brokers 1..n, and knows who leads what: ``async with Cluster() as cluster``."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        config: ReplicaConfig = FAST,
        dirs: Sequence[str] = ("/d",),
        topic_defaults: dict[str, str] | None = None,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self.config = config
        self.safeguards = safeguards
        self.topic_defaults = topic_defaults or {}
        self.nodes = {i: Node(self, i, dirs) for i in range(1, brokers + 1)}
        self.known: set[TopicPartition] = set()
        """Partitions that the brokers know the cluster to have."""
        self.orders: dict[TopicPartition, LeaderAndIsrPartition] = {}
        self.isr_requests: list[list[AlterPartitionItem]] = []
        self.isr_errors: list[Exception] = []
        """Raised, one each, instead of the next answers; the change is made all the same."""

    async def __aenter__(self) -> Cluster:
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for node in self.nodes.values():
            await node.stop()

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    # ---- controller

    def lead(
        self,
        topic_partition: TopicPartition,
        leader: int,
        *,
        isr: Sequence[int] | None = None,
        topic_id: str = "id",
        to: Sequence[int] | None = None,
        configs: dict[str, str] | None = None,
    ) -> dict[int, int]:
        """Begin a new leader epoch for a partition on all brokers; return error codes by broker."""
        before = self.orders.get(topic_partition)
        order = LeaderAndIsrPartition(
            topic_partition.topic,
            topic_id,
            topic_partition.partition,
            leader,
            0 if before is None else before.leader_epoch + 1,
            list(isr if isr is not None else before.isr if before else self.nodes),
            0 if before is None else before.partition_epoch + 1,
            sorted(self.nodes),
            before is None,
        )
        self.orders[topic_partition] = order
        return {
            broker_id: self.send_orders(broker_id, [order], configs=configs)[0].error_code
            for broker_id in (sorted(self.nodes) if to is None else to)
        }

    def send_orders(
        self,
        broker_id: int,
        orders: list[LeaderAndIsrPartition],
        *,
        full: bool = False,
        configs: dict[str, str] | None = None,
    ) -> list[ReplicaResult]:
        """Send LeaderAndIsr to one broker."""
        overrides = [
            TopicOverrides(topic, 0, list(configs), list(configs.values()))
            for topic in sorted({order.topic for order in orders})
            if configs is not None
        ]
        request = LeaderAndIsrRequest(9, 1, 0, full, orders, [], overrides)
        return at_once(self.nodes[broker_id].replicas.apply_leader_and_isr(travel(request)))

    async def alter_partition(
        self, asker: int, items: list[AlterPartitionItem]
    ) -> AlterPartitionResponse:
        await asyncio.sleep(0)
        self.isr_requests.append(items)
        results = [self._alter(asker, item) for item in items]
        if self.isr_errors:
            raise self.isr_errors.pop(0)
        return AlterPartitionResponse(0, results)

    def _alter(self, asker: int, item: AlterPartitionItem) -> AlterPartitionResult:
        order = self.orders[TopicPartition(item.topic, item.partition)]
        if item.leader_epoch != order.leader_epoch or asker != order.leader:
            return AlterPartitionResult(item.topic, item.partition, FencedLeaderEpochError.code)
        members = [member.broker_id for member in item.isr]
        if sorted(members) != sorted(order.isr):
            order.isr = members
            order.partition_epoch += 1
        return AlterPartitionResult(
            item.topic,
            item.partition,
            0,
            order.leader,
            order.leader_epoch,
            list(order.isr),
            order.partition_epoch,
        )

    # ---- clients

    def produce(
        self,
        topic_partition: TopicPartition,
        *values: bytes,
        acks: int = Acks.ALL,
        to: int | None = None,
        timeout_ms: int = 5000,
    ) -> Answer:
        """Send one batch to the leader, or to ``to``."""
        batch = bytes(batch_of(*values))
        request = ProduceRequest(
            None,
            acks,
            timeout_ms,
            [
                ProduceTopic(
                    topic_partition.topic,
                    [ProducePartition(topic_partition.partition, schema.Span(0, len(batch)))],
                )
            ],
        )
        node = self.nodes[to if to is not None else self.orders[topic_partition].leader]
        return call(node.produce, request, payload=batch)

    async def produced(
        self, topic_partition: TopicPartition, *values: bytes, acks: int = Acks.ALL
    ) -> ProducePartitionResponse:
        """Produce and wait; the answer of the one partition."""
        message = await self.produce(topic_partition, *values, acks=acks).wait()
        answer: ProducePartitionResponse = message.topics[0].partitions[0]
        return answer

    async def isr_is(self, topic_partition: TopicPartition, *members: int) -> None:
        """Wait until the controller's ISR is exactly this."""
        await eventually(
            lambda: sorted(self.orders[topic_partition].isr) == sorted(members),
            what=f"isr {members}, is {self.orders[topic_partition].isr}",
        )
