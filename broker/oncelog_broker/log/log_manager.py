"""The log manager keeps all logs of one broker, over its log directories.

Owns which partition lives where, starting and stopping, and the loops that serve all logs: one
checkpointer a directory, one for retention, one for compaction. Rules:

- a new partition goes to the online directory with the most room for each log in it, or to where
  somebody wants it;
- a deleted one is renamed first, so that its name is free and a crash finishes the deletion;
- a directory that fails takes only its own logs along; a directory that is someone else's stops the
  start;
- a log may move to another directory (``dir_moves``); of copies that a crash has left the start
  takes the one that counts (``found_copies``), and then the others go. One that is away, in a
  directory that is not here, is not made anew, unless that one is gone for good.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from oncelog_broker.log.checkpoint import PARTITION_META
from oncelog_broker.log.cleaner import Cleaner, CleanerConfig
from oncelog_broker.log.continuity import Continuity, failed_before
from oncelog_broker.log.dir_move import put_aside
from oncelog_broker.log.dir_moves import DirMoves
from oncelog_broker.log.found_copies import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    FoundLogs,
    in_two_directories,
    look,
    look_closer,
    sort_out,
)
from oncelog_broker.log.load_progress import LoadProgress
from oncelog_broker.log.log_dir import LogDir, LogDirError
from oncelog_broker.log.move_marks import SwapMark, read_swap, remove_moved, remove_swap
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.partition_meta import PartitionMeta, encode_meta, known_meta
from oncelog_broker.log.recovery import LoadedLog, load_log
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_broker.log.scrubber import Scrubber
from oncelog_protocol.errors import InconsistentTopicIdError, StorageError
from oncelog_protocol.topic_config import TopicConfig, parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

_NAME_CHARS_MAX = 255
_LOGS_PER_CALL = 32
"""One trip to the executor loads so many logs."""
_PRODUCERS_AS_A_LOG = 300
"""Looking at so many producers takes about as long as looking at a log."""
_SEGMENTS_AS_PRODUCERS = 5_000
"""Deleting the segments of one call takes about as long as looking at so many producers."""
_RETENTION_WEIGHT_MAX = 30_000
"""One turn of retention weighs so much: it looks at 100 logs or at so many producers, or deletes
segments of six logs."""


@dataclass(slots=True, kw_only=True)
class LogConfig:
    """These are the settings of a broker's logs. Names are Kafka's where Kafka has them. Those that
    may change while the broker runs change in place."""

    log_dirs: Sequence[str]
    flush: str
    """It is the default of the topic setting of that name."""
    flush_interval_ms: int
    """With ``flush=interval``, it is the longest time between a write and its sync."""
    flush_inline_bytes_max: int
    """Up to so many bytes may be synced on the event loop, while the disk is quick; 0 never, and
    never where there are several directories."""
    log_dir_sync_timeout_ms: int
    """A directory in which a sync takes longer is offline for good; so is one that holds up a stop
    for longer."""
    retention_check_interval_ms: int
    producer_id_expiration_ms: int
    """A producer that has not written to a partition for so long is forgotten there."""
    producer_ids_per_partition_max: int
    """One partition remembers so many producers; those that come later are refused."""
    checkpoint_interval_ms: int
    scrub_interval_ms: int
    """All that is synced is read again, and its checksums verified, once in this time; 0: never."""
    scrub_bytes_per_second: int
    """One directory is read at most so fast."""
    cleaner: CleanerConfig
    """Compacted topics are compacted by these."""
    topic_defaults: Mapping[str, str]
    open_segments_max: int = 4096
    """The files of so many segments are kept open; fewer if the process may hold fewer."""
    headroom_bytes: int = 128 * 1024 * 1024
    """So many free bytes of each disk, or 5 % of it if that is less, are kept for internal
    topics."""


class LogManager:
    """It keeps every log of a broker."""

    def __init__(
        self,
        *,
        files: Files,
        clock: CautiousClock,
        entropy: Entropy,
        config: LogConfig,
        broker_id: int,
        on_dir_offline: Callable[[LogDir], None] | None = None,
        safeguards: LogSafeguards = SAFE,
    ) -> None:
        self._safeguards = safeguards
        self._files = files
        self._clock = clock
        self._entropy = entropy
        self._config = config
        self._broker_id = broker_id
        self._on_dir_offline = on_dir_offline
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._of_topic: dict[str, dict[TopicPartition, PartitionLog]] = {}
        """The same logs stand here by topic; there is no topic without a log."""
        self._failed_before: frozenset[str] = frozenset()
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._high_watermark_source: Callable[[], dict[TopicPartition, int]] | None = None
        self._on_damage: Callable[[PartitionLog, str], None] | None = None
        self._tasks = Tasks("log manager")
        self._scrubbers: list[Scrubber] = []
        self._retention_pause = Pause()
        self.default_config = self._default_config()
        """It holds for a topic without settings of its own."""
        self.was_clean = False
        """It tells whether the broker's last stop was clean, in every directory."""
        self.previous_broker_epoch = -1
        """It is the broker epoch at that clean stop; -1 after any other."""
        self.dirs = self._make_dirs()
        self.progress = [LoadProgress(log_dir.path) for log_dir in self.dirs]
        """It tells how far the loading has come, of each directory."""
        self.cleaner = Cleaner(
            clock=clock,
            config=config.cleaner,
            logs=self.all,
            high_watermarks=self._current_high_watermarks,
            on_damage=self.damage_found,
        )
        """It compacts what is to be compacted, from ``start`` on."""
        self.continuity = Continuity(files, self.dirs, safeguards)
        """It knows what may be claimed of the data, from ``start`` on."""
        self.moves = DirMoves(
            self,
            self.dirs,
            entropy=entropy.fork("moves between directories"),
            tasks=self._tasks,
            doomed_name=self._doomed_name,
            safeguards=safeguards,
        )
        """They take logs from one directory to another."""
        self._away: dict[TopicPartition, str] = {}
        """These logs are in directories that are not here; older copies of them lie there."""
        self._made_count = 0

    def _make_dirs(self) -> list[LogDir]:
        config = self._config
        per_dir = max(16, config.open_segments_max // max(1, len(config.log_dirs)))
        # A sync on the loop that hangs would hold up the directories that are sound.
        inline_bytes_max = config.flush_inline_bytes_max if len(config.log_dirs) == 1 else 0
        return [
            LogDir(
                path.rstrip("/") or path,
                files=self._files,
                clock=self._clock,
                flush_interval_ms=config.flush_interval_ms,
                flush_inline_bytes_max=inline_bytes_max,
                sync_timeout_ms=config.log_dir_sync_timeout_ms,
                checkpoint_interval_ms=config.checkpoint_interval_ms,
                open_segments_max=per_dir,
                headroom_bytes=config.headroom_bytes,
                producer_ids_max=config.producer_ids_per_partition_max,
                on_offline=self._on_dir_offline,
                safeguards=self._safeguards,
            )
            for path in config.log_dirs
        ]

    @property
    def config(self) -> LogConfig:
        """Return the settings that were given."""
        return self._config

    # ---- starting and stopping

    async def start(self, cluster_id: str) -> None:
        """Take the directories, load every log, begin to serve them.

        Raises LogDirError when a directory is not this broker's or when none works.
        """
        paths = [log_dir.path for log_dir in self.dirs]
        if not paths or len(set(paths)) != len(paths):
            raise LogDirError(f"log_dirs must name at least one directory, and none twice: {paths}")
        try:
            for log_dir in self.dirs:
                try:
                    log_dir.acquire(cluster_id, self._broker_id, self._entropy)
                except OSError as error:
                    log_dir.fail("start", error)
            if not any(log_dir.online for log_dir in self.dirs):
                failures = "; ".join(f"{each.path}: {each.failure}" for each in self.dirs)
                raise LogDirError(f"no log directory works: {failures}")
            self._failed_before = failed_before(self.dirs)
            found = await self._look()
            told = dict(zip(self.dirs, self.progress, strict=True))
            await asyncio.gather(
                *[self._load(log_dir, logs, told[log_dir]) for log_dir, logs in found.items()]
            )
            await self._drop_stale(found)
        except BaseException:
            for log_dir in self.dirs:
                log_dir.release()
            raise
        self.continuity.judge()
        await self._give_up_lost(found)
        self.was_clean = all(log_dir.was_clean for log_dir in self.dirs)
        if self.was_clean:
            self.previous_broker_epoch = min(each.previous_broker_epoch for each in self.dirs)
        for log_dir in self.dirs:
            log_dir.start(self._current_high_watermarks)
            self._tasks.spawn(f"checkpoints of {log_dir.path}", log_dir.run_checkpoints())
            scrubber = self._scrubber(log_dir)
            self._scrubbers.append(scrubber)
            self._tasks.spawn(f"scrub of {log_dir.path}", scrubber.run())
        for log_dir, logs in found.items():
            if logs.swapped:
                self._tasks.spawn(f"moves to {log_dir.path}", self._settle(log_dir, logs))
        self._tasks.spawn("retention", self._run_retention())
        self._tasks.spawn("cleaner", self.cleaner.run())

    def settings_changed(self) -> None:
        """Apply ``config``, which says something else now."""
        self.default_config = self._default_config()
        for scrubber in self._scrubbers:
            scrubber.set_pace(
                interval_ms=self._config.scrub_interval_ms,
                bytes_per_second=self._config.scrub_bytes_per_second,
            )
        self.cleaner.settings_changed()
        self._retention_pause.end()

    def _default_config(self) -> TopicConfig:
        return parse_topic_config({}, self.topic_defaults)

    def _scrubber(self, log_dir: LogDir) -> Scrubber:
        return Scrubber(
            log_dir,
            find=self.get,
            interval_ms=self._config.scrub_interval_ms,
            bytes_per_second=self._config.scrub_bytes_per_second,
            entropy=self._entropy.fork(f"scrub of {log_dir.path}"),
            on_damage=self.damage_found,
        )

    def tell_damage_to(self, on_damage: Callable[[PartitionLog, str], None]) -> None:
        """Have ``on_damage`` told what scrubber and cleaner find, once a pass."""
        self._on_damage = on_damage

    def damage_found(self, log: PartitionLog, damage: str) -> None:
        """Tell whoever wants to hear of it that something was read that does not hold."""
        if self._on_damage is not None:
            self._on_damage(log, damage)
        else:
            logger.error("log_damaged", path=log.directory, error=damage)

    async def stop(self, clean: bool = True, broker_epoch: int = -1) -> None:
        """Stop the loops, then each directory. If it is not ``clean``, files are closed and nothing
        more is written. A directory that hangs is given up after ``log_dir_sync_timeout_ms``."""
        patience_s = self._config.log_dir_sync_timeout_ms / 1000
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(patience_s, log_dir.give_up_jobs) for log_dir in self.dirs]
        try:
            await self._stop(clean, broker_epoch)
        finally:
            for timer in timers:
                timer.cancel()

    async def _stop(self, clean: bool, broker_epoch: int) -> None:
        for log_dir in self.dirs:
            await log_dir.end_checkpoints()
        await self._tasks.close()
        for log_dir in self.dirs:
            try:
                await log_dir.stop(clean=clean, broker_epoch=broker_epoch)
            except Exception:
                logger.exception("log_dir_stop_failed", log_dir=log_dir.path)

    # ---- loading

    async def _look(self) -> dict[LogDir, FoundLogs]:
        """Return which logs are where, and count. Raises LogDirError."""
        online = [log_dir for log_dir in self.dirs if log_dir.online]
        found: dict[LogDir, FoundLogs] = {}
        for log_dir in online:
            try:
                found[log_dir] = await log_dir.jobs.run(
                    look, self._files, log_dir.path, log_dir.directory_id
                )
            except OSError as error:
                log_dir.fail("load", error)
        doubled = in_two_directories(list(found.values()))
        for log_dir, logs in list(found.items()):
            if doubled.isdisjoint(logs.names):
                continue
            try:
                await log_dir.jobs.run(look_closer, self._files, logs, doubled)
            except OSError as error:
                log_dir.fail("load", error)
                del found[log_dir]
        by_topic = self._safeguards.tells_topics_apart()
        self._away = sort_out(list(found.values()), by_topic=by_topic)
        for topic_partition, path in self._away.items():
            logger.error("log_away", partition=topic_partition, path=path)
        return found

    async def _drop_stale(self, found: Mapping[LogDir, FoundLogs]) -> None:
        """Remove the copies that another one has replaced, now that this one is loaded."""
        for log_dir, logs in found.items():
            for topic_partition, name in logs.stale.items():
                path, log = f"{log_dir.path}/{name}", self._logs.get(topic_partition)
                if log is None or not log.log_dir.online:
                    self._away[topic_partition] = path
                    continue
                try:
                    await self._remove_copy(log_dir, topic_partition, name)
                except OSError as error:
                    log_dir.fail("load", error)

    async def _remove_copy(
        self, log_dir: LogDir, topic_partition: TopicPartition, name: str
    ) -> None:
        """Remove a directory, such that a crash meanwhile leaves none that looks like a log.
        Raises OSError."""
        doomed = f"{log_dir.path}/{self._doomed_name(topic_partition)}"
        await log_dir.jobs.run(put_aside, self._files, f"{log_dir.path}/{name}", doomed)
        await log_dir.jobs.run(self._files.remove_tree_now, doomed)

    async def _give_up_lost(self, found: Mapping[LogDir, FoundLogs]) -> None:
        """Put aside the copies of logs that went to a directory which is gone for good. What
        counted was lost with it, as the next claim says: such a replica begins anew, like those
        that lay there."""
        lost = {
            topic_partition
            for logs in found.values()
            for topic_partition in logs.away
            if self.continuity.is_lost(logs.moved[topic_partition])
        }
        for log_dir, logs in found.items():
            for topic_partition in sorted(lost & (logs.away.keys() | logs.stale.keys())):
                name = logs.away.get(topic_partition) or logs.stale[topic_partition]
                path = f"{log_dir.path}/{name}"
                stray = f"{log_dir.path}/{self._unique_name(topic_partition, STRAY_SUFFIX)}"
                try:
                    await log_dir.jobs.run(put_aside, self._files, path, stray)
                except OSError as error:
                    lost.discard(topic_partition)
                    log_dir.fail("load", error)
                else:
                    logger.warning("log_given_up", partition=topic_partition, path=stray)
        for topic_partition in lost:
            del self._away[topic_partition]

    async def _settle(self, log_dir: LogDir, found: FoundLogs) -> None:
        """Remove the marks of logs that came by a move, once the checkpoints know these logs."""
        while log_dir.online:
            if await log_dir.write_checkpoints():
                break
            await asyncio.sleep(self._config.checkpoint_interval_ms / 1000)
        for topic_partition in sorted(found.swapped):
            log = self._logs.get(topic_partition)
            if log is not None and log.log_dir is log_dir and log_dir.online:
                try:
                    await log_dir.jobs.run(remove_swap, self._files, log.directory)
                except FileNotFoundError:
                    pass  # it has been deleted
                except OSError as error:
                    log_dir.fail(f"move {topic_partition}", error)

    async def _load(self, log_dir: LogDir, found: FoundLogs, progress: LoadProgress) -> None:
        jobs, safeguards = log_dir.jobs, self._safeguards
        names = found.names
        try:
            progress.found(len(names))
            for name in found.doomed:
                await jobs.run(self._files.remove_tree_now, f"{log_dir.path}/{name}")
            for tp, name in found.outlived.items():
                logger.warning("old_copy_removed", partition=tp, path=f"{log_dir.path}/{name}")
                await self._remove_copy(log_dir, tp, name)
            for tp in found.stays:
                await jobs.run(remove_moved, self._files, f"{log_dir.path}/{names[tp]}")
            points, starts, marks, rows = log_dir.read_checkpoints()
            moved = await jobs.run(self._read_swaps, found, points or {})
            for tp, mark in moved.items():
                starts[tp], marks[tp] = mark.log_start_offset, mark.high_watermark
                rows[tp] = mark.clean_rows
            clean = log_dir.was_clean and points is not None
            # Without recovery points: what was committed was synced before.
            known = dict(marks if points is None else points)
            known.update({tp: mark.end_offset for tp, mark in moved.items()})
            synced = safeguards.synced_offsets(known)
            same_run = log_dir.same_run and log_dir.directory_id not in self._failed_before
            may_be_cached = not (log_dir.was_clean or log_dir.other_run)
            plan = _CheckpointPlan(
                clean,
                self._clock.stamp_of(self._clock.latest_ms()),
                safeguards.has_all_writes(same_run),
                safeguards.rewrites_unsynced(may_be_cached),
                synced,
                starts,
                moved,
            )
            partitions = sorted(names)
            for first in range(0, len(partitions), _LOGS_PER_CALL):
                group = partitions[first : first + _LOGS_PER_CALL]
                named = [(tp, names[tp]) for tp in group]
                loaded = await jobs.run(self._load_group, log_dir, plan, named, progress)
                for tp, log in zip(group, loaded, strict=True):
                    if log is None:
                        await jobs.run(self._files.remove_tree_now, f"{log_dir.path}/{names[tp]}")
                    else:
                        clean_max = min(
                            log.log_end_offset, log.recovery_point, log.truncation_offset
                        )
                        adopted = self._adopt(log_dir, tp, log, self.default_config)
                        log_dir.starts.loaded(adopted, 0 if log.marked else starts.get(tp, 0))
                        # Corruption ends a log where it lies, and says nothing of the other logs.
                        short = log.log_end_offset < min(marks.get(tp, 0), log.truncation_offset)
                        if short and not log.corrupt:
                            log_dir.fell_short(adopted, marks[tp])
                        adopted.compacted_before(rows.get(tp, ()), clean_max)
                        self._high_watermarks[tp] = min(
                            marks.get(tp, 0), log.log_end_offset, log.truncation_offset
                        )
        except OSError as error:
            log_dir.fail("load", error)

    def _read_swaps(
        self, found: FoundLogs, checkpointed: Container[TopicPartition]
    ) -> dict[TopicPartition, SwapMark]:
        """Return what logs that came by a move say of themselves, unless checkpoints know more:
        then they say no more. This runs in a thread."""
        moved: dict[TopicPartition, SwapMark] = {}
        for tp in sorted(found.swapped & found.names.keys()):
            directory = f"{found.path}/{found.names[tp]}"
            if tp in checkpointed:
                remove_swap(self._files, directory)
            elif mark := read_swap(self._files, directory):
                moved[tp] = mark
        return moved

    def _load_group(
        self,
        log_dir: LogDir,
        plan: _CheckpointPlan,
        partitions: list[tuple[TopicPartition, str]],
        progress: LoadProgress,
    ) -> list[LoadedLog | None]:
        """Load the logs of one group. This runs in a thread."""
        group = []
        for tp, name in partitions:
            loaded = load_log(
                log_dir.pool,
                f"{log_dir.path}/{name}",
                interval_bytes=self.default_config.index_interval_bytes,
                recovery_point=plan.points.get(tp, 0),
                log_start_offset=plan.starts.get(tp, 0),
                clean=plan.clean and tp in plan.points and tp not in plan.moved,
                now_ms=plan.now_ms,
                same_run=plan.same_run,
                rewrite=plan.rewrite,
                producers=self._safeguards.producer_state(),
                progress=progress,
            )
            progress.one_log()
            group.append(loaded)
        return group

    def _adopt(
        self, log_dir: LogDir, tp: TopicPartition, loaded: LoadedLog, config: TopicConfig
    ) -> PartitionLog:
        log = PartitionLog(log_dir, tp, config, loaded)
        self._logs[tp] = log_dir.logs[tp] = log
        self._of_topic.setdefault(tp.topic, {})[tp] = log
        return log

    def _forget(self, tp: TopicPartition) -> PartitionLog | None:
        log = self._logs.pop(tp, None)
        if log is not None:
            others = self._of_topic[tp.topic]
            del others[tp]
            if not others:
                del self._of_topic[tp.topic]
        return log

    # ---- logs

    @property
    def topic_defaults(self) -> dict[str, str]:
        """Return the topic settings of this broker, which hold where a topic does not set them
        itself."""
        return {"flush": self._config.flush, **self._config.topic_defaults}

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, also while its directory is offline."""
        return self._logs.get(topic_partition)

    @property
    def task_count(self) -> int:
        """Return how many background tasks run."""
        return len(self._tasks)

    def all(self) -> list[PartitionLog]:
        """Return every log, sorted by partition."""
        return [self._logs[tp] for tp in sorted(self._logs)]

    def of_topic(self, topic: str) -> list[PartitionLog]:
        """Return the logs of one topic, in no particular order."""
        return list(self._of_topic.get(topic, {}).values())

    def create(
        self, topic_partition: TopicPartition, topic_id: str, config: TopicConfig
    ) -> PartitionLog:
        """Make a partition's log, or return the one that is there.

        Its files are synced before its first offset counts. Raises InconsistentTopicIdError when
        the one that is there belongs to another topic of that name, StorageError.
        """
        log = self._logs.get(topic_partition)
        if log is not None:
            if log.topic_id and log.topic_id != topic_id:
                raise InconsistentTopicIdError(
                    f"{topic_partition} is of topic {log.topic_id}, not {topic_id}"
                )
            log.reconfigure(config)
            if not log.topic_id:
                log.belongs_to(topic_id, self.continuity.broker_epoch)
                self._write_meta(log)
            return log
        self._demand_here(topic_partition, topic_id)
        log_dir = self.moves.wanted(topic_partition) or self._roomiest()
        directory = f"{log_dir.path}/{topic_partition}"
        try:
            if self._files.exists(directory):
                raise StorageError(f"{directory} exists and is not a known log")
            self._files.make_dirs(directory)
            # Checkpoints of a deleted log of that name say nothing of this one.
            marked = topic_partition in log_dir.checkpointed
            loaded = LoadedLog.empty(
                log_dir.pool,
                directory,
                topic_id,
                config.index_interval_bytes,
                self.continuity.broker_epoch,
                self._safeguards.producer_state(),
                marked=marked,
            )
            if marked:
                log_dir.mark_truncation(directory, 0, 0)
        except OSError as error:
            log_dir.fail(f"create {topic_partition}", error)
            raise StorageError(f"{directory}: {error}") from error
        log = self._adopt(log_dir, topic_partition, loaded, config)
        self._write_meta(log)
        log_dir.checkpoint_due()
        return log

    def _demand_here(self, topic_partition: TopicPartition, topic_id: str) -> None:
        """Raise StorageError if a newer copy of a log may be in a directory that is not here."""
        path = self._away.get(topic_partition)
        if path is None:
            return
        doomed = f"{path.rpartition('/')[0]}/{self._doomed_name(topic_partition)}"
        try:
            if known_meta(self._files, path).topic_id == topic_id:
                raise StorageError(
                    f"{topic_partition} was moved from {path} to one that is not here"
                )
            self._files.rename(path, doomed)
        except OSError as error:
            raise StorageError(f"{path}: {error}") from error
        del self._away[topic_partition]

    def _roomiest(self) -> LogDir:
        """Return the directory with the most room for each log in it, and of like ones that with
        the fewest. Raises StorageError."""
        online = [log_dir for log_dir in self.dirs if log_dir.online]
        if not online:
            raise StorageError("no log directory is online")
        return min(online, key=self._tightness)

    def _tightness(self, log_dir: LogDir) -> tuple[float, int]:
        count = len(log_dir.logs)
        try:
            room_bytes = log_dir.room_bytes() - self.moves.reserved_bytes(log_dir)
        except OSError:
            room_bytes = 0
        return -max(0, room_bytes) / (count + 1), count

    def _write_meta(self, log: PartitionLog) -> None:
        tp = log.topic_partition
        said = PartitionMeta(log.topic_id, log.made_epoch, self.count_made())
        try:
            meta = self._files.open(f"{log.directory}/{PARTITION_META}", create=True)
            if meta.size():
                meta.truncate(0)
            meta.append([encode_meta(tp, said)])
        except OSError as error:
            log.log_dir.detach(log)
            self._forget(tp)
            log.log_dir.fail(f"create {tp}", error)
            raise StorageError(f"{log.directory}: {error}") from error
        log.created(meta)

    async def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a partition's log; nothing happens when there is none.

        The log is gone from here at once. Raises StorageError.
        """
        log = self._detach(topic_partition)
        if log is None:
            return
        await self.moves.end(topic_partition)
        target = f"{log.log_dir.path}/{self._doomed_name(topic_partition)}"
        await self._let_go(log)
        try:
            self._files.rename(log.directory, target)
            await log.log_dir.jobs.run(self._files.sync_dir, log.log_dir.path)
            await log.log_dir.jobs.run(self._files.remove_tree_now, target)
        except OSError as error:
            log.log_dir.fail(f"delete {topic_partition}", error)
            raise StorageError(f"{log.directory}: {error}") from error

    def _detach(self, topic_partition: TopicPartition) -> PartitionLog | None:
        log = self._forget(topic_partition)
        if log is not None:
            self._high_watermarks.pop(topic_partition, None)
            log.log_dir.detach(log)
            log.tell_synced_to(None)
        return log

    async def _let_go(self, log: PartitionLog) -> None:
        """Give up the descriptors of a detached log."""
        await log.log_dir.quiesce()
        log.release()
        log.close(keep=False)

    def _doomed_name(self, topic_partition: TopicPartition) -> str:
        """Return a name that the next start removes."""
        return self._unique_name(topic_partition, DELETE_SUFFIX)

    def _unique_name(self, topic_partition: TopicPartition, ending: str) -> str:
        suffix = f".{self._entropy.uuid().replace('-', '')}{ending}"
        return str(topic_partition)[: _NAME_CHARS_MAX - len(suffix)] + suffix

    # ---- high watermarks and retention

    def high_watermark_checkpoint(self) -> dict[TopicPartition, int]:
        """Return the high watermarks as loaded at start."""
        return dict(self._high_watermarks)

    def high_watermark_of(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark of a partition; 0 when it is not known."""
        return self._current_high_watermarks().get(topic_partition, 0)

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of the broker's newest registration."""
        return self.continuity.broker_epoch

    def count_made(self) -> int:
        """Return which of the logs it is that this process makes now, counted from 1 [D18]."""
        self._made_count += 1
        return self._made_count

    def set_high_watermark_source(self, source: Callable[[], dict[TopicPartition, int]]) -> None:
        """Take high watermarks from ``source`` from now on, for checkpoints and retention."""
        self._high_watermark_source = source

    def _current_high_watermarks(self) -> dict[TopicPartition, int]:
        if self._high_watermark_source is None:
            return self._high_watermarks
        return {**self._high_watermarks, **self._high_watermark_source()}

    async def apply_retention(self) -> int:
        """Let every log delete what may go, some logs a turn; return the bytes freed."""
        freed = weight = 0
        high_watermarks = self._current_high_watermarks()
        now_ms, latest_ms = self._clock.expiry_ms(), self._clock.latest_ms()
        logs = deque(self.all())
        while logs:
            log = logs.popleft()
            if self._logs.get(log.topic_partition) is not log:
                continue  # deleted since
            try:
                mark = high_watermarks.get(log.topic_partition, 0)
                if now_ms > 0:
                    log.segments.date(latest_ms)
                if freed_here := log.apply_retention(now_ms, mark):
                    freed += freed_here
                    weight += _SEGMENTS_AS_PRODUCERS
                    logs.appendleft(log)  # there may be more
                else:
                    weight += _PRODUCERS_AS_A_LOG + log.producers.count
                    after_ms = self._config.producer_id_expiration_ms
                    if log.producers.expire(now_ms, after_ms, latest_ms):
                        logs.appendleft(log)
            except StorageError as error:
                logger.warning("retention_refused", error=error)
            if weight > _RETENTION_WEIGHT_MAX:
                weight = 0
                await asyncio.sleep(0)
        return freed

    async def _run_retention(self) -> None:
        while True:
            await self._retention_pause.sleep(self._config.retention_check_interval_ms / 1000)
            try:
                await self.apply_retention()
            except Exception:
                logger.exception("retention_failed")


@dataclass(frozen=True, slots=True)
class _CheckpointPlan:
    """The checkpoints of one directory say this."""

    clean: bool
    now_ms: int
    same_run: bool
    rewrite: bool
    """It tells whether what was found unsynced may be in the page cache alone."""
    points: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    moved: Mapping[TopicPartition, SwapMark]
    """These logs came by a move, and no checkpoint knows of them."""
