"""A partition's queue has its batches, their order and their sequence numbers. No I/O.

Rules
-----
* A batch is open (records are added), ready (closed, waits for its leader), in flight, and done;
  it is done once, with an offset or with an error.
* The batches of one partition go out, and are tried again, in the order in which they were made. A
  batch that failed and may be tried again is set aside, which mutes the queue until everything in
  flight is answered.
* One batch may be in flight until the leader has acknowledged something: a leader that is not ready
  yet refuses the first of five and takes the rest.
* A batch gets its identity (producer id, epoch and sequence number) when it goes out for the first
  time, and keeps it over retries; see ``sequence``.
* A Delivery is cheap, two slots and no future, because there is one a record; what waits is
  attached to the batch. It may be awaited any number of times, by any number of tasks; cancelling
  an await cancels nothing but the await.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from oncelog.core.backoff import Backoff
from oncelog.core.home import running_loop, thread_id
from oncelog.errors import WrongLoopError, is_definite
from oncelog.history import History
from oncelog.producer.checks import Headers
from oncelog.producer.record_metadata import RecordMetadata
from oncelog.producer.slicing import record_size
from oncelog_protocol.records.batch import identify
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.types import (
    NO_BROKER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TopicPartition,
)

SEQUENCE_MAX = 2**31 - 1


class BatchIdentity(NamedTuple):
    """A batch has this producer id, epoch and first sequence number."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


NO_IDENTITY = BatchIdentity()
NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Delivery:
    """A delivery is one record on its way. Await it for its RecordMetadata, or the error of it."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Return whether the record was acknowledged or has failed."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """Return the metadata of a delivery that is done, or raise its error."""
        error = self.exception()
        if error is not None:
            raise error
        return self._metadata()

    def exception(self) -> BaseException | None:
        """Return the error of a delivery that is done; None when it was acknowledged."""
        batch = self._batch
        if not batch.done:
            raise RuntimeError("the delivery is not done: await it")
        batch.observed = True
        return batch.error

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call ``callback(delivery)`` on the loop when it is done; at once when it is already."""
        self._batch.add_callback(callback, self)

    def _metadata(self) -> RecordMetadata:
        batch, index = self._batch, self._index
        tp = batch.queue.tp
        offset = batch.base_offset + index if batch.base_offset >= 0 else -1
        return RecordMetadata(tp.topic, tp.partition, offset, batch.timestamp_of(index))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch = self._batch
        batch.observed = True
        if not batch.done:
            yield from batch.wait().__await__()
        if batch.error is not None:
            raise batch.error
        return self._metadata()

    def __repr__(self) -> str:
        return f"<Delivery {self._batch.queue.tp} {'done' if self._batch.done else 'pending'}>"


def watch(delivery: Delivery, callback: Callable[[RecordMetadata | BaseException], object]) -> None:
    """Call back with the metadata or the error. This is not looking at the outcome: flush and close
    still report a failure."""

    def done(_: Delivery) -> None:
        error = delivery._batch.error
        callback(delivery._metadata() if error is None else error)

    delivery._batch.add_callback(done, delivery, observes=False)


_new_delivery = Delivery.__new__


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Records of one partition travel in a batch, and are acknowledged together."""

    queue: PartitionQueue
    deadline: float
    reserved: int
    linger_until: float = 0.0
    loop: asyncio.AbstractEventLoop | None = field(default_factory=running_loop)
    """It is sent on this loop, and may be waited for here."""
    thread: int = field(default_factory=thread_id)
    due: bool = False
    """Its linger is over: it goes out when it can, and grows until then."""
    values: Sequence[bytes | None] = field(default_factory=list)
    keys: Sequence[bytes | None] | None = None
    timestamps: Sequence[int] | int = field(default_factory=list)
    headers: Sequence[Headers | None] | None = None
    size: int = 0
    count: int = 0
    """Set when the batch is closed."""
    identity: BatchIdentity = NO_IDENTITY
    encoded: bytearray | None = None
    attempts: int = 0
    maybe_written: bool = False
    renumbered: int = 0
    """How often its sequence numbers were given anew."""
    last_error: BaseException | None = None
    done: bool = False
    error: BaseException | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    observed: bool = False
    """Whether somebody looks at the outcome; if not, flush and close must speak."""
    operation: int | None = None
    _waiters: list[asyncio.Future[None]] | None = None
    _callbacks: list[tuple[Callable[[Delivery], object], Delivery]] | None = None

    @property
    def in_flight(self) -> bool:
        """Return whether an answer to it is owed."""
        return self in self.queue.in_flight

    # ------------------------------------------------------------------------------ records

    def append(
        self, value: bytes | None, key: bytes | None, timestamp_ms: int, size: int
    ) -> Delivery:
        """Add a record of ``size`` bytes that needs no column which the batch does not have. All
        records without headers pass here: it is kept to the fewest steps."""
        self.size += size
        self.timestamps.append(timestamp_ms)  # type: ignore[union-attr]
        if key is not None:
            self.keys.append(key)  # type: ignore[union-attr]
        values = self.values
        delivery = _new_delivery(Delivery)  # without a call of __init__, which costs as much as all
        delivery._batch = self
        delivery._index = len(values)
        values.append(value)  # type: ignore[attr-defined]
        return delivery

    def add(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
    ) -> Delivery:
        """Add any record. Columns that nobody used so far are filled in."""
        values = self.values
        assert isinstance(values, list)
        assert isinstance(self.timestamps, list)
        index = len(values)
        if key is not None and self.keys is None:
            self.keys = [None] * index
        if headers and self.headers is None:
            self.headers = [None] * index
        values.append(value)
        self.timestamps.append(timestamp_ms)
        if self.keys is not None:
            self.keys.append(key)  # type: ignore[attr-defined]
        if self.headers is not None:
            self.headers.append(headers)  # type: ignore[attr-defined]
        self.size += record_size(value, key, headers)
        return Delivery(self, index)

    @classmethod
    def of_columns(
        cls,
        queue: PartitionQueue,
        deadline: float,
        size: int,
        count: int,
        encoded: bytearray,
        timestamps: Sequence[int] | int,
        values: Sequence[bytes | None],
    ) -> Batch:
        """Make a batch that is closed and encoded already."""
        batch = cls(queue, deadline, size)
        batch.values, batch.timestamps, batch.encoded = values, timestamps, encoded
        batch.size, batch.count = size, count
        return batch

    def end_linger(self) -> None:
        """Let the open batch go out as soon as it can."""
        self.due = True

    def close(self) -> int:
        """Take no more records. Returns how many reserved bytes they left unused."""
        self.count = len(self.values)
        surplus = self.reserved - self.size
        self.reserved = self.size
        return surplus

    def encode(self, codec: Codec, level: int | None, *, transactional: bool, sealed: bool) -> None:
        """Turn the records into bytes, once; raise OncelogError when that fails."""
        if self.encoded is None:
            self.encoded = encode_batch(
                self.values,
                keys=self.keys,
                timestamps=self.timestamps,
                headers=self.headers,
                codec=codec,
                level=level,
                transactional=transactional,
                sealed=sealed,
            )

    def number(self, identity: BatchIdentity) -> None:
        """Take this identity; the encoded bytes carry it from now on."""
        assert self.encoded is not None
        self.identity = identity
        identify(self.encoded, *identity)

    def unnumber(self) -> None:
        """Drop the identity, for another one. No attempt may have been written."""
        assert self.encoded is not None
        self.identity = NO_IDENTITY
        self.encoded = bytearray(self.encoded)  # the old bytes may still wait to be sent
        self.renumbered += 1

    # ------------------------------------------------------------------------------ attempts

    def invoke(self, history: History, txn: int) -> None:
        """Note the send in the history, once whatever the number of attempts."""
        if self.operation is None:
            self.operation = history.invoke("send", *self.queue.tp, self.values, txn)

    def attempt_failed(self, error: BaseException) -> None:
        """Keep what an attempt's end says of the batch."""
        self.last_error = error
        if not is_definite(error):
            self.maybe_written = True

    def leave_in_flight(self) -> None:
        """Its answer does not matter any more: it may be written, and nobody need look."""
        self.observed = self.maybe_written = True

    # ------------------------------------------------------------------------------ the outcome

    def timestamp_of(self, index: int) -> int:
        """Return the timestamp of one record in ms; the broker's when the topic stamps records."""
        if self.log_append_time_ms >= 0:
            return self.log_append_time_ms
        return self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index]

    async def wait(self) -> None:
        """Wait until the batch is done; its error is not raised here.

        :raises WrongLoopError: on another loop than the producer's, where nobody would be woken.
        """
        if self.done:
            return
        loop = asyncio.get_running_loop()
        if loop is not self.loop and self.loop is not None:
            error = WrongLoopError("a delivery is awaited on the event loop of its producer only")
            error.definite = False  # the record was taken
            raise error
        future: asyncio.Future[None] = loop.create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(future)
        await future

    def observe(self) -> None:
        """Note that somebody looks at the outcome."""
        self.observed = True

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

    def acknowledge(self, base_offset: int, log_append_time_ms: int) -> None:
        """Note that the batch is in the log; -1 stands for an unknown offset or time."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.settle(None)

    def settle(self, error: BaseException | None) -> None:
        """End the batch: drop its records, wake who waits."""
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


@dataclass(slots=True, eq=False, repr=False)
class PartitionQueue:
    """The queue has the batches of one partition, in order."""

    tp: TopicPartition
    backoff: Backoff
    open: Batch | None = None
    ready: deque[Batch] = field(default_factory=deque)
    in_flight: deque[Batch] = field(default_factory=deque)
    failed: list[Batch] = field(default_factory=list)
    """Failed, to be tried again once everything behind them was answered: mutes the queue."""
    producer: tuple[int, int] = NO_PRODUCER
    """Producer id and epoch under which this partition is written; see ``sequence``."""
    next_sequence: int = 0
    window: int = 1
    """How many batches may be in flight now."""
    retry_at: float = 0.0
    sent_to: int = NO_BROKER
    """The leader that has what is in flight."""
    sent_view: tuple[int, int] | None = None
    """The (leader, leader epoch) that was sent to last."""
    failed_view: tuple[int, int] | None = None
    """The (leader, leader epoch) that failed: another one is tried without waiting."""

    @property
    def may_send(self) -> bool:
        """Return whether the next ready batch could go out, as far as order is concerned."""
        return not self.failed and len(self.in_flight) < self.window and self.has_work

    @property
    def has_work(self) -> bool:
        """Return whether a batch waits to go out, closed or with its linger over."""
        return bool(self.ready) or (self.open is not None and self.open.due)

    @property
    def load(self) -> int:
        """Return how many batches wait or travel."""
        return len(self.ready) + len(self.in_flight)

    # ------------------------------------------------------------------------------ batches

    def begin(self, deadline: float, reserved: int, linger_until: float) -> Batch:
        """Open a batch; none may be open."""
        assert self.open is None
        self.open = Batch(self, deadline, reserved, linger_until)
        return self.open

    def close_open(self) -> int:
        """Make the open batch ready. Returns the surplus of its reserved room."""
        assert self.open is not None
        batch, self.open = self.open, None
        self.ready.append(batch)
        return batch.close()

    def add(self, batch: Batch) -> None:
        """Put a closed batch in line; none may be open."""
        assert self.open is None
        self.ready.append(batch)

    def first_ready(self) -> Batch | None:
        """Return the batch that goes out next, or None. Those whose time was over are dropped."""
        while self.ready and self.ready[0].done:
            self.ready.popleft()
        return self.ready[0] if self.ready else None

    def drop_first(self) -> None:
        """Take out the first ready batch, which failed before it went out."""
        self.ready.popleft()

    def unreachable(self, error: BaseException) -> None:
        """Keep the reason why the leader cannot be reached with what waits for it."""
        waiting = self.ready[0] if self.ready else self.open
        if waiting is not None:
            waiting.last_error = error

    # ------------------------------------------------------------------------------ sending

    def may_go_at(self, leader: int, leader_epoch: int, now: float) -> float:
        """Return when a batch may go to this leader: now, or after the pause behind a failure. It
        is never (infinity) before the former leader has answered."""
        if self.in_flight and self.sent_to != leader:
            return inf
        if self.retry_at > now and self.failed_view == (leader, leader_epoch):
            return self.retry_at
        return now

    def led_by(self, leader: int, leader_epoch: int) -> None:
        """Send to this leader from now on; a new one gets one batch at first."""
        if self.sent_view != (leader, leader_epoch):
            self.window, self.sent_view = 1, (leader, leader_epoch)

    def number(self, batch: Batch, producer: tuple[int, int], *, follow: bool) -> None:
        """Give a batch the next number; with ``follow`` a new epoch begins at 0 at once."""
        if self.producer == NO_PRODUCER or (follow and self.producer != producer):
            self.producer, self.next_sequence = producer, 0
        batch.number(BatchIdentity(*self.producer, self.next_sequence))
        self.next_sequence = (self.next_sequence + batch.count) & SEQUENCE_MAX

    def take(self, batch: Batch) -> None:
        """Take the first ready batch, which goes out."""
        taken = self.ready.popleft()
        assert taken is batch
        self.in_flight.append(batch)

    def sent(self, batch: Batch, leader: int) -> None:
        """Note that a batch in flight is written to the connection to ``leader``."""
        self.sent_to = leader
        batch.attempts += 1

    def answered(self, batch: Batch) -> None:
        """Note that no answer to this batch is owed any more."""
        self.in_flight.remove(batch)

    # ------------------------------------------------------------------------------ outcomes

    def acknowledged(self, batch: Batch, in_flight_max: int) -> list[Batch]:
        """The leader took a batch: more may be in flight.

        Returns those that failed before it and cannot follow it any more: all but those that the
        broker must have had to take this one.
        """
        self.window = in_flight_max
        self.failed_view = None
        self.backoff.reset()
        failed, self.failed = self.failed, []
        overtaken = []
        for earlier in failed:
            if earlier.maybe_written and _in_sequence(earlier, batch):
                self.failed.append(earlier)
            else:
                overtaken.append(earlier)
        return overtaken

    def set_aside(self, batch: Batch) -> None:
        """Set a failed batch aside, to be repeated once everything in flight is answered."""
        self.failed.append(batch)

    def take_overtaken(self) -> list[Batch]:
        """Take out what failed and cannot be tried again without sequence numbers.

        An indefinite error leaves the order intact: what was appended was appended in turn, so a
        later batch is in the log only behind this one. A refusal does not: what came behind it and
        got an indefinite answer may be there, and this one is not.
        """
        kept: list[Batch] = []
        overtaken: list[Batch] = []
        later_may_be_there = False
        for batch in reversed(self.failed):
            refused = batch.last_error is not None and is_definite(batch.last_error)
            (overtaken if refused and later_may_be_there else kept).append(batch)
            later_may_be_there = later_may_be_there or not refused
        self.failed = kept[::-1]
        return overtaken

    def numbered(self) -> list[Batch]:
        """The batches that have sequence numbers, are not done and not in flight."""
        return [
            batch
            for batch in (*self.failed, *self.ready)
            if batch.identity is not NO_IDENTITY and not batch.done
        ]

    def begin_anew(self, unwritten: Iterable[Batch]) -> None:
        """Begin the sequence numbers at 0 again, under the producer's epoch of that time."""
        assert not self.in_flight
        self.producer, self.next_sequence = NO_PRODUCER, 0
        for batch in unwritten:
            batch.unnumber()

    def drop_done(self) -> None:
        """Take out what failed and is not to be tried again after all."""
        self.failed = [batch for batch in self.failed if not batch.done]

    def put_back(self, now: float) -> None:
        """Put failed batches first again, after a pause, as everything in flight was answered."""
        assert not self.in_flight
        self.ready.extendleft(reversed(self.failed))
        self.failed.clear()
        self.window = 1
        self.retry_at = now + self.backoff.next_s()
        self.failed_view = self.sent_view


def _in_sequence(earlier: Batch, batch: Batch) -> bool:
    """Return whether a broker that took ``batch`` must have had ``earlier``."""
    return earlier.identity is not NO_IDENTITY and earlier.identity[:2] == batch.identity[:2]
