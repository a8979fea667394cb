"""Producers and writers of shared transactions send records in the same way.

Rules
-----
* ``send`` returns when the record is acknowledged, ``enqueue`` when there is room for it,
  ``send_nowait`` at once or not at all, ``send_many`` when all of a list are acknowledged,
  ``enqueue_many`` when there was room for all.
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
from typing import Self, Unpack

from oncelog import defaults
from oncelog.config import (
    AcksOption,
    BootstrapServers,
    CompressionOption,
    ConnectionOptions,
    ProducerOptions,
    take,
)
from oncelog.core.client import ClusterClient
from oncelog.core.closing import Closing
from oncelog.core.home import thread_id
from oncelog.core.router import Router
from oncelog.errors import (
    BufferExhaustedError,
    ClosedError,
    DeadlineExceededError,
    UndeliveredRecordsError,
    UnknownTopicOrPartitionError,
)
from oncelog.history import History
from oncelog.observability.metrics import ProducerMetrics, producer_metrics
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.checks import Headers, check_record
from oncelog.producer.columns import Columns, ColumnSender, Destination
from oncelog.producer.partition_queue import Batch, Delivery
from oncelog.producer.partitioner import (
    DefaultPartitioner,
    PartitionerOption,
    key_hash,
    make_partitioner,
)
from oncelog.producer.placing import BATCH_OVERHEAD_BYTES, Placing
from oncelog.producer.record_metadata import BatchMetadata, RecordMetadata
from oncelog.producer.safeguards import SAFE, ProducerSafeguards
from oncelog.producer.send_options import ColumnOptions, RecordOptions
from oncelog.producer.sender import Sender
from oncelog.producer.slicing import KEYED_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, record_size
from oncelog.producer.transactions.session import TransactionSession
from oncelog.security import Security
from oncelog_protocol.records.compression import Codec
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy, SystemEntropy

logger = logging.getLogger(__name__)

BEGUN_MAX = 32
"""So many batches are begun before the loop sends one: records for several partitions that are
handed over one behind the other share the requests to their leaders."""


class RecordProducer(ClusterClient):
    """Records are sent in the session that a subclass has. ``Producer`` is the public one."""

    _sender: Sender | None = None
    _columns: ColumnSender | None = None
    _session: TransactionSession | None = None
    _safeguards: ProducerSafeguards = SAFE
    _close_by: float | None = None
    """The loop's time at which waiting for acknowledgements ends."""
    _patience: asyncio.Timeout | None = None

    def __init__(
        self,
        bootstrap_servers: BootstrapServers,
        *,
        client_id: str = defaults.PRODUCER_CLIENT_ID,
        acks: AcksOption = defaults.ACKS,
        enable_idempotence: bool | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = defaults.TRANSACTION_TIMEOUT_MS,
        compression_type: CompressionOption = defaults.COMPRESSION_TYPE,
        compression_level: int | None = None,
        linger_ms: float = defaults.LINGER_MS,
        batch_size: int = defaults.BATCH_SIZE,
        buffer_memory: int = defaults.BUFFER_MEMORY,
        max_in_flight_requests_per_connection: int = defaults.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
        max_request_size: int = defaults.MAX_REQUEST_SIZE,
        delivery_timeout_ms: int = defaults.DELIVERY_TIMEOUT_MS,
        request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS,
        max_block_ms: int = defaults.MAX_BLOCK_MS,
        metadata_max_age_ms: int = defaults.METADATA_MAX_AGE_MS,
        retry_backoff_ms: int = defaults.RETRY_BACKOFF_MS,
        retry_backoff_max_ms: int = defaults.RETRY_BACKOFF_MAX_MS,
        security: Security | None = None,
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
        self._entropy = (entropy or SystemEntropy()).fork("producer")
        router = Router(
            connection, entropy=self._entropy.fork("router"), auto_create=True, history=history
        )
        super().__init__(router, clock)
        self._now_ms = self._clock.now_ms
        self._partitioner = make_partitioner(partitioner)
        self._hashes_keys = type(self._partitioner) is DefaultPartitioner
        """Whether the fast path may leave the partitioner out: without a key, with one."""
        self._batch_size = min(batch_size, max_request_size - BATCH_OVERHEAD_BYTES)
        self._accumulator = self._new_accumulator()
        self._placing = Placing(
            self._router,
            self._accumulator,
            partitioner=self._partitioner,
            keyless_is_sticky=partitioner in ("default", "murmur2", "sticky"),
            batch_size=self._batch_size,
            max_request_size=max_request_size,
            entropy=self._entropy,
        )
        self._sticky, self._queues_of = self._accumulator.sticky, self._placing.queues_of
        self._closed, self._closing = False, Closing(client_id)

    def _new_accumulator(self) -> Accumulator:
        return Accumulator(
            buffer_memory=self._options.buffer_memory,
            linger_s=self._options.linger_ms / 1000,
            delivery_timeout_s=self._options.delivery_timeout_ms / 1000,
            new_backoff=self._router.new_backoff,
        )

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Connect, and take over the transactional id. ``async with`` does it.

        :raises NoBrokersAvailableError: at once, naming the addresses tried and why each failed.
        :raises ApiError, DeadlineExceededError: the transactional id could not be had.
        """
        if self._closed or self._sender is not None:
            raise ClosedError("a producer is started once")
        await self._router.start()
        if self._placing.closed:
            await self._router.close()
            raise ClosedError("the producer was closed while it started")
        self._router.on_metadata.append(self._queues_of.clear)
        self._session = self._new_session()
        self._sender = Sender(
            self._router,
            self._accumulator,
            idempotent=self._options.idempotent,
            acks=self._options.acks_code,
            codec=Codec[self._options.compression_type.upper()],
            codec_level=self._options.compression_level,
            in_flight_max=self._options.max_in_flight_requests_per_connection,
            max_request_size=self._options.max_request_size,
            session=self._session,
            safeguards=self._safeguards,
        )
        self._placing.start(self._sender, self._session)
        self._columns = ColumnSender(
            self._router,
            self._accumulator,
            self._sender,
            options=self._options,
            partitioner=self._partitioner,
            batch_size=self._batch_size,
            choose_sticky=self._placing.next_sticky,
            session=self._session,
        )
        try:
            await self._begin_session(self._sender)
        except BaseException:
            await self._stop("the producer could not be started")
            raise

    def _new_session(self) -> TransactionSession | None:
        """Return the transaction in which records are sent; here there is none."""
        return None

    async def _begin_session(self, sender: Sender) -> None:
        """Do what must be done before the first record."""

    async def _end_session(self, within_s: float) -> None:
        """Do what must be done before the last batches are sent."""

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what is left, wait for acknowledgements, then close.

        It waits at most ``timeout_ms`` (default: the delivery time-out). A call while another
        ``close`` is under way waits for that one, by the earlier of their deadlines. A closed
        producer stays closed.

        :raises UndeliveredRecordsError: records failed, or were not acknowledged in time, and
            nobody had looked at their deliveries.
        """
        self._router.home.check()
        limit_ms = self._options.delivery_timeout_ms if timeout_ms is None else timeout_ms
        self._closed = True
        self._placing.close()
        self._sticky.clear()
        if self._sender is None:
            return
        by = asyncio.get_running_loop().time() + limit_ms / 1000
        self._close_by = by if self._close_by is None else min(by, self._close_by)
        if self._patience is not None:
            self._patience.reschedule(self._close_by)
        await self._closing.once(self._close)

    async def _close(self) -> None:
        assert self._sender is not None
        try:
            async with asyncio.timeout_at(self._close_by) as self._patience:
                await self._end_session(self._seconds_left())
                self._accumulator.close_all()
                self._accumulator.refuse_waiting(ClosedError("the producer was closed"))
                self._sender.wake()
                await self._drain()
        except TimeoutError:
            pass
        finally:
            self._patience = None
            await self._stop("the producer was closed")
        self._raise_unobserved()

    def _seconds_left(self) -> float:
        assert self._close_by is not None
        return max(self._close_by - asyncio.get_running_loop().time(), 0.0)

    async def _stop(self, reason: str) -> None:
        self._closed = True
        self._placing.close()
        assert self._sender is not None
        await self._sender.close(reason)
        await self._router.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
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
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send one record and wait for its acknowledgement.

        Cancelling the call does not take the record back: it may be written.

        :raises ApiError, DeliveryTimeoutError, ReorderError: not acknowledged; ``definite`` tells
            whether it is certainly not in the log.
        :raises BufferExhaustedError: no room within ``max_block_ms``; nothing was sent.
        """
        return await (await self.enqueue(topic, value, **options))

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
        batch: Batch | None = None
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
        if (
            batch is not None
            and batch.size + size <= self._batch_size
            and thread_id() == batch.thread  # at home; see home.py
        ):
            return batch.append(value, key, self._now_ms(), size)
        serial = self._placing.serial
        self._placing.check_usable(serial)
        check_record(value, key, headers, timestamp_ms)
        size = record_size(value, key, headers)
        place = self._placing.place(topic, key, partition)
        if place is not None:
            batch = place.queue.open
            if batch is not None and batch.size + size <= self._batch_size:
                return self._add_to(batch, value, key, headers, timestamp_ms)
        if batch is not None or self._accumulator.lingering_count >= BEGUN_MAX:
            # Let the loop send before more is taken.
            await asyncio.sleep(0)
        batch = await self._placing.batch_for(place, topic, key, partition, size, serial)
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
        """Put one record in line without waiting; call it in the loop's thread only.

        :raises BufferExhaustedError: there is no room now.
        :raises UnknownTopicOrPartitionError: the topic is not known yet: await ``partitions_for``.
        """
        self._placing.check_usable(self._placing.serial)
        check_record(value, key, headers, timestamp_ms)
        size = record_size(value, key, headers)
        place = self._placing.place(topic, key, partition)
        if place is None:
            self._router.want(topic)
            raise UnknownTopicOrPartitionError(
                f"topic {topic!r} is not known yet, or not this partition of it;"
                f" await partitions_for({topic!r}) first"
            )
        place, batch = self._placing.open_at(place, size)
        if batch is None:
            raise BufferExhaustedError(
                f"{place.queue.tp}: no room in buffer_memory={self._accumulator.buffer_memory}"
            )
        return self._add_to(batch, value, key, headers, timestamp_ms)

    async def send_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> BatchMetadata:
        """Send a list of records by columns, the fast path, and wait until all are acknowledged.

        Records without keys are spread over the partitions batch by batch; with ``keys`` each goes
        where its key belongs. Within a partition the order of the list holds.

        :param options: ``keys``, ``headers`` and ``timestamps_ms``, each with an item for every
            value (``timestamps_ms`` may be one number for all); ``partition``, one for all.

        :raises PartialSendError: some were not acknowledged; it knows which, and what was written.
        :raises TypeError, ValueError: columns of wrong types or lengths; nothing was sent.
        """
        sender, to, columns = await self._list(topic, values, **options)
        return await sender.send(to, columns)

    async def enqueue_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> None:
        """Put a list of records in line as ``send_many`` does, waiting only for room.

        ``flush`` and ``close`` tell of what failed. Lists that are handed over one after the other
        keep their order within a partition.

        :param options: ``keys``, ``headers``, ``timestamps_ms`` and ``partition``, as ``send_many``
            takes them.

        :raises TypeError, ValueError: columns of wrong types or lengths; nothing was sent.
        :raises OncelogError: the rest of the list was not taken; what was before is sent.
        """
        sender, to, columns = await self._list(topic, values, **options)
        await sender.enqueue(to, columns)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything that was put in line before this call, and wait for the outcome.

        :raises UndeliveredRecordsError: some failed, and nobody had looked at their deliveries.
        :raises DeadlineExceededError: not done within ``timeout_ms``.
        """
        self._placing.check_running()
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
        """Return how many records were taken and are neither acknowledged nor failed."""
        return self._accumulator.record_count

    def metrics(self) -> ProducerMetrics:
        """Return a snapshot of the producer's counters. It costs microseconds and asks nobody."""
        return producer_metrics(self._router, self._accumulator, self._sender)

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of ``topic``, asking the cluster if need be.

        :raises UnknownTopicOrPartitionError: it does not exist.
        """
        self._placing.check_running()
        return (await self._router.topic(topic, self._router.deadline())).partition_count

    # ------------------------------------------------------------------------------ the slow path

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

    async def _list(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        timestamps_ms: Sequence[int] | int | None = None,
        partition: int | None = None,
    ) -> tuple[ColumnSender, Destination, Columns]:
        """Return by whom a list is sent, where to, and its columns, once the topic is known."""
        self._placing.check_usable(self._placing.serial)
        view = await self._router.topic_with(topic, partition, self._router.deadline())
        stamps = self._now_ms() if timestamps_ms is None else timestamps_ms
        assert self._columns is not None
        to = Destination(topic, view.partition_count, partition)
        return self._columns, to, Columns(values, keys, headers, stamps)

    async def _drain(self) -> None:
        """Wait until everything that is in line now is done."""
        for batch in list(self._accumulator.incomplete):
            await batch.wait()

    def _raise_unobserved(self) -> None:
        failures = self._accumulator.take_unobserved()
        if failures:
            raise UndeliveredRecordsError(sum(count for count, _ in failures), failures[0][1])
