"""Lists become batches without passing record by record, in ``send_many`` and ``enqueue_many``.

Rules: a slice is encoded as soon as there is room for it, in the caller's task, so that a column of
the wrong type is the caller's error and the list is not kept; the loop runs between two slices,
so that sending begins with the first. What was put in line before an error or a cancellation is
sent all the same, and an error then waits for it: it must not look like "nothing was written".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from oncelog.config import ProducerOptions
from oncelog.core.router import Router
from oncelog.errors import (
    ClosedError,
    NoTransactionError,
    OncelogError,
    PartialSendError,
)
from oncelog.history import UNRECORDED
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.checks import Headers, check_columns, too_large
from oncelog.producer.partition_queue import Batch
from oncelog.producer.partitioner import STICKY, Partitioner, partition_rows
from oncelog.producer.record_metadata import BatchMetadata, WrittenRange
from oncelog.producer.sender import Sender
from oncelog.producer.slicing import ITEM_BYTES, cuts, pick, record_size, sizes_of
from oncelog.producer.transactions.session import TransactionSession
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.types import TopicPartition


class Columns(NamedTuple):
    """Records come by column here; ``timestamps`` may be one number for all."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Headers | None] | None
    timestamps: Sequence[int] | int

    def at(self, rows: Sequence[int]) -> Columns:
        """Return the records at ``rows``, in that order."""
        headers, timestamps = self.headers, self.timestamps
        return Columns(
            pick(self.values, rows),
            None if self.keys is None else pick(self.keys, rows),
            None if headers is None else [headers[row] for row in rows],
            timestamps if isinstance(timestamps, int) else [timestamps[row] for row in rows],
        )


class Destination(NamedTuple):
    """A list goes to this topic, and there to this partition if it is not None."""

    topic: str
    partition_count: int
    partition: int | None


class ColumnSender:
    """For one producer this cuts lists into slices, encodes them and waits for them."""

    def __init__(
        self,
        router: Router,
        accumulator: Accumulator,
        sender: Sender,
        *,
        options: ProducerOptions,
        batch_size: int,
        partitioner: Partitioner,
        choose_sticky: Callable[[str], int],
        session: TransactionSession | None = None,
    ) -> None:
        self._router = router
        self._accumulator = accumulator
        self._sender = sender
        self._options = options
        self._batch_size = batch_size
        self._codec = Codec[options.compression_type.upper()]
        self._partitioner = partitioner
        self._choose_sticky = choose_sticky
        self._keep_values = router.history is not UNRECORDED
        self._session = session
        self._turn = 0

    async def send(self, to: Destination, columns: Columns) -> BatchMetadata:
        """Put all records in line, then wait for all."""
        pending: list[tuple[Batch, Sequence[int]]] = []
        try:
            await self._enqueue(to, columns, pending)
        except OncelogError as error:
            if not pending:
                raise
            # Some are on their way: the error is about the rest, and the caller must hear of both.
            taken = {row for _, rows in pending for row in rows}
            left = [row for row in range(len(columns.values)) if row not in taken]
            return await self._outcome(to.topic, pending, (left, error))
        return await self._outcome(to.topic, pending)

    async def enqueue(self, to: Destination, columns: Columns) -> None:
        """Put all records in line; flush and close tell of their failures."""
        await self._enqueue(to, columns, None)

    async def _enqueue(
        self,
        to: Destination,
        columns: Columns,
        pending: list[tuple[Batch, Sequence[int]]] | None,
    ) -> None:
        """Put all records in line, and add batches and rows to ``pending``, if it is given."""
        check_columns(*columns)
        serial = self._serial
        for target, rows in self._targets(to, columns):
            part = columns if len(rows) == len(columns.values) else columns.at(rows)
            await self._send_rows(to.topic, target, part, rows, pending, serial)

    def _targets(self, to: Destination, columns: Columns) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield (partition or STICKY, rows) for the parts of the list."""
        topic, partition_count, partition = to
        everything = range(len(columns.values))
        if partition is not None:
            yield partition, everything
            return
        keys: Sequence[bytes | None] | None = columns.keys
        if keys is None:
            if self._partitioner.partition(topic, None, partition_count) == STICKY:
                yield STICKY, everything
                return
            keys = [None] * len(columns.values)
        by_partition = partition_rows(self._partitioner, topic, keys, partition_count)
        for number in sorted(by_partition):
            if number != STICKY and not 0 <= number < partition_count:
                raise ValueError(
                    f"the partitioner chose {number} for topic {topic!r},"
                    f" which has {partition_count} partitions"
                )
        for number in sorted(by_partition):
            yield number, by_partition[number]

    async def _send_rows(
        self,
        topic: str,
        target: int,
        columns: Columns,
        rows: Sequence[int],
        pending: list[tuple[Batch, Sequence[int]]] | None,
        serial: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        sizes, extra = _row_sizes(columns)
        for start, stop, size in cuts(sizes, extra, self._batch_size):
            piece = columns if stop - start == len(sizes) else columns.at(range(start, stop))
            encoded = self._encode(piece)
            if len(encoded) > self._options.max_request_size:
                raise too_large(size, self._options.max_request_size)
            room = max(size, len(encoded))
            await self._accumulator.reserve(room, self._router.deadline())
            try:
                self._check_usable(serial)
            except OncelogError:
                self._accumulator.release(room)
                raise
            number = target if target != STICKY else self._next_partition(topic)
            batch = self._accumulator.add_columns(
                self._accumulator.queue(TopicPartition(topic, number)),
                loop.time(),
                room,
                stop - start,
                encoded,
                piece.timestamps,
                piece.values if self._keep_values else (),
            )
            if pending is not None:
                batch.observe()
                pending.append((batch, rows[start:stop]))
            self._sender.watch()
            self._sender.wake()
            await asyncio.sleep(0)

    @property
    def _serial(self) -> int:
        return 0 if self._session is None else self._session.serial

    def _check_usable(self, serial: int) -> None:
        if self._sender.failure is not None or self._router.closed:
            raise ClosedError("the producer was closed or failed") from self._sender.failure
        if self._session is not None:
            self._session.check_open()
            if serial != self._session.serial:
                raise NoTransactionError("the transaction ended before all records were taken")

    def _next_partition(self, topic: str) -> int:
        """Choose a partition that has a leader; they take turns, so that leaders share the load."""
        choices = self._router.cluster.available(topic)
        if not choices:
            return self._choose_sticky(topic)
        self._turn += 1
        return choices[self._turn % len(choices)]

    def _encode(self, piece: Columns) -> bytearray:
        return encode_batch(
            piece.values,
            keys=piece.keys,
            timestamps=piece.timestamps,
            headers=piece.headers,
            codec=self._codec,
            level=self._options.compression_level,
            transactional=self._session is not None,
            sealed=not self._options.idempotent,
        )

    async def _outcome(
        self,
        topic: str,
        pending: list[tuple[Batch, Sequence[int]]],
        *refused: tuple[Sequence[int], BaseException],
    ) -> BatchMetadata:
        """Wait for all batches; ``refused`` are rows that were never put in line."""
        written: list[WrittenRange] = []
        failures: list[tuple[Sequence[int], BaseException]] = []
        for batch, rows in pending:
            await batch.wait()
            if batch.error is not None:
                failures.append((rows, batch.error))
            else:
                written.append(WrittenRange(batch.queue.tp.partition, batch.base_offset, rows))
        metadata = BatchMetadata(topic, tuple(written))
        failures.extend(refused)
        if failures:
            raise PartialSendError(failures, metadata) from failures[0][1]
        return metadata


def _row_sizes(columns: Columns) -> tuple[list[int], int]:
    """Return the size of each record, and what its encoding adds, in bytes."""
    if columns.headers is not None:
        keys = columns.keys or [None] * len(columns.values)
        rows = zip(columns.values, keys, columns.headers, strict=True)
        return [record_size(value, key, headers) for value, key, headers in rows], 0
    sizes = sizes_of(columns.values)
    extra = ITEM_BYTES + (0 if isinstance(columns.timestamps, int) else 9)
    if columns.keys is not None:
        sizes = list(map(int.__add__, sizes, sizes_of(columns.keys)))
        extra += ITEM_BYTES
    return sizes, extra
