"""The consumer is the public class for reading.

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
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar, Unpack, overload

from oncelog import defaults
from oncelog.config import (
    BootstrapServers,
    ConnectionOptions,
    ConsumerOptions,
    CorruptBatchesOption,
    GroupOptions,
    IsolationOption,
    ResetOption,
    take,
)
from oncelog.consumer.assignors.choice import AssignmentStrategy, make_assignors
from oncelog.consumer.columns import ColumnBatch
from oncelog.consumer.core import ConsumerCore
from oncelog.consumer.cursor import records_of
from oncelog.consumer.group.listener import RebalanceListener
from oncelog.consumer.group.topics import checked_topics
from oncelog.consumer.idle import Idling
from oncelog.consumer.in_transaction import InTransaction
from oncelog.consumer.offset_metadata import GivenOffsets, GroupMetadata, OffsetAndMetadata
from oncelog.consumer.questions import Questions
from oncelog.consumer.record import Record
from oncelog.consumer.run_options import RunOptions, RunSettings
from oncelog.consumer.runner import Runner
from oncelog.consumer.transactional import TransactionalRunner
from oncelog.core.client import ClusterClient
from oncelog.core.router import Router
from oncelog.errors import ClientError, ClosedError, DeadlineExceededError
from oncelog.history import History
from oncelog.observability.metrics import ConsumerMetrics, consumer_metrics
from oncelog.security import Security
from oncelog.signals import StopSignals
from oncelog_protocol.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy, SystemEntropy
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)

D = TypeVar("D")


class Consumer(Questions, ClusterClient):
    """A consumer reads records.

    Use it as ``async with Consumer("orders", bootstrap_servers=...) as consumer: ...``.

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
    :param corrupt_batches: "raise", or "skip": step over a corrupt batch, with a log line and
        ``batches_skipped_total`` in the metrics; what was in it is not read.
    :param isolation_level: "read_committed" hands out nothing of transactions that are open or were
        aborted, and reads no further than the first open one (KIP-98); "read_uncommitted" hands out
        everything. Unlike Kafka's, the default is the one that never shows what did not happen.
    """

    _core: ConsumerCore

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: BootstrapServers,
        client_id: str = defaults.CONSUMER_CLIENT_ID,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        enable_auto_commit: bool = defaults.ENABLE_AUTO_COMMIT,
        auto_commit_interval_ms: int = defaults.AUTO_COMMIT_INTERVAL_MS,
        session_timeout_ms: int = defaults.SESSION_TIMEOUT_MS,
        heartbeat_interval_ms: int = defaults.HEARTBEAT_INTERVAL_MS,
        max_poll_interval_ms: int = defaults.MAX_POLL_INTERVAL_MS,
        partition_assignment_strategy: AssignmentStrategy = defaults.PARTITION_ASSIGNMENT_STRATEGY,
        auto_offset_reset: ResetOption = defaults.AUTO_OFFSET_RESET,
        fetch_min_bytes: int = defaults.FETCH_MIN_BYTES,
        fetch_max_wait_ms: int = defaults.FETCH_MAX_WAIT_MS,
        fetch_max_bytes: int = defaults.FETCH_MAX_BYTES,
        max_partition_fetch_bytes: int = defaults.MAX_PARTITION_FETCH_BYTES,
        max_poll_records: int = defaults.MAX_POLL_RECORDS,
        check_crcs: bool = defaults.CHECK_CRCS,
        corrupt_batches: CorruptBatchesOption = defaults.CORRUPT_BATCHES,
        isolation_level: IsolationOption = defaults.ISOLATION_LEVEL,
        request_timeout_ms: int = defaults.REQUEST_TIMEOUT_MS,
        connect_timeout_ms: int = defaults.CONNECT_TIMEOUT_MS,
        max_block_ms: int = defaults.MAX_BLOCK_MS,
        metadata_max_age_ms: int = defaults.METADATA_MAX_AGE_MS,
        retry_backoff_ms: int = defaults.RETRY_BACKOFF_MS,
        retry_backoff_max_ms: int = defaults.RETRY_BACKOFF_MAX_MS,
        security: Security | None = None,
        clock: WallClock | None = None,
        entropy: Entropy | None = None,
        history: History | None = None,
    ) -> None:
        parameters = locals()
        assignors = make_assignors(partition_assignment_strategy)
        connection = take(ConnectionOptions, parameters)
        entropy = (entropy or SystemEntropy()).fork("consumer")
        super().__init__(Router(connection, entropy=entropy, history=history), clock)
        self._core = ConsumerCore(
            tuple(dict.fromkeys(topics)),
            take(ConsumerOptions, parameters),
            take(GroupOptions, parameters),
            assignors,
            self._router,
            clock=self._clock,
            entropy=entropy,
        )
        self._signals: StopSignals | None = None
        self._signal_tasks = Tasks(client_id)

    # ------------------------------------------------------------------------------ life

    async def start(self) -> None:
        """Connect, and look up the partitions of the topics that were named. ``async with`` does
        it.

        :raises NoBrokersAvailableError: at once, naming the addresses tried.
        :raises UnknownTopicOrPartitionError: a topic does not exist.
        """
        await self._core.start()

    async def close(self) -> None:
        """End all iterations and close the connections. A member leaves its group, unless it is
        static.

        A call while another ``close`` is under way waits for that one. Auto commit takes what the
        application came back from: the record in the hands of a loop that was left is read again,
        unless ``commit`` was called. A commit that fails here is logged, not raised.
        """
        self._router.home.check()
        try:
            await self._core.close()
        finally:
            if self._signals is not None and self._core.ended:
                self._signals.release()

    def stop_on_signals(self) -> None:
        """Let the first SIGINT (Ctrl+C) or SIGTERM close this consumer, not end the program.

        Loops over it and ``run`` end, what is done is committed, a member leaves. It works in the
        main thread only; a second signal does what it did before.

        :raises ClientError: this is not the main thread.
        """
        self._core.running()
        if self._signals is None:
            loop = asyncio.get_running_loop()
            self._signals = StopSignals(self._signalled, loop)

    def _signalled(self) -> None:
        logger.info("a signal closes the consumer")
        self._signal_tasks.spawn("close on a signal", self.close())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------ assignment

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions from now on; those assigned before keep their positions.

        With a ``group_id`` those that are new begin at the group's committed offset.

        :raises ClientError: the consumer is subscribed, or was made with topics.
        """
        self._core.assign_by_hand(partitions)

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, in order."""
        return list(self._core.subscription.states)

    # ------------------------------------------------------------------------------ group

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to these topics, or to those whose whole name matches ``pattern``.

        Topics that come later count too. The call replaces an earlier subscription, and its
        listener.

        Partitions of which the group has committed nothing begin by ``auto_offset_reset``, also
        those that are added to a topic later. With "latest" records are not read that were written
        to such a partition before the group noticed it.

        :raises ClientError: there is no ``group_id``; both or neither of topics and pattern.
        :raises InvalidTopicError: a name that no topic can have.
        """
        group = self._core.in_group()
        names = checked_topics(topics)
        if bool(names) is (pattern is not None):
            raise ClientError("subscribe() takes either topics or a pattern")
        if not group.subscribed:
            self._core.assign(())
        group.subscribe(names, pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group: commit (auto commit), tell the listener, give everything up.

        Without a subscription, give up what was assigned.
        """
        self._core.running()
        if self._core.group is not None:
            await self._core.group.unsubscribe()
        self._core.assign(())

    async def commit(self, offsets: GivenOffsets | None = None) -> None:
        """Commit these offsets, of the records to be read next; by default commit all positions.

        A position lies behind everything that was handed out of its partition.

        :raises CommitFailedError: this consumer is not the member that it was; nothing was
            committed.
        :raises DeadlineExceededError: not acknowledged within ``max_block_ms``.
        :raises ClientError: there is no ``group_id``; no offsets were given, and positions of this
            consumer are committed by transactions.
        """
        await self._core.in_group().commit(self._core.to_commit(offsets), self._router.deadline())

    def commit_async(self, offsets: GivenOffsets | None = None) -> asyncio.Future[None]:
        """Begin to commit, in order with other commits. The future gets the result or the error."""
        return self._core.in_group().commit_async(
            self._core.to_commit(offsets), self._router.deadline()
        )

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset of each partition, assigned or not, or None."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        return await self._core.in_group().commits.fetch(wanted, self._router.deadline())

    def group_metadata(self) -> GroupMetadata:
        """Return this member as of now: it fences commits that somebody else makes for it."""
        return self._core.in_group().commits.identity.asking()

    def _join_transaction(self) -> InTransaction:
        """Return this consumer's part in a transaction that is to commit its positions."""
        return InTransaction(self._core)

    def enforce_rebalance(self, reason: str = "enforced by the application") -> None:
        """Ask the group for a new assignment soon; the coordinators log the reason."""
        self._core.in_group().enforce_rebalance(reason)

    # ------------------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition) -> int:
        """Wait until there is a position; return the offset of the next record."""
        fetcher = self._core.running()
        state = self._core.subscription.state(partition)
        self._core.reader.settle()
        deadline = self._router.deadline()
        while state.offset is None:
            if state.error is not None:
                raise state.error
            try:
                async with asyncio.timeout_at(deadline):
                    await fetcher.wait_for_data()
            except TimeoutError:
                raise DeadlineExceededError(f"{partition}: no position in time") from None
            self._core.running()
        return state.offset

    async def lag(self) -> dict[TopicPartition, int]:
        """Return how many offsets lie between each position and the end of its partition."""
        ends = await self.end_offsets(self.assignment())
        return {tp: max(end - await self.position(tp), 0) for tp, end in ends.items()}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position to ``offset`` at once, and drop what was fetched in advance."""
        if type(offset) is not int or offset < 0:
            raise ValueError(f"offset={offset!r}: must be an integer from 0 on")
        self._core.seek(self._core.subscription.state(partition), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the first records of these partitions (default: all that are assigned)."""
        await self._seek_to_time(partitions, EARLIEST_TIMESTAMP)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move behind the last records of these partitions (default: all that are assigned)."""
        await self._seek_to_time(partitions, LATEST_TIMESTAMP)

    async def seek_to_timestamp(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Move to the first record at or after a time, in ms since 1970, else to the end."""
        if type(timestamp_ms) is not int or timestamp_ms < 0:
            raise ValueError(f"timestamp_ms={timestamp_ms!r}: must be milliseconds since 1970")
        await self._seek_to_time(partitions, timestamp_ms)

    async def _seek_to_time(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        self._core.running()
        states = [self._core.subscription.state(tp) for tp in partitions or self.assignment()]
        found = await self._list_offsets({state.tp: timestamp for state in states})
        beyond = [state.tp for state in states if found[state.tp].offset < 0]
        if beyond:
            found |= await self._list_offsets(dict.fromkeys(beyond, LATEST_TIMESTAMP))
        for state in states:
            self._core.seek(state, found[state.tp].offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop handing out records of these partitions until they are resumed."""
        self._core.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with paused partitions where they were."""
        self._core.resume(partitions)

    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions, in order."""
        return [tp for tp, state in self._core.subscription.states.items() if state.paused]

    # ------------------------------------------------------------------------------ reading

    def __aiter__(self) -> AsyncIterator[Record]:
        return records_of(self._core.next_cursor)

    def until_idle(self, seconds: float) -> AsyncIterator[Record]:
        """Yield records until none has come for ``seconds`` of waiting, though all leaders answer.

        Use it as ``async for record in consumer.until_idle(10)``.

        :raises DeadlineExceededError: for ``max_block_ms`` some leader has not answered: there may
            be more to read.
        :raises ValueError: ``seconds`` is no number above zero.
        """
        return records_of(Idling(self._core, seconds).next_cursor)

    async def getone(self) -> Record:
        """Return the next record, waiting as long as it takes.

        :raises ClosedError: the consumer was closed meanwhile.
        """
        cursor = await self._core.next_cursor()
        if cursor is None:
            raise ClosedError("the consumer is closed")
        return next(cursor.iterator)

    async def getmany(
        self, *, max_records: int | None = None, timeout_ms: int = 0
    ) -> dict[TopicPartition, list[Record]]:
        """Return the records that are there, up to ``max_records`` (default ``max_poll_records``).

        They are grouped by partition. The call waits up to ``timeout_ms`` for the first record; an
        empty answer means that none came.

        :raises ClosedError: the consumer is closed: a loop over this would never end.
        """
        wanted = self._core.options.max_poll_records if max_records is None else max_records
        self._router.home.check()
        if wanted < 1:
            raise ValueError(f"max_records={max_records!r}: must be 1 or more")
        taken = await self._core.reader.next_lists(wanted, timeout_ms / 1000)
        if not taken and self._core.closed:
            raise ClosedError("the consumer is closed")
        return taken

    async def getbatch(self) -> ColumnBatch:
        """Return the next batch as columns, waiting as long as it takes.

        :raises ClosedError: the consumer was closed meanwhile.
        """
        batch = await self._core.next_batch()
        if batch is None:
            raise ClosedError("the consumer is closed")
        return batch

    async def batches(self) -> AsyncIterator[ColumnBatch]:
        """Yield every batch as columns: ``async for batch in consumer.batches()``."""
        while (batch := await self._core.next_batch()) is not None:
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
        """Return batches of one assigned partition from its position up to before ``end_offset``.

        They are those that are there, up to about ``max_records`` or ``max_bytes``; the call waits
        for the first. An empty list says that the position has come to ``end_offset``. It does so
        too where the last offsets hold no record of anybody's: markers, aborted or compacted ones.
        Nothing behind ``end_offset`` is handed out; the position ends there.

        :raises DeadlineExceededError: nothing came within ``timeout_ms``.
        :raises OffsetOutOfRangeError: the position is not in the log, and ``auto_offset_reset`` is
            "none".
        :raises ClosedError: the consumer was closed meanwhile.
        """
        state = self._core.subscription.state(partition)
        try:
            async with asyncio.timeout(timeout_ms / 1000) as patience:
                found = await self._core.reader.batches_until(
                    state, end_offset, max_records, max_bytes
                )
        except TimeoutError as error:
            if isinstance(error, ClientError) or not patience.expired():
                raise
            raise DeadlineExceededError(
                f"{TopicPartition(*partition)}: nothing came within {timeout_ms} ms from offset"
                f" {state.offset}, and {end_offset} was to be reached"
            ) from None
        if not found and self._core.closed:  # empty would say that the end is reached
            raise ClosedError("the consumer is closed")
        self._core.running()
        return found

    @overload
    async def run(
        self,
        handler: Callable[[Record], object],
        *,
        decode: None = None,
        **options: Unpack[RunSettings],
    ) -> None: ...

    @overload
    async def run(
        self,
        handler: Callable[[D], object],
        *,
        decode: Callable[[Record], D],
        **options: Unpack[RunSettings],
    ) -> None: ...

    async def run(self, handler: Callable[[Any], object], **options: Any) -> None:
        """Call ``handler(record)`` for every record, until the consumer is closed.

        Each record is handled at least once. Only what is done is committed: of each partition all
        below the first record that is not, with auto commit every ``auto_commit_interval_ms``,
        before a partition goes to another member, and at the end. Polling goes on meanwhile.

        :param handler: an async function (on the loop) or a plain one (in a thread).
        :param concurrency: how many records are handled at a time (default: 1).
        :param order: "key" (default): one key of a partition in order; "partition": all of it;
            "none".
        :param retry: after an error of the handler; default: one attempt. Meanwhile only what must
            not overtake the record waits.
        :param dead_letter: a topic for records that failed for good, with the cause in headers
            ``oncelog-dead-letter-...``. Without one, such an error ends the run.
        :param decode: what the handler gets instead of the record; a record on which it raises is
            not tried again.
        :param handler_timeout_ms: a longer attempt is cancelled and has failed.
        :param drain_timeout_ms: how long handlers of a partition that goes away, or at the end, are
            waited for before they are cancelled (default: 30,000). Keep it below
            ``max_poll_interval_ms``.
        :param max_records_in_flight: records taken and not done (default: 1,000, four times
            ``concurrency``, or twice ``transaction_records_max``, whichever is most);
            ``max_bytes_in_flight`` their bytes (default: 64 MiB). Above, partitions are paused.
        :param transactional_id: what the handler returns (a ``ProducerRecord``, or several; or it
            yields them) is written, in transactions that hold the positions too: each record is
            read, handled and answered exactly once, as a reader at read_committed sees it. Handlers
            themselves may run more than once. Dead letters are part of it. One id for each process
            that runs at a time: a second one with the same id takes over.
        :param transaction_timeout_ms: so long after its process has died a transaction is aborted
            (default: 60,000); until then its results, and what others wrote behind them, are not
            read.
        :param commit_interval_ms: between two of them (default: 100), unless
            ``transaction_records_max`` (default: 5,000) wait.
        :param stop_on_signals: Ctrl+C and SIGTERM close the consumer; see ``stop_on_signals()``.
        :raises ProducerFencedError: another process has this ``transactional_id``.
        :raises Exception: what the handler or ``decode`` raised, with a note that names the record;
            the position is then the first record that is not done.
        :raises CorruptRecordError: a batch does not hold (its CRC).
        :raises ConfigurationError: an option that makes no sense.
        """
        checked = self._run_options(handler, options)
        if checked.stop_on_signals:
            self.stop_on_signals()
        kind = Runner if checked.transactional_id is None else TransactionalRunner
        await kind(self._core, self.getmany, checked).run()

    def _run_options(self, handler: Callable[[Any], object], options: dict[str, Any]) -> RunOptions:
        return RunOptions(handler=handler, **options)

    def metrics(self) -> ConsumerMetrics:
        """Return a snapshot of the consumer's counters. It costs microseconds and asks nobody."""
        return consumer_metrics(self._router, self._core.subscription, self._core.reader)


def core_of(consumer: Consumer) -> ConsumerCore:
    """Return the parts of a consumer, for the SDK's own tools."""
    return consumer._core
