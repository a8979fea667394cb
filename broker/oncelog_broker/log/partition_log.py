"""The log of one partition: append, read, truncate, and how far it is durable.

Owns ``log_start_offset``, ``log_end_offset`` and ``synced_offset`` of one replica; which of its
offsets are committed is replication's business. Rules:

- an append validates, stamps in place, writes once and maps; the end moves right after the write;
- after a failed append the file is cut back to the last whole batch, or the directory stops:
  nothing behind a failure is ever acknowledged (KAFKA-10778). A full disk refuses writes and goes
  on reading;
- an offset counts (``synced_offset``) when a sync has covered it; with ``flush=interval`` at
  once, while ``recovery_point`` still waits for the sync. Both fall when the log is cut;
- ``needs_refetch``: what was synced does not hold (rot). The log takes no writes and is read as
  far as it holds, until it is fetched again from the leader (``truncate_fully_and_start_at``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog_broker.log import logged, retention, swap
from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.clean_state import CleanState
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.failures import append_failed, failed, refuse
from oncelog_broker.log.flusher import SyncJob
from oncelog_broker.log.invariants import append_does_not_follow
from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.log_producers import LogProducers, TxnGuard
from oncelog_broker.log.recovery import LoadedLog
from oncelog_broker.log.refetch import NOT_REFETCHING, remove_mark, write_mark
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList
from oncelog_broker.log.timestamp_search import find_timestamp
from oncelog_broker.log.unsynced import Unsynced
from oncelog_broker.log.validator import take_replicated_batches, validate_client_batch
from oncelog_protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
)
from oncelog_protocol.records.batch import (
    BatchHeader,
    CorruptBatchError,
    parse_header,
    stamp,
    stamp_append_time,
)
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import INTERNAL_TOPICS, TopicPartition
from oncelog_runtime.files import Buffer, File

if TYPE_CHECKING:
    from oncelog_broker.log.log_dir import LogDir

logger = logged.get_logger(__name__)


class PartitionLog:
    """One replica's log. Not for two threads; only syncing runs elsewhere."""

    __slots__ = (
        "_active",
        "_clock",
        "_internal",
        "_segments",
        "_told_offset",
        "_unsynced",
        "aborted",
        "checkpointed_recovery_point",
        "clean",
        "config",
        "damage",
        "directory",
        "epochs",
        "epochs_written",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "on_synced",
        "producers",
        "recovery_point",
        "refetch_until",
        "replaced",
        "size_bytes",
        "swaps",
        "synced_offset",
        "topic_id",
        "topic_partition",
        "truncation_mark",
    )

    def __init__(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        config: TopicConfig,
        loaded: LoadedLog,
    ) -> None:
        """Take over what recovery found."""
        self.log_dir = log_dir
        self.topic_partition = topic_partition
        self.topic_id = loaded.topic_id
        self.directory = loaded.directory
        self.config = config
        self.epochs: EpochHistory = loaded.epochs
        self.epochs_written = loaded.epochs.revision if loaded.epochs_intact else -1
        """Revision of ``epochs`` that the checkpoint on disk holds."""
        self._clock = log_dir.clock
        self._segments = SegmentList(log_dir.pool, loaded.directory, loaded.segments)
        self._active = self._segments.active
        self.damage = loaded.damage
        """What was synced and does not hold; empty when all does."""
        self.refetch_until = loaded.refetch_until
        """How far the log reached before its damage; -1 unless it is to be fetched again."""
        self._internal = topic_partition.topic in INTERNAL_TOPICS
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        """The next offset to be given."""
        self.size_bytes = self._segments.size_bytes()
        self.synced_offset = min(loaded.recovery_point, loaded.log_end_offset)
        """Offsets below it count; see ``flush``."""
        self.recovery_point = loaded.recovery_point
        """Offsets below it are synced, whatever ``flush`` says."""
        self.checkpointed_recovery_point = loaded.recovery_point
        """The highest recovery point that the disk may hold for this log."""
        self.truncation_mark = int(loaded.marked)
        """Number of the truncation mark that the disk holds for this log; 0 when it holds none."""
        self.on_synced: Callable[[int], None] | None = None
        """Called on the loop, never from inside an append, after ``synced_offset`` moved up."""
        self._told_offset = self.synced_offset
        self._unsynced = Unsynced()
        self.aborted = loaded.aborted or AbortedTransactions(log_dir.files, loaded.directory)
        self.aborted.find_segment = self._segments.find
        self.producers = LogProducers(self, loaded.producers, loaded.snapshots)
        self.clean = CleanState()
        """How far the log is compacted."""
        self.swaps = 0
        """How often compaction has replaced segments."""
        self.replaced: list[Segment] = []
        """Of which the files are there yet; see ``swap``."""

    # ---- appending

    def append_as_leader(
        self, batch: memoryview, leader_epoch: int, guard: TxnGuard | None = None
    ) -> LogAppend:
        """Append exactly one batch of a client, given as a writable view, into which offset and
        leader epoch are stamped. ``guard``: of the first of a transaction; see ``log_producers``.

        Raises what the validator and ``LogProducers.check`` raise, StorageError, and
        FencedLeaderEpochError for an epoch older than the log's newest.
        """
        if self.damage or not self.log_dir.online:
            refuse(self)
        now_ms = self._clock.now_ms()
        header = validate_client_batch(batch, self.config, now_ms)
        if header.producer_id >= 0:
            repeat = self.producers.check(header, guard)
            if repeat is not None:
                return repeat
        return self._append(batch, header, leader_epoch, now_ms)

    def append_marker(
        self,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        leader_epoch: int,
    ) -> LogAppend:
        """End the transaction of a producer. ``repeated``: that was done, below the log end. Raises
        what ``ProducerState.check_marker`` raises, StorageError, FencedLeaderEpochError."""
        if self.damage or not self.log_dir.online:
            refuse(self)
        now_ms = self._clock.now_ms()
        marker = self.producers.marker(commit, producer_id, producer_epoch, coordinator_epoch)
        if marker is None:
            return LogAppend.nothing(self.log_end_offset)
        return self._append(memoryview(marker), parse_header(marker), leader_epoch, now_ms)

    def _append(
        self, batch: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> LogAppend:
        """Write one checked batch."""
        log_dir, config = self.log_dir, self.config
        size = len(batch)
        log_dir.credit_bytes -= size
        if log_dir.credit_bytes < 0:
            # Without markers nothing could be deleted: they may use the room of last resort.
            log_dir.take_space(size, internal=self._internal or header.is_control)
        base = self.log_end_offset
        last = base + header.last_offset_delta
        if leader_epoch != self.epochs.latest:
            self._enter_epoch(leader_epoch, base)
        segment = self._active
        if segment.size_bytes and segment.must_roll(config, size, last, now_ms):
            segment = self.roll()
        if not segment.next_offset == base <= last:
            append_does_not_follow(segment.next_offset, base, last)
        max_timestamp, append_time_ms = header.max_timestamp, -1
        if config.uses_append_time:
            stamp_append_time(batch, 0, now_ms)
            max_timestamp = append_time_ms = now_ms
        stamp(batch, 0, base, leader_epoch)
        try:
            segment.write((batch,))
        except OSError as error:
            append_failed(self, segment, error)
        segment.note(base, last + 1, size, max_timestamp, now_ms)
        self.log_end_offset = last + 1
        self.size_bytes += size
        if header.producer_id >= 0:
            self.producers.led(header, batch, base, max_timestamp, now_ms)
        self._wrote(segment, size)
        return LogAppend(base, last, max_timestamp, append_time_ms, size, header.record_count)

    def append_as_follower(self, batches: memoryview) -> LogAppend | None:
        """Append whole batches as the leader sent them; a partial one at the end is ignored.

        They must continue at ``log_end_offset``; only into an empty log may the first begin below
        it, as a log may start inside a batch (KAFKA-6975). Raises CorruptMessageError,
        OffsetOutOfRangeError, StorageError. Size limits of clients do not apply (KAFKA-9617).
        """
        if self.damage or not self.log_dir.online:
            refuse(self)
        batches, found = take_replicated_batches(
            batches, self.log_end_offset, empty=self.size_bytes == 0
        )
        if not found:
            return None
        now_ms = self._clock.now_ms()
        end = found[-1][0] + found[-1][1].size_bytes
        self.log_dir.credit_bytes -= end
        if self.log_dir.credit_bytes < 0:
            self.log_dir.take_space(end, internal=self._internal)
        first = found[0][1].base_offset
        if first < self.log_end_offset:
            self._restart_inside(first)
        start = count = 0
        for number, (position, header) in enumerate(found):
            segment = self._active
            full = segment.size_bytes + position - start
            size = full - segment.size_bytes + header.size_bytes
            if full and segment.must_roll(self.config, size, header.last_offset, now_ms):
                self._write_group(batches[start:position], found[number - count : number], now_ms)
                start, count = position, 0
                self.roll()
            count += 1
        self._write_group(batches[start:end], found[len(found) - count :], now_ms)
        return LogAppend.of_batches([header for _, header in found])

    def _write_group(
        self, data: memoryview, headers: list[tuple[int, BatchHeader]], now_ms: int
    ) -> None:
        """Write batches that go into the active segment together."""
        if not headers:
            return
        segment, first = self._active, headers[0][1]
        if first.base_offset != segment.next_offset:
            append_does_not_follow(segment.next_offset, first.base_offset, first.last_offset)
        try:
            for _, header in headers:
                if header.leader_epoch != self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                    self.log_dir.checkpoint_due()
            segment.write((data,))
        except OSError as error:
            append_failed(self, segment, error)
        except ValueError as error:
            self.epochs.truncate_from_end(self.log_end_offset)
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error
        start = headers[0][0]
        for position, header in headers:
            segment.note_header(header, now_ms)
            if header.producer_id >= 0:
                self.producers.followed(header, data[position - start :], now_ms)
        self.log_end_offset = segment.next_offset
        self.size_bytes += len(data)
        self._wrote(segment, len(data))

    def _wrote(self, segment: Segment, size: int) -> None:
        """Something is dirty: have it synced, now or later."""
        unsynced = self._unsynced
        if not segment.dirty:
            unsynced.wrote(segment, size)
        if self.config.flush == "commit":
            return self._sync_soon()
        if not self.log_dir.counts_unsynced:
            self.log_dir.note_unsynced()
        self.synced_offset = self.log_end_offset
        if not unsynced.queued:
            unsynced.queued = True
            self.log_dir.flusher.mark_later(self)
        self.log_dir.tell_soon(self)

    def _sync_soon(self) -> None:
        if not self._unsynced.queued:
            self._unsynced.queued = True
            self.log_dir.flusher.mark(self)

    def _enter_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.epochs.latest:
            raise FencedLeaderEpochError(
                f"{self.topic_partition}: epoch {epoch}, the log has epoch {self.epochs.latest}"
            )
        self.assign_epoch(epoch, offset)

    def _restart_inside(self, base_offset: int) -> None:
        """The log is empty and its start lies inside the first batch: begin at the batch."""
        try:
            trash = self._segments.restart_at(base_offset, self.config.index_interval_bytes)
        except OSError as error:
            failed(self, "restart", error)
        self._active = self._segments.active
        self._unsynced.cut(self._active)
        self.log_dir.remove_later(trash, 0)

    def roll(self) -> Segment:
        """Begin a new segment at the log end; an empty one stays as it is. Raises StorageError."""
        if not self._active.size_bytes:
            return self._active
        try:
            self._active = self._segments.roll(
                self.log_end_offset, self.config.index_interval_bytes
            )
        except OSError as error:
            failed(self, "roll", error)
        self._unsynced.directory_changed = True
        self.producers.snapshot()
        return self._active

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one_batch: bool = True) -> Buffer:
        """Return whole batches from the one that holds ``offset``; none that reaches past ``upto``.

        Empty at the end, or when the first batch is larger than ``max_bytes`` and
        ``min_one_batch`` is off. One segment at most. Raises OffsetOutOfRangeError outside
        ``[log_start_offset, log_end_offset]``, StorageError, and CorruptMessageError on rot.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            what = f"offset {offset} is not in [{self.log_start_offset}, {end}]"
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {what}")
        if not self.log_dir.online:
            refuse(self)
        if upto > end:
            upto = end
        if offset >= upto:
            return b""
        segment = self._active
        if offset < segment.base_offset:
            segment = self._segments.find(offset)
        try:
            return segment.read(offset, max_bytes, upto, min_one_batch)
        except OSError as error:
            failed(self, "read", error)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after a time.

        None when there is none. Milliseconds since 1970. Raises StorageError.
        """
        if not self.log_dir.online:
            refuse(self)
        try:
            return find_timestamp(self._segments, timestamp, self.log_start_offset)
        except OSError as error:
            failed(self, "read", error)
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error

    # ---- cutting

    def truncate_to(self, offset: int) -> bool:
        """Cut off the batches that reach ``offset`` or lie behind it; return whether any were.

        The log may then end below ``offset``, as batches stay whole. The epoch history is cut even
        when the log is not (KAFKA-10706). Raises StorageError.
        """
        if self.damage or not self.log_dir.online:
            refuse(self)
        if offset < max(self.log_start_offset, self.clean.relied_on):
            # Committed records go that others have given way to: values would be lost for good.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset))
            return True
        if self.epochs.truncate_from_end(offset):
            self.log_dir.checkpoint_due()
        if offset >= self.log_end_offset:
            return False
        logger.info(logged.LOG_TRUNCATED, self.topic_partition, self.log_end_offset, offset)
        try:
            swap.settle(self)
            offset = self._segments.batch_start(offset)
            if offset < self.checkpointed_recovery_point:
                # Tell the disk first that what lies behind is no longer promised, nor what lies
                # behind an earlier cut that no sync has followed yet.
                self._mark_cut(min(offset, self.recovery_point), self.log_start_offset)
            trash = self._segments.truncate_to(offset, self._clock.now_ms())
            self.producers.cut(self._segments.active.next_offset)
        except (OSError, CorruptBatchError, CorruptMessageError) as error:
            failed(self, "truncate", error)
        self._was_cut(trash)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throw everything away; the next offset is ``offset``. Ends ``needs_refetch``.

        Raises StorageError.
        """
        if not self.log_dir.online:
            refuse(self)
        logger.info(logged.LOG_BEGUN_ANEW, self.topic_partition, offset)
        try:
            if self.damage:
                end = max(self.refetch_until, self.recovery_point, self.log_end_offset)
                write_mark(self.log_dir.files, self.directory, end)
                self.refetch_until = end
            swap.settle(self)
            self._mark_cut(0, offset)  # in any case: the disk may hold a higher log start
            trash = self._segments.restart_at(offset, self.config.index_interval_bytes)
            self.producers.cut(0)
            if self.damage:
                trash += self._segments.strays()
        except OSError as error:
            failed(self, "truncate", error)
        self.damage = ""
        self.clean = CleanState()
        self.epochs.clear()
        self._was_cut(trash)
        self.log_start_offset = self.recovery_point = self.synced_offset = offset
        self._told_offset = offset

    def _was_cut(self, trash: list[str]) -> None:
        self._active = self._segments.active
        self.log_end_offset = end = self._active.next_offset
        self.size_bytes = self._segments.size_bytes()
        self.synced_offset = min(self.synced_offset, end)
        self._told_offset = min(self._told_offset, end)
        self.recovery_point = min(self.recovery_point, end)
        self.clean.cut(end)
        self._unsynced.cut(self._active)
        self._sync_soon()
        self.log_dir.checkpoint_due()
        self.log_dir.remove_later(trash, 0)

    def _mark_cut(self, offset: int, log_start_offset: int) -> None:
        self.truncation_mark += 1  # first: a write that failed may have left the file
        self.log_dir.mark_truncation(self.directory, offset, log_start_offset)

    def advance_log_start(self, offset: int) -> bool:
        """Give up the records below ``offset``; return whether there were any.

        The caller sees to it that ``offset`` is not above the high watermark. Raises
        OffsetOutOfRangeError beyond the log end.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {offset} is beyond the log end")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.log_dir.checkpoint_due()
        return True

    def apply_retention(self, now_ms: int, high_watermark: int) -> int:
        """Delete what the topic's policy lets go below ``high_watermark`` and the first undecided
        transaction; return the bytes freed. Raises StorageError."""
        return retention.apply(self, now_ms, min(high_watermark, self.producers.first_undecided))

    def drop_oldest(self, count: int) -> list[str]:
        """Give up so many segments; return what is left to remove. Raises StorageError."""
        try:
            swap.settle(self)
            trash = self._segments.drop_oldest(count)
        except OSError as error:
            failed(self, "delete", error)
        self._unsynced.drop_gone()
        self.aborted.drop_below(self._segments[0].base_offset)
        self.size_bytes = self._segments.size_bytes()
        self.advance_log_start(max(self.log_start_offset, self._segments[0].base_offset))
        return trash

    # ---- epochs

    def latest_epoch(self) -> int:
        """The newest leader epoch in the log or assigned; -1 when there is none."""
        return self.epochs.latest

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """A leader begins ``epoch`` here. In memory at once; see ``epoch_history`` for the disk.

        Raises ValueError when it contradicts what was written.
        """
        if self.epochs.assign(epoch, start_offset):
            self.log_dir.checkpoint_due()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (largest epoch <= ``epoch``, its end offset); (-1, -1) unknown (KIP-279)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- durability

    @property
    def needs_refetch(self) -> bool:
        """Whether synced data does not hold, so that the replica must start anew (rule D2)."""
        return bool(self.damage)

    def refetched(self) -> None:
        """All is there again, synced, that was committed. Raises StorageError."""
        try:
            remove_mark(self.log_dir.files, self.directory)
        except OSError as error:
            failed(self, "refetch mark", error)
        self.refetch_until = NOT_REFETCHING
        self._unsynced.directory_changed = True
        self._sync_soon()

    def created(self, meta: File) -> None:
        """The partition is new: its meta file and both directories are to be synced."""
        self._unsynced.created(meta)
        self._sync_soon()

    def begin_sync(self) -> SyncJob:
        """For the flusher: capture what is dirty."""
        job = SyncJob(self, self.log_end_offset)
        try:
            self._unsynced.begin(job, self.directory, self.log_dir.path)
        except OSError as error:
            self.log_dir.fail(f"open {self.topic_partition}", error)
        return job

    def finish_sync(self, job: SyncJob) -> None:
        """For the flusher: what the job captured is durable."""
        if not self._unsynced.finish(job) or job.end_offset <= self.recovery_point:
            return
        self.recovery_point = job.end_offset
        self.log_dir.checkpoint_due()
        if job.end_offset > self.synced_offset:
            self.synced_offset = job.end_offset
        self.tell()

    def tell(self) -> None:
        """Call ``on_synced`` if there is news."""
        if self.synced_offset > self._told_offset:
            self._told_offset = self.synced_offset
            if self.on_synced is not None:
                self.on_synced(self.synced_offset)

    def persist_indexes(self, count_min: int = 1) -> bool:
        """Write the active segment's index if so many entries are new; return whether it did."""
        if self._active.unpersisted_entries < count_min:
            return False
        self._active.persist_index()
        return True

    # ---- the rest

    def reconfigure(self, config: TopicConfig) -> None:
        """Take on changed settings of the topic; ``flush=commit`` holds for what comes after."""
        self.config = config
        if self._unsynced.queued:
            self.log_dir.flusher.mark(self)

    def close(self, *, keep: bool = True) -> None:
        """Write what the next start reads, if one is to, give up descriptors. Syncs nothing."""
        if keep:
            self.producers.snapshot()
        self.log_dir.flusher.forget(self)
        for segment in self._segments:
            if self.damage or not self.log_dir.online:
                segment.release()
            else:
                segment.close()
        for file in self._unsynced.new_files:
            self.log_dir.pool.close_file(file)
        self._unsynced.new_files = []

    @property
    def cuts(self) -> int:
        """How often the log was cut since it was loaded."""
        return self._unsynced.cuts

    @property
    def segments(self) -> SegmentList:
        """The segments, for tools and tests."""
        return self._segments

    def __repr__(self) -> str:
        return (
            f"<PartitionLog {self.topic_partition} [{self.log_start_offset},"
            f" {self.log_end_offset}) synced {self.synced_offset}>"
        )
