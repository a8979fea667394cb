"""Batches are decoded and handed out here, which knows what the application has in its hands.

Rules
-----
* Decoding happens when the application asks, batch by batch; between two batches the loop runs, so
  that a busy reader does not starve what supplies it.
* A poll is one call for the next record, batch or list; while one waits, the application is inside.
  Asking again says that what was handed out before is done with: what is *safe* to commit ends
  before what is still in hand.
* Whoever must act while the application holds nothing (a rebalance) hooks in at ``at_poll``.
* Markers and what was aborted are stepped over: the position is behind them as soon as nothing that
  is handed out lies before them, so that it reaches the end of the partition.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable

from oncelog.config import ConsumerOptions
from oncelog.consumer.columns import ColumnBatch, cut, make_batch
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.fetcher import Fetcher
from oncelog.consumer.offset_metadata import OffsetAndMetadata
from oncelog.consumer.record import Record
from oncelog.consumer.subscription import Subscription, TopicPartitionState
from oncelog.errors import ClientError, CorruptRecordError
from oncelog.history import UNRECORDED, History
from oncelog.observability.counters import Counters
from oncelog_protocol.records.batch import CorruptBatchError, parse_header, verify_crc
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.types import TopicPartition

logger = logging.getLogger(__name__)

SKIP_HINT = ' (corrupt_batches="skip" leaves such batches out, and counts them)'

HIDDEN_MAX = 500
"""So many batches are stepped over before the loop goes round once: a long stretch of aborted ones
must not hold up everything else."""


AtPoll = Callable[[], Awaitable[None] | None]

_Taken = tuple[TopicPartitionState, ColumnBatch, int, memoryview, tuple[int, int]]
"""One batch that is to be handed out: whose, its records that were not handed out before, its
leader epoch, its bytes, and offset and leader epoch behind it and what follows it and is hidden."""


class _PollScope:
    """It is the inside of a poll, by which the application says that it is done with what it had.

    ``getone`` enters it for every record, which a generator as context manager would make dear.
    """

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *_: object) -> None:
        self._end()


class RecordReader:
    """A reader hands out the records of one consumer.

    :param running: the fetcher, or the error that says why there is none.
    """

    def __init__(
        self,
        subscription: Subscription,
        options: ConsumerOptions,
        running: Callable[[], Fetcher],
        counters: Counters,
        history: History = UNRECORDED,
    ) -> None:
        self.closed = False
        self._at_poll: AtPoll | None = None
        self._on_control_batch: Callable[[TopicPartition, memoryview], None] | None = None
        self._subscription = subscription
        self._options = options
        self._running = running
        self._history = history
        self._counters = counters
        self._cursor: Cursor | None = None
        self._deferred: BaseException | None = None
        """An error that came up behind records which a getmany had in hand: raised next."""
        self._poll = _PollScope(self._begin_poll, self._end_poll)
        self._polling = 0
        self._polls = 0
        self._in_hand: dict[TopicPartition, tuple[int, int]] = {}
        """Where partitions stood before what was handed out last, apart from the cursor."""
        self._hidden = 0
        """Batches that were stepped over since a poll began, or the loop last went round."""
        self._sampled = (0, 0)
        self._polled_at = 0.0

    def close(self) -> None:
        """Stop handing out: every poll ends, and says so."""
        self.closed = True
        self.drop_cursor()

    def call_at_poll(self, work: AtPoll | None) -> None:
        """Call ``work`` in every poll that does not simply go on with a batch.

        What it returns is awaited before anything is handed out.
        """
        self._at_poll = work

    def watch_control_batches(self, callback: Callable[[TopicPartition, memoryview], None]) -> None:
        """Call ``callback`` with each control batch, which is not handed out; see ``markers``."""
        self._on_control_batch = callback

    # ------------------------------------------------------------------------------ polls

    def _begin_poll(self) -> None:
        self._polling += 1
        self._polls += 1
        self._hidden = 0
        if self._in_hand:
            self._in_hand.clear()
        if self._cursor is not None:
            self._cursor.came_back()

    def _end_poll(self) -> None:
        self._polling -= 1
        if self._subscription.unasked:
            self._subscription.asked()

    def came_back(self) -> None:
        """Note that the application holds nothing, which it said otherwise than by a poll."""
        with self._poll:
            pass

    @property
    def inside(self) -> bool:
        """Return whether the application is inside of a poll."""
        return self._polling > 0

    def asked_for(self, state: TopicPartitionState) -> bool:
        """Return whether the application wants records from where ``state`` stands.

        It has asked for records, or asks now, since that place was found; or it chose the place.
        """
        return self.inside or state not in self._subscription.unasked

    def last_poll_at(self, now: float) -> float:
        """Return when the application last came for a record; ``now`` while it is inside of a poll.

        The time is exact to the interval of these calls.
        """
        sample = (self._polls, self._cursor.handed_out if self._cursor is not None else 0)
        if self._polling or sample != self._sampled:
            self._sampled = sample
            self._polled_at = now
        return self._polled_at

    async def next_cursor(self) -> Cursor | None:
        """Return a cursor with at least one record; None when the consumer is closed."""
        with self._poll:
            cursor = self._cursor
            if cursor is not None and cursor.left:
                return cursor
            await asyncio.sleep(0)
            while await self._open():
                cursor = self.decode_next_batch()
                if cursor is not None:
                    return cursor
                await self._wait()
            return None

    async def next_batch(self) -> ColumnBatch | None:
        """Return the next batch as columns; None when the consumer is closed."""
        with self._poll:
            await asyncio.sleep(0)
            self.drop_cursor()
            while await self._open():
                batch = self._take_batch()
                if batch is not None:
                    return batch
                await self._wait()
            return None

    async def next_lists(self, wanted: int, timeout_s: float) -> dict[TopicPartition, list[Record]]:
        """Return up to ``wanted`` records that are there; wait ``timeout_s`` for the first one."""
        result: dict[TopicPartition, list[Record]] = {}
        with self._poll:
            try:
                async with asyncio.timeout(timeout_s) as patience:
                    cursor = await self.next_cursor()
            except TimeoutError as error:
                if isinstance(error, ClientError) or not patience.expired():
                    raise  # not our time is up: nothing could be fetched for max_block_ms
                cursor = None if self.closed else self.decode_next_batch()
            while cursor is not None:
                state = cursor.state
                self._in_hand.setdefault(state.tp, cursor.safe())
                records = result.setdefault(state.tp, [])
                had = len(records)
                records.extend(cursor.take(wanted))
                wanted -= len(records) - had
                self.settle()
                if wanted <= 0:
                    break
                try:
                    cursor = self.decode_next_batch()
                except Exception as error:
                    self._deferred = error  # what is in hand is handed out first
                    break
        return result

    async def batches_until(
        self, state: TopicPartitionState, end: int, wanted: int, size: int
    ) -> list[ColumnBatch]:
        """Return one or more batches of a partition, up to offset ``end``.

        More than one are returned when they are there. They have up to about ``wanted`` records or
        ``size`` bytes in the log. The list is empty when the position has come to ``end``, or the
        consumer was closed.
        """
        found: list[ColumnBatch] = []
        with self._poll:
            await asyncio.sleep(0)
            self.drop_cursor()
            while await self._open():
                while wanted > 0 and size > 0 and (state.offset is None or state.offset < end):
                    before = state.buffered
                    try:
                        batch = self._take_batch(state)
                    except Exception as error:
                        if not found:
                            raise
                        self._deferred = error  # what is in hand is handed out first
                        return found
                    if batch is None:
                        break
                    size -= before - state.buffered
                    if batch.next_offset > end:
                        whole = len(batch)
                        batch = cut(batch, 0, bisect_left(batch.offsets, end))
                        self._counters.consumed(state.tp.topic, len(batch) - whole)
                        state.seek(end, state.epoch)
                    if len(batch):
                        found.append(batch)
                        wanted -= len(batch)
                if found or (state.offset is not None and state.offset >= end):
                    break
                await self._wait()
        return found

    async def _wait(self) -> None:
        """Wait until there may be something to hand out."""
        if self._hidden >= HIDDEN_MAX:
            self._hidden = 0
            await asyncio.sleep(0)
        else:
            self._hidden = 0
            await self._running().wait_for_data()

    async def _open(self) -> bool:
        """Do what has to be done at a poll; return False when the consumer is closed."""
        if self.closed:
            return False
        self._running()
        if self._at_poll is not None:
            work = self._at_poll()
            if work is not None:
                await work
        return not self.closed

    # ------------------------------------------------------------------------------ decoding

    def decode_next_batch(self) -> Cursor | None:
        """Return a cursor over what is there, without waiting; None when nothing is."""
        if self._cursor is not None and self._cursor.left:
            return self._cursor
        self.settle()
        self._cursor = None
        while (taken := self._take_decoded()) is not None:
            state, batch, epoch, data, end = taken
            if len(batch):
                note = None if self._history is UNRECORDED else self._note
                self._cursor = cursor = Cursor(state, batch, epoch, data, end, note)
                self._counters.consumed(state.tp.topic, len(batch))
                return cursor
            state.advance(*end)
        return None

    def _take_batch(self, only: TopicPartitionState | None = None) -> ColumnBatch | None:
        while (taken := self._take_decoded(only)) is not None:
            state, batch, _, _, end = taken
            assert state.offset is not None
            before = (state.offset, state.epoch)
            state.advance(*end)
            if len(batch):
                self._in_hand.setdefault(state.tp, before)
                if self._history is not UNRECORDED:
                    self._note(batch)
                self._counters.consumed(state.tp.topic, len(batch))
                return batch
        return None

    def _take_decoded(self, only: TopicPartitionState | None = None) -> _Taken | None:
        """Decode the next batch of the partition whose turn it is, or of ``only`` that one.

        It returns None when nothing is there, or when enough was stepped over.
        """
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            raise deferred
        while True:
            state = self._subscription.next_with_data() if only is None else only
            if state is None or not state.has_data:
                return None
            assert state.offset is not None or state.error is not None
            if state.error is not None and not state.chunks:
                raise state.take_error()
            chunk = state.chunks[0]
            try:
                if chunk.sieve is not None and (end := self._step_over(state)) is not None:
                    state.advance(*end)
                    if self._hidden >= HIDDEN_MAX:
                        return None
                    continue
                header = parse_header(chunk.data, chunk.start)
                data = chunk.data[chunk.start : chunk.start + header.size_bytes]
                columns = decode_batch(data, verify=self._options.check_crcs)
            except CorruptBatchError as error:
                assert state.offset is not None
                self._doubt(state, error)
                continue
            self._consume(state, header.size_bytes)
            assert state.offset is not None
            batch = make_batch(*state.tp, columns)
            batch = cut(batch, bisect_left(batch.offsets, state.offset))
            end = chunk.end or (header.next_offset, header.leader_epoch)
            if chunk.sieve is not None:
                try:
                    end = self._step_over(state) or end
                except CorruptBatchError:
                    pass  # what lies before it is handed out first
            return state, batch, header.leader_epoch, data, end

    def _doubt(self, state: TopicPartitionState, error: CorruptBatchError) -> None:
        """Ask the leader once to look at the next batch, which is corrupt.

        :raises CorruptRecordError: it did, and sent the same, and such batches are not left out.
        """
        assert state.offset is not None
        chunk = state.chunks[0]
        after = _behind(chunk.data, chunk.start, state.offset)
        if state.doubt():
            if after is not None and self._options.corrupt_batches == "skip":
                self._counters.batch_skipped()
                logger.warning(
                    "%s: the batch at offset %d does not hold and is left out, up to %d: %s",
                    state.tp,
                    state.offset,
                    after[0] - 1,
                    error,
                )
                state.seek(*after)
                self._running().wake()
                return
            reason = f"{error}{SKIP_HINT if after is not None else ''}"
            raise CorruptRecordError(*state.tp, state.offset, reason) from error
        logger.warning(
            "%s: offset %d does not hold: %s; asking again", state.tp, state.offset, error
        )
        self._running().wake()

    def _step_over(self, state: TopicPartitionState) -> tuple[int, int] | None:
        """Take what comes next and is not handed out; return (offset, leader epoch) behind it.

        It returns None when there is no such thing.

        :raises CorruptBatchError: the first batch does not hold. What was found hidden before it
            is hidden all the same.
        """
        end: tuple[int, int] | None = None
        while state.chunks and (sieve := state.chunks[0].sieve) is not None:
            chunk = state.chunks[0]
            try:
                header = parse_header(chunk.data, chunk.start)
                batch = chunk.data[chunk.start : chunk.start + header.size_bytes]
                if not sieve.hides(header, batch):
                    break
                if self._options.check_crcs:
                    verify_crc(batch)  # that it is hidden is what its header says
            except CorruptBatchError:
                if end is None:
                    raise
                break
            if header.is_control and self._on_control_batch is not None:
                self._on_control_batch(state.tp, batch)
            self._consume(state, header.size_bytes)
            end = (header.next_offset, header.leader_epoch)
            self._hidden += 1
            if self._hidden >= HIDDEN_MAX:
                break
        return end

    def _consume(self, state: TopicPartitionState, size: int) -> None:
        """Remove a batch from the buffer; the fetcher hears when that lets it go on."""
        limit = self._options.max_partition_fetch_bytes
        was_full = state.buffered >= limit
        state.consume(size)
        fetcher = self._running()
        if fetcher.held_back or (was_full and state.buffered < limit):
            fetcher.wake()

    # ------------------------------------------------------------------------------ positions

    def settle(self) -> None:
        """Move the position to what has been handed out by now."""
        if self._cursor is not None:
            self._cursor.settle()

    @property
    def not_handed_out(self) -> tuple[str, int]:
        """Return the topic of the batch that is being handed out, and how many records are left."""
        cursor = self._cursor
        return ("", 0) if cursor is None else (cursor.state.tp.topic, cursor.left)

    def drop_cursor(self) -> None:
        """End the batch that is being handed out; its rest goes back."""
        cursor = self._cursor
        if cursor is not None:
            if not self._polling and cursor.state.version == cursor.version:
                self._in_hand.setdefault(cursor.state.tp, cursor.safe())
            self._counters.consumed(cursor.state.tp.topic, -cursor.stop())
            self._cursor = None

    def let_go(self, state: TopicPartitionState) -> None:
        """Hand out nothing more of ``state``, whose position moves."""
        if self._cursor is not None and self._cursor.state is state:
            self.drop_cursor()

    def moved(self, state: TopicPartitionState) -> None:
        """Drop what the application holds of ``state``, since it moves the position itself."""
        self.let_go(state)
        self._in_hand.pop(state.tp, None)
        self._subscription.chosen(state)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are read no more."""
        for tp in partitions:
            self._in_hand.pop(tp, None)

    def positions(self, *, safe: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return where each partition stands: behind what was handed out, or (``safe``) is done."""
        self.settle()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for tp, state in self._subscription.states.items():
            if state.offset is not None:
                offset, epoch = state.offset, state.epoch
                if safe:
                    # The position may have gone back meanwhile, when the log was truncated.
                    offset, epoch = min((offset, epoch), self._safe(state))
                found[tp] = OffsetAndMetadata(offset, "", epoch, state.topic_id)
        return found

    def _safe(self, state: TopicPartitionState) -> tuple[int, int]:
        assert state.offset is not None
        cursor = self._cursor
        if state.tp in self._in_hand:
            return self._in_hand[state.tp]
        if cursor is not None and cursor.state is state and cursor.version == state.version:
            return cursor.safe()
        return state.offset, state.epoch

    # ------------------------------------------------------------------------------ history

    def _note(self, batch: ColumnBatch) -> None:
        number = self._history.invoke("poll", batch.topic, batch.partition, ())
        self._history.ok(number, batch.offsets, batch.values)


def _behind(data: memoryview, start: int, offset: int) -> tuple[int, int] | None:
    """Return (offset, leader epoch) behind a corrupt batch, or None where that is not certain.

    The batch is at ``start``, and ``offset`` must be one of its offsets. Its header is believed if
    the checksum holds, or if both its counts say the same: else more might be left out than one
    batch.
    """
    try:
        header = parse_header(data, start)
        if not header.base_offset <= offset <= header.last_offset:
            return None
        end = start + header.size_bytes
        try:
            verify_crc(data[start:end])
        except CorruptBatchError:
            if header.record_count != header.last_offset_delta + 1:
                return None
    except CorruptBatchError:
        return None
    return header.next_offset, header.leader_epoch
