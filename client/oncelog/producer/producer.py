"""The producer: the public face of sending.

Rules
-----
* ``send`` returns when the record is acknowledged, ``enqueue`` when there is room for it,
  ``send_nowait`` at once or not at all, ``send_many`` when all of a list are acknowledged.
* Adding a record to an open batch must stay cheap: one look-up, two appends, one Delivery. All that
  may wait, check or fail is in the slow path.
* ``flush`` and ``close`` raise for records that failed and whose delivery nobody had looked at.
  A producer that is dropped with records under way says so (ResourceWarning).
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from oncelog.config import (
    AcksOption,
    BootstrapServers,
    CompressionOption,
    ConnectionOptions,
    ProducerOptions,
    take,
)
from oncelog.errors import (
    BufferExhaustedError,
    ClosedError,
    DeadlineExceededError,
    MessageTooLargeError,
    UndeliveredRecordsError,
    UnknownTopicOrPartitionError,
)
from oncelog.history import History
from oncelog.producer.accumulator import (
    KEYED_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Accumulator,
    Batch,
    PartitionQueue,
    record_size,
)
from oncelog.producer.checks import Headers, check_record
from oncelog.producer.columns import ColumnSender
from oncelog.producer.delivery import BatchMetadata, Delivery, RecordMetadata
from oncelog.producer.partitioner import (
    STICKY,
    DefaultPartitioner,
    PartitionerOption,
    key_hash,
    make_partitioner,
)
from oncelog.producer.sender import Sender
from oncelog.router import Router
from oncelog_protocol import limits
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import SystemWallClock, WallClock
from oncelog_runtime.entropy import Entropy, SystemEntropy

logger = logging.getLogger(__name__)

BATCH_OVERHEAD_BYTES = limits.BATCH_HEADER_BYTES + 32


class _Place(NamedTuple):
    """Where a record goes; ``sticky``: it may as well go elsewhere."""

    queue: PartitionQueue
    sticky: bool


class Producer:
    """Sends records. ``async with Producer("localhost:9092") as producer: ...``

    :param bootstrap_servers: "host:port,host:port" or a list of them: where to ask first.
    :param enable_idempotence: on unless ``acks`` or more than five requests in flight speak against
        it; True makes these an error.
    :param acks: "all" (every in-sync replica), 1 (the leader), 0 (nobody is asked).
    :param linger_ms: how long a batch waits for more records.
    :param batch_size: bytes of a batch; :param buffer_memory: bytes of all, unacknowledged.
    :param delivery_timeout_ms: from a batch's first record to its acknowledgement, with retries.
    :param partitioner: "default" (xxh3 of the key; sticky without one), "murmur2" (as Kafka),
        "round_robin", "sticky", a function of (topic, key, partition_count), or an object.
    :param clock: stamps records; :param entropy: jitter and choices; :param history: a recorder of
        what was asked and known.

    Retries never write a record twice and never change the order (KIP-98). Where idempotence is off
    a retry after an indefinite error (a lost connection, say) may write a batch twice.
    A write that is not known to have failed is never reported so: see ``definite`` of the errors.
    """

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        client_id: str = "oncelog-producer",
        acks: AcksOption = "all",
        enable_idempotence: bool | None = None,
        compression_type: CompressionOption = "none",
        compression_level: int | None = None,
        linger_ms: float = 5,
        batch_size: int = 128 * 1024,
        buffer_memory: int = 64 * 1024 * 1024,
        max_in_flight_requests_per_connection: int = 5,
        max_request_size: int = 1024 * 1024,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 5_000,
        max_block_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        retry_backoff_ms: int = 8,
        retry_backoff_max_ms: int = 500,
        partitioner: PartitionerOption = "default",
        clock: WallClock | None = None,
        entropy: Entropy | None = None,
        history: History | None = None,
    ) -> None:
        parameters = locals()
        self._options = take(ProducerOptions, parameters)
        if enable_idempotence is None and self._options.against_idempotence:
            logger.info(
                "%s: not idempotent with %s: a retry may write a record twice",
                client_id,
                self._options.against_idempotence,
            )
        connection = take(ConnectionOptions, parameters)
        self._now_ms = (clock or SystemWallClock()).now_ms
        self._entropy = (entropy or SystemEntropy()).fork("producer")
        self._history = history
        self._partitioner = make_partitioner(partitioner)
        self._keyless_is_sticky = partitioner in ("default", "murmur2", "sticky")
        self._hashes_keys = type(self._partitioner) is DefaultPartitioner
        """Whether the fast path may leave the partitioner out: without a key, with one."""
        self._queues_of: dict[str, list[PartitionQueue]] = {}
        """Topic to the queues of its partitions, as of the last metadata."""
        self._batch_size = min(batch_size, max_request_size - BATCH_OVERHEAD_BYTES)
        self._max_block_s = max_block_ms / 1000
        self._router = Router(connection, entropy=self._entropy.fork("router"))
        self._router.auto_create = True
        self._accumulator = Accumulator(
            batch_size=self._batch_size,
            buffer_memory=buffer_memory,
            linger_s=linger_ms / 1000,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            new_backoff=self._router.new_backoff,
        )
        self._sticky = self._accumulator.sticky
        self._sticky_partition: dict[str, int] = {}
        self._sender: Sender | None = None
        self._columns: ColumnSender | None = None
        self._closed = False

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Find the cluster. ``async with`` does it.

        :raises NoBrokersAvailableError: at once, naming the addresses tried and why each failed.
        """
        if self._closed or self._sender is not None:
            raise ClosedError("a producer is started once")
        await self._router.start()
        self._router.on_metadata.append(self._queues_of.clear)
        self._sender = Sender(
            self._router,
            self._accumulator,
            idempotent=self._options.idempotent,
            acks=self._options.acks_code,
            codec=Codec[self._options.compression_type.upper()],
            codec_level=self._options.compression_level,
            in_flight_max=self._options.max_in_flight_requests_per_connection,
            max_request_size=self._options.max_request_size,
            history=self._history,
        )
        self._columns = ColumnSender(
            self._router,
            self._accumulator,
            self._sender,
            options=self._options,
            partitioner=self._partitioner,
            batch_size=self._batch_size,
            choose_sticky=self._next_sticky,
            keep_values=self._history is not None,
        )

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what is left, then close; waits at most ``timeout_ms`` (default: the delivery
        time-out) for acknowledgements. Closing twice does nothing.

        :raises UndeliveredRecordsError: records failed, or were not acknowledged in time, and
            nobody had looked at their deliveries.
        """
        if self._closed:
            return
        self._closed = True
        self._sticky.clear()
        sender = self._sender
        if sender is None:
            return
        try:
            self._accumulator.close_all()
            self._accumulator.refuse_waiting(ClosedError("the producer was closed"))
            sender.wake()
            limit_ms = self._options.delivery_timeout_ms if timeout_ms is None else timeout_ms
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    await self._drain()
            except TimeoutError:
                pass
        finally:
            await sender.close("the producer was closed")
            await self._router.close()
        self._raise_unobserved()

    async def __aenter__(self) -> Producer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            # After a cancellation nobody waits two minutes for a cluster that may be gone.
            leaving = isinstance(error, asyncio.CancelledError)
            await self.close(timeout_ms=5_000 if leaving else None)
        except UndeliveredRecordsError as undelivered:
            if error is None:
                raise
            logger.error("producer closed after an error: %s", undelivered)

    def __del__(self) -> None:
        accumulator = getattr(self, "_accumulator", None)
        if accumulator is None or getattr(self, "_closed", True) or self._sender is None:
            return
        warnings.warn(
            f"unclosed producer with {len(accumulator.incomplete)} unacknowledged batches",
            ResourceWarning,
            stacklevel=1,
            source=self,
        )

    # ------------------------------------------------------------------------------ sending

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait for its acknowledgement.

        Cancelling the call does not take the record back: it may be written.

        :raises ApiError, DeliveryTimeoutError, ReorderError: not acknowledged; ``definite`` tells
            whether it is certainly not in the log.
        :raises BufferExhaustedError: no room within ``max_block_ms``; nothing was sent.
        """
        delivery = await self.enqueue(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )
        return await delivery

    async def enqueue(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put one record in line, waiting only for room, and hand back its delivery.

        Cancelling the call means that the record was not taken. Errors as of ``send``, but for
        those of the delivery.
        """
        # The two cases that make up nearly all records, without a call more than they need: what
        # is not plainly right, and what needs room or metadata, goes the long way below.
        batch: Any = None
        size = 0
        if type(value) is bytes and timestamp_ms is None and partition is None and not headers:
            if key is None:
                batch = self._sticky.get(topic)
                size = len(value) + RECORD_OVERHEAD_BYTES
            elif type(key) is bytes and self._hashes_keys:
                queues = self._queues_of.get(topic)
                if queues is not None:
                    batch = queues[key_hash(key) % len(queues)].open
                    if batch is not None and (batch.keys is None or batch.headers is not None):
                        batch = None
                    size = len(value) + len(key) + KEYED_OVERHEAD_BYTES
        if batch is not None and batch.size + size <= self._batch_size:
            batch.size += size
            batch.timestamps.append(self._now_ms())
            if key is not None:
                batch.keys.append(key)
            values = batch.values
            values.append(value)
            return Delivery(batch, len(values) - 1)
        self._check_usable()
        check_record(value, key, headers, timestamp_ms)
        size = record_size(value, key, headers)
        place = self._place(topic, key, partition)
        if place is not None:
            batch = place.queue.open
            if batch is not None and batch.size + size <= self._batch_size:
                return self._add_to(batch, value, key, headers, timestamp_ms)
        # A batch is full, or none is open: let the loop send before more is taken.
        await asyncio.sleep(0)
        batch = await self._batch_for(place, topic, key, partition, size)
        return self._add_to(batch, value, key, headers, timestamp_ms)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put one record in line without waiting. Belongs to the loop's thread.

        :raises BufferExhaustedError: there is no room now.
        :raises UnknownTopicOrPartitionError: the topic is not known yet: await ``partitions_for``.
        """
        self._check_usable()
        check_record(value, key, headers, timestamp_ms)
        size = record_size(value, key, headers)
        place = self._place(topic, key, partition)
        if place is None:
            self._router.want(topic)
            raise UnknownTopicOrPartitionError(
                f"{topic!r}: not known yet, or not this partition of it;"
                f" await partitions_for({topic!r}) first"
            )
        place, batch = self._open_at(place, size)
        if batch is None:
            raise BufferExhaustedError(
                f"{place.queue.tp}: no room in buffer_memory={self._accumulator.buffer_memory}"
            )
        return self._add_to(batch, value, key, headers, timestamp_ms)

    async def send_many(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        timestamps_ms: Sequence[int] | int | None = None,
        partition: int | None = None,
    ) -> BatchMetadata:
        """Send a list of records by columns, the fast path, and wait until all are acknowledged.

        Records without keys are spread over the partitions batch by batch; with ``keys`` each goes
        where its key belongs. Within a partition the order of the list holds.

        :raises PartialSendError: some were not acknowledged; it knows which, and what was written.
        :raises TypeError, ValueError: columns of wrong types or lengths; nothing was sent.
        """
        self._check_usable()
        assert self._columns is not None
        if timestamps_ms is None:
            timestamps_ms = self._now_ms()
        deadline = self._deadline()
        view = await self._router.topic(topic, deadline)
        if partition is not None:
            await self._check_partition(topic, partition, deadline)
        return await self._columns.send(
            topic, view.partition_count, values, keys, headers, timestamps_ms, partition
        )

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything that was put in line before this call, and wait for the outcome.

        :raises UndeliveredRecordsError: some failed, and nobody had looked at their deliveries.
        :raises DeadlineExceededError: not done within ``timeout_ms``.
        """
        self._check_usable()
        assert self._sender is not None
        self._accumulator.close_all()
        self._sender.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._drain()
        except TimeoutError:
            left = sum(batch.count for batch in self._accumulator.incomplete)
            raise DeadlineExceededError(
                f"flush: {left} records were not acknowledged within {timeout_ms} ms",
                definite=False,
            ) from None
        self._raise_unobserved()

    @property
    def unacknowledged_count(self) -> int:
        """Records taken and not acknowledged (nor failed) yet."""
        return sum(batch.count or len(batch.values) for batch in self._accumulator.incomplete)

    async def partitions_for(self, topic: str) -> int:
        """The number of partitions of ``topic``, asking the cluster if need be.

        :raises UnknownTopicOrPartitionError: it does not exist.
        """
        self._check_usable()
        return (await self._router.topic(topic, self._deadline())).partition_count

    # ------------------------------------------------------------------------------ the slow path

    def _place(self, topic: str, key: bytes | None, partition: int | None) -> _Place | None:
        """Where a record goes; None when the cluster must be asked first."""
        view = self._router.cluster.topics.get(topic)
        if view is None or not view.partitions:
            return None
        queues = self._queues_of.get(topic)
        if queues is None:
            every = self._router.cluster.topic_partitions(topic)
            queues = self._queues_of[topic] = [self._accumulator.queue(tp) for tp in every]
        count = len(queues)
        sticky = False
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < count:
                return None
        else:
            partition = self._partitioner.partition(topic, key, count)
            if partition == STICKY:
                sticky = True
                partition = self._sticky_partition.get(topic, STICKY)
                if partition == STICKY:
                    partition = self._next_sticky(topic)
            elif not 0 <= partition < count:
                raise ValueError(
                    f"the partitioner chose {partition} for {topic!r}, which has {count} partitions"
                )
        return _Place(queues[partition], sticky)

    async def _batch_for(
        self,
        place: _Place | None,
        topic: str,
        key: bytes | None,
        partition: int | None,
        size: int,
    ) -> Batch:
        """The open batch that has room for ``size`` bytes, waiting for metadata and memory."""
        deadline = self._deadline()
        while place is None:
            await self._router.topic(topic, deadline)
            if partition is not None:
                await self._check_partition(topic, partition, deadline)
            place = self._place(topic, key, partition)
        while True:
            self._check_usable()
            place, batch = self._open_at(place, size)
            if batch is not None:
                return batch
            needed = max(size, self._batch_size)
            await self._accumulator.reserve(needed, deadline)
            if self._closed or place.queue.open is not None:  # another task was faster
                self._accumulator.release(needed)
                continue
            return self._open_batch(place.queue, needed)

    def _open_at(self, place: _Place, size: int) -> tuple[_Place, Batch | None]:
        """The open batch of a place, with room; a full one is closed first, and a record that may
        go anywhere then goes elsewhere. No batch when memory does not allow a new one."""
        self._check_size(size)
        batch = place.queue.open
        if batch is not None and batch.size + size > self._batch_size:
            self._close_full(batch)
            topic = place.queue.tp.topic
            if place.sticky:
                number = self._next_sticky(topic)
                queue = self._accumulator.queue(TopicPartition(topic, number))
                place = _Place(queue, sticky=True)
            batch = place.queue.open
            if batch is not None and batch.size + size > self._batch_size:
                self._close_full(batch)
                batch = None
        if batch is None:
            needed = max(size, self._batch_size)
            if self._accumulator.try_reserve(needed):
                batch = self._open_batch(place.queue, needed)
        elif place.sticky and self._keyless_is_sticky:
            self._accumulator.stick(batch)
        return place, batch

    def _close_full(self, batch: Batch) -> None:
        self._accumulator.close_batch(batch)
        assert self._sender is not None
        self._sender.wake()

    def _open_batch(self, queue: PartitionQueue, reserved: int) -> Batch:
        assert self._sender is not None
        batch = self._accumulator.open_batch(queue, asyncio.get_running_loop().time(), reserved)
        sticky = self._sticky_partition.get(queue.tp.topic)
        if sticky == queue.tp.partition and self._keyless_is_sticky:
            self._accumulator.stick(batch)
        self._sender.batch_opened(batch)
        return batch

    def _add_to(
        self,
        batch: Batch,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> Delivery:
        stamp = self._now_ms() if timestamp_ms is None else timestamp_ms
        return self._accumulator.add(batch, value, key, headers, stamp)

    def _next_sticky(self, topic: str) -> int:
        """Another partition for records without keys: the less loaded of two picked by chance."""
        cluster = self._router.cluster
        choices = cluster.available(topic) or list(range(cluster.topics[topic].partition_count))
        first, second = self._entropy.choice(choices), self._entropy.choice(choices)
        queue = self._accumulator.queue
        if queue(TopicPartition(topic, second)).load < queue(TopicPartition(topic, first)).load:
            first = second
        self._sticky_partition[topic] = first
        return first

    # ------------------------------------------------------------------------------ checks

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._max_block_s

    def _check_usable(self) -> None:
        if self._closed:
            raise ClosedError("the producer is closed")
        if self._sender is None:
            raise ClosedError("the producer was not started: use async with, or start()")
        if self._sender.failure is not None:
            raise ClosedError("the producer failed") from self._sender.failure
        self._router.raise_if_failed()

    def _check_size(self, size: int) -> None:
        if size + BATCH_OVERHEAD_BYTES > self._options.max_request_size:
            raise MessageTooLargeError(
                f"a record of {size} bytes is larger than max_request_size="
                f"{self._options.max_request_size} allows"
            )

    async def _check_partition(self, topic: str, partition: int, deadline: float) -> None:
        view = await self._router.topic(topic, deadline)
        if type(partition) is int and partition >= view.partition_count:
            await self._router.refresh()  # partitions may have been added
            view = await self._router.topic(topic, deadline)
        if type(partition) is not int or not 0 <= partition < view.partition_count:
            raise UnknownTopicOrPartitionError(
                f"{topic!r} has {view.partition_count} partitions, there is no {partition!r}"
            )

    async def _drain(self) -> None:
        """Wait until everything that is in line now is done."""
        for batch in list(self._accumulator.incomplete):
            await batch.wait()

    def _raise_unobserved(self) -> None:
        failures = self._accumulator.take_unobserved()
        if failures:
            raise UndeliveredRecordsError(sum(count for count, _ in failures), failures[0][1])
