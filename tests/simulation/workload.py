"""Clients do this while the world breaks: the workload of jepsen.tests.kafka in our words.

Each client is a process with a producer and a consumer. It sends unique values that name their
partition, one by one or as a list; it polls, changes its assignment now and then, seeks to the
beginning, and crashes. Everything that it asks and hears goes to the history through the client
library's own port. At the end ``final_polls`` reads every partition from the beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from oncelog import Admin, Consumer, NewTopic, Producer
from oncelog.errors import NoBrokersAvailableError, OncelogError
from oncelog.history_events import HistoryEvent, HistoryRecorder
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.history import keyed_value_of, value_of
from simulation.loop import Process, ProcessKilledError

logger = logging.getLogger("simulation")

TOPIC = "t"
COMPACTED = "k"
"""Its records have keys, and some are tombstones."""

TOMBSTONES = 0.1
CRASH_EVERY_S = 15.0
EXPECTED = (OncelogError, OSError, TimeoutError)
"""A client may raise these while the world breaks. Anything else is a bug."""


class Workload:
    """It has all clients of a run."""

    def __init__(
        self, cluster: SimCluster, entropy: SeededEntropy, sink: Callable[[HistoryEvent], None]
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.clients = [
            Client(self, f"client-{number}", entropy.fork(f"client-{number}"))
            for number in range(1, cluster.knobs.clients + 1)
        ]
        knobs = cluster.knobs
        counts = {TOPIC: knobs.partitions, COMPACTED: knobs.compacted}
        self.topics = {topic: count for topic, count in counts.items() if count}
        """How many partitions each has."""
        self.stopping = False
        self.failures: list[BaseException] = []
        """A client may raise these while the world breaks."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return all that is written to."""
        return [TopicPartition(topic, p) for topic, n in self.topics.items() for p in range(n)]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return what is written to of one topic."""
        return [place for place in self.partitions if place.topic == topic]

    async def create_topic(self) -> None:
        """Create the topics of the run."""
        process = self.cluster.client_process("admin")
        knobs = self.cluster.knobs
        compacts = {
            "cleanup_policy": "compact",
            "segment_bytes": str(knobs.compacted_segment_bytes),
        }
        configs: dict[str, dict[str, str]] = {TOPIC: {}, COMPACTED: compacts}

        async def create() -> None:
            async with Admin(
                self.cluster.bootstrap,
                security=self.cluster.security,
                entropy=self.cluster.entropy.fork("admin"),
            ) as admin:
                await admin.create_topics(
                    [
                        NewTopic(
                            topic,
                            partitions=count,
                            replication_factor=knobs.replication_factor,
                            configs=configs[topic],
                        )
                        for topic, count in self.topics.items()
                    ]
                )

        await process.call(create(), "create topic")
        process.kill()

    def start(self) -> None:
        """Let the clients work until ``stop``."""
        loop = self.cluster.loop
        self._tasks = [loop.create_task(client.live(), name=client.name) for client in self.clients]

    async def stop(self, *, timeout_s: float) -> None:
        """Let each client end what it has begun. :raises TimeoutError: one does not."""
        self.stopping = True
        _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
        if pending:
            names = ", ".join(sorted(task.get_name() for task in pending))
            raise TimeoutError(f"{names} did not end within {timeout_s:g} s")
        for task in self._tasks:
            task.result()

    async def probe(self, *, timeout_s: float) -> None:
        """Send one record to each partition and see it acknowledged.

        :raises TimeoutError: that does not happen in time.
        """
        process = self.cluster.client_process("probe")
        knobs = self.cluster.knobs
        recorder = HistoryRecorder("probe", self.sink, self._now, client="producer")
        entropy = self.cluster.entropy.fork(f"probe-{self.cluster.loop.steps}")

        async def send() -> None:
            while True:  # a client fails fast while no broker is up
                with suppress(NoBrokersAvailableError):
                    return await send_each(recorder, entropy)
                await asyncio.sleep(0.2)

        async def send_each(recorder: HistoryRecorder, entropy: SeededEntropy) -> None:
            async with Producer(
                self.cluster.bootstrap,
                security=self.cluster.security,
                entropy=entropy,
                clock=self.cluster.client_clock,
                history=recorder,
                acks="all",
                enable_idempotence=knobs.idempotent,
                delivery_timeout_ms=int(timeout_s * 1000),
                request_timeout_ms=knobs.request_timeout_ms,
            ) as producer:
                for topic, partition in self.partitions:
                    key = b"probe" if topic == COMPACTED else None
                    value = _value(topic, partition, "probe", self.cluster.loop.steps, key)
                    await producer.send(topic, value=value, key=key, partition=partition)

        try:
            async with asyncio.timeout(timeout_s):
                await process.call(send(), "probe")
        except EXPECTED as error:
            raise TimeoutError(f"no acknowledgement within {timeout_s:g} s: {error!r}") from error
        finally:
            process.kill()

    async def final_polls(self, ends: dict[TopicPartition, int], *, timeout_s: float) -> None:
        """Read every partition from its beginning to its end, as a new consumer.

        :param ends: the high watermark of each partition.
        :raises TimeoutError: it does not get there.
        """
        process = self.cluster.client_process("reader")
        recorder = HistoryRecorder("reader", self.sink, self._now, client="consumer")
        entropy = self.cluster.entropy.fork("reader")

        async def read() -> None:
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap,
                security=self.cluster.security,
                auto_offset_reset="earliest",
                entropy=entropy,
                history=recorder,
                request_timeout_ms=3000,
            ) as consumer:
                partitions = sorted(ends)
                consumer.assign(partitions)
                for partition in partitions:
                    while await consumer.position(partition) < ends[partition]:
                        await consumer.getmany(timeout_ms=200, max_records=1000)

        try:
            async with asyncio.timeout(timeout_s):
                await process.call(read(), "final polls")
        except EXPECTED as error:
            raise TimeoutError(f"the final polls did not end: {error!r}") from error
        finally:
            process.kill()

    def _now(self) -> float:
        return self.cluster.loop.now_s


class Client:
    """It is one client process, again and again after each crash."""

    def __init__(self, workload: Workload, name: str, entropy: SeededEntropy) -> None:
        self.workload = workload
        self.name = name
        self.lives = 0
        self._entropy = entropy
        self._sent = 0
        self._positions: dict[TopicPartition, int] = {}
        self._process: Process | None = None

    async def live(self) -> None:
        """Run, crash, run, until the workload stops."""
        cluster = self.workload.cluster
        while not self.workload.stopping:
            self.lives += 1
            process = self._process = cluster.client_process(self.name)
            crash_s = CRASH_EVERY_S * (0.2 + 1.6 * self._entropy.random())
            life = cluster.loop.create_task(process.call(self._work(), self.name))
            done, _ = await asyncio.wait([life], timeout=crash_s)
            if done or self.workload.stopping:
                try:
                    await life
                except ProcessKilledError:
                    pass
                except Exception as error:
                    self.workload.failures.append(error)
                    logger.error("%s raised %r", self.name, error, exc_info=error)
            else:
                cluster.loop.trace(f"crash {self.name}")
                process.kill()
                await asyncio.wait([life])
                life.exception()
            process.kill()
            await asyncio.sleep(0.2 * self._entropy.random())

    async def _work(self) -> None:
        entropy = self._entropy.fork(f"life-{self.lives}")
        number = self.lives
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce(entropy.fork("producer"), number))
            group.create_task(self._consume(entropy.fork("consumer"), number))

    def _recorder(self, kind: str, number: int, part: int) -> HistoryRecorder:
        loop = self.workload.cluster.loop
        return HistoryRecorder(
            f"{self.name}.{number}",
            self.workload.sink,
            lambda: loop.now_s,
            client=f"{kind}-{part}",
        )

    # -- producing ---------------------------------------------------------------------------

    async def _produce(self, entropy: SeededEntropy, life: int) -> None:
        part = 0
        while not self.workload.stopping:
            part += 1
            producer = self._producer(entropy, self._recorder("producer", life, part), part)
            try:
                await producer.start()
                try:
                    while not self.workload.stopping:
                        await self._send(producer, entropy)
                        await asyncio.sleep(entropy.random() * 0.25)
                finally:
                    await producer.close(timeout_ms=2000)
            except EXPECTED:
                await asyncio.sleep(0.2)

    def _producer(self, entropy: SeededEntropy, recorder: HistoryRecorder, part: int) -> Producer:
        cluster = self.workload.cluster
        knobs = cluster.knobs
        producer = Producer(
            cluster.bootstrap,
            security=cluster.security,
            entropy=entropy.fork(f"producer-{part}"),
            client_id=f"{self.name}-{part}",
            clock=cluster.client_clock,
            history=recorder,
            acks="all",
            enable_idempotence=knobs.idempotent,
            linger_ms=knobs.linger_ms,
            batch_size=knobs.batch_size,
            compression_type="gzip" if knobs.compression == "gzip" else "none",
            retry_backoff_ms=knobs.retry_backoff_ms,
            request_timeout_ms=knobs.request_timeout_ms,
            delivery_timeout_ms=knobs.delivery_timeout_ms,
            max_in_flight_requests_per_connection=knobs.max_in_flight,
            max_block_ms=5000,
            connect_timeout_ms=1000,
        )
        producer._safeguards = knobs.producer_safeguards()
        return producer

    def _record(
        self, topic: str, partition: int, entropy: SeededEntropy
    ) -> tuple[bytes | None, bytes | None]:
        """Return (key, value) of the next record for a partition."""
        knobs = self.workload.cluster.knobs
        self._sent += 1
        key = None
        if topic == COMPACTED:
            key = f"key-{entropy.randint(1, knobs.keys)}".encode()
            if entropy.random() < TOMBSTONES:
                return key, None
        value = _value(topic, partition, self.name, self._sent, key) + b"/"
        return key, value.ljust(knobs.value_bytes, b".")

    async def _send(self, producer: Producer, entropy: SeededEntropy) -> None:
        topic, partition = entropy.choice(self.workload.partitions)
        draw = entropy.random()
        try:
            if draw < 0.4:
                key, value = self._record(topic, partition, entropy)
                await producer.send(topic, value=value, key=key, partition=partition)
            elif draw < 0.7:
                deliveries = []
                for _ in range(entropy.randint(1, 8)):
                    key, value = self._record(topic, partition, entropy)
                    deliveries.append(
                        await producer.enqueue(topic, value=value, key=key, partition=partition)
                    )
                for delivery in deliveries:
                    await delivery
            else:
                count = entropy.randint(1, 20)
                records = [self._record(topic, partition, entropy) for _ in range(count)]
                await producer.send_many(
                    topic,
                    [value for _, value in records],
                    keys=[key for key, _ in records] if topic == COMPACTED else None,
                    partition=partition,
                )
        except EXPECTED:
            pass

    # -- consuming ---------------------------------------------------------------------------

    async def _consume(self, entropy: SeededEntropy, life: int) -> None:
        part = 0
        while not self.workload.stopping:
            part += 1
            rash = self.workload.cluster.knobs.transactional and entropy.random() < 0.2
            consumer = Consumer(
                bootstrap_servers=self.workload.cluster.bootstrap,
                security=self.workload.cluster.security,
                auto_offset_reset="earliest",
                client_id=f"{self.name}-{part + life}",
                isolation_level="read_uncommitted" if rash else "read_committed",
                entropy=entropy.fork(f"consumer-{part}"),
                history=self._recorder("uncommitted" if rash else "consumer", life, part),
                fetch_min_bytes=entropy.choice([1, 3000]),
                fetch_max_wait_ms=200,
                request_timeout_ms=self.workload.cluster.knobs.request_timeout_ms,
                max_block_ms=5000,
                connect_timeout_ms=1000,
            )
            try:
                await consumer.start()
                try:
                    await self._poll(consumer, entropy)
                finally:
                    await consumer.close()
            except EXPECTED:
                await asyncio.sleep(0.2)

    async def _poll(self, consumer: Consumer, entropy: SeededEntropy) -> None:
        everything = self.workload.partitions
        count = len(everything)
        self._assign(consumer, everything, entropy)
        while not self.workload.stopping:
            draw = entropy.random()
            if draw < 1 / 64:
                for partition in consumer.assignment():
                    self._positions[partition] = await consumer.position(partition)
                entropy.shuffle(everything)
                self._assign(consumer, everything[: entropy.randint(1, count)], entropy)
            elif draw < 1 / 50:
                assigned = consumer.assignment()
                await consumer.seek_to_beginning(*assigned[:1])
            await consumer.getmany(timeout_ms=100, max_records=entropy.choice([1, 10, 500]))
            await asyncio.sleep(entropy.random() * 0.3)

    def _assign(
        self, consumer: Consumer, partitions: list[TopicPartition], entropy: SeededEntropy
    ) -> None:
        """Take these; mostly go on where this client last was, sometimes from the beginning."""
        before = consumer.assignment()
        consumer.assign(partitions)
        for partition in partitions:
            position = self._positions.get(partition)
            if partition not in before and position is not None and entropy.random() < 0.9:
                consumer.seek(partition, position)


def _value(topic: str, partition: int, process: str, number: int, key: bytes | None) -> bytes:
    if key is None:
        return value_of(topic, partition, process, number)
    return keyed_value_of(topic, partition, process, number, key)
