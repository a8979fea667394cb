"""The consumer: the public face of reading.

Rules
-----
* A record that was handed out moves the position behind it, nothing else does. With ``async for``
  that is the record in the loop's hands.
* Seek, pause, assign and close take effect at once, also in the middle of an iteration.
* Iterators end when the consumer is closed; they raise what stands in the way of going on, and may
  be begun again.
* Partitions come and go by rebalances only while the application is inside of a poll: while it
  asks for the next record, batch or list. What it asks for then says that it is done with the last.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType

from oncelog.config import (
    BootstrapServers,
    ConnectionOptions,
    ConsumerOptions,
    GroupOptions,
    IsolationOption,
    ResetOption,
    take,
)
from oncelog.consumer.arrivals import Arrivals
from oncelog.consumer.assignors.choice import AssignmentStrategy, make_assignors
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.cursor import Cursor
from oncelog.consumer.fetcher import Fetcher
from oncelog.consumer.group.group import Group
from oncelog.consumer.group.listener import RebalanceListener
from oncelog.consumer.group.topics import checked_topics
from oncelog.consumer.in_transaction import InTransaction
from oncelog.consumer.offset_metadata import GroupMetadata, OffsetAndMetadata, checked_offsets
from oncelog.consumer.offsets import OffsetAndTimestamp, list_offsets
from oncelog.consumer.reading import Reader
from oncelog.consumer.record import Record
from oncelog.consumer.run import Runs
from oncelog.consumer.subscription import PartitionState, Reset, Subscription
from oncelog.errors import ClientError, ClosedError, DeadlineExceededError
from oncelog.history import History
from oncelog.observability.metrics import MeasuredConsumer
from oncelog.router import Router
from oncelog_protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_EPOCH, TopicPartition
from oncelog_runtime.clock import SystemWallClock, WallClock
from oncelog_runtime.entropy import Entropy, SystemEntropy


class Consumer(Runs, MeasuredConsumer):
    """Reads records. ``async with Consumer("orders", bootstrap_servers=...) as consumer: ...``

    :param topics: with a ``group_id`` these are subscribed to. Without, all partitions of them are
        assigned, those added later too. Without topics, call ``subscribe`` or ``assign``.
    :param group_id: the group that shares the partitions and remembers offsets.
    :param group_instance_id: a static member (KIP-345): it does not leave at the end, and may come
        back within the session without a rebalance.
    :param enable_auto_commit: commit what the application came back from, every
        ``auto_commit_interval_ms``, before partitions are given up, and at the end.
    :param max_poll_interval_ms: how long the application may take between two polls; beyond it the
        member leaves its group, and the next poll raises MaxPollIntervalExceededError.
    :param partition_assignment_strategy: names or assignors of one's own, the best first; see
        ``oncelog.consumer.assignors``.
    :param auto_offset_reset: "latest", "earliest", "none", or how far to go back (a timedelta, or
        "by_duration:PT1H"): where to begin without a position or a committed offset, or when the
        position is out of range.
    :param fetch_max_bytes: bytes of one answer of a leader; twice as many are held in advance.
    :param check_crcs: check every batch that is handed out.
    :param isolation_level: "read_committed" hands out nothing of transactions that are open or were
        aborted, and reads no further than the first open one (KIP-98); "read_uncommitted" hands out
        everything. Unlike Kafka's, the default is the one that never shows what did not happen.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: BootstrapServers,
        client_id: str = "oncelog-consumer",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        partition_assignment_strategy: AssignmentStrategy = ("cooperative-sticky",),
        auto_offset_reset: ResetOption = "latest",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 32 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        max_poll_records: int = 500,
        check_crcs: bool = True,
        isolation_level: IsolationOption = "read_committed",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 5_000,
        max_block_ms: int = 60_000,
        metadata_max_age_ms: int = 300_000,
        retry_backoff_ms: int = 8,
        retry_backoff_max_ms: int = 500,
        clock: WallClock | None = None,
        entropy: Entropy | None = None,
        history: History | None = None,
    ) -> None:
        parameters = locals()
        self._options = take(ConsumerOptions, parameters)
        self._group_options = take(GroupOptions, parameters)
        self._assignors = make_assignors(partition_assignment_strategy)
        connection = take(ConnectionOptions, parameters)
        self._topics = tuple(dict.fromkeys(topics))
        self._entropy = (entropy or SystemEntropy()).fork("consumer")
        self._router = Router(connection, entropy=self._entropy)
        self._subscription = Subscription()
        self._reader = Reader(self._subscription, self._options, self._running, history=history)
        self._reader.counters = self._router.counters
        self._fetcher: Fetcher | None = None
        self._group: Group | None = None
        self._arrivals: Arrivals | None = None
        self._clock = clock or SystemWallClock()
        self._history = history
        self._closed = self._ended = False  # in between a listener may still commit
        self._on_taking_away: Callable[[list[TopicPartition]], Awaitable[None]] | None = None
        self._commit_source: Callable[[], Mapping[TopicPartition, OffsetAndMetadata]] | None = None
        self._in_transactions = False
        self._transaction: InTransaction | None = None

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
        self._fetcher = fetcher = Fetcher(
            self._router,
            self._subscription,
            self._options,
            now_ms=self._clock.now_ms,
            history=self._history,
        )
        fetcher.let_go = self._reader.let_go
        if self._group_options.group_id is not None:
            self._group = Group(
                self._group_options,
                self._assignors,
                self._router,
                self._subscription,
                self._reader,
                fetcher,
                self,
                fail=fetcher.fail,
                history=self._history,
            )
            if self._topics:
                self._group.subscribe(self._topics, None, None)
        elif self._topics:
            self._assign(self._partitions_of_topics())
            self._router.on_metadata.append(self._adopt_new_partitions)

    async def close(self) -> None:
        """End all iterations and let go of everything; a member leaves its group, but a static one.
        Closing twice does nothing.

        Auto commit takes what the application came back from: the record in the hands of a loop
        that was left is read again, unless ``commit`` was called. A commit that fails here is
        logged, not raised.
        """
        if self._closed:
            return
        self._closed = self._reader.closed = True
        self._reader.drop_cursor()
        if self._fetcher is not None:
            self._fetcher.notify()
        try:
            if self._on_taking_away is not None:
                await self._on_taking_away(self.assignment())
            if self._group is not None:
                await self._group.close()
        finally:
            self._ended = True
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
        """Read these partitions from now on; those assigned before keep their positions. With a
        ``group_id`` those that are new begin at the group's committed offset.

        :raises ClientError: the consumer is subscribed, or was made with topics.
        """
        self._running()
        if self._topics and self._group is None:
            raise ClientError("this consumer was made with topics; assign() is for one without")
        if self._group is not None and self._group.subscribed:
            raise ClientError("this consumer is subscribed, its group assigns: unsubscribe first")
        self._assign(partitions)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._reader.drop_cursor()
        wanted = [TopicPartition(*tp) for tp in partitions]
        for tp in wanted:
            self._router.want(tp.topic)
        before = self._subscription.states
        policy = self._running().positions.policy if self._group is None else Reset.COMMITTED
        self._subscription.assign(wanted, policy)
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

    # ------------------------------------------------------------------------------ group

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics with the group, or those whose whole name matches ``pattern``, also
        those that come later. Replaces an earlier subscription, and its listener.

        Partitions of which the group has committed nothing begin by ``auto_offset_reset``, those
        too that are added to a topic later: with "latest" what is written to them before the group
        has noticed them is not read.

        :raises ClientError: there is no ``group_id``; both or neither of topics and pattern.
        :raises InvalidTopicError: a name that no topic can have.
        """
        group = self._in_group()
        names = checked_topics(topics)
        if bool(names) is (pattern is not None):
            raise ClientError("subscribe() takes either topics or a pattern")
        if not group.subscribed:
            self._assign(())
        group.subscribe(names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group: commit (auto commit), tell the listener, give everything up. Without a
        subscription, give up what was assigned."""
        self._running()
        if self._group is not None:
            await self._group.unsubscribe()
        self._assign(())

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit these offsets, of the records to be read next; by default the positions of all
        partitions, which lie behind everything that was handed out.

        :raises CommitFailedError: this consumer is not the member that it was; nothing was
            committed.
        :raises DeadlineExceededError: not acknowledged within ``max_block_ms``.
        :raises ClientError: there is no ``group_id``; no offsets were given, and positions of this
            consumer are committed by transactions.
        """
        await self._in_group().commit(self._to_commit(offsets), self._deadline())

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> asyncio.Future[None]:
        """Begin to commit, in order with other commits; the future knows what became of it."""
        return self._in_group().commit_async(self._to_commit(offsets), self._deadline())

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata] | None:
        if offsets is not None:
            return checked_offsets(offsets)
        if self._in_transactions:
            raise ClientError("this consumer's positions are committed by transactions")
        return None

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition, assigned or not; None where nothing."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        return await self._in_group().committed(wanted, self._deadline())

    def group_metadata(self) -> GroupMetadata:
        """This member as of now; what fences commits that somebody else makes for it."""
        return self._in_group().metadata()

    def _join_transaction(self) -> InTransaction:
        """For a producer whose transaction is to hold this consumer's positions."""
        return InTransaction(self)

    def enforce_rebalance(self, reason: str = "enforced by the application") -> None:
        """Let the group assign anew, soon; the coordinators log the reason."""
        self._in_group().enforce_rebalance(reason)

    def _in_group(self) -> Group:
        self._running()
        if self._group is None:
            raise ClientError("this consumer has no group: give it a group_id")
        return self._group

    # ------------------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the record that is handed out next; waits until there is a position."""
        fetcher = self._running()
        state = self._subscription.state(partition)
        self._reader.settle()
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

    def _seek(self, state: PartitionState, offset: int, epoch: int = NO_EPOCH) -> None:
        fetcher = self._running()
        self._reader.moved(state)
        state.seek(offset, epoch)
        if self._history is not None:
            self._history.moved(*state.tp, offset, "seek")
        fetcher.expedite(state)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until they are resumed."""
        for tp in partitions:
            state = self._subscription.state(tp)
            self._reader.let_go(state)
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

    async def wait_for_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: int = 500
    ) -> bool:
        """Wait until one of these partitions, assigned or not, has something at or behind its
        offset, without reading it; False when nothing came within ``timeout_ms``.

        True says that it is worth to look, not that a record is there: see ``end_offsets``.
        """
        self._running()
        if self._arrivals is None:
            self._arrivals = Arrivals(self._router, int(self._options.isolation_code))
        named = {TopicPartition(*tp): offset for tp, offset in offsets.items()}
        for topic in dict.fromkeys(tp.topic for tp in named):
            await self._router.topic(topic, self._deadline())
        return await self._arrivals.wait(named, timeout_ms / 1000)

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
            cursor = await self._reader.next_cursor()
            if cursor is None:
                return
            for record in cursor.iterator:
                yield record

    async def getone(self) -> Record:
        """The next record, waiting as long as it takes.

        :raises ClosedError: the consumer was closed meanwhile.
        """
        cursor = await self._reader.next_cursor()
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
        return await self._reader.next_lists(wanted, timeout_ms / 1000)

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

    async def getbatches(
        self,
        partition: TopicPartition,
        end_offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 16 * 1024 * 1024,
        timeout_ms: int = 60_000,
    ) -> list[ColumnBatch]:
        """Batches of one assigned partition from its position up to, not including, ``end_offset``:
        what is there, up to about ``max_records`` or ``max_bytes``, waiting for the first of it.

        An empty list says that the position has come to ``end_offset``. It does so too where the
        last offsets hold no record of anybody's: markers, aborted or compacted ones. Nothing behind
        ``end_offset`` is handed out; the position ends there.

        :raises DeadlineExceededError: nothing came within ``timeout_ms``.
        :raises OffsetOutOfRangeError: the position is not in the log, and ``auto_offset_reset`` is
            "none".
        :raises ClosedError: the consumer was closed meanwhile.
        """
        state = self._subscription.state(partition)
        try:
            async with asyncio.timeout(timeout_ms / 1000) as patience:
                found = await self._reader.batches_until(state, end_offset, max_records, max_bytes)
        except TimeoutError as error:
            if isinstance(error, ClientError) or not patience.expired():
                raise
            raise DeadlineExceededError(
                f"{TopicPartition(*partition)}: nothing came within {timeout_ms} ms from offset"
                f" {state.offset}, and {end_offset} was to be reached"
            ) from None
        self._running()
        return found

    async def _next_cursor(self) -> Cursor | None:
        return await self._reader.next_cursor()

    async def _next_batch(self) -> ColumnBatch | None:
        return await self._reader.next_batch()

    # ------------------------------------------------------------------------------ checks

    def _deadline(self) -> float:
        timeout_s = self._router.options.max_block_ms / 1000
        return asyncio.get_running_loop().time() + timeout_s

    def _running(self) -> Fetcher:
        if self._ended:
            raise ClosedError("the consumer is closed")
        if self._fetcher is None:
            raise ClosedError("the consumer was not started: use async with, or start()")
        self._fetcher.raise_if_failed()
        return self._fetcher
