"""A log directory has one lock, identity, room, sync rounds and checkpoints for all of its logs.

Owns the state that the logs of one disk share. Rules:

- a directory belongs to one broker of one cluster (``meta.json``) and to one process at a time (an
  flock, [D13]); a foreign or unknown one is refused before anything is written into it;
- the clean-shutdown file is read and then deleted before anything else is done, so that a crash
  while loading counts as unclean (KAFKA-10471); it carries the broker epoch;
- an I/O error stops the directory for good: its logs refuse everything, the broker goes on ([D6],
  [D9]);
- a full disk refuses writes and is asked again at each write; some room is kept back, half of it
  for internal topics [D8];
- checkpoints: recovery points are captured *first* and written last, log starts before epochs:
  no history lacks what its log has, no recovery point runs ahead of what is durable. Nothing runs
  while nothing changes.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from oncelog_broker.log import checkpoint
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.continuity_record import ContinuityRecord
from oncelog_broker.log.dir_jobs import DirJobs
from oncelog_broker.log.dir_making import LOCK_FILE, check_usable, make_dir
from oncelog_broker.log.dir_making import LogDirError as LogDirError
from oncelog_broker.log.flusher import (
    INLINE_BYTES_MAX,
    SYNC_TIMEOUT_MS,
    Flusher,
    SyncTimeoutError,
)
from oncelog_broker.log.hosted_log import HostedLog, LogCheckpoint
from oncelog_broker.log.log_starts import LogStarts
from oncelog_broker.log.lost_indexes import LostIndexes
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.recovery import TRUNCATION_MARK, read_truncation, write_truncation
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_broker.log.slices import Slices
from oncelog_protocol.errors import StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import FileLock, FileLockedError, Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

_META_VERSION = 1
_CREDIT_BYTES_MAX = 64 * 1024 * 1024
"""So many bytes may be appended between two looks at the free space."""
_EPOCH_FILES_PER_CALL = 64
_MARKS_PER_TURN = 64
"""One turn takes so many truncations, whose marks a checkpoint makes needless."""
_CLOSED_PER_TURN = 16
"""One turn of a stop closes so many logs: each writes some small files."""


Waiting = Iterable[Callable[[], None]]
"""These are to be called when something is durable."""


class FoundCheckpoints(NamedTuple):
    """The checkpoints of one directory say this at a start."""

    recovery_points: dict[TopicPartition, int] | None
    """It is None when there are none that can be read."""
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    clean: dict[TopicPartition, list[tuple[int, int]]]


class LogDir:
    """It is one directory with the logs in it."""

    def __init__(
        self,
        path: str,
        *,
        files: Files,
        clock: CautiousClock,
        flush_interval_ms: int,
        flush_inline_bytes_max: int = INLINE_BYTES_MAX,
        sync_timeout_ms: int = SYNC_TIMEOUT_MS,
        checkpoint_interval_ms: int,
        open_segments_max: int = 512,
        headroom_bytes: int = 128 * 1024 * 1024,
        producer_ids_max: int,
        on_offline: Callable[[LogDir], None] | None = None,
        safeguards: LogSafeguards = SAFE,
    ) -> None:
        self.path = path
        self.safeguards = safeguards
        self.files = files
        self.clock = clock
        self.producer_ids_max = producer_ids_max  # a leader lets into one of the logs here
        self.directory_id = ""
        self.online, self.failure = True, ""  # why the directory is offline
        self.hangs = False  # it is offline, as its disk did not answer
        self.full = False
        self.was_clean = False  # the last stop of a broker here
        self.previous_broker_epoch = -1  # at that clean stop; -1 after any other
        self.is_new = False  # had nothing of this broker when it was taken
        self.record: ContinuityRecord | None = None
        """Its continuity file says this; None when there is none that holds."""
        self.counts_unsynced = False  # true once an unsynced offset has counted in this life
        self.lossy = False  # see ``continuity``
        self.logs: dict[TopicPartition, HostedLog] = {}
        self.checkpointed: set[TopicPartition] = set()
        """The checkpoints on disk may say something of these partitions, deleted ones too."""
        self.credit_bytes = 0  # may be written before the free space is looked at again
        self.pool = OpenSegments(files, open_segments_max)
        self.starts = LogStarts(self.checkpoint_due)
        self.jobs = DirJobs(path, files)  # they may block
        self.slices = Slices()  # they are too much for one turn
        self.flusher = Flusher(
            self.pool,
            lane=self.jobs.sync_lane,
            interval_ms=flush_interval_ms,
            on_failure=self._sync_failed,
            inline_bytes_max=flush_inline_bytes_max,
            timeout_ms=sync_timeout_ms,
        )
        self.high_watermarks: Callable[[], dict[TopicPartition, int]] | None = None
        self._headroom_bytes = headroom_bytes
        self._checkpoint_interval_s = checkpoint_interval_ms / 1000
        self._on_offline = on_offline
        self._lock: FileLock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._checkpoint_needed = asyncio.Event()
        self._checkpoints_ended = False
        self._checkpoint_lock = asyncio.Lock()
        self._clean_written: dict[TopicPartition, list[tuple[int, int]]] = {}  # on disk
        self._news: dict[HostedLog, None] = {}
        self._removals: list[asyncio.TimerHandle] = []

    # ---- belonging

    def acquire(self, cluster_id: str, broker_id: int, entropy: Entropy) -> None:
        """Lock the directory, check whose it is, read and delete the clean-shutdown file.

        A new or empty one is taken into use. Raises LogDirError, or OSError of a broken disk.
        """
        files, path = self.files, self.path
        fresh = not files.exists(path)
        if not fresh:
            check_usable(files, path)
        else:
            make_dir(files, path)
        try:
            self._lock = files.lock(f"{path}/{LOCK_FILE}")
        except FileLockedError as error:
            raise LogDirError(
                f"log directory {path} is in use by another broker process; stop that one,"
                " or give this one a directory of its own"
            ) from error
        try:
            self._check_identity(cluster_id, broker_id, entropy)
            self._read_record()
            self._take_clean_shutdown()
        except BaseException:
            self.release()
            raise

    def _check_identity(self, cluster_id: str, broker_id: int, entropy: Entropy) -> None:
        meta_path = f"{self.path}/{checkpoint.META}"
        if not self.files.exists(meta_path):
            self.is_new = True
            self.directory_id = entropy.uuid()
            document = {
                "version": _META_VERSION,
                "cluster_id": cluster_id,
                "broker_id": broker_id,
                "directory_id": self.directory_id,
            }
            self.files.write_atomic_now(meta_path, checkpoint.encode_document(document))
            return
        try:
            meta = checkpoint.decode_document(checkpoint.META, self.files.read_bytes(meta_path))
            found = meta["version"], meta["cluster_id"], meta["broker_id"]
            self.directory_id = str(meta["directory_id"])
        except (CheckpointError, KeyError) as error:
            raise LogDirError(
                f"{meta_path} is damaged ({error}); restore it, or empty the directory to have the"
                " replicas fetched again"
            ) from error
        for name, here, there in zip(
            ("version", "cluster_id", "broker_id"),
            (_META_VERSION, cluster_id, broker_id),
            found,
            strict=True,
        ):
            if here != there:
                raise LogDirError(
                    f"{meta_path} says {name} {there!r}, this broker has {here!r}: the directory"
                    " belongs to another broker; change log_dirs, or the broker's configuration"
                )

    def _take_clean_shutdown(self) -> None:
        path = f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}"
        if self.files.exists(path):
            self._read_clean_shutdown(path)
            self.files.remove(path)
        # Also when it is not there: a process that was killed may have removed it, made partitions
        # and renamed deleted ones, all of which a later power cut would undo.
        self.files.sync_dir(self.path)

    def _read_clean_shutdown(self, path: str) -> None:
        try:
            document = checkpoint.decode_document(
                checkpoint.CLEAN_SHUTDOWN, self.files.read_bytes(path)
            )
            self.previous_broker_epoch = int(document["broker_epoch"])
            self.was_clean = True
        except (CheckpointError, KeyError, TypeError, ValueError) as error:
            logger.warning("clean_shutdown_unreadable", path=path, error=error)

    def _read_record(self) -> None:
        path = f"{self.path}/{checkpoint.CONTINUITY}"
        left = not self.files.exists(path)
        if left:
            path = f"{self.path}/{checkpoint.CONTINUITY_LEFT}"
        if self.files.exists(path):
            try:
                record = ContinuityRecord.decode(self.files.read_bytes(path))
                self.record = record.left(self.files.boot_id()) if left else record
            except CheckpointError as error:
                logger.warning("continuity_unreadable", path=path, error=error)

    @property
    def same_run(self) -> bool:
        """Return whether the machine has run on since the last life of the broker began here."""
        boot_id = self.files.boot_id()
        return self.record is not None and boot_id != "" and self.record.boot_id == boot_id

    @property
    def other_run(self) -> bool:
        """Return whether the machine has stopped for sure since: what is read is on the disk."""
        known = self.record is not None and self.record.boot_id != "" != self.files.boot_id()
        return known and not self.same_run

    def write_record(self, record: ContinuityRecord) -> None:
        """Write the continuity file, durably. Raises OSError."""
        self.files.write_atomic_now(f"{self.path}/{checkpoint.CONTINUITY}", record.encode())
        self.record = record
        left = f"{self.path}/{checkpoint.CONTINUITY_LEFT}"
        if self.files.exists(left):
            self.files.remove(left)

    def leave_record(self) -> None:
        """Give the continuity file, which is that of an earlier life and cannot be written, the
        name that says so, which takes no room on a full disk. Raises OSError.

        A power cut may undo that. What comes back claims less: its epoch is too old for what has
        counted since.
        """
        path = f"{self.path}/{checkpoint.CONTINUITY}"
        if self.record is not None and self.files.exists(path):
            self.files.rename(path, f"{self.path}/{checkpoint.CONTINUITY_LEFT}")
            self.record = replace(self.record, until=None, boot_id=self.files.boot_id())

    def note_unsynced(self) -> None:
        """Note durably, first time in this life, that an unsynced offset is about to count.

        Raises StorageError.
        """
        try:
            if self.record is not None:
                self.write_record(replace(self.record, unsynced=True))
        except OSError as error:
            self.fail(checkpoint.CONTINUITY, error)
            raise StorageError(f"{self.path}: {error}") from error
        self.counts_unsynced = True

    def fell_short(self, log: HostedLog, high_watermark: int) -> None:
        """Note a log that ends below its checkpointed high watermark. Where all that counts is
        synced, that is one that was in no ISR; else something that counted is gone."""
        if self.record is not None and self.safeguards.may_have_lost(self.record.unsynced):
            end = log.log_end_offset
            logger.warning(
                "log_fell_short",
                directory=log.directory,
                end_offset=end,
                high_watermark=high_watermark,
            )
            self.lossy = True

    def release(self) -> None:
        """Give lock and threads back."""
        self.jobs.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_checkpoints(self) -> FoundCheckpoints:
        """Read what the last life has left. Raises OSError."""
        points = self.read_offsets(checkpoint.RECOVERY_POINT)
        starts = self.read_offsets(checkpoint.LOG_START) or {}
        marks = self.read_offsets(checkpoint.HIGH_WATERMARK) or {}
        clean = self.read_clean()
        self.checkpointed = {*(points or ()), *starts, *marks, *clean}
        return FoundCheckpoints(points, starts, marks, clean)

    def read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """Read a checkpoint of offsets; None when it is absent or bad. Raises OSError."""
        path = f"{self.path}/{name}"
        if not self.files.exists(path):
            return None
        try:
            return checkpoint.decode_offsets(name, self.files.read_bytes(path))
        except CheckpointError as error:
            logger.warning("checkpoint_unreadable", path=path, error=error)
            return None

    def read_clean(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Read the cleaner's checkpoint; what is absent or bad says nothing. Raises OSError."""
        path = f"{self.path}/{checkpoint.CLEANER}"
        if self.files.exists(path + ".tmp"):
            self.files.remove(path + ".tmp")  # it may be long before the next one is written
        if self.files.exists(path):
            try:
                self._clean_written = checkpoint.decode_clean(self.files.read_bytes(path))
            except CheckpointError as error:
                logger.warning("checkpoint_unreadable", path=path, error=error)
        return self._clean_written

    # ---- room

    def spend(self, size_bytes: int) -> bool:
        """Take so many bytes, about to be written, from the credit; return whether there is room
        for them without a look at the disk, which is ``take_space``."""
        self.credit_bytes -= size_bytes
        return self.credit_bytes >= 0

    def take_space(self, size_bytes: int, *, internal: bool) -> None:
        """Look at the disk, as the credit is used up. Raises StorageError when it is too full."""
        try:
            space = self.files.disk_space(self.path)
        except OSError as error:
            self.fail("free space", error)
            raise StorageError(f"{self.path}: {error}") from error
        headroom = min(self._headroom_bytes, space.total_bytes // 20)
        room = space.free_bytes - (headroom // 2 if internal else headroom)
        if size_bytes > room:
            self.credit_bytes = 0
            if not internal:
                self.disk_is_full()
            raise StorageError(f"{self.path} is full: {space.free_bytes} bytes are left")
        if self.full and not internal:
            self.full = False
            logger.info("log_dir_has_room", log_dir=self.path)
        self.credit_bytes = 0 if internal else min(_CREDIT_BYTES_MAX, room // 4)

    def disk_is_full(self) -> None:
        """Refuse writes until there is room; reads go on."""
        self.credit_bytes = 0
        if not self.full:
            self.full = True
            logger.error("log_dir_full", log_dir=self.path)

    # ---- failing

    def fail(self, what: str, error: BaseException) -> None:
        """Stop the directory for good; the broker is told once."""
        if not self.online:
            return
        self.online = False
        self.failure, self.hangs = f"{what}: {error}", isinstance(error, SyncTimeoutError)
        self._may_have_lost()
        logger.error("log_dir_offline", log_dir=self.path, error=self.failure)
        self.flusher.stop()
        if self._on_offline is not None:
            if self._loop is not None:
                # Not from inside an append: who is told may want to touch the log.
                self._loop.call_soon(self._on_offline, self)
            else:
                self._on_offline(self)

    def _may_have_lost(self) -> None:
        """Note that what has counted here unsynced, in this life or before, may go any time."""
        left_unsynced = self.record is not None and self.record.unsynced and not self.was_clean
        counted = self.counts_unsynced or left_unsynced
        self.lossy = self.lossy or self.safeguards.may_have_lost(counted)

    def _sync_failed(self, error: OSError) -> None:
        self.fail("sync", error)
        if isinstance(error, SyncTimeoutError):
            self.jobs.abandon(self.failure)

    # ---- news and trash

    def tell_soon(self, log: HostedLog) -> None:
        """Have ``log.tell`` called in this loop iteration, once for all appends in it."""
        if not self._news and self._loop is not None:
            self._loop.call_soon(self._tell)
        self._news[log] = None

    def _tell(self) -> None:
        news, self._news = self._news, {}
        for log in news:
            try:
                log.tell()
            except Exception:
                logger.exception("append_callback_failed")

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Unlink renamed files, in a thread. Files that are left go at the next start."""
        paths = list(paths)
        if not paths or self._loop is None:
            return
        if delay_ms > 0:
            self._removals = [timer for timer in self._removals if timer.when() > self._loop.time()]
            self._removals.append(self._loop.call_later(delay_ms / 1000, self.jobs.remove, paths))
        else:
            self.jobs.remove(paths)

    # ---- checkpoints

    def start(self, high_watermarks: Callable[[], dict[TopicPartition, int]] | None = None) -> None:
        """Begin to sync on the running loop. Checkpoints hold ``high_watermarks``, if given."""
        if high_watermarks is not None:
            self.high_watermarks = high_watermarks
        self._loop = asyncio.get_running_loop()
        self.pool.ask_before_reading(LostIndexes(self.files, self.jobs, self.fail).check)
        self.flusher.start(self._loop)

    def checkpoint_due(self) -> None:
        """Have a checkpoint written, since something that it holds has changed."""
        self._checkpoint_needed.set()

    async def run_checkpoints(self) -> None:
        """Write checkpoints some time after each change; sleeps while nothing changes."""
        while self.online:
            await self._checkpoint_needed.wait()
            await self.starts.pause(self._checkpoint_interval_s)
            if self._checkpoints_ended:
                return
            await self.write_checkpoints()

    async def end_checkpoints(self) -> None:
        """Let ``run_checkpoints`` begin no more, and return when it writes none: the caller cancels
        it then. Cancelled while it writes it would leave a thread behind that goes on writing."""
        self._checkpoints_ended = True
        async with self._checkpoint_lock:
            pass

    async def write_checkpoints(self) -> bool:
        """Write what changed; return whether all of it is durable now."""
        async with self._checkpoint_lock:
            self._checkpoint_needed.clear()
            try:
                await self._write_checkpoints()
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    logger.warning("checkpoints_not_written", log_dir=self.path, error=error)
                    self._checkpoint_needed.set()
                else:
                    self.fail("checkpoint", error)
                return False
            return self.online

    async def _write_checkpoints(self) -> None:
        logs = [self.logs[tp] for tp in sorted(self.logs)]
        told = {log.topic_partition: log.begin_checkpoint() for log in logs}
        points = {tp: each.recovery_point for tp, each in told.items()}
        starts = {tp: start for tp, each in told.items() if (start := each.log_start_offset)}
        clean = {tp: rows for tp, each in told.items() if (rows := each.clean_rows)}
        self.checkpointed.update(points)
        await self._write_offsets(checkpoint.LOG_START, starts)
        await self._write_epochs(logs)
        await self._write_offsets(checkpoint.RECOVERY_POINT, points)
        if self.high_watermarks is not None:
            known = self.high_watermarks()
            offsets = {tp: known[tp] for tp in points if known.get(tp, -1) >= 0}
            await self._write_offsets(checkpoint.HIGH_WATERMARK, offsets)
            for log in logs:
                log.high_watermark_written(offsets.get(log.topic_partition, -1))
        if clean != self._clean_written:
            data = checkpoint.encode_clean(clean)
            await self.jobs.write_atomic(f"{self.path}/{checkpoint.CLEANER}", data)
            self._clean_written = clean
        self.checkpointed = set(points)
        await self._remove_marks(logs, told)
        self.starts.written(logs, {f"{self.path}/{tp}": start for tp, start in starts.items()})
        for log in logs:
            if log.keep_up():
                await asyncio.sleep(0)

    async def _remove_marks(
        self, logs: list[HostedLog], told: dict[TopicPartition, LogCheckpoint]
    ) -> None:
        """Drop durably the marks that the checkpoint, which has followed, makes needless. One that
        came back with a power cut would have corruption of synced data taken for a torn tail."""
        marked = [
            (log, mark) for log in logs if (mark := told[log.topic_partition].truncation_mark)
        ]
        for first in range(0, len(marked), _MARKS_PER_TURN):
            group = marked[first : first + _MARKS_PER_TURN]
            removed = [log.directory for log, mark in group if log.remove_mark(mark)]
            if removed:
                await self.jobs.run(_sync_dirs, self.files, removed)

    async def _write_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        path = f"{self.path}/{name}"
        data = checkpoint.encode_offsets(name, offsets)
        await self.jobs.write_atomic(path, data)

    async def _write_epochs(self, logs: list[HostedLog]) -> None:
        """Carry the epoch histories to disk: small files, many after a failover, several a call."""
        changed = [log for log in logs if log.epochs_changed]
        for first in range(0, len(changed), _EPOCH_FILES_PER_CALL):
            group = changed[first : first + _EPOCH_FILES_PER_CALL]
            encoded = [log.encode_epochs() for log in group]
            contents = [
                (f"{log.directory}/{checkpoint.LEADER_EPOCH}", data)
                for log, (_, data) in zip(group, encoded, strict=True)
            ]
            await self.jobs.run(_write_all, self.files, contents)
            for log, (revision, _) in zip(group, encoded, strict=True):
                log.epochs_written(revision)

    def mark_truncation(self, directory: str, offset: int, log_start_offset: int) -> None:
        """Lower the recovery point of the log in ``directory`` durably, now. Raises OSError.

        It has a file of its own, because the checkpoint of all logs may be under way. What it said
        before still holds: no checkpoint has followed that truncation either.
        """
        if self.files.exists(f"{directory}/{TRUNCATION_MARK}"):
            offset = min(offset, read_truncation(self.files, directory, 0)[0])
        write_truncation(self.files, directory, offset, log_start_offset)
        self.starts.marked(directory, log_start_offset)

    def detach(self, log: HostedLog) -> None:
        """Forget a log that is being deleted: no round and no checkpoint begins with it now."""
        self.logs.pop(log.topic_partition, None)
        self.starts.forget(log)
        self.flusher.forget(log)
        self._news.pop(log, None)

    def give_up(self, log: HostedLog) -> Waiting:
        """Forget a log that goes to another directory; return who waits for its start."""
        waiting = self.starts.give_up(log)
        self.detach(log)
        self.checkpoint_due()
        return waiting

    def take_over(self, log: HostedLog, log_start_offset: int, waiting: Waiting) -> None:
        """Take a log that came from another directory. The disk here says where it begins, and
        nothing else but the mark of its move."""
        self.logs[log.topic_partition] = log
        self.starts.take_over(log, log_start_offset, waiting)
        self.checkpoint_due()

    @property
    def writes_checkpoints(self) -> bool:
        """Return whether a checkpoint is under way, with what the logs were when it began."""
        return self._checkpoint_lock.locked()

    def room_bytes(self) -> int:
        """Return how many bytes may yet be written, with the headroom kept. Raises OSError."""
        space = self.files.disk_space(self.path)
        return space.free_bytes - min(self._headroom_bytes, space.total_bytes // 20)

    async def quiesce(self) -> None:
        """Return when no round and no checkpoint that began before is under way."""
        await self.flusher.round_over()
        async with self._checkpoint_lock:
            pass

    # ---- stopping

    def give_up_jobs(self) -> None:
        """Give up the jobs that are under way, which have held up the stop for too long."""
        if len(self.jobs):
            self.fail("stop", SyncTimeoutError("the disk does not answer"))
            self.jobs.abandon(self.failure)

    async def stop(self, *, clean: bool, broker_epoch: int) -> None:
        """Sync, write indexes and checkpoints and the clean-shutdown file, close, unlock.

        A failure skips what would build on it, never the rest (KAFKA-13315).
        """
        for timer in self._removals:
            timer.cancel()
        self._removals.clear()
        if clean and self.online:
            await self.flusher.drain()
        if clean:
            await self._close_logs()
        if clean and self.online and await self.write_checkpoints():
            document = checkpoint.encode_document({"version": 1, "broker_epoch": broker_epoch})
            try:
                await self.jobs.write_atomic(f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}", document)
            except OSError as error:
                self.fail("clean shutdown", error)
        self.flusher.stop()
        if not clean:
            for tp in sorted(self.logs):
                self.logs[tp].release()
        self.release()

    async def _close_logs(self) -> None:
        """Close some logs a turn: the broker still keeps its session, and others still ask it."""
        logs = [self.logs[tp] for tp in sorted(self.logs)]
        for first in range(0, len(logs), _CLOSED_PER_TURN):
            some = logs[first : first + _CLOSED_PER_TURN]
            for log in some:
                log.snapshot_producers()
            while self.slices:  # noqa: ASYNC110
                await asyncio.sleep(0)
            for log in some:
                try:
                    log.close()
                except OSError as error:
                    self.fail(f"close {log.topic_partition}", error)
            await asyncio.sleep(0)

    def __repr__(self) -> str:
        return f"<LogDir {self.path} {'online' if self.online else 'offline'}>"


def _sync_dirs(files: Files, paths: list[str]) -> None:
    for path in paths:
        files.sync_dir(path)


def _write_all(files: Files, contents: list[tuple[str, bytes]]) -> None:
    for path, data in contents:
        files.write_atomic_now(path, data)
