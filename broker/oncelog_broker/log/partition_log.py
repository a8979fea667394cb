"""The log of one partition: append, read, truncate, and how far it is durable.

Owns ``log_start_offset``, ``log_end_offset`` and ``synced_offset`` of one replica; which of its offsets
are committed is replication's business. Rules:

- an append validates, stamps in place, writes once and maps; the end moves right after the write;
- after a failed append the file is cut back to the last whole batch, or the directory stops: nothing
  behind a failure is ever acknowledged (KAFKA-10778). A full disk refuses writes and goes on reading;
- an offset counts (``synced_offset``) when a sync has covered it; with ``flush=interval`` at once, while
  ``recovery_point`` still waits for the sync. Both fall when the log is cut;
- ``needs_refetch``: what was synced does not hold (rot). The log takes no writes and is read as far as it
  holds, until it is fetched again from the leader (``truncate_fully_and_start_at``).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from oncelog_broker.log import retention
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.flusher import SyncJob
from oncelog_broker.log.offset_index import RELATIVE_OFFSET_MAX
from oncelog_broker.log.recovery import LoadedLog
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList
from oncelog_broker.log.validator import validate_client_batch
from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
    StorageError,
)
from oncelog_protocol.records.batch import (
    BatchHeader,
    CorruptBatchError,
    iter_headers,
    stamp,
    stamp_append_time,
    verify_crc,
)
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.topic_config import TopicConfig
from oncelog_protocol.types import INTERNAL_TOPICS, NO_TIMESTAMP, TopicPartition
from oncelog_runtime.files import Buffer, File

if TYPE_CHECKING:
    from oncelog_broker.log.log_dir import LogDir

logger = logging.getLogger(__name__)

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
"""Errors that say nothing about the disk."""


class LogAppend(NamedTuple):
    """What an append did. Times in milliseconds since 1970."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """-1 when the producer set the timestamps."""
    size_bytes: int
    record_count: int


class PartitionLog:
    """One replica's log. Not for two threads; only syncing runs elsewhere."""

    __slots__ = (
        "_active",
        "_clock",
        "_damage",
        "_dirty_segments",
        "_generation",
        "_internal",
        "_marked_truncation",
        "_name_changed",
        "_names_changed",
        "_new_files",
        "_queued",
        "_segments",
        "_told_offset",
        "checkpointed_recovery_point",
        "config",
        "directory",
        "epochs",
        "epochs_written",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "on_synced",
        "recovery_point",
        "size_bytes",
        "synced_offset",
        "topic_id",
        "topic_partition",
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
        self._damage = loaded.damage
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
        self._marked_truncation = loaded.marked
        self.on_synced: Callable[[int], None] | None = None
        """Called on the loop, never from inside an append, after ``synced_offset`` moved up."""
        self._told_offset = self.synced_offset
        self._dirty_segments: list[Segment] = []
        self._names_changed = False
        self._name_changed = False
        self._new_files: list[File] = []
        self._queued = False
        self._generation = 0

    # ---- appending

    def append_as_leader(self, batch: memoryview, leader_epoch: int) -> LogAppend:
        """Append exactly one batch of a client, given as a writable view.

        Stamps offset and leader epoch into the view. Raises what the validator raises,
        StorageError, and FencedLeaderEpochError for an epoch older than the log's newest.
        """
        log_dir = self.log_dir
        if self._damage or not log_dir.online:
            self._refuse()
        config = self.config
        now_ms = self._clock.now_ms()
        header = validate_client_batch(batch, config, now_ms)
        size = len(batch)
        log_dir.credit_bytes -= size
        if log_dir.credit_bytes < 0:
            log_dir.take_space(size, internal=self._internal)
        base = self.log_end_offset
        last = base + header.last_offset_delta
        if leader_epoch != self.epochs.latest:
            self._enter_epoch(leader_epoch, base)
        segment = self._active
        if segment.size_bytes and self._must_roll(segment, size, last, now_ms):
            segment = self.roll()
        max_timestamp, append_time_ms = header.max_timestamp, -1
        if config.uses_append_time:
            stamp_append_time(batch, 0, now_ms)
            max_timestamp = append_time_ms = now_ms
        stamp(batch, 0, base, leader_epoch)
        try:
            segment.write((batch,))
        except OSError as error:
            self._append_failed(segment, error)
        segment.note(base, last + 1, size, max_timestamp, now_ms)
        self.log_end_offset = last + 1
        self.size_bytes += size
        self._wrote(segment)
        return LogAppend(base, last, max_timestamp, append_time_ms, size, header.record_count)

    def append_as_follower(self, batches: memoryview) -> LogAppend | None:
        """Append whole batches as the leader sent them; a partial one at the end is ignored.

        They must continue at ``log_end_offset``; only into an empty log may the first begin below
        it, as a log may start inside a batch (KAFKA-6975). Raises CorruptMessageError,
        OffsetOutOfRangeError, StorageError. Size limits of clients do not apply (KAFKA-9617).
        """
        if self._damage or not self.log_dir.online:
            self._refuse()
        found = self._check_batches(batches)
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
            if full and self._must_roll(
                segment, full - segment.size_bytes + header.size_bytes, header.last_offset, now_ms
            ):
                self._write_group(batches[start:position], found[number - count : number], now_ms)
                start, count = position, 0
                self.roll()
            count += 1
        self._write_group(batches[start:end], found[len(found) - count :], now_ms)
        return LogAppend(
            first,
            self.log_end_offset - 1,
            max([header.max_timestamp for _, header in found]),
            -1,
            end,
            sum([header.record_count for _, header in found]),
        )

    def _check_batches(self, batches: memoryview) -> list[tuple[int, BatchHeader]]:
        """All whole batches, once every one of them holds; nothing is written before."""
        expected, epoch = self.log_end_offset, -1
        empty = self.size_bytes == 0
        found: list[tuple[int, BatchHeader]] = []
        try:
            for position, header in iter_headers(batches):
                verify_crc(batches[position : position + header.size_bytes])
                base = header.base_offset
                straddles = empty and not found and base < expected <= header.last_offset
                if base != expected and not straddles:
                    raise OffsetOutOfRangeError(
                        f"{self.topic_partition}: offset {base} where {expected} was to come"
                    )
                if header.leader_epoch < max(epoch, 0):
                    raise CorruptMessageError(
                        f"{self.topic_partition}: epoch {header.leader_epoch} at offset {base}"
                    )
                expected, epoch = header.next_offset, header.leader_epoch
                found.append((position, header))
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error
        return found

    def _write_group(
        self, data: memoryview, headers: list[tuple[int, BatchHeader]], now_ms: int
    ) -> None:
        """Write batches that go into the active segment together."""
        if not headers:
            return
        segment = self._active
        try:
            for _, header in headers:
                if header.leader_epoch != self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                    self.log_dir.checkpoint_due()
            segment.write((data,))
        except OSError as error:
            self._append_failed(segment, error)
        except ValueError as error:
            self.epochs.truncate_from_end(self.log_end_offset)
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error
        for _, header in headers:
            segment.note_header(header, now_ms)
        self.log_end_offset = segment.next_offset
        self.size_bytes += len(data)
        self._wrote(segment)

    def _must_roll(self, segment: Segment, size: int, last_offset: int, now_ms: int) -> bool:
        config = self.config
        return (
            segment.size_bytes + size > config.segment_bytes
            or now_ms - segment.created_ms >= config.segment_ms
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        )

    def _wrote(self, segment: Segment) -> None:
        """Something is dirty: have it synced, now or later."""
        if not segment.dirty:
            segment.dirty = True
            self._dirty_segments.append(segment)
        if self.config.flush == "commit":
            if not self._queued:
                self._queued = True
                self.log_dir.flusher.mark(self)
            return
        self.synced_offset = self.log_end_offset
        if not self._queued:
            self._queued = True
            self.log_dir.flusher.mark_later(self)
        self.log_dir.tell_soon(self)

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
            self._failed("restart", error)
        self._active = self._segments.active
        self._dirty_segments.clear()
        self._names_changed = True
        self._generation += 1
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
            self._failed("roll", error)
        # Its name must be durable before the first offset in it counts (D5).
        self._names_changed = True
        return self._active

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, *, upto: int, min_one_batch: bool = True
    ) -> Buffer:
        """Return whole batches from the one that holds ``offset``; none that reaches past ``upto``.

        Empty at the end, or when the first batch is larger than ``max_bytes`` and
        ``min_one_batch`` is off. One segment at most. Raises OffsetOutOfRangeError outside
        ``[log_start_offset, log_end_offset]``, StorageError, and CorruptMessageError on rot.
        """
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is not in"
                f" [{self.log_start_offset}, {end}]"
            )
        if not self.log_dir.online:
            self._refuse()
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
            self._failed("read", error)

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after a time.

        None when there is none. Milliseconds since 1970. Raises StorageError.
        """
        if not self.log_dir.online:
            self._refuse()
        try:
            for segment in self._segments.since(timestamp):
                if segment.size_bytes and segment.max_timestamp >= timestamp:
                    found = self._search(segment, timestamp)
                    if found is not None:
                        return found
        except OSError as error:
            self._failed("read", error)
        except CorruptBatchError as error:
            raise CorruptMessageError(f"{self.topic_partition}: {error}") from error
        return None

    def _search(self, segment: Segment, timestamp: int) -> tuple[int, int, int] | None:
        for position, header in segment.batches_since(timestamp):
            if header.max_timestamp < timestamp or header.last_offset < self.log_start_offset:
                continue
            try:
                columns = decode_batch(segment.read_batch(position, header))
            except (CorruptBatchError, CodecUnavailableError):
                # A client's body that does not decode; the batch is as near as one can get.
                offset = max(header.base_offset, self.log_start_offset)
                return header.max_timestamp, offset, header.leader_epoch
            for offset, stamp_ms in zip(columns.offsets(), columns.timestamp_list(), strict=True):
                if stamp_ms >= timestamp and offset >= self.log_start_offset:
                    return stamp_ms, offset, header.leader_epoch
        return None

    # ---- cutting

    def truncate_to(self, offset: int) -> bool:
        """Cut off the batches that reach ``offset`` or lie behind it; return whether any were.

        The log may then end below ``offset``, as batches stay whole. The epoch history is cut even
        when the log is not (KAFKA-10706). Raises StorageError.
        """
        if self._damage or not self.log_dir.online:
            self._refuse()
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        if self.epochs.truncate_from_end(offset):
            self.log_dir.checkpoint_due()
        if offset >= self.log_end_offset:
            return False
        logger.info("%s: truncating from %d to %d", self.topic_partition, self.log_end_offset, offset)
        try:
            self._lower_recovery_point(offset)
            trash = self._segments.truncate_to(offset, self._clock.now_ms())
        except (OSError, CorruptBatchError) as error:
            self._failed("truncate", error)
        self._was_cut(trash)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throw everything away; the next offset is ``offset``. Ends ``needs_refetch``.

        Raises StorageError.
        """
        if not self.log_dir.online:
            self._refuse()
        logger.info("%s: starting anew at offset %d", self.topic_partition, offset)
        try:
            self._lower_recovery_point(0)
            trash = self._segments.restart_at(offset, self.config.index_interval_bytes)
            if self._damage:
                trash += self._stray_files()
        except OSError as error:
            self._failed("truncate", error)
        self._damage = ""
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
        self._generation += 1
        # The cut itself is synced too: file size, and names of segments and indexes.
        self._dirty_segments = [segment for segment in self._dirty_segments if segment.dirty]
        if not self._active.dirty:
            self._active.dirty = True
            self._dirty_segments.append(self._active)
        self._names_changed = True
        if not self._queued:
            self._queued = True
            self.log_dir.flusher.mark(self)
        self.log_dir.checkpoint_due()
        self.log_dir.remove_later(trash, 0)

    def _lower_recovery_point(self, offset: int) -> None:
        """Tell the disk first that what lies behind ``offset`` is no longer promised."""
        if offset < self.checkpointed_recovery_point:
            self.log_dir.mark_truncation(self, offset)
            self._marked_truncation = True

    def take_truncation_mark(self) -> bool:
        """Whether a mark may be removed, now that the checkpoint has followed; asked once."""
        marked, self._marked_truncation = self._marked_truncation, False
        return marked

    def _stray_files(self) -> list[str]:
        """Segments behind a damage, which no list holds."""
        files, keep = self.log_dir.files, self._segments.active.path
        trash = []
        for name in files.list_dir(self.directory):
            path = f"{self.directory}/{name}"
            if name[:20].isdigit() and path != keep and not name.endswith(".deleted"):
                files.rename(path, path + ".deleted")
                trash.append(path + ".deleted")
        return trash

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
        """Delete the segments that the topic's policy lets go; return the bytes freed.

        Nothing at or above ``high_watermark`` goes. Raises StorageError.
        """
        if self._damage or not self.log_dir.online:
            return 0
        config = self.config
        deletes = config.deletes_old
        segments = [segment for segment in self._segments if segment.size_bytes]
        count = retention.count_deletable(
            [
                retention.SegmentAge(segment.next_offset, segment.size_bytes, segment.stamp_ms)
                for segment in segments
            ],
            now_ms=now_ms,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
            log_size_bytes=self.size_bytes,
            retention_ms=config.retention_ms if deletes else -1,
            retention_bytes=config.retention_bytes if deletes else -1,
        )
        if not count:
            return 0
        if segments[count - 1] is self._active:
            self.roll()
        freed = sum([segment.size_bytes for segment in segments[:count]])
        try:
            trash = self._segments.drop_oldest(count)
        except OSError as error:
            self._failed("delete", error)
        self._dirty_segments = [segment for segment in self._dirty_segments if segment.dirty]
        self.size_bytes = self._segments.size_bytes()
        self.advance_log_start(max(self.log_start_offset, self._segments[0].base_offset))
        logger.info(
            "%s: deleted %d bytes below offset %d",
            self.topic_partition,
            freed,
            self.log_start_offset,
        )
        self.log_dir.remove_later(trash, config.file_delete_delay_ms)
        return freed

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
        return bool(self._damage)

    @property
    def damage(self) -> str:
        """What does not hold; empty when all does."""
        return self._damage

    def created(self, meta: File) -> None:
        """The partition is new: its meta file and both directories are to be synced."""
        self._new_files.append(meta)
        self._names_changed = self._name_changed = True
        if not self._queued:
            self._queued = True
            self.log_dir.flusher.mark(self)

    def begin_sync(self) -> SyncJob:
        """For the flusher: capture what is dirty."""
        self._queued = False
        job = SyncJob(self, self.log_end_offset, self._generation)
        for segment in self._dirty_segments:
            job.segments.append((segment, segment.size_bytes))
            try:
                job.files.append(segment.open())
            except OSError as error:
                self.log_dir.fail(f"open {segment.path}", error)
        self._dirty_segments = []
        job.once, self._new_files = self._new_files, []
        if self._names_changed:
            job.dirs.append(self.directory)
            self._names_changed = False
        if self._name_changed:
            job.dirs.append(self.log_dir.path)
            self._name_changed = False
        return job

    def finish_sync(self, job: SyncJob) -> None:
        """For the flusher: what the job captured is durable."""
        for segment, size_bytes in job.segments:
            if segment.size_bytes == size_bytes and segment not in self._dirty_segments:
                segment.dirty = False
            elif segment.dirty and segment not in self._dirty_segments:
                self._dirty_segments.append(segment)
        if job.generation != self._generation or job.end_offset <= self.recovery_point:
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

    def close(self) -> None:
        """Write indexes and give up descriptors. Syncs nothing."""
        self.log_dir.flusher.forget(self)
        for segment in self._segments:
            if self._damage or not self.log_dir.online:
                segment.release()
            else:
                segment.close()
        for file in self._new_files:
            self.log_dir.pool.close_file(file)
        self._new_files = []

    @property
    def segments(self) -> SegmentList:
        """The segments, for tools and tests."""
        return self._segments

    def _append_failed(self, segment: Segment, error: OSError) -> NoReturn:
        """Cut back to the last whole batch, or stop the directory (B14, D7, D8)."""
        self.epochs.truncate_from_end(max(self.log_end_offset, 1))
        try:
            segment.cut_unnoted()
        except OSError as second:
            self._failed("append", second)
        if error.errno in _DISK_FULL:
            self.log_dir.disk_is_full()
            raise StorageError(f"{self.log_dir.path} is full") from error
        self._failed("append", error)

    def _failed(self, what: str, error: Exception) -> NoReturn:
        if isinstance(error, CorruptBatchError | CorruptMessageError):
            self._damage = str(error)
            raise StorageError(f"{self.topic_partition}: {error}") from error
        if not isinstance(error, OSError) or error.errno not in _DISK_FULL | _PASSING:
            self.log_dir.fail(f"{what} {self.topic_partition}", error)
        raise StorageError(f"{self.topic_partition}: {what} failed: {error}") from error

    def _refuse(self) -> NoReturn:
        reason = self._damage or f"{self.log_dir.path} is offline: {self.log_dir.failure}"
        raise StorageError(f"{self.topic_partition}: {reason}")

    def __repr__(self) -> str:
        return (
            f"<PartitionLog {self.topic_partition} [{self.log_start_offset},"
            f" {self.log_end_offset}) synced {self.synced_offset}>"
        )


_ = (ApiError, NO_TIMESTAMP)
