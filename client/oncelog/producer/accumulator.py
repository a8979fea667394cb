"""Records become batches here: one queue a partition, bounded by bytes. No I/O; time is handed in.

Rules
-----
* A batch is open (records are added), ready (closed, waits for its leader), in flight, and done;
  it is done once, with an offset or with an error.
* Room in ``buffer_memory`` is reserved for a whole batch when it is opened and cut back to what it
  holds when it is closed, so that adding a record touches one number only. It is given back when
  the batch is done. Who must wait for room is served in order of arrival.
* The batches of one partition go out, and are tried again, in the order in which they were made.
  ``PartitionQueue`` holds what that takes: what is in flight, what failed and waits for those
  behind it to be answered, and how many may be in flight at once (one, until the leader has
  acknowledged something: a leader that is not ready yet refuses the first of five and takes the
  rest).
* The place of sequence numbers is ``Batch.identity``: producer id, epoch and sequence, given when
  a batch goes out for the first time and kept over retries (``sequence``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from oncelog.errors import BufferExhaustedError
from oncelog.producer.checks import Headers
from oncelog.producer.delivery import Delivery
from oncelog_protocol.types import (
    NO_BROKER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TopicPartition,
)

if TYPE_CHECKING:
    from oncelog.backoff import Backoff

RECORD_OVERHEAD_BYTES = 12
"""What one record costs in a batch beside its key and value: msgpack's headers and a timestamp."""

KEYED_OVERHEAD_BYTES = RECORD_OVERHEAD_BYTES + 5
"""The same with a key."""


class Identity(NamedTuple):
    """Producer id, epoch and first sequence number of a batch."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_IDENTITY = Identity()
NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Batch:
    """Records of one partition that travel and are acknowledged together."""

    __slots__ = (
        "_callbacks",
        "_waiters",
        "attempts",
        "base_offset",
        "count",
        "deadline",
        "done",
        "due",
        "encoded",
        "error",
        "headers",
        "identity",
        "keys",
        "last_error",
        "linger_until",
        "log_append_time_ms",
        "maybe_written",
        "observed",
        "operation",
        "queue",
        "renumbered",
        "reserved",
        "size",
        "timestamps",
        "values",
    )

    def __init__(self, queue: PartitionQueue, deadline: float, reserved: int) -> None:
        self.queue = queue
        self.deadline = deadline
        self.reserved = reserved
        self.linger_until = 0.0
        self.due = False
        """Its linger is over: it goes out when it can, and grows until then."""
        self.values: Sequence[bytes | None] = []
        self.keys: Sequence[bytes | None] | None = None
        self.timestamps: Sequence[int] | int = []
        self.headers: Sequence[Headers | None] | None = None
        self.size = 0
        self.count = 0
        """Set when the batch is closed."""
        self.identity = NO_IDENTITY
        self.encoded: bytearray | None = None
        self.attempts = 0
        self.maybe_written = False
        self.renumbered = 0
        """How often its sequence numbers were given anew."""
        self.last_error: BaseException | None = None
        self.done = False
        self.error: BaseException | None = None
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.observed = False
        """Whether somebody looks at the outcome; if not, flush and close must speak."""
        self.operation: int | None = None
        self._waiters: list[asyncio.Future[None]] | None = None
        self._callbacks: list[tuple[Callable[[Delivery], object], Delivery]] | None = None

    def timestamp_of(self, index: int) -> int:
        """The timestamp of one record, in ms; the broker's when the topic stamps records itself."""
        if self.log_append_time_ms >= 0:
            return self.log_append_time_ms
        return self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index]

    async def wait(self) -> None:
        """Wait until the batch is done; its error is not raised here."""
        if self.done:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(future)
        await future

    def add_callback(
        self, callback: Callable[[Delivery], object], delivery: Delivery, *, observes: bool = True
    ) -> None:
        """Call back when done, or in the loop's next round when it is already. Who only looks on
        does not say ``observes``: flush and close go on to speak of a failure."""
        self.observed = self.observed or observes
        if self.done:
            asyncio.get_running_loop().call_soon(callback, delivery)
            return
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((callback, delivery))

    def settle(self, error: BaseException | None) -> None:
        """The one end of a batch: drop its records, wake who waits."""
        assert not self.done
        self.done = True
        self.error = error
        self.values, self.keys, self.headers, self.encoded = (), None, None, None
        waiters, self._waiters = self._waiters, None
        for future in waiters or ():
            if not future.done():
                future.set_result(None)
        callbacks, self._callbacks = self._callbacks, None
        loop = asyncio.get_running_loop() if callbacks else None
        for callback, delivery in callbacks or ():
            assert loop is not None
            loop.call_soon(callback, delivery)


class PartitionQueue:
    """The batches of one partition, in order."""

    __slots__ = (
        "backoff",
        "failed",
        "failed_view",
        "in_flight",
        "next_sequence",
        "open",
        "producer",
        "ready",
        "retry_at",
        "sent_to",
        "sent_view",
        "tp",
        "window",
    )

    def __init__(self, tp: TopicPartition, backoff: Backoff) -> None:
        self.tp = tp
        self.backoff = backoff
        self.open: Batch | None = None
        self.ready: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.failed: list[Batch] = []
        """Failed, to be tried again once everything behind them was answered: mutes the queue."""
        self.producer = NO_PRODUCER
        """Producer id and epoch under which this partition is written; see ``sequence``."""
        self.next_sequence = 0
        self.window = 1
        """How many batches may be in flight now."""
        self.retry_at = 0.0
        self.sent_to = NO_BROKER
        """The leader that has what is in flight."""
        self.sent_view: tuple[int, int] | None = None
        """The (leader, leader epoch) that was sent to last."""
        self.failed_view: tuple[int, int] | None = None
        """The (leader, leader epoch) that failed: another one is tried without waiting."""

    @property
    def may_send(self) -> bool:
        """Whether the next ready batch could go out, as far as order is concerned."""
        return not self.failed and len(self.in_flight) < self.window and self.has_work

    @property
    def has_work(self) -> bool:
        """Whether a batch waits to go out, closed or with its linger over."""
        return bool(self.ready) or (self.open is not None and self.open.due)

    @property
    def load(self) -> int:
        """How many batches wait or travel."""
        return len(self.ready) + len(self.in_flight)

    def put_back(self) -> None:
        """Everything in flight was answered: what failed goes first again."""
        assert not self.in_flight
        self.ready.extendleft(reversed(self.failed))
        self.failed.clear()


class Accumulator:
    """All queues of a producer and the memory they share."""

    def __init__(
        self,
        *,
        batch_size: int,
        buffer_memory: int,
        linger_s: float,
        delivery_timeout_s: float,
        new_backoff: Callable[[str], Backoff],
    ) -> None:
        self.batch_size = batch_size
        self.buffer_memory = buffer_memory
        self.used = 0
        self.sticky: dict[str, Batch] = {}
        """Topic to the open batch that takes bare values: the fast path's one look-up."""
        self.incomplete: dict[Batch, None] = {}
        """Every batch that is not done, oldest first."""
        self.sendable: dict[PartitionQueue, None] = {}
        """The queues that hold ready batches, in turn."""
        self._linger_s = linger_s
        self._delivery_timeout_s = delivery_timeout_s
        self._new_backoff = new_backoff
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._lingering: deque[Batch] = deque()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._failed: list[Batch] = []

    @property
    def waiting_count(self) -> int:
        """Calls that wait for room."""
        return sum(not future.done() for _, future in self._waiting)

    def begun_at(self, batch: Batch) -> float:
        """When a batch was begun, in the loop's time."""
        return batch.deadline - self._delivery_timeout_s

    def queue(self, tp: TopicPartition) -> PartitionQueue:
        """The queue of a partition, made when first asked for."""
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = PartitionQueue(tp, self._new_backoff(str(tp)))
        return queue

    # ------------------------------------------------------------------------------ memory

    def try_reserve(self, size: int) -> bool:
        """Take room for ``size`` bytes now, unless others wait or there is none."""
        if self._waiting or self.used + size > self.buffer_memory:
            return False
        self.used += size
        return True

    async def reserve(self, size: int, deadline: float) -> None:
        """Take room for ``size`` bytes, waiting in line until ``deadline`` (the loop's time).

        :raises BufferExhaustedError: no room in time, or more asked for than there is at all.
        """
        if self.try_reserve(size):
            return
        if size > self.buffer_memory:
            raise BufferExhaustedError(
                f"{size} bytes do not fit in buffer_memory={self.buffer_memory}"
            )
        self.close_all()  # open batches hold room that they may not need
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        self._admit()
        try:
            async with asyncio.timeout_at(deadline):
                await future
        except BaseException as error:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release(size)  # the room came, and its owner is gone
            else:
                self._waiting = deque(item for item in self._waiting if item[1] is not future)
                self._admit()
            if isinstance(error, TimeoutError):
                raise BufferExhaustedError(
                    f"no room for {size} bytes in buffer_memory={self.buffer_memory} within"
                    " max_block_ms: records come faster than the cluster takes them"
                ) from None
            raise

    def release(self, size: int) -> None:
        """Give room back and hand it to who waits."""
        self.used -= size
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, future = self._waiting[0]
            if future.done():
                self._waiting.popleft()
                continue
            if self.used + size > self.buffer_memory:
                return
            self._waiting.popleft()
            self.used += size
            future.set_result(None)

    def refuse_waiting(self, error: BaseException) -> None:
        """The producer closes: nobody waits any longer."""
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    # ------------------------------------------------------------------------------ batches

    def open_batch(self, queue: PartitionQueue, now: float, reserved: int) -> Batch:
        """Begin a batch with room that was reserved; ``queue`` must have none open."""
        assert queue.open is None
        batch = Batch(queue, now + self._delivery_timeout_s, reserved)
        batch.linger_until = now + self._linger_s
        queue.open = batch
        self.incomplete[batch] = None
        self._lingering.append(batch)
        return batch

    def add(
        self,
        batch: Batch,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
    ) -> Delivery:
        """Add one record to an open batch; columns that nobody used so far are filled in."""
        values = batch.values
        assert isinstance(values, list)
        assert isinstance(batch.timestamps, list)
        index = len(values)
        if key is not None and batch.keys is None:
            batch.keys = [None] * index
            self._unstick(batch)
        if headers and batch.headers is None:
            batch.headers = [None] * index
            self._unstick(batch)
        values.append(value)
        batch.timestamps.append(timestamp_ms)
        if batch.keys is not None:
            batch.keys.append(key)  # type: ignore[attr-defined]
        if batch.headers is not None:
            batch.headers.append(headers)  # type: ignore[attr-defined]
        batch.size += record_size(value, key, headers)
        return Delivery(batch, index)

    def stick(self, batch: Batch) -> None:
        """Let records of bare values of this topic go to ``batch`` from now on."""
        if batch.keys is None and batch.headers is None:
            self.sticky[batch.queue.tp.topic] = batch

    def _unstick(self, batch: Batch) -> None:
        topic = batch.queue.tp.topic
        if self.sticky.get(topic) is batch:
            del self.sticky[topic]

    def close_batch(self, batch: Batch) -> None:
        """No more records: the batch becomes ready, and holds only the room it needs."""
        queue = batch.queue
        assert queue.open is batch
        queue.open = None
        self._unstick(batch)
        batch.count = len(batch.values)
        surplus = batch.reserved - batch.size
        batch.reserved = batch.size
        self._make_ready(batch)
        if surplus > 0:
            self.release(surplus)

    def close_all(self) -> None:
        """Close every open batch, the oldest first."""
        self._lingering.clear()
        for batch in list(self.incomplete):
            if batch.queue.open is batch:
                self.close_batch(batch)

    def add_columns(
        self,
        queue: PartitionQueue,
        now: float,
        reserved: int,
        count: int,
        encoded: bytearray,
        timestamps: Sequence[int] | int,
        values: Sequence[bytes | None],
    ) -> Batch:
        """A whole batch that is encoded already, behind what is open; its room has been reserved.

        ``values`` may be left empty: only a history wants them.
        """
        if queue.open is not None:
            self.close_batch(queue.open)
        batch = Batch(queue, now + self._delivery_timeout_s, reserved)
        batch.values, batch.timestamps, batch.encoded = values, timestamps, encoded
        batch.size, batch.count = reserved, count
        self.incomplete[batch] = None
        self._make_ready(batch)
        return batch

    def _make_ready(self, batch: Batch) -> None:
        batch.queue.ready.append(batch)
        self.sendable[batch.queue] = None

    def end_lingers(self, now: float) -> float | None:
        """Let the batches go whose linger is over; when the next one's is, None if there is none.

        They stay open until they are sent: while the connection is busy they fill up.
        """
        lingering = self._lingering
        while lingering:
            batch = lingering[0]
            if batch.queue.open is batch:
                if batch.linger_until > now:
                    return batch.linger_until
                batch.due = True
                self.sendable[batch.queue] = None
            lingering.popleft()
        return None

    def next_ready(self, queue: PartitionQueue) -> Batch | None:
        """The batch that goes out next, closed if it was still open."""
        if not queue.ready and queue.open is not None and queue.open.due:
            self.close_batch(queue.open)
        while queue.ready and queue.ready[0].done:
            queue.ready.popleft()  # timed out while it waited
        return queue.ready[0] if queue.ready else None

    # ------------------------------------------------------------------------------ ends

    def acknowledge(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        """The batch is in the log."""
        batch.base_offset = base_offset
        batch.log_append_time_ms = log_append_time_ms
        self._finish(batch, None)

    def fail(self, batch: Batch, error: BaseException) -> None:
        """The batch will not be tried again."""
        if batch.queue.open is batch:
            self.close_batch(batch)
        self._finish(batch, error)
        if not batch.observed:
            self._failed.append(batch)

    def _finish(self, batch: Batch, error: BaseException | None) -> None:
        del self.incomplete[batch]
        batch.settle(error)
        self.release(batch.reserved)

    def take_unobserved(self) -> list[tuple[int, BaseException]]:
        """(record count, error) of failures that nobody looked at, each reported once."""
        taken, self._failed = self._failed, []
        return [
            (batch.count, batch.error)
            for batch in taken
            if not batch.observed and batch.error is not None
        ]


def record_size(value: bytes | None, key: bytes | None, headers: Headers | None) -> int:
    """An upper bound of what one record takes in a batch, in bytes."""
    size = RECORD_OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key) + KEYED_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES
    if headers:
        for name, data in headers:
            size += 4 * len(name) + 10 + (len(data) if data is not None else 0)
    return size
