"""One log directory: lock, identity, room, sync rounds, checkpoints.

Owns the state that the logs of one disk share. Rules:

- a directory belongs to one broker of one cluster (``meta.json``) and to one process at a time (an
  flock, D13); a foreign or unknown one is refused before anything is written into it;
- the clean-shutdown file is read and then deleted before anything else is done, so that a crash
  while loading counts as unclean (KAFKA-10471); it carries the broker epoch;
- an I/O error stops the directory for good: its logs refuse everything, the broker goes on (D6,
  D9);
- a full disk refuses writes and is asked again at each write; some room is kept back, half of it
  for internal topics (D8);
- checkpoints: recovery points are captured *first* and written last, log starts before epochs:
  no history lacks what its log has, no recovery point runs ahead of what is durable. Nothing runs
  while nothing changes.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from oncelog_broker.log import checkpoint, logged
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.continuity import ContinuityRecord
from oncelog_broker.log.flusher import INLINE_BYTES_MAX, Flusher
from oncelog_broker.log.log_starts import LogStarts
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.recovery import TRUNCATION_MARK, read_truncation
from oncelog_broker.log.safeguards import DEFAULT_SAFEGUARDS, LogSafeguards
from oncelog_protocol.errors import OncelogError, StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import FileLock, FileLockedError, Files

if TYPE_CHECKING:
    from oncelog_broker.log.partition_log import PartitionLog

logger = logged.get_logger(__name__)

LOCK_FILE = ".lock"
_META_VERSION = 1
_CREDIT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes that may be appended between two looks at the free space."""
_EPOCH_FILES_PER_CALL = 64
_INDEX_ENTRIES_MIN = 256
"""New index entries that make writing them worth while: about 1 MiB of log."""
_LEFT_BY_A_FAILED_START = frozenset(
    {checkpoint.META + ".tmp", checkpoint.SESSION, checkpoint.SESSION + ".tmp"}
)
"""What a new directory may hold when the first start in it broke off."""

_IGNORED_NAMES = frozenset({LOCK_FILE, "lost+found"})


class LogDirError(OncelogError):
    """A log directory that this broker must not use; the message names it and a remedy."""


class LogDir:
    """One directory and the logs in it."""

    def __init__(
        self,
        path: str,
        *,
        files: Files,
        clock: WallClock,
        flush_interval_ms: int = 1000,
        flush_inline_bytes_max: int = INLINE_BYTES_MAX,
        checkpoint_interval_ms: int = 5000,
        open_segments_max: int = 512,
        headroom_bytes: int = 128 * 1024 * 1024,
        on_offline: Callable[[LogDir], None] | None = None,
        safeguards: LogSafeguards = DEFAULT_SAFEGUARDS,
    ) -> None:
        self.path = path
        self.safeguards = safeguards
        self.files = files
        self.clock = clock
        self.directory_id = ""
        self.online = True
        self.failure = ""
        """Why the directory is offline."""
        self.full = False
        self.was_clean = False
        """Whether the last stop of a broker here was a clean one."""
        self.previous_broker_epoch = -1
        """Broker epoch at that clean stop; -1 after any other."""
        self.is_new = False
        """Whether the directory had nothing of this broker when it was taken."""
        self.record: ContinuityRecord | None = None
        """What its continuity file says; None when there is none that holds."""
        self.counts_unsynced = False
        """Whether an offset may have counted here, in this life, that was not synced."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.checkpointed: set[TopicPartition] = set()
        """Partitions of which the checkpoints on disk may say something, deleted ones too."""
        self.credit_bytes = 0
        """Bytes that may be written before the free space is looked at again."""
        self.pool = OpenSegments(files, open_segments_max)
        self.starts = LogStarts()
        self.flusher = Flusher(
            self.pool,
            interval_ms=flush_interval_ms,
            on_failure=self._sync_failed,
            inline_bytes_max=flush_inline_bytes_max,
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
        self._clean_written: dict[TopicPartition, list[tuple[int, int]]] = {}
        """What the cleaner's checkpoint on disk says."""
        self._news: dict[PartitionLog, None] = {}
        self._trash: dict[str, None] = {}
        self._removals: list[asyncio.TimerHandle] = []

    # ---- belonging

    def acquire(self, cluster_id: str, broker_id: int, entropy: Entropy) -> None:
        """Lock the directory, check whose it is, read and delete the clean-shutdown file.

        A new or empty one is taken into use. Raises LogDirError, or OSError of a broken disk.
        """
        files, path = self.files, self.path
        fresh = not files.exists(path)
        if not fresh:
            self._check_usable()
        else:
            self._make(path)
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

    def _make(self, path: str) -> None:
        made = path
        try:
            while not self.files.exists(os.path.dirname(made) or "."):
                made = os.path.dirname(made)
            self.files.make_dirs(path)
            # Each new name on the way must survive a power cut, or all that lies below is lost.
            for name in (path, *_parents(path, made)):
                self.files.sync_dir(os.path.dirname(name) or ".")
        except OSError as error:
            raise LogDirError(
                f"log directory {path} cannot be made ({error.strerror});"
                " make it, or change log_dirs"
            ) from error

    def _check_usable(self) -> None:
        files, path = self.files, self.path
        if not files.is_dir(path):
            raise LogDirError(f"log directory {path} is not a directory; change log_dirs")
        if not files.is_writable(path):
            raise LogDirError(
                f"log directory {path} is not writable; give the broker's user the right to write,"
                " or change log_dirs"
            )
        names = [name for name in files.list_dir(path) if name not in _IGNORED_NAMES]
        if checkpoint.META not in names and not _LEFT_BY_A_FAILED_START.issuperset(names):
            raise LogDirError(
                f"log directory {path} holds {names[0]!r} and no {checkpoint.META}: it is not a"
                " directory of Oncelog, or has lost that file; name an empty or new one in"
                " log_dirs, or restore the file"
            )

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
            logger.warning(logged.CLEAN_SHUTDOWN_UNREADABLE, path, error)

    def _read_record(self) -> None:
        path = f"{self.path}/{checkpoint.CONTINUITY}"
        if self.files.exists(path):
            try:
                self.record = ContinuityRecord.decode(self.files.read_bytes(path))
            except CheckpointError as error:
                logger.warning(logged.CONTINUITY_UNREADABLE, path, error)

    @property
    def same_run(self) -> bool:
        """Whether the machine has not stopped since the last life of the broker began here."""
        boot_id = self.files.boot_id()
        return self.record is not None and boot_id != "" and self.record.boot_id == boot_id

    @property
    def other_run(self) -> bool:
        """Whether the machine has stopped for sure since then: what is read is on the disk."""
        known = self.record is not None and self.record.boot_id != "" != self.files.boot_id()
        return known and not self.same_run

    def write_record(self, record: ContinuityRecord) -> None:
        """Write the continuity file, durably. Raises OSError."""
        self.files.write_atomic_now(f"{self.path}/{checkpoint.CONTINUITY}", record.encode())
        self.record = record

    def forget_record(self) -> None:
        """Remove the continuity file; a crash may bring it back. Raises OSError."""
        self.files.remove(f"{self.path}/{checkpoint.CONTINUITY}")
        self.record = None

    def note_unsynced(self) -> None:
        """An offset is about to count that is not synced: first time in this life, say so durably.

        Raises StorageError.
        """
        try:
            if self.record is not None:
                self.write_record(replace(self.record, unsynced=True))
        except OSError as error:
            self.fail(checkpoint.CONTINUITY, error)
            raise StorageError(f"{self.path}: {error}") from error
        self.counts_unsynced = True

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read_offsets(self, name: str) -> dict[TopicPartition, int] | None:
        """Read a checkpoint of offsets; None when it is absent or bad. Raises OSError."""
        path = f"{self.path}/{name}"
        if not self.files.exists(path):
            return None
        try:
            return checkpoint.decode_offsets(name, self.files.read_bytes(path))
        except CheckpointError as error:
            logger.warning(logged.CHECKPOINT_UNREADABLE, path, error)
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
                logger.warning(logged.CHECKPOINT_UNREADABLE, path, error)
        return self._clean_written

    # ---- room

    def take_space(self, size_bytes: int, *, internal: bool) -> None:
        """The credit is used up: look at the disk. Raises StorageError when it is too full."""
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
            logger.info(logged.LOG_DIR_HAS_ROOM, self.path)
        self.credit_bytes = 0 if internal else min(_CREDIT_BYTES_MAX, room // 4)

    def disk_is_full(self) -> None:
        """Writes are refused until there is room; reads go on."""
        self.credit_bytes = 0
        if not self.full:
            self.full = True
            logger.error(logged.LOG_DIR_FULL, self.path)

    # ---- failing

    def fail(self, what: str, error: BaseException) -> None:
        """Stop the directory for good; the broker is told once."""
        if not self.online:
            return
        self.online = False
        self.failure = f"{what}: {error}"
        logger.error(logged.LOG_DIR_OFFLINE, self.path, self.failure)
        self.flusher.stop()
        if self._on_offline is not None:
            if self._loop is not None:
                # Not from inside an append: who is told may want to touch the log.
                self._loop.call_soon(self._on_offline, self)
            else:
                self._on_offline(self)

    def _sync_failed(self, error: OSError) -> None:
        self.fail("sync", error)

    # ---- news and trash

    def tell_soon(self, log: PartitionLog) -> None:
        """Have ``on_synced`` called in this loop iteration, once for all appends in it."""
        if not self._news and self._loop is not None:
            self._loop.call_soon(self._tell)
        self._news[log] = None

    def _tell(self) -> None:
        news, self._news = self._news, {}
        for log in news:
            try:
                log.tell()
            except Exception:
                logger.exception(logged.APPEND_CALLBACK_FAILED)

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Unlink renamed files, in an executor. What is not done by then is done at next start."""
        paths = list(paths)
        if not paths or self._loop is None:
            return
        if delay_ms > 0:
            self._removals = [timer for timer in self._removals if timer.when() > self._loop.time()]
            self._removals.append(self._loop.call_later(delay_ms / 1000, self._remove, paths))
        else:
            self._remove(paths)

    def _remove(self, paths: list[str]) -> None:
        if self._loop is not None:
            self._loop.run_in_executor(None, _unlink, self.files, paths)

    # ---- checkpoints

    def start(self) -> None:
        """Begin to sync on the running loop."""
        self._loop = asyncio.get_running_loop()
        self.flusher.start(self._loop)

    def checkpoint_due(self) -> None:
        """Something changed that a checkpoint holds."""
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
                    logger.warning(logged.CHECKPOINTS_NOT_WRITTEN, self.path, error)
                    self._checkpoint_needed.set()
                else:
                    self.fail("checkpoint", error)
                return False
            return self.online

    async def _write_checkpoints(self) -> None:
        logs = [self.logs[tp] for tp in sorted(self.logs)]
        points: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        marks: list[tuple[PartitionLog, int]] = []
        clean: dict[TopicPartition, list[tuple[int, int]]] = {}
        for log in logs:
            tp = log.topic_partition
            points[tp] = log.checkpointed_recovery_point = log.recovery_point
            if log.log_start_offset:
                starts[tp] = log.log_start_offset
            if rows := log.clean.rows(log.recovery_point):
                clean[tp] = rows
            if log.truncation_mark:
                marks.append((log, log.truncation_mark))
        self.checkpointed.update(points)
        await self._write_offsets(checkpoint.LOG_START, starts)
        await self._write_epochs(logs)
        await self._write_offsets(checkpoint.RECOVERY_POINT, points)
        if self.high_watermarks is not None:
            known = self.high_watermarks()
            offsets = {tp: known[tp] for tp in points if known.get(tp, -1) >= 0}
            await self._write_offsets(checkpoint.HIGH_WATERMARK, offsets)
            for log in logs:
                log.producers.checkpointed(offsets.get(log.topic_partition, -1))
        if clean != self._clean_written:
            data = checkpoint.encode_clean(clean)
            await self.files.write_atomic(f"{self.path}/{checkpoint.CLEANER}", data)
            self._clean_written = clean
        self.checkpointed = set(points)
        await self._remove_marks(marks)
        self.starts.written(logs, {f"{self.path}/{tp}": start for tp, start in starts.items()})
        for log in logs:
            if log.persist_indexes(_INDEX_ENTRIES_MIN) or log.producers.keep_up():
                await asyncio.sleep(0)

    async def _remove_marks(self, marks: list[tuple[PartitionLog, int]]) -> None:
        """The checkpoint has followed: drop the marks that it makes needless, durably. One that
        came back with a power cut would have rot below the recovery point taken for a torn tail."""
        removed = []
        for log, mark in marks:
            if log.truncation_mark != mark:
                continue  # cut again meanwhile, maybe below what was just written
            path = f"{log.directory}/{TRUNCATION_MARK}"
            if self.files.exists(path):
                self.files.remove(path)
            log.truncation_mark = 0
            removed.append(log.directory)
        if removed:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, _sync_dirs, self.files, removed)

    async def _write_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        path = f"{self.path}/{name}"
        data = checkpoint.encode_offsets(name, offsets)
        await self.files.write_atomic(path, data)

    async def _write_epochs(self, logs: list[PartitionLog]) -> None:
        """Small files, many of them after a failover: several to a trip to the executor."""
        changed = [log for log in logs if log.epochs.revision != log.epochs_written]
        loop = asyncio.get_running_loop()
        for first in range(0, len(changed), _EPOCH_FILES_PER_CALL):
            group = changed[first : first + _EPOCH_FILES_PER_CALL]
            revisions = [log.epochs.revision for log in group]
            contents = [
                (
                    f"{log.directory}/{checkpoint.LEADER_EPOCH}",
                    checkpoint.encode_epochs(log.epochs.entries()),
                )
                for log in group
            ]
            await loop.run_in_executor(None, _write_all, self.files, contents)
            for log, revision in zip(group, revisions, strict=True):
                log.epochs_written = revision

    def mark_truncation(self, directory: str, offset: int, log_start_offset: int) -> None:
        """Durably lower the recovery point of the log in ``directory``, now. Raises OSError.

        A file of its own, because the checkpoint of all logs may be under way. What it said before
        still holds: no checkpoint has followed that cut either.
        """
        if self.files.exists(f"{directory}/{TRUNCATION_MARK}"):
            offset = min(offset, read_truncation(self.files, directory, 0)[0])
        document = checkpoint.encode_document(
            {"version": 1, "offset": offset, "log_start_offset": log_start_offset}
        )
        self.files.write_atomic_now(f"{directory}/{TRUNCATION_MARK}", document)
        self.starts.marked(directory, log_start_offset)

    def detach(self, log: PartitionLog) -> None:
        """The log is being deleted: no round and no checkpoint begins with it any more."""
        self.logs.pop(log.topic_partition, None)
        self.starts.forget(log)
        self.flusher.forget(log)
        self._news.pop(log, None)

    async def quiesce(self) -> None:
        """Return when no round and no checkpoint that began before is under way."""
        await self.flusher.round_over()
        async with self._checkpoint_lock:
            pass

    # ---- stopping

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
            for tp in sorted(self.logs):
                try:
                    self.logs[tp].close()
                except OSError as error:
                    self.fail(f"close {tp}", error)
        if clean and self.online and await self.write_checkpoints():
            document = checkpoint.encode_document({"version": 1, "broker_epoch": broker_epoch})
            try:
                await self.files.write_atomic(f"{self.path}/{checkpoint.CLEAN_SHUTDOWN}", document)
            except OSError as error:
                self.fail("clean shutdown", error)
        self.flusher.stop()
        if not clean:
            for tp in sorted(self.logs):
                for segment in self.logs[tp].segments:
                    segment.release()
        self.release()

    def __repr__(self) -> str:
        return f"<LogDir {self.path} {'online' if self.online else 'offline'}>"


def _parents(path: str, last: str) -> list[str]:
    """The directories above ``path`` up to ``last``, nearest first."""
    parents = []
    while path != last:
        path = os.path.dirname(path)
        parents.append(path)
    return parents


def _unlink(files: Files, paths: list[str]) -> None:
    for path in paths:
        try:
            files.remove(path)
        except OSError as error:
            # Not data any more; the next start tries again.
            logger.debug(logged.FILE_NOT_REMOVED, path, error)


def _sync_dirs(files: Files, paths: list[str]) -> None:
    for path in paths:
        files.sync_dir(path)


def _write_all(files: Files, contents: list[tuple[str, bytes]]) -> None:
    for path, data in contents:
        files.write_atomic_now(path, data)
