"""A scripted cluster serves client tests: real loopback sockets, the real protocol, logs in memory.

One ``FakeCluster`` holds the topics; its brokers share the logs, so that moving leadership moves
nothing else. What a test wants to go wrong it says as a ``Rule``: for the next so many requests of
an API (at a broker) answer an error, break the connection before or after the work, or hold the
answer until the test lets it go. Requests of one connection are handled one after the other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from oncelog_broker.log.producer_state import ProducerState
from oncelog_broker.server.event_history import EventHistory
from oncelog_protocol.connection import IncomingRequest, ServerConnection
from oncelog_protocol.errors import ApiError, LeaderNotAvailableError, ProtocolError
from oncelog_protocol.errors import UnknownTopicOrPartitionError as UnknownTopic
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages import metadata as wire
from oncelog_protocol.messages.admin import ReplicaSize
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.handshake import ApiVersionsResponse
from oncelog_protocol.messages.log_description import DescribeLogRequest, DescribeLogResponse
from oncelog_protocol.records.batch import parse_header, stamp, verify_crc
from oncelog_protocol.records.control import ControlType, decode_marker, encode_marker
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tls_contexts import ServerTls
from oncelog_testing.ports import Ports
from support.fake_handlers import Handlers, error_answer
from support.fake_moves import FakeMoves
from support.fake_security import FakeAuthentication, FakeSecurity
from support.fake_services import FakeServices
from support.fake_txn_coordinator import FakeTxnCoordinator

__all__ = [
    "Action",
    "FakeBroker",
    "FakeCluster",
    "FakePartition",
    "Rule",
    "committed_of",
    "values_of",
]

HOST = "127.0.0.1"

LogTeller = Callable[[DescribeLogRequest], DescribeLogResponse]


class Action(Enum):
    """It happens to a request that a rule fits."""

    ERROR = "error"
    ERROR_AFTER = "error after"
    DROP_BEFORE = "drop before"
    DROP_AFTER = "drop after"
    HOLD = "hold"
    HOLD_AFTER = "hold after"


@dataclass
class Rule:
    """It is applied to the next ``times`` requests of ``api`` that ``broker`` (None: any) gets.

    ``when`` may look at the request. HOLD waits for ``release`` before the work, HOLD_AFTER
    between the work and the answer; ERROR_AFTER does the work and answers the error all the same.
    """

    api: ApiKey
    action: Action
    error: type[ApiError] | None = None
    broker: int | None = None
    times: int = 1
    when: Callable[[Any], bool] = lambda _: True
    release: asyncio.Event = field(default_factory=asyncio.Event)
    met: int = 0


@dataclass
class FakePartition:
    """It is one log: batches as bytes, each stamped with its offset."""

    leader: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    next_offset: int = 0
    log_start_offset: int = 0
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) to answer the next fetch with."""
    producers: ProducerState = field(default_factory=ProducerState)
    open_txns: dict[int, int] = field(default_factory=dict)
    """Producer id to the first offset of its open transaction."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """(producer id, first offset, offset of the marker) of every aborted transaction."""

    def append(self, batch: bytes | bytearray | memoryview) -> int:
        """Append one batch, unless it is known already; its base offset.

        :raises ApiError: it does not follow what its producer has sent.
        """
        data = bytearray(batch)
        header = parse_header(data)
        assert header.size_bytes == len(data), "not exactly one batch"
        verify_crc(data)
        if header.producer_id >= 0:
            repeated = self.producers.check(header, header.crc)
            if repeated is not None:
                return repeated.base_offset
        base = self.next_offset
        stamp(data, 0, base, self.leader_epoch)
        self.producers.applied(parse_header(data), 0, append_time=False)
        self.batches.append(bytes(data))
        self.next_offset = base + header.last_offset_delta + 1
        if header.is_transactional:
            self.open_txns.setdefault(header.producer_id, base)
        return base

    def needs_transaction(self, batch: bytes | bytearray | memoryview) -> bool:
        """Return whether the coordinator has to hear of this batch's transaction first."""
        header = parse_header(batch)
        return header.is_transactional and header.producer_id not in self.open_txns

    def mark(self, commit: bool, producer_id: int, producer_epoch: int) -> None:
        """A transaction ends here."""
        marker = encode_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=0,
            timestamp_ms=0,
            base_offset=self.next_offset,
            leader_epoch=self.leader_epoch,
        )
        self.producers.marked(decode_marker(marker), 0)
        first = self.open_txns.pop(producer_id, self.next_offset)
        if not commit:
            self.aborted.append((producer_id, first, self.next_offset))
        self.batches.append(bytes(marker))
        self.next_offset += 1

    @property
    def last_stable_offset(self) -> int:
        """Return where read_committed ends."""
        return min(self.open_txns.values(), default=self.next_offset)

    def values(self) -> list[bytes | None]:
        """Return every value of a client, in order, whatever became of its transaction."""
        data = [batch for batch in self.batches if not parse_header(batch).is_control]
        return [value for batch in data for value in decode_batch(batch).values]

    def committed_values(self) -> list[bytes | None]:
        """Return what read_committed sees."""
        found: list[bytes | None] = []
        for batch in self.batches:
            header = parse_header(batch)
            if header.is_control or header.base_offset >= self.last_stable_offset:
                continue
            if not any(
                producer_id == header.producer_id and first <= header.base_offset <= last
                for producer_id, first, last in self.aborted
                if header.is_transactional
            ):
                found.extend(decode_batch(batch).values)
        return found

    def read(self, offset: int, max_bytes: int, end: int = sys.maxsize) -> bytes:
        """Return whole batches from the one that holds ``offset``, one at least, up to ``end``."""
        found: list[bytes] = []
        size = 0
        for batch in self.batches:
            header = parse_header(batch)
            if header.next_offset <= offset:
                continue
            if header.base_offset >= end:
                break
            if found and size + len(batch) > max_bytes:
                break
            found.append(batch)
            size += len(batch)
        return b"".join(found)


class FakeCluster:
    """It has topics, brokers, rules, and a list of every request that came."""

    def __init__(
        self, broker_count: int = 1, *, cluster_id: str = "fake", tls: ServerTls | None = None
    ) -> None:
        self.cluster_id = cluster_id
        self.ports = Ports()
        self.brokers = {number: FakeBroker(self, number) for number in range(1, broker_count + 1)}
        self.topics: dict[str, list[FakePartition]] = {}
        self.topic_ids: dict[str, str] = {}
        self.controller_id = 1
        self.authorizer = "none"
        """What clients are told of it; it refuses nobody here."""
        self.rules: list[Rule] = []
        self.requests: list[tuple[int, Any]] = []
        """(broker, request), in order of arrival."""
        self.stale_metadata: dict[int, wire.MetadataResponse] = {}
        """Broker to the answer it gives to Metadata whatever is true."""
        self.producer_ids = 0
        """How many were given."""
        self.transactions = FakeTxnCoordinator(self, 1)
        self.latency_s = 0.0
        """How long every Produce takes: what makes requests queue up behind each other."""
        self.new_data = asyncio.Event()
        self.down: list[int] = []
        """Brokers that metadata leaves out."""
        self.tls = tls
        """What brokers that start listen with."""
        self.security = FakeSecurity()
        self.events: dict[int, EventHistory] = {}
        """By broker, what happened there."""
        self.futures: list[ReplicaSize] = []
        """What moves to another directory of broker 1."""
        self.disk = (1000, 500)
        """Each directory has so many bytes, and so many of them are free."""
        self.logs: dict[int, LogTeller] = {}
        """By broker, what it tells of its logs."""
        self.moves = FakeMoves(list(self.brokers))
        """What moves, and where partitions are."""
        self.services = FakeServices()
        """Which brokers are out of service."""
        self.events_page = 500
        """How many events one answer has."""

    async def __aenter__(self) -> FakeCluster:
        for broker in self.brokers.values():
            await broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for rule in self.rules:
            rule.release.set()
        for broker in self.brokers.values():
            await broker.stop()
        self.ports.release()

    @property
    def bootstrap(self) -> str:
        """Return every broker's address."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers.values())

    def create_topic(self, topic: str, partitions: int = 1) -> list[FakePartition]:
        """Make a topic, also again; leaders in turn."""
        ids = list(self.brokers)
        former = self.topic_ids.get(topic)
        self.topics[topic] = [FakePartition(ids[i % len(ids)]) for i in range(partitions)]
        self.topic_ids[topic] = f"id-{topic}" if former is None else f"{former}-again"
        return self.topics[topic]

    def add_partition(self, topic: str) -> FakePartition:
        """Give a topic one more partition."""
        known, ids = self.topics[topic], list(self.brokers)
        known.append(FakePartition(ids[len(known) % len(ids)]))
        return known[-1]

    def next_id(self) -> int:
        """Return a producer id that nobody has."""
        self.producer_ids += 1
        return 4000 + self.producer_ids

    def partition(self, topic: str, number: int = 0) -> FakePartition:
        return self.topics[topic][number]

    def move_leader(self, topic: str, number: int, broker: int) -> None:
        """Name another leader, in a new leader epoch."""
        partition = self.partition(topic, number)
        partition.leader = broker
        partition.leader_epoch += 1

    def rule(self, api: ApiKey, action: Action, **options: Any) -> Rule:
        """Add a rule."""
        rule = Rule(api, action, **options)
        self.rules.append(rule)
        return rule

    def match(self, broker: int, incoming: IncomingRequest) -> Rule | None:
        """Return the first rule that fits, used up once more."""
        for rule in self.rules:
            fits = rule.api == incoming.api_key and rule.broker in (None, broker)
            if fits and rule.times > rule.met and rule.when(incoming.message):
                rule.met += 1
                return rule
        return None

    def count(self, api: ApiKey, broker: int | None = None) -> int:
        """Count how many requests of an API came (to a broker)."""
        return len([1 for b, r in self.requests if r.api_key == api and broker in (None, b)])

    def announce(self) -> None:
        """Wake the long polls."""
        event, self.new_data = self.new_data, asyncio.Event()
        event.set()

    def metadata(self, request: wire.MetadataRequest) -> wire.MetadataResponse:
        """Return what is true now."""
        brokers = [
            wire.MetadataBroker(number, HOST, broker.advertised_port or broker.port)
            for number, broker in self.brokers.items()
            if number not in self.down
        ]
        names = list(self.topics) if request.topics is None else request.topics
        topics = [self._describe(name) for name in names]
        return wire.MetadataResponse(self.cluster_id, self.controller_id, brokers, topics)

    def _describe(self, name: str) -> wire.MetadataTopic:
        if name not in self.topics:
            return wire.MetadataTopic(UnknownTopic.code, name, "", False)
        partitions = [
            wire.MetadataPartition(
                LeaderNotAvailableError.code if p.leader < 0 else 0,
                number,
                p.leader,
                p.leader_epoch,
                self.moves.replicas(TopicPartition(name, number)),
                self.moves.isr(TopicPartition(name, number)),
                [],
            )
            for number, p in enumerate(self.topics[name])
        ]
        return wire.MetadataTopic(0, name, self.topic_ids[name], False, partitions)


class FakeBroker:
    """It is one listener."""

    def __init__(self, cluster: FakeCluster, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.port = 0
        self.advertised_port: int | None = None
        self.connections: dict[_Connection, None] = {}
        self.opening: dict[_Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._handlers = Handlers(cluster, broker_id)

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        tls = self.cluster.tls
        self._server = await loop.create_server(
            lambda: _Connection(self) if tls is None else tls.protect(_Connection(self)),
            HOST,
            self.port or self.cluster.ports.of(str(self.broker_id), HOST),
            reuse_address=True,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Break every connection and refuse new ones, as kill -9 does."""
        server, self._server = self._server, None
        if server is None:
            return
        # A connection that was accepted in this very round must find its server open: CPython 3.11
        # leaks its socket otherwise.
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        server.close()
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)  # what was accepted a moment ago becomes a connection, and is broken
        for connection in [*self.connections, *self.opening]:
            await connection.gone

    @property
    def listening(self) -> bool:
        """Return whether connections are taken."""
        return self._server is not None

    @property
    def connection_count(self) -> int:
        """Count open connections."""
        return len(self.connections)

    async def answer(self, incoming: IncomingRequest) -> tuple[Any, list[bytes]] | None:
        """Return (response, payload), or None for a request that is not answered."""
        request: Any = incoming.message
        if incoming.misfit is not None:
            me = self.cluster.cluster_id, self.broker_id
            return ApiVersionsResponse(incoming.misfit.code, [], *me), []
        rule = self.cluster.match(self.broker_id, incoming)
        action = None if rule is None else rule.action
        if action is Action.DROP_BEFORE:
            raise ConnectionAbortedError
        if rule is not None and action is Action.HOLD:
            await rule.release.wait()
        if rule is not None and action is Action.ERROR:
            assert rule.error is not None
            return error_answer(request, rule.error.code), []
        if self.cluster.latency_s and incoming.api_key == ApiKey.PRODUCE:
            await asyncio.sleep(self.cluster.latency_s)
        result = await self._handlers.handle(request, incoming.payload)
        if action is Action.DROP_AFTER:
            raise ConnectionAbortedError
        if rule is not None and action is Action.HOLD_AFTER:
            await rule.release.wait()
        if rule is not None and action is Action.ERROR_AFTER:
            assert rule.error is not None
            return error_answer(request, rule.error.code), []
        if incoming.api_key == ApiKey.PRODUCE and request.acks == 0:
            return None
        return result


class _Connection(asyncio.BufferedProtocol):
    """One client connection has its requests in a queue, and one worker."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        identity = Identity(broker.cluster.cluster_id, broker.broker_id)
        self._machine = ServerConnection(reuse=False, identity=identity)
        self._queue: asyncio.Queue[IncomingRequest] = asyncio.Queue()
        self._transport: Any = None
        self._worker: asyncio.Task[None] | None = None
        self._peer = FakeAuthentication(broker.cluster.security)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        broker.opening[self] = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._broker.opening.pop(self)
        self._broker.connections[self] = None
        if not self._broker.listening:
            self.abort()
            return
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._machine.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        try:
            requests = self._machine.received(nbytes)
        except ProtocolError:
            self.abort()
            return
        for incoming in requests:
            self._broker.cluster.requests.append((self._broker.broker_id, incoming.message))
            self._queue.put_nowait(incoming)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._broker.connections.pop(self, None)
        if self._worker is not None:
            self._worker.cancel()
        if not self.gone.done():
            self.gone.set_result(None)

    def abort(self) -> None:
        """Break the connection."""
        if self._worker is not None:
            self._worker.cancel()
        self._transport.abort()

    async def _work(self) -> None:
        while True:
            incoming = await self._queue.get()
            early = self._peer.answer(incoming.message)
            if early is not None:
                self._transport.writelines(self._machine.encode_response(incoming, early))
                if not self._peer.may_go_on:
                    self._transport.close()
                    return
                continue
            try:
                answer = await self._broker.answer(incoming)
            except ConnectionAbortedError:
                self._transport.abort()
                return
            if answer is not None:
                self._transport.writelines(self._machine.encode_response(incoming, *answer))


def committed_of(cluster: FakeCluster, topic: str) -> list[bytes | None]:
    """Return what read_committed sees, partition by partition."""
    return [value for p in cluster.topics[topic] for value in p.committed_values()]


def values_of(cluster: FakeCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Return every partition's values."""
    return {number: p.values() for number, p in enumerate(cluster.topics[topic])}
