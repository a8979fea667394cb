"""One log moves to another directory of its broker, and nobody notices (KIP-113).

Rules, in the order of the steps:

1. The copy is made (``future_log``), as fast as the pace of catching up allows, until little is
   left.
2. ``moved.json`` is written in the present directory, durably.
3. No sync round begins with the log any more, so that nothing more counts as synced. What is left
   is copied, the copy is synced to where the log is synced or further, and says so in
   ``swap.json``, durably. If that takes long, the log goes on, and it is tried again.
4. In one turn of the loop: what was written meanwhile is copied, unsynced as it is; the copy takes
   the log's name; the log object lies there from now on. Nothing of the log changes: no order, no
   epoch, no client notices. The next sync round covers the copy, and its name.
5. When the name is durable, the old copy is renamed to ``-delete`` and removed, and ``swap.json``
   goes as soon as the checkpoints of the directory know the log.

So the copy that has the name has all that counted before, and what counts after needs the name to
be durable [D15]. A start finds by the two files which copy counts (``found_copies``).

A directory that fails takes only its own copy along: before step 4 the move ends, or the log fails
with its directory as ever; after it, the log is in the other one. A log that is deleted, or goes to
another broker, ends its move first.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Protocol

from oncelog_broker.log.checkpoint import PARTITION_META
from oncelog_broker.log.future_log import CopyError, FutureLog, on_disk
from oncelog_broker.log.hosted_log import HousedFiles
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.move_marks import SwapMark, remove_moved, remove_swap, write_moved
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.partition_meta import PartitionMeta, encode_meta
from oncelog_broker.log.refetch import NOT_REFETCHING
from oncelog_broker.log.safeguards import LogSafeguards
from oncelog_protocol.errors import StorageError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

PIECE_BYTES = 1024 * 1024
"""So much is copied at a time."""
HOLD_S = 1.0
"""Nothing of the log counts as synced for so long at most, while it changes its place."""
HOLD_ROUNDS = 4
"""So often is copied and synced meanwhile what was written, until little is left."""
PAUSE_S = 1.0
"""After trouble that passes, and while a log is being fetched again, it rests so long."""
AGAIN_S = 0.2
"""A change of place that did not come to pass is tried again after so long."""
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

QUEUED, COPYING, SWAPPING, CLEANING = "queued", "copying", "swapping", "cleaning up"


class CopyPace(Protocol):
    """It says how much may be copied, beside what followers fetch that are far behind."""

    def room_bytes(self, now: float) -> int:
        """Return how much may be copied now; 0 when it is too little."""
        ...

    def ready_at(self, now: float) -> float:
        """Return when there is room again, in the loop's time."""
        ...

    def spend(self, size_bytes: int) -> None:
        """Note that so much was copied."""
        ...


class Household(Protocol):
    """A move sees the broker's logs through this."""

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition."""
        ...

    def high_watermark_of(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark of a partition."""
        ...

    def damage_found(self, log: PartitionLog, damage: str) -> None:
        """Tell that something of a log does not hold."""
        ...

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of the broker's newest registration."""
        ...

    def count_made(self) -> int:
        """Return which of the logs it is that this process makes now."""
        ...


class MoveEndedError(Exception):
    """The move does not go on; the text says why."""


class DirMove:
    """It is one move of one log. ``run`` carries it out."""

    def __init__(
        self,
        log: PartitionLog,
        target: LogDir,
        *,
        names: tuple[str, str],
        house: Household,
        pace: CopyPace | None,
        safeguards: LogSafeguards,
    ) -> None:
        """``names`` are the one of the copy in the making, and the one that the old copy has while
        it is removed."""
        self.log, self.source, self.target = log, log.log_dir, target
        self.topic_partition = log.topic_partition
        self.future = FutureLog(log, target, f"{target.path}/{names[0]}")
        self.phase = QUEUED
        self._old_directory = log.directory
        self._doomed = f"{log.log_dir.path}/{names[1]}"
        self._house = house
        self._pace = pace
        self._safeguards = safeguards
        self._made_epoch, self._made_number = house.broker_epoch, house.count_made()
        self._marked = False
        self._held = False

    @property
    def _files(self) -> Files:
        return self.target.files

    @property
    def has_swapped(self) -> bool:
        """Return whether the log lies in its new directory."""
        return self.phase == CLEANING

    # ---- the whole

    async def run(self) -> None:
        """Carry the move out. Raises MoveEndedError when it ends before the log is in its new
        place; nothing is left of it then."""
        try:
            await self._make()
            while True:
                self.phase = COPYING
                await self._copy()
                if await self._try_swap():
                    break
                await asyncio.sleep(AGAIN_S)
        except CopyError as error:
            self._judge(error)
            await self._undo()
            raise MoveEndedError(str(error)) from error
        except MoveEndedError:
            await self._undo()
            raise
        except asyncio.CancelledError:
            await self._unmark()
            raise
        finally:
            self.future.close()
        await self._clean_up()

    def _check(self) -> None:
        """Raise MoveEndedError when there is nothing more to move, or no place for it."""
        if self._house.get(self.topic_partition) is not self.log:
            raise MoveEndedError("the log is not here any more")
        for log_dir in (self.source, self.target):
            if not log_dir.online:
                raise MoveEndedError(f"{log_dir.path} is offline")

    def _judge(self, failed: CopyError) -> None:
        """Stop a directory whose disk refused what no passing trouble explains."""
        number = failed.error.errno
        if number in _NO_ROOM or (number == errno.ENOENT and failed.log_dir is self.source):
            return
        failed.log_dir.fail(f"move {self.topic_partition}", failed.error)

    async def _undo(self) -> None:
        """Leave nothing of a move that has ended before its time."""
        await self._unmark()
        await self.drop_copy()

    async def drop_copy(self) -> None:
        """Remove the copy in the making; what cannot be removed goes at the next start."""
        self.future.close()
        if self.target.online:
            try:
                await on_disk(self.target, self._files.remove_tree_now, self.future.directory)
            except CopyError as error:
                logger.info("copy_not_removed", path=self.future.directory, error=error)

    async def _unmark(self) -> None:
        """Have it durable that the log stays: a start would look for it elsewhere."""
        if self._marked and not self.has_swapped and self.source.online:
            self._marked = False
            try:
                await on_disk(self.source, remove_moved, self._files, self._old_directory)
            except CopyError as error:
                if self._house.get(self.topic_partition) is self.log:
                    self.source.fail(f"move {self.topic_partition}", error.error)

    # ---- step 1

    async def _make(self) -> None:
        self._check()
        self._demand_free_name()
        self.future.begin()
        meta = PartitionMeta(self.log.topic_id, self._made_epoch, self._made_number)
        data = encode_meta(self.topic_partition, meta)
        await on_disk(self.target, _make_copy, self._files, self.future.directory, data)

    def _demand_free_name(self) -> str:
        """Return the directory that the log is to be in, which is not there yet."""
        directory = f"{self.target.path}/{self.topic_partition}"
        if self._files.exists(directory):
            raise MoveEndedError(f"{directory} exists and is not a known log")
        return directory

    async def _copy(self) -> None:
        """Copy until little is left."""
        loop = asyncio.get_running_loop()
        while True:
            self._check()
            if self.log.damage or self.log.refetch_until != NOT_REFETCHING:
                await asyncio.sleep(PAUSE_S)
                continue
            allowed = PIECE_BYTES
            if self._pace is not None:
                allowed = min(PIECE_BYTES, self._pace.room_bytes(loop.time()))
                if not allowed:
                    await asyncio.sleep(self._pace.ready_at(loop.time()) - loop.time())
                    continue
            self._demand_room(allowed)
            copied = await self._copy_piece(allowed)
            if copied < 0 or (copied and self.future.is_near):
                return
            if self._pace is not None:
                self._pace.spend(copied)

    def _demand_room(self, size_bytes: int) -> None:
        try:
            room_bytes = self.target.room_bytes()
        except OSError as error:
            raise CopyError(self.target, error) from error
        if room_bytes < size_bytes:
            raise MoveEndedError(f"{self.target.path} has no room")

    async def _copy_piece(self, max_bytes: int) -> int:
        cuts = self.future.cuts
        try:
            return await self.future.copy_piece(max_bytes)
        except CorruptBatchError as error:
            # Of a file that was cut or replaced while it was read, that says nothing.
            if self.future.cuts == cuts and not self.future.has_changed:
                self._house.damage_found(self.log, str(error))
                raise MoveEndedError(f"the log is damaged: {error}") from error
        except CopyError as error:
            passes = error.log_dir is self.source and error.error.errno == errno.ENOENT
            if not passes and error.error.errno not in _PASSING:
                raise
            await asyncio.sleep(PAUSE_S)
        return 0

    # ---- steps 2 to 4

    async def _try_swap(self) -> bool:
        """Put the copy in the place of the log; return whether that came to pass."""
        log, target = self.log, self.target
        await self.future.copy_snapshots()
        await self.future.sync()
        if log.topic_partition in target.checkpointed and not await self._forget_former_stay():
            return False
        if self._safeguards.marks_moved() and not self._marked:
            self._marked = True
            await on_disk(
                self.source, write_moved, self._files, self._old_directory, target.directory_id
            )
        self._check()
        if log.config.flush != "commit" and not target.counts_unsynced:
            try:
                target.note_unsynced()
            except StorageError as error:
                raise MoveEndedError(str(error)) from error
        self.phase = SWAPPING
        timer = asyncio.get_running_loop().call_later(HOLD_S, self._let_go)
        self._held = True
        log.unsynced.hold()
        try:
            if await self._swap():
                self.phase = CLEANING
        finally:
            timer.cancel()
            self._let_go()
        return self.has_swapped

    def _let_go(self) -> None:
        """Let the log's syncs go on."""
        if self._held:
            self._held = False
            if self._house.get(self.topic_partition) is self.log:
                self.log.unsynced.let_go()

    async def _forget_former_stay(self) -> bool:
        """Have checkpoints written in the directory that say nothing of the log any more."""
        await self.target.write_checkpoints()
        return self.topic_partition not in self.target.checkpointed

    async def _swap(self) -> bool:
        log, future = self.log, self.future
        await self.source.quiesce()
        for _ in range(HOLD_ROUNDS):
            while self._held and (future.end_offset < log.recovery_point or not future.is_near):
                await self._copy_piece(PIECE_BYTES)
            cuts = future.cuts
            end = await future.sync() if self._safeguards.syncs_before_swap() else future.end_offset
            mark = SwapMark(
                log.topic_id,
                end,
                log.log_start_offset,
                min(self._house.high_watermark_of(self.topic_partition), end),
                log.clean.rows(end),
            )
            revision = await future.write_swap(mark)
            if self._may_swap(mark, cuts):
                await self._swap_now(mark, revision)
                return True
            self._check()
            if not self._held:
                break
        return False

    def _may_swap(self, mark: SwapMark, cuts: int) -> bool:
        """Return whether the copy may be the log, from this turn of the loop on."""
        log, source, target = self.log, self.source, self.target
        return (
            self._held
            and self._house.get(self.topic_partition) is log
            and source.online
            and target.online
            and not log.damage
            and log.refetch_until == NOT_REFETCHING
            and not log.swap.replaced
            and not log.producers.is_reading
            and not log.unsynced.is_new
            and not source.writes_checkpoints
            and self.topic_partition not in target.checkpointed
            and self.future.cuts == cuts
            and self.future.is_near
            and mark.end_offset >= log.recovery_point
            and mark.log_start_offset == log.log_start_offset
        )

    async def _swap_now(self, mark: SwapMark, revision: int) -> None:
        """Carry out step 4: nothing is awaited before the log is in its new place."""
        future, directory = self.future, self._demand_free_name()
        try:
            future.append_rest()
        except OSError as error:
            raise CopyError(self.target, error) from error
        try:
            self._files.rename(future.directory, directory)
        except OSError as error:
            # The name may have changed all the same: before anything more counts here, it must be
            # durable that the log stays.
            held, self._held = self._held, False
            self.target.fail(f"move {self.topic_partition}", error)
            await self._unmark()
            self._held = held
            raise MoveEndedError(f"{directory}: {error}") from error
        segments, unsynced = future.moved_segments(directory)
        housed = HousedFiles(
            segments, unsynced, self._made_epoch, revision, mark.end_offset, mark.log_start_offset
        )
        self.log.rehouse(self.target, directory, housed)

    # ---- step 5

    async def _clean_up(self) -> None:
        logger.info(
            "log_moved",
            partition=self.topic_partition,
            source=self.source.path,
            log_dir=self.target.path,
        )
        try:
            await on_disk(self.target, self._files.sync_dir, self.target.path)
            await self._remove_old()
            await self._remove_swap_mark()
        except CopyError as error:
            error.log_dir.fail(f"move {self.topic_partition}", error.error)

    async def _remove_old(self) -> None:
        if self.source.online:
            await on_disk(self.source, put_aside, self._files, self._old_directory, self._doomed)
            await on_disk(self.source, self._files.remove_tree_now, self._doomed)

    async def _remove_swap_mark(self) -> None:
        while self.target.online and self._house.get(self.topic_partition) is self.log:
            if await self.target.write_checkpoints():
                directory = f"{self.target.path}/{self.topic_partition}"
                try:
                    await on_disk(self.target, remove_swap, self._files, directory)
                except CopyError as error:
                    if error.error.errno != errno.ENOENT:  # it is being deleted
                        raise
                return
            await asyncio.sleep(PAUSE_S)


def _make_copy(files: Files, directory: str, meta: bytes) -> None:
    """Make the directory of a copy, with its small file. Runs in a thread."""
    files.make_dirs(directory)
    files.write_atomic_now(f"{directory}/{PARTITION_META}", meta)


def put_aside(files: Files, directory: str, doomed: str) -> None:
    """Give a directory that is no log any more a name that the next start removes, durably. Runs
    in a thread. Raises OSError."""
    files.rename(directory, doomed)
    files.sync_dir(doomed.rpartition("/")[0])
