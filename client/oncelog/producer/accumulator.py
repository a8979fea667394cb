"""One producer's queues share the memory of their batches. No I/O; time is handed in.

Rules
-----
* Room in ``buffer_memory`` is reserved for a whole batch when it is opened and cut back to what it
  holds when it is closed, so that adding a record touches one number only. It is given back when
  the batch is done. Who must wait for room is served in order of arrival.
* What may go out of one partition, and in which order, is for its ``PartitionQueue`` to say.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from oncelog.core.backoff import Backoff
from oncelog.errors import BufferExhaustedError
from oncelog.producer.checks import Headers
from oncelog.producer.partition_queue import Batch, Delivery, PartitionQueue
from oncelog_protocol.types import TopicPartition


class Accumulator:
    """The accumulator has all queues of a producer, and the memory that they share."""

    def __init__(
        self,
        *,
        buffer_memory: int,
        linger_s: float,
        delivery_timeout_s: float,
        new_backoff: Callable[[str], Backoff],
    ) -> None:
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
        """Return how many calls wait for room."""
        return sum(not future.done() for _, future in self._waiting)

    @property
    def lingering_count(self) -> int:
        """Return how many batches were begun whose linger the loop has not ended."""
        return len(self._lingering)

    @property
    def record_count(self) -> int:
        """Return how many records were taken and are not done."""
        return sum(batch.count or len(batch.values) for batch in self.incomplete)

    def begun_at(self, batch: Batch) -> float:
        """Return when a batch was begun, in the loop's time."""
        return batch.deadline - self._delivery_timeout_s

    def queue(self, tp: TopicPartition) -> PartitionQueue:
        """Return the queue of a partition, which is made when first asked for."""
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
        """Fail the calls that wait for room, as the producer closes."""
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    # ------------------------------------------------------------------------------ batches

    def open_batch(self, queue: PartitionQueue, now: float, reserved: int) -> Batch:
        """Begin a batch with room that was reserved; ``queue`` must have none open."""
        batch = queue.begin(now + self._delivery_timeout_s, reserved, now + self._linger_s)
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
        """Add one record to an open batch."""
        if key is not None or headers:
            self._unstick(batch)
        return batch.add(value, key, headers, timestamp_ms)

    def stick(self, batch: Batch) -> None:
        """Let records of bare values of this topic go to ``batch`` from now on."""
        if batch.keys is None and batch.headers is None:
            self.sticky[batch.queue.tp.topic] = batch

    def _unstick(self, batch: Batch) -> None:
        topic = batch.queue.tp.topic
        if self.sticky.get(topic) is batch:
            del self.sticky[topic]

    def close_batch(self, batch: Batch) -> None:
        """Close a batch: it becomes ready, and holds only the room it needs."""
        assert batch.queue.open is batch
        surplus = batch.queue.close_open()
        self._unstick(batch)
        self.has_work(batch.queue)
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
        """Put an encoded batch, with room reserved, behind what is open."""
        if queue.open is not None:
            self.close_batch(queue.open)
        batch = Batch.of_columns(
            queue, now + self._delivery_timeout_s, reserved, count, encoded, timestamps, values
        )
        self.incomplete[batch] = None
        queue.add(batch)
        self.has_work(queue)
        return batch

    def has_work(self, queue: PartitionQueue) -> None:
        """Put the queue in line with the others, as it has batches that wait to go out."""
        self.sendable[queue] = None

    def end_lingers(self, now: float) -> float | None:
        """Release the batches whose linger is over; return when the next one's is, or None.

        They stay open until they are sent: while the connection is busy they fill up.
        """
        lingering = self._lingering
        while lingering:
            batch = lingering[0]
            if batch.queue.open is batch:
                if batch.linger_until > now:
                    return batch.linger_until
                batch.end_linger()
                self.has_work(batch.queue)
            lingering.popleft()
        return None

    def next_ready(self, queue: PartitionQueue) -> Batch | None:
        """Return the batch that goes out next, closed if it was still open."""
        if not queue.ready and queue.open is not None and queue.open.due:
            self.close_batch(queue.open)
        return queue.first_ready()

    def take(self, batch: Batch) -> None:
        """Take the first ready batch of its queue, which goes to the end of the line."""
        queue = batch.queue
        queue.take(batch)
        del self.sendable[queue]
        if queue.has_work:
            self.has_work(queue)

    # ------------------------------------------------------------------------------ ends

    def acknowledge(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        """Note that the batch is in the log."""
        del self.incomplete[batch]
        batch.acknowledge(base_offset, log_append_time_ms)
        self.release(batch.reserved)

    def fail(self, batch: Batch, error: BaseException) -> None:
        """Note that the batch will not be tried again."""
        if batch.queue.open is batch:
            self.close_batch(batch)
        del self.incomplete[batch]
        batch.settle(error)
        self.release(batch.reserved)
        if not batch.observed:
            self._failed.append(batch)

    def take_unobserved(self) -> list[tuple[int, BaseException]]:
        """Return (record count, error) of failures that nobody looked at, each reported once."""
        taken, self._failed = self._failed, []
        return [
            (batch.count, batch.error)
            for batch in taken
            if not batch.observed and batch.error is not None
        ]
