"""The consumer: the public face of reading.

Rules
-----
* A record that was handed out moves the position behind it, nothing else does. With ``async for``
  that is the record in the loop's hands.
* Seek, pause, assign and close take effect at once, also in the middle of an iteration.
* Iterators end when the consumer is closed; they raise what stands in the way of going on, and may
  be begun again.
* Decoding happens here, when the application asks, batch by batch; between two batches the loop
  runs, so that a busy reader does not starve what supplies it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType

from oncelog.config import (
    BootstrapServers,
    ConnectionOptions,
    ConsumerOptions,
    IsolationOption,
    ResetOption,
    take,
)
from oncelog.consumer.columns import ColumnBatch, make_batch
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.fetcher import Fetcher
from oncelog.consumer.offsets import OffsetAndTimestamp, list_offsets
from oncelog.consumer.record import Record, make_records
from oncelog.consumer.subscription import PartitionState, Reset, Subscription
from oncelog.errors import ClientError, ClosedError, CorruptRecordError, DeadlineExceededError
from oncelog.history import History
from oncelog.router import Router
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, parse_header
from oncelog_protocol.records.decode import RecordColumns, decode_batch
from oncelog_protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from oncelog_runtime.entropy import Entropy, SystemEntropy


class Consumer:
    """Reads records. ``async with Consumer("orders", bootstrap_servers=...) as consumer: ...``

    :param topics: all partitions of these are assigned, those added later too. Without any, call
        ``assign``.
    :param auto_offset_reset: "latest", "earliest" or "error": where to begin without a position,
        or when the position is out of range.
    :param fetch_max_bytes: bytes of one answer of a leader; twice as many are held in advance.
    :param check_crcs: check every batch that is handed out.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: BootstrapServers,
        client_id: str = "oncelog-consumer",
        auto_offset_reset: ResetOption = "latest",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 32 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        max_poll_records: int = 500,
        check_crcs: bool = True,
        isolation_level: IsolationOption = "read_uncommitted",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 5_000,
        max_block_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        retry_backoff_ms: int = 8,
        retry_backoff_max_ms: int = 500,
        entropy: Entropy | None = None,
        history: History | None = None,
    ) -> None:
        parameters = locals()
        self._options = take(ConsumerOptions, parameters)
        connection = take(ConnectionOptions, parameters)
        self._topics = tuple(dict.fromkeys(topics))
        self._router = Router(connection, entropy=(entropy or SystemEntropy()).fork("consumer"))
        self._subscription = Subscription()
        self._fetcher: Fetcher | None = None
        self._cursor: Cursor | None = None
        self._deferred: BaseException | None = None
        """An error that came up behind records which a getmany had in hand: raised next."""
        self._history = history
        self._closed = False

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Find the cluster and, if topics were named, their partitions. ``async with`` does it.

        :raises NoBrokersAvailableError: at once, naming the addresses tried.
        :raises UnknownTopicOrPartitionError: a topic does not exist.
        """
        if self._closed or self._fetcher is not None:
            raise ClosedError("a consumer is started once")
        await self._router.start()
        try:
            for topic in self._topics:
                await self._router.topic(topic, self._deadline())
        except BaseException:
            await self._router.close()
            raise
        self._fetcher = Fetcher(
            self._router, self._subscription, self._options, history=self._history
        )
        self._fetcher.let_go = self._let_go
        if self._topics:
            self._assign(self._partitions_of_topics())
            self._router.on_metadata.append(self._adopt_new_partitions)

    async def close(self) -> None:
        """End all iterations and let go of everything. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._drop_cursor()
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._router.close()

    async def __aenter__(self) -> Consumer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------------------ assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; those assigned before keep their positions."""
        self._running()
        if self._topics:
            raise ClientError("this consumer was made with topics; assign() is for one without")
        self._assign(partitions)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._drop_cursor()
        wanted = [TopicPartition(*tp) for tp in partitions]
        for tp in wanted:
            self._router.want(tp.topic)
        before = self._subscription.states
        self._subscription.assign(wanted, self._policy())
        if self._history is not None:
            for tp in self._subscription.states:
                if tp not in before:
                    self._history.moved(*tp, None, "assign")
        self._running().wake()

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, in order."""
        return list(self._subscription.states)

    def _partitions_of_topics(self) -> list[TopicPartition]:
        cluster = self._router.cluster
        return [tp for topic in self._topics for tp in cluster.topic_partitions(topic)]

    def _adopt_new_partitions(self) -> None:
        """Partitions that were added to a topic are read from their beginning: what was written
        before we noticed them is new all the same."""
        for tp in self._partitions_of_topics():
            if tp not in self._subscription.states:
                self._subscription.add(tp, Reset.EARLIEST)
                if self._history is not None:
                    self._history.moved(*tp, None, "assign")

    def _policy(self) -> Reset | None:
        policy = self._options.auto_offset_reset
        return None if policy == "error" else Reset(policy)

    # ------------------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the record that is handed out next; waits until there is a position."""
        fetcher = self._running()
        state = self._subscription.state(partition)
        self._settle()
        deadline = self._deadline()
        while state.offset is None:
            if state.error is not None:
                raise state.error
            try:
                async with asyncio.timeout_at(deadline):
                    await fetcher.wait_for_data()
            except TimeoutError:
                raise DeadlineExceededError(f"{partition}: no position in time") from None
            self._running()
        return state.offset

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Hand out ``offset`` next, at once; what was fetched in advance is dropped."""
        if type(offset) is not int or offset < 0:
            raise ValueError(f"offset={offset!r}: must be an integer from 0 on")
        self._seek(self._subscription.state(partition), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first records of these partitions (default: all that are assigned)."""
        await self._seek_to_time(partitions, EARLIEST_TIMESTAMP)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last records of these partitions (default: all that are assigned)."""
        await self._seek_to_time(partitions, LATEST_TIMESTAMP)

    async def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record at or after a time; to the end where there is none."""
        if type(timestamp_ms) is not int or timestamp_ms < 0:
            raise ValueError(f"timestamp_ms={timestamp_ms!r}: must be milliseconds since 1970")
        await self._seek_to_time(partitions, timestamp_ms)

    async def _seek_to_time(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        self._running()
        states = [self._subscription.state(tp) for tp in partitions or self.assignment()]
        found = await self._list_offsets({state.tp: timestamp for state in states})
        beyond = [state.tp for state in states if found[state.tp].offset < 0]
        if beyond:
            found |= await self._list_offsets(dict.fromkeys(beyond, LATEST_TIMESTAMP))
        for state in states:
            self._seek(state, found[state.tp].offset)

    def _seek(self, state: PartitionState, offset: int) -> None:
        fetcher = self._running()
        if self._cursor is not None and self._cursor.state is state:
            self._drop_cursor()
        state.seek(offset)
        if self._history is not None:
            self._history.moved(*state.tp, offset, "seek")
        fetcher.expedite(state)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        for tp in partitions:
            state = self._subscription.state(tp)
            if self._cursor is not None and self._cursor.state is state:
                self._drop_cursor()
            state.paused = True
        if self._fetcher is not None and self._fetcher.held_back:
            self._fetcher.wake()

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions where they were."""
        fetcher = self._running()
        for tp in partitions:
            state = self._subscription.state(tp)
            if state.paused:
                state.paused = False
                if not state.chunks:
                    fetcher.expedite(state)
        fetcher.notify()

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused, in order."""
        return [tp for tp, state in self._subscription.states.items() if state.paused]

    # ------------------------------------------------------------------------------ questions

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition, assigned or not."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        return {tp: answer.offset for tp, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that the next committed record of each partition will have."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {tp: answer.offset for tp, answer in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        found = await self._list_offsets(timestamps_ms)
        return {tp: (answer if answer.offset >= 0 else None) for tp, answer in found.items()}

    async def lag(self) -> dict[TopicPartition, int]:
        """How many offsets lie between each position and the end of its partition."""
        ends = await self.end_offsets(self.assignment())
        return {tp: max(end - await self.position(tp), 0) for tp, end in ends.items()}

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic.

        :raises UnknownTopicOrPartitionError: it does not exist.
        """
        self._running()
        await self._router.topic(topic, self._deadline())
        return list(self._router.cluster.topic_partitions(topic))

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self._running()
        named = {TopicPartition(*tp): timestamp for tp, timestamp in wanted.items()}
        isolation = int(self._options.isolation_code)
        return await list_offsets(self._router, named, isolation, self._deadline())

    # ------------------------------------------------------------------------------ reading

    async def __aiter__(self) -> AsyncIterator[Record]:
        while True:
            cursor = await self._next_cursor()
            if cursor is None:
                return
            for record in cursor.iterator:
                yield record

    async def getone(self) -> Record:
        """The next record, waiting as long as it takes.

        :raises ClosedError: the consumer was closed meanwhile.
        """
        cursor = await self._next_cursor()
        if cursor is None:
            raise ClosedError("the consumer is closed")
        return next(cursor.iterator)

    async def getmany(
        self, *, max_records: int | None = None, timeout_ms: int = 0
    ) -> dict[TopicPartition, list[Record]]:
        """What is there, up to ``max_records`` (default ``max_poll_records``), by partition.

        Waits up to ``timeout_ms`` for the first record; an empty answer means that none came.
        """
        wanted = self._options.max_poll_records if max_records is None else max_records
        if wanted < 1:
            raise ValueError(f"max_records={max_records!r}: must be 1 or more")
        result: dict[TopicPartition, list[Record]] = {}
        try:
            async with asyncio.timeout(timeout_ms / 1000) as patience:
                cursor = await self._next_cursor()
        except TimeoutError as error:
            if isinstance(error, ClientError) or not patience.expired():
                raise  # not our time is up: nothing could be fetched for max_block_ms
            cursor = self._decode_next_batch()
        while cursor is not None:
            records = cursor.take(wanted)
            result.setdefault(cursor.state.tp, []).extend(records)
            wanted -= len(records)
            self._settle()
            if wanted <= 0:
                break
            try:
                cursor = self._decode_next_batch()
            except Exception as error:
                self._deferred = error  # what is in hand is handed out first
                break
        return result

    async def getbatch(self) -> ColumnBatch:
        """The next batch as columns, waiting as long as it takes.

        :raises ClosedError: the consumer was closed meanwhile.
        """
        batch = await self._next_batch()
        if batch is None:
            raise ClosedError("the consumer is closed")
        return batch

    async def batches(self) -> AsyncIterator[ColumnBatch]:
        """Every batch as columns: ``async for batch in consumer.batches()``."""
        while True:
            batch = await self._next_batch()
            if batch is None:
                return
            yield batch

    # ------------------------------------------------------------------------------ decoding

    async def _next_cursor(self) -> Cursor | None:
        """A cursor with at least one record; None when the consumer is closed."""
        cursor = self._cursor
        if cursor is not None and cursor.left:
            return cursor
        await asyncio.sleep(0)
        while not self._closed:
            fetcher = self._running()
            cursor = self._decode_next_batch()
            if cursor is not None:
                return cursor
            await fetcher.wait_for_data()
        return None

    async def _next_batch(self) -> ColumnBatch | None:
        await asyncio.sleep(0)
        self._drop_cursor()
        while not self._closed:
            fetcher = self._running()
            batch = self._take_batch()
            if batch is not None:
                return batch
            await fetcher.wait_for_data()
        return None

    def _decode_next_batch(self) -> Cursor | None:
        """The cursor over what is there, without waiting; None when nothing is."""
        if self._cursor is not None and self._cursor.left:
            return self._cursor
        self._settle()
        self._cursor = None
        while (taken := self._take_columns()) is not None:
            state, header, columns, data, first = taken
            records = make_records(*state.tp, columns)
            if first:
                del records[:first]
            if records:
                note = None if self._history is None else self._note_records
                cursor = Cursor(state, records, header.next_offset, header.leader_epoch, data, note)
                self._cursor = cursor
                return cursor
            state.advance(header.next_offset, header.leader_epoch)
        return None

    def _take_batch(self) -> ColumnBatch | None:
        while (taken := self._take_columns()) is not None:
            state, header, columns, _, first = taken
            state.advance(header.next_offset, header.leader_epoch)
            if first < len(columns):
                self._note_columns(state.tp, columns, first)
                return _cut(make_batch(*state.tp, columns), first)
        return None

    def _take_columns(
        self,
    ) -> tuple[PartitionState, BatchHeader, RecordColumns, memoryview, int] | None:
        """Decode the next batch of the partition whose turn it is; (.., position of the first
        record that was not handed out before). None when nothing is there."""
        deferred, self._deferred = self._deferred, None
        if deferred is not None:
            raise deferred
        while (state := self._subscription.next_with_data()) is not None:
            assert state.offset is not None or state.error is not None
            if state.error is not None and not state.chunks:
                self._raise(state)
            chunk = state.chunks[0]
            try:
                header = parse_header(chunk.data, chunk.start)
                data = chunk.data[chunk.start : chunk.start + header.size_bytes]
                columns = decode_batch(data, verify=self._options.check_crcs)
            except CorruptBatchError as error:
                assert state.offset is not None
                state.seek(state.offset, state.epoch)
                raise CorruptRecordError(*state.tp, state.offset, str(error)) from error
            self._consume(state, header.size_bytes)
            assert state.offset is not None
            if header.is_control:
                state.advance(header.next_offset, header.leader_epoch)
                continue
            first = bisect_left(columns.offsets(), state.offset)
            return state, header, columns, data, first
        return None

    def _consume(self, state: PartitionState, size: int) -> None:
        """A batch leaves the buffer; the fetcher hears when that lets it go on."""
        chunk = state.chunks[0]
        chunk.start += size
        if not chunk.left:
            state.chunks.popleft()
        limit = self._options.max_partition_fetch_bytes
        was_full = state.buffered >= limit
        state.buffered -= size
        fetcher = self._running()
        if fetcher.held_back or (was_full and state.buffered < limit):
            fetcher.wake()

    def _raise(self, state: PartitionState) -> None:
        """Tell the application what is wrong; going on afterwards tries again from the position."""
        error = state.error
        assert error is not None
        if state.offset is not None:
            state.seek(state.offset, state.epoch)
        else:
            state.error = None
            state.retry_at = 0.0
        raise error

    def _settle(self) -> None:
        if self._cursor is not None:
            self._cursor.settle()

    def _drop_cursor(self) -> None:
        """End the batch that is being handed out; its rest goes back."""
        if self._cursor is not None:
            self._cursor.stop()
            self._cursor = None

    def _let_go(self, state: PartitionState) -> None:
        """The fetcher moves the position of ``state``: nothing of it is handed out any more."""
        if self._cursor is not None and self._cursor.state is state:
            self._drop_cursor()

    def _note_records(self, records: Sequence[Record]) -> None:
        if self._history is not None and records:
            number = self._history.invoke("poll", records[0].topic, records[0].partition, ())
            offsets = [record.offset for record in records]
            self._history.ok(number, offsets, [record.value for record in records])

    def _note_columns(self, tp: TopicPartition, columns: RecordColumns, first: int) -> None:
        if self._history is not None:
            number = self._history.invoke("poll", *tp, ())
            self._history.ok(number, columns.offsets()[first:], columns.values[first:])

    # ------------------------------------------------------------------------------ checks

    def _deadline(self) -> float:
        timeout_s = self._router.options.max_block_ms / 1000
        return asyncio.get_running_loop().time() + timeout_s

    def _running(self) -> Fetcher:
        if self._closed:
            raise ClosedError("the consumer is closed")
        if self._fetcher is None:
            raise ClosedError("the consumer was not started: use async with, or start()")
        self._fetcher.raise_if_failed()
        return self._fetcher


def _cut(batch: ColumnBatch, first: int) -> ColumnBatch:
    """The batch without its first records."""
    if first == 0:
        return batch
    return ColumnBatch(
        batch.topic,
        batch.partition,
        batch.offsets[first:],
        batch.timestamps[first:],
        None if batch.keys is None else batch.keys[first:],
        batch.values[first:],
        None if batch.headers is None else batch.headers[first:],
    )
