"""A partition's log appends, reads and truncates, and knows how far it is durable.

Owns start, end and synced offset of one replica; replication knows what is committed. Rules:

- an append validates, stamps in place, writes once and maps; the end moves right after the write;
- after a failed append the file is truncated to the last whole batch, or the directory stops:
  it would go on behind the last batch otherwise, and an append would land there [B14] [D7]. Nothing
  behind a failure is ever acknowledged (KAFKA-10778);
- a full disk, and a want of descriptors or memory, say nothing about the disk: the call fails, the
  log goes on [D8]. Any other error stops the directory for good. Bytes that do not hold are damage
  of this log alone;
- an offset counts (``synced_offset``) when a sync has covered it; with ``flush=interval`` at
  once, while ``recovery_point`` still waits for the sync. Both fall when the log is truncated;
- ``needs_refetch``: what was synced does not hold (corruption). The log takes no writes and is read
  as far as it holds, until it is fetched again from the leader (``truncate_fully_and_start_at``).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from oncelog_broker.log import checkpoint
from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.clean_state import CleanState
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.flusher import SyncJob
from oncelog_broker.log.hosted_log import HousedFiles, LogCheckpoint
from oncelog_broker.log.invariants import append_does_not_follow
from oncelog_broker.log.key_check import KeyCheck
from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_producers import LogProducers, TxnGuard
from oncelog_broker.log.recovery import TRUNCATION_MARK, LoadedLog
from oncelog_broker.log.refetch import NOT_REFETCHING, remove_mark, write_mark
from oncelog_broker.log.retention import SEGMENTS_AT_ONCE, deletable
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList
from oncelog_broker.log.swap import Swap
from oncelog_broker.log.timestamp_search import find_timestamp
from oncelog_broker.log.unsynced import Unsynced
from oncelog_broker.log.validator import take_replicated_batches, validate_client_batch
from oncelog_protocol.errors import (
    CorruptMessageError,
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    StorageError,
)
from oncelog_protocol.records.batch import (
    MAGIC,
    BatchHeader,
    CorruptBatchError,
    parse_header,
    stamp,
    stamp_append_time,
)
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import INTERNAL_TOPICS, NO_TXN_NUMBER, TopicPartition
from oncelog_runtime.files import Buffer, File
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
"""These errors say nothing about the disk."""
_INDEX_ENTRIES_MIN = 256
"""Writing indexes is worth while with so many new entries: about 1 MiB of log."""


class PartitionLog:
    """It is one replica's log. It is not for two threads; only syncing runs elsewhere."""

    __slots__ = (
        *("_active", "_checkpointed_recovery_point", "_clock", "_epochs_written", "_internal"),
        *("_on_synced", "_on_truncated", "_told_offset", "_whole_reads"),
        "aborted",
        "appended_bytes",
        "clean",
        "config",
        "damage",
        "directory",
        "epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "made_epoch",
        "producers",
        "recovery_point",
        "refetch_until",
        "segments",
        "size_bytes",
        "swap",
        "synced_offset",
        "topic_id",
        "topic_partition",
        "truncation_mark",
        "unsynced",
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
        self.topic_id, self.made_epoch = loaded.topic_id, loaded.made_epoch
        self.directory = loaded.directory
        self.config = config
        self.epochs: EpochHistory = loaded.epochs
        self._epochs_written = loaded.epochs.revision if loaded.epochs_intact else -1
        """The checkpoint on disk holds this revision of ``epochs``."""
        self._clock = log_dir.clock
        self.segments = SegmentList(log_dir.pool, loaded.directory, loaded.segments)
        self._active = self.segments.active
        self.damage = loaded.damage
        """It names what was synced and does not hold; empty when all does."""
        self.refetch_until = loaded.refetch_until
        """The log reached so far before its damage; -1 unless it is to be fetched again."""
        self._internal = topic_partition.topic in INTERNAL_TOPICS
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        """It is the next offset to be given."""
        self.size_bytes = self.segments.size_bytes()
        self.appended_bytes = 0
        """So much was appended since the log was loaded, by whomever."""
        self.synced_offset = min(loaded.recovery_point, loaded.log_end_offset)
        """Offsets below it count; see ``flush``."""
        self.recovery_point = loaded.recovery_point
        """Offsets below it are synced, whatever ``flush`` says."""
        self._checkpointed_recovery_point = loaded.recovery_point
        """The highest recovery point that the disk may hold for this log."""
        self.truncation_mark = int(loaded.marked)
        """The disk holds the truncation mark of this number for this log; 0 when it holds none."""
        self._on_synced: Callable[[int], None] | None = None
        self._on_truncated: Callable[[], None] | None = None
        self._told_offset = self.synced_offset
        self.unsynced = Unsynced(self, log_dir.flusher)
        self.aborted = loaded.aborted or AbortedTransactions(log_dir.files, loaded.directory)
        self.aborted.read_from(self.segments.find)
        self.producers = LogProducers(self, loaded.producers, loaded.snapshots)
        self.clean = CleanState()
        """It says how far the log is compacted."""
        self._whole_reads = 0
        self.swap = Swap(log_dir, self.directory, self.segments, self.aborted)
        """It knows the segments that compaction has replaced."""

    # ---- appending

    def append_as_leader(
        self,
        batch: memoryview,
        leader_epoch: int,
        guard: TxnGuard | None = None,
        user: str | None = None,
        magic: int = MAGIC,
        keys: KeyCheck | None = None,
    ) -> LogAppend:
        """Append exactly one batch of a client, given as a writable view, into which offset and
        leader epoch are stamped. ``guard``: of the first of a transaction; see ``log_producers``.
        ``user``: the principal of the client, None where it is not known. ``magic`` is that of the
        format in which the client writes. ``keys`` is the check of its keys, if it was begun.

        Raises what the validator and ``LogProducers.check`` raise, StorageError, and
        FencedLeaderEpochError for an epoch older than the log's newest.
        """
        if self.damage or not self.log_dir.online:
            self.refuse()
        now_ms, latest_ms = self._clock.now_ms(), self._clock.latest_ms()
        header = validate_client_batch(
            batch, self.config, now_ms, latest_ms, magic=magic, keys=keys
        )
        if header.producer_id >= 0:
            repeat = self.producers.check(header, guard, user)
            if repeat is not None:
                return repeat
        append = self._append(batch, header, leader_epoch, now_ms, latest_ms)
        if user is not None and header.producer_id >= 0 and not header.is_transactional:
            self.producers.used_by(header.producer_id, user)
        return append

    def append_marker(
        self,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        leader_epoch: int,
        number: int = NO_TXN_NUMBER,
    ) -> LogAppend:
        """End the transaction of a producer. ``repeated``: that was done, below the log end. Raises
        what ``ProducerState.check_marker`` raises, StorageError, FencedLeaderEpochError."""
        if self.damage or not self.log_dir.online:
            self.refuse()
        now_ms, latest_ms = self._clock.now_ms(), self._clock.latest_ms()
        marker = self.producers.marker(
            commit, producer_id, producer_epoch, coordinator_epoch, number
        )
        if marker is None:
            return LogAppend.nothing(self.log_end_offset)
        data = memoryview(marker)
        return self._append(data, parse_header(marker), leader_epoch, now_ms, latest_ms)

    def _append(
        self, batch: memoryview, header: BatchHeader, epoch: int, now_ms: int, latest_ms: int
    ) -> LogAppend:
        """Write one checked batch. Stamped with the latest that it may be, it goes late enough."""
        log_dir, config = self.log_dir, self.config
        size = len(batch)
        if not log_dir.spend(size):
            # Without markers nothing could be deleted: they may use the room of last resort.
            log_dir.take_space(size, internal=self._internal or header.is_control)
        base = self.log_end_offset
        last = base + header.last_offset_delta
        if epoch != self.epochs.latest:
            self._enter_epoch(epoch, base)
        segment = self._active
        if segment.size_bytes and segment.must_roll(config, size, last, latest_ms):
            segment = self.roll()
        if not segment.next_offset == base <= last:
            append_does_not_follow(segment.next_offset, base, last)
        max_timestamp, append_time_ms = header.max_timestamp, -1
        if config.uses_append_time:
            stamp_append_time(batch, 0, now_ms)
            max_timestamp = append_time_ms = now_ms
        stamp(batch, 0, base, epoch)
        try:
            segment.write((batch,))
        except OSError as error:
            self.append_failed(segment, error)
        stamp_ms = self._clock.stamp_of(latest_ms)
        segment.note(base, last + 1, size, max_timestamp, stamp_ms)
        self.log_end_offset = last + 1
        self.size_bytes += size
        if header.producer_id >= 0:
            self.producers.led(header, batch, base, max_timestamp, stamp_ms)
        self._wrote(segment, size)
        return LogAppend(base, last, max_timestamp, append_time_ms, size, header.record_count)

    def append_as_follower(self, batches: memoryview) -> LogAppend | None:
        """Append whole batches as the leader sent them; a partial one at the end is ignored.

        They must continue at ``log_end_offset``; only into an empty log may the first begin below
        it, as a log may start inside a batch (KAFKA-6975). Raises CorruptMessageError,
        OffsetOutOfRangeError, StorageError. Size limits of clients do not apply (KAFKA-9617).
        """
        if self.damage or not self.log_dir.online:
            self.refuse()
        batches, found = take_replicated_batches(
            batches, self.log_end_offset, empty=self.size_bytes == 0
        )
        if not found:
            return None
        latest_ms = self._clock.latest_ms()
        stamp_ms = self._clock.stamp_of(latest_ms)
        end = found[-1][0] + found[-1][1].size_bytes
        if not self.log_dir.spend(end):
            self.log_dir.take_space(end, internal=self._internal)
        first = found[0][1].base_offset
        if first < self.log_end_offset:
            self._restart_inside(first)
        start = count = 0
        for number, (position, header) in enumerate(found):
            segment = self._active
            full = segment.size_bytes + position - start
            size = full - segment.size_bytes + header.size_bytes
            if full and segment.must_roll(self.config, size, header.last_offset, latest_ms):
                self._write_group(batches[start:position], found[number - count : number], stamp_ms)
                start, count = position, 0
                self.roll()
            count += 1
        self._write_group(batches[start:end], found[len(found) - count :], stamp_ms)
        return LogAppend.of_batches([header for _, header in found])

    def _write_group(
        self, data: memoryview, headers: list[tuple[int, BatchHeader]], now_ms: int
    ) -> None:
        """Append batches that go into the active segment together."""
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
            self.append_failed(segment, error)
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
        """Have something that is dirty synced, now or later."""
        self.appended_bytes += size
        unsynced = self.unsynced
        if not segment.dirty:
            unsynced.wrote(segment, size)
        if self.config.flush == "commit":
            return unsynced.sync_soon()
        if not self.log_dir.counts_unsynced:
            self.log_dir.note_unsynced()
        self.synced_offset = self.log_end_offset
        if not unsynced.queued:
            unsynced.sync_later()
        self.log_dir.tell_soon(self)

    def _enter_epoch(self, epoch: int, offset: int) -> None:
        if epoch < self.epochs.latest:
            raise FencedLeaderEpochError(
                f"{self.topic_partition}: epoch {epoch}, the log has epoch {self.epochs.latest}"
            )
        self.assign_epoch(epoch, offset)

    def _restart_inside(self, base_offset: int) -> None:
        """Begin an empty log at its first batch, as its start lies inside of that."""
        try:
            trash = self.segments.restart_at(base_offset, self.config.index_interval_bytes)
        except OSError as error:
            self.failed("restart", error)
        self._active = self.segments.active
        self.unsynced.truncated(self._active)
        self.log_dir.remove_later(trash, 0)

    def roll(self) -> Segment:
        """Begin a new segment at the log end; an empty one stays as it is. Raises StorageError."""
        if not self._active.size_bytes:
            return self._active
        try:
            self._active = self.segments.roll(self.log_end_offset, self.config.index_interval_bytes)
        except OSError as error:
            self.failed("roll", error)
        self.unsynced.names_changed()
        self.producers.snapshot()
        return self._active

    # ---- reading

    def read(self, offset: int, max_bytes: int, *, upto: int, min_one_batch: bool = True) -> Buffer:
        """Return whole batches from the one that holds ``offset``; none that reaches past ``upto``.

        Empty at the end, or when the first batch is larger than ``max_bytes`` and
        ``min_one_batch`` is off. One segment at most. Raises OffsetOutOfRangeError outside
        ``[log_start_offset, log_end_offset]``, StorageError, and CorruptMessageError on corruption.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            what = f"offset {offset} is not in [{self.log_start_offset}, {end}]"
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {what}")
        if not self.log_dir.online:
            self.refuse()
        if upto > end:
            upto = end
        if offset >= upto:
            return b""
        segment = self._active
        if offset < segment.base_offset:
            segment = self.segments.find(offset)
        try:
            return segment.read(offset, max_bytes, upto, min_one_batch)
        except OSError as error:
            self.failed("read", error)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch), those of the first record at or after a time.

        None means that there is none. The time is in milliseconds since 1970. Raises StorageError.
        """
        if not self.log_dir.online:
            self.refuse()
        try:
            return find_timestamp(self.segments, timestamp, self.log_start_offset)
        except OSError as error:
            self.failed("read", error)
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Truncate the batches that reach ``offset`` or lie behind it; return whether any were.

        The log may then end below ``offset``, as batches stay whole. The epoch history is truncated
        even when the log is not (KAFKA-10706). Raises StorageError.
        """
        if self.damage or not self.log_dir.online:
            self.refuse()
        if offset < max(self.log_start_offset, self.clean.relied_on):
            # Committed records go that others have given way to: values would be lost for good.
            self.truncate_fully_and_start_at(min(offset, self.log_start_offset))
            return True
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(offset):
                self.log_dir.checkpoint_due()
            return False
        logger.info(
            "log_truncated",
            partition=self.topic_partition,
            before=self.log_end_offset,
            offset=offset,
        )
        try:
            self.swap.settle(self.config.file_delete_delay_ms)
            offset = self.segments.batch_start(offset)
            if offset < self._checkpointed_recovery_point:
                # Tell the disk first that what lies behind is no longer promised, nor what lies
                # behind an earlier truncation that no sync has followed yet.
                self._mark_truncation(min(offset, self.recovery_point), self.log_start_offset)
        except (OSError, CorruptBatchError, CorruptMessageError) as error:
            self.failed("truncate", error)  # the log is as it was, and so is its epoch history
        try:
            trash = self._truncate_segments(offset)
        except OSError as error:
            self._shortened([])  # by the segments that went before one failed
            self.failed("truncate", error)
        except (CorruptBatchError, CorruptMessageError) as error:
            self.failed("truncate", error)
        self._shortened(trash)
        return True

    def _truncate_segments(self, offset: int) -> list[str]:
        try:
            return self.segments.truncate_to(offset, self._clock.stamp_of(self._clock.latest_ms()))
        finally:
            self.producers.truncate(self.segments.active.next_offset)

    def _shortened(self, trash: list[str]) -> None:
        self._was_truncated(trash)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throw everything away; the next offset is ``offset``. Ends ``needs_refetch``.

        Raises StorageError.
        """
        if not self.log_dir.online:
            self.refuse()
        logger.info("log_begun_anew", partition=self.topic_partition, offset=offset)
        try:
            if self.damage:
                end = max(self.refetch_until, self.recovery_point, self.log_end_offset)
                write_mark(self.log_dir.files, self.directory, end)
                self.refetch_until = end
            self.swap.settle(self.config.file_delete_delay_ms)
            self._mark_truncation(0, offset)  # in any case: the disk may hold a higher log start
            trash = self.segments.restart_at(offset, self.config.index_interval_bytes)
            self.producers.truncate(0)
            if self.damage:
                trash += self.segments.strays()
        except OSError as error:
            self.failed("truncate", error)
        self.damage = ""
        self.clean = CleanState()
        self.epochs.clear()
        self._was_truncated(trash)
        self.log_start_offset = self.recovery_point = self.synced_offset = offset
        self._told_offset = offset

    def _was_truncated(self, trash: list[str]) -> None:
        self._active = self.segments.active
        self.log_end_offset = end = self._active.next_offset
        self.size_bytes = self.segments.size_bytes()
        self.synced_offset = min(self.synced_offset, end)
        self._told_offset = min(self._told_offset, end)
        self.recovery_point = min(self.recovery_point, end)
        self.clean.truncate(end)
        self.unsynced.truncated(self._active)
        self.unsynced.sync_soon()
        self.log_dir.checkpoint_due()
        self.log_dir.remove_later(trash, 0)
        if self._on_truncated is not None:
            self._on_truncated()

    def _mark_truncation(self, offset: int, log_start_offset: int) -> None:
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
        transaction, or the first of many segments; return the bytes freed. Raises StorageError."""
        if self.damage or not self.log_dir.online or self.producers.is_reading:
            return 0  # as long as producers are read it is not known what is undecided
        doomed = deletable(
            self.segments,
            self.config,
            now_ms=now_ms,
            high_watermark=min(high_watermark, self.producers.first_undecided),
            log_start_offset=self.log_start_offset,
            log_size_bytes=self.size_bytes,
        )[:SEGMENTS_AT_ONCE]
        if not doomed:
            return 0
        if doomed[-1] is self._active:
            self.roll()
        freed = sum([segment.size_bytes for segment in doomed])
        trash = self.drop_oldest(len(doomed))
        start = self.log_start_offset
        logger.info(
            "log_retention_deleted", partition=self.topic_partition, bytes=freed, offset=start
        )
        self.log_dir.remove_later(trash, self.config.file_delete_delay_ms)
        return freed

    def drop_oldest(self, count: int) -> list[str]:
        """Give up so many segments; return what is left to remove. Raises StorageError."""
        try:
            self.swap.settle(self.config.file_delete_delay_ms)
            trash = self.segments.drop_oldest(count)
        except OSError as error:
            self.failed("delete", error)
        self.unsynced.drop_gone()
        self.aborted.drop_below(self.segments[0].base_offset)
        self.size_bytes = self.segments.size_bytes()
        self.advance_log_start(max(self.log_start_offset, self.segments[0].base_offset))
        return trash

    # ---- compaction

    @contextmanager
    def reading_whole(self) -> Iterator[None]:
        """Keep the log from being compacted while somebody reads it from its start to its end.

        A reader that is slower than ``delete_retention_ms`` would have read an older value, and
        find the tombstone behind it gone.
        """
        self._whole_reads += 1
        try:
            yield
        finally:
            self._whole_reads -= 1

    @property
    def is_read_whole(self) -> bool:
        """Return whether somebody reads it from its start to its end."""
        return self._whole_reads > 0

    def compacted_before(self, rows: Iterable[tuple[int, int]], upto: int) -> None:
        """Take over the rows of the cleaner's checkpoint that lie below ``upto``."""
        if not self.damage:
            self.clean = CleanState(rows, upto)
        self.clean.in_step(-1)

    def swap_in(
        self, run: Sequence[Segment], segment: Segment, markers_gone: Collection[int] = ()
    ) -> None:
        """Put a compacted segment in the place of those that it was made of; see ``Swap``."""
        self.swap.put_in(run, segment, markers_gone, self.config.file_delete_delay_ms)
        self.size_bytes = self.segments.size_bytes()

    # ---- epochs

    def latest_epoch(self) -> int:
        """Return the newest leader epoch in the log or assigned; -1 when there is none."""
        return self.epochs.latest

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Begin ``epoch`` as leader, in memory at once; see ``epoch_history`` for the disk.

        Raises ValueError when it contradicts what was written.
        """
        if self.epochs.assign(epoch, start_offset):
            self.log_dir.checkpoint_due()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (largest epoch <= ``epoch``, its end offset); (-1, -1) if unknown (KIP-279)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # ---- durability

    @property
    def needs_refetch(self) -> bool:
        """Return whether synced data does not hold, so that the replica must start anew [D2]."""
        return bool(self.damage)

    def declare_damaged(self, what: str) -> None:
        """Note that something synced does not hold. The first that is declared stays."""
        self.damage = self.damage or what

    def withdraw_damage(self) -> None:
        """Take the log for as good as it is: no other replica has a better one."""
        self.damage = ""

    def refetched(self) -> None:
        """Remove the refetch mark: all that was committed is synced again. Raises StorageError."""
        try:
            remove_mark(self.log_dir.files, self.directory)
        except OSError as error:
            self.failed("refetch mark", error)
        self.refetch_until = NOT_REFETCHING
        self.unsynced.names_changed()
        self.unsynced.sync_soon()

    def created(self, meta: File) -> None:
        """Have the meta file and both directories of a new partition synced."""
        self.unsynced.created(meta)

    def begin_sync(self) -> SyncJob:
        """Capture what is dirty, for the flusher."""
        try:
            return self.unsynced.begin(self.log_end_offset, self.directory, self.log_dir.path)
        except OSError as error:
            self.log_dir.fail(f"open {self.topic_partition}", error)
            return SyncJob(self, self.log_end_offset)

    def finish_sync(self, job: SyncJob) -> None:
        """Move the synced offsets, as what the job captured is durable."""
        if not self.unsynced.finish(job) or job.end_offset <= self.recovery_point:
            return
        self.recovery_point = job.end_offset
        self.log_dir.checkpoint_due()
        if job.end_offset > self.synced_offset:
            self.synced_offset = job.end_offset
        self.tell()

    def tell_synced_to(self, on_synced: Callable[[int], None] | None) -> None:
        """Have ``on_synced`` called on the loop, never from inside an append, after
        ``synced_offset`` moved up; None: nobody wants to hear."""
        self._on_synced = on_synced

    def tell(self, *, again: bool = False) -> None:
        """Tell how far the log is synced if that is news; or ``again``, as something else that was
        waited for has come."""
        if again or self.synced_offset > self._told_offset:
            self._told_offset = self.synced_offset
            if self._on_synced is not None:
                self._on_synced(self.synced_offset)

    # ---- checkpoints

    def begin_checkpoint(self) -> LogCheckpoint:
        """Capture what checkpoints are to say; from now on the disk may hold it."""
        point = self._checkpointed_recovery_point = self.recovery_point
        rows = self.clean.rows(point)
        return LogCheckpoint(point, self.log_start_offset, rows, self.truncation_mark)

    @property
    def epochs_changed(self) -> bool:
        """Return whether the epoch history differs from the one on disk."""
        return self.epochs.revision != self._epochs_written

    def encode_epochs(self) -> tuple[int, bytes]:
        """Return the revision of the epoch history, and the content of its file."""
        return self.epochs.revision, checkpoint.encode_epochs(self.epochs.entries())

    def epochs_written(self, revision: int) -> None:
        """Note that the disk holds this revision of the epoch history."""
        self._epochs_written = revision

    def high_watermark_written(self, high_watermark: int) -> None:
        """Note that the disk holds this high watermark."""
        self.producers.checkpointed(high_watermark)

    def remove_mark(self, mark: int) -> bool:
        """Remove a truncation mark, unless the log was truncated again since, maybe below what was
        just written; return whether it was. Raises OSError."""
        if self.truncation_mark != mark:
            return False
        path = f"{self.directory}/{TRUNCATION_MARK}"
        if self.log_dir.files.exists(path):
            self.log_dir.files.remove(path)
        self.truncation_mark = 0
        return True

    def keep_up(self) -> bool:
        """Write what is missing of indexes and producers, if that is much; return whether so."""
        if self._active.unpersisted_entries >= _INDEX_ENTRIES_MIN:
            self._active.persist_index()
            return True
        return self.producers.keep_up()

    def snapshot_producers(self) -> None:
        """Begin to write what is known of producers."""
        self.producers.snapshot()

    def tell_truncations_to(self, on_truncated: Callable[[], None] | None) -> None:
        """Have ``on_truncated`` called right after each truncation; None: nobody wants to hear."""
        self._on_truncated = on_truncated

    def rehouse(self, log_dir: LogDir, directory: str, housed: HousedFiles) -> None:
        """Take another directory for the log's own, where the files are copied to the end. What
        counts goes on counting; no sync is under way. No file is touched."""
        waiting = self.log_dir.give_up(self)
        self.log_dir, self.directory = log_dir, directory
        self.segments.rehouse(log_dir.pool, directory, housed.segments)
        self._active = self.segments.active
        self.unsynced.rehouse(log_dir.flusher, housed.unsynced)
        self.aborted.rehouse(directory)
        self.producers.rehouse(directory)
        self.swap = Swap(log_dir, directory, self.segments, self.aborted, self.swap.count)
        self.made_epoch = housed.made_epoch
        self.truncation_mark = 0
        self._epochs_written = housed.epochs_revision
        self._checkpointed_recovery_point = housed.end_offset
        log_dir.take_over(self, housed.log_start_offset, waiting)

    # ---- failures

    def append_failed(self, segment: Segment, error: OSError) -> NoReturn:
        """Truncate to the last whole batch, or stop the directory. Raises StorageError."""
        self.epochs.truncate_from_end(self.log_end_offset + 1)
        try:
            segment.truncate_unnoted()
        except OSError as second:
            # The reason does not matter: a full disk or a want of memory is no excuse here.
            self.log_dir.fail(f"truncate {self.topic_partition}", second)
            raise StorageError(f"{self.topic_partition}: append failed: {error}") from second
        if error.errno in _DISK_FULL:
            self.log_dir.disk_is_full()
            raise StorageError(f"{self.log_dir.path} is full") from error
        self.failed("append", error)

    def failed(self, what: str, error: Exception) -> NoReturn:
        """Note what an error means for the log, or for its directory. Raises StorageError."""
        if isinstance(error, CorruptBatchError | CorruptMessageError):
            self.declare_damaged(str(error))
            raise StorageError(f"{self.topic_partition}: {error}") from error
        if not isinstance(error, OSError) or error.errno not in _DISK_FULL | _PASSING:
            self.log_dir.fail(f"{what} {self.topic_partition}", error)
        raise StorageError(f"{self.topic_partition}: {what} failed: {error}") from error

    def refuse(self) -> NoReturn:
        """Raise StorageError, since the log is damaged or its directory offline."""
        reason = self.damage or f"{self.log_dir.path} is offline: {self.log_dir.failure}"
        raise StorageError(f"{self.topic_partition}: {reason}")

    # ---- the rest

    def belongs_to(self, topic_id: str, made_epoch: int) -> None:
        """Note the topic of the log, which was not known, since a broker epoch."""
        self.topic_id, self.made_epoch = topic_id, made_epoch

    def reconfigure(self, config: TopicConfig) -> None:
        """Take on changed settings of the topic; ``flush=commit`` holds for what comes after."""
        self.config = config
        self.unsynced.hurry()

    def release(self) -> None:
        """Give up the descriptors, writing nothing."""
        for segment in self.segments:
            segment.release()

    def close(self, *, keep: bool = True) -> None:
        """Write what the next start reads, if one is to, give up descriptors. Syncs nothing."""
        self.producers.close(keep=keep)
        self.unsynced.close(self.log_dir.pool)
        for segment in self.segments:
            if self.damage or not self.log_dir.online:
                segment.release()
            else:
                segment.close()

    @property
    def truncations(self) -> int:
        """Return how often the log was truncated since it was loaded."""
        return self.unsynced.truncations

    def __repr__(self) -> str:
        return (
            f"<PartitionLog {self.topic_partition} [{self.log_start_offset},"
            f" {self.log_end_offset}) synced {self.synced_offset}>"
        )
