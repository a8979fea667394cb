"""The cleaner compacts the logs of topics with ``compact`` in their policy, one after the other.

It owns which log is next, how far it may be compacted, and the pace. Rules:

- never the active segment, and nothing at or above the high watermark, the first undecided
  transaction or the recovery point: what may still be truncated is not compacted, what may still be
  aborted is nobody's newest value, and what is not synced is not read as if it were;
- the log with the largest share of bytes that are new since its last pass goes first; one with
  records that have waited ``max_compaction_lag_ms`` (KIP-354) before all others, for which the
  active segment of an idle log is rolled; one with tombstones that may go counts too;
- a pass works in slices of a few milliseconds in an executor, and rests after each, so that it
  takes no more than a share of the CPU and of the disk;
- the log goes on meanwhile. A new segment counts only if the segments that it was made of are still
  in the log, and the log has not been truncated;
- each replica compacts for itself: logs of one partition then differ in bytes, never in the newest
  value of a key, nor in the offset of a record that both have;
- damage is told like the scrubber's, and the log left alone. A log that cannot be compacted is left
  alone until it is truncated or the broker restarts.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.key_map import KeyMap
from oncelog_broker.log.offset_index import RELATIVE_OFFSET_MAX
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.rewriting import (
    AbortedRanges,
    Known,
    Rule,
    SourceSegment,
    UncleanableError,
    Written,
    read_keys,
    rewrite,
)
from oncelog_broker.log.segment import Segment
from oncelog_protocol.errors import CorruptMessageError, StorageError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

T = TypeVar("T")

REST_S_MIN = 0.001
"""Shorter rests would spin."""
_DONE = -1
_PASSING = frozenset(
    {errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""These errors say nothing about the disk. A missing file was deleted meanwhile; if not, readers
and the scrubber find that out."""


@dataclass(slots=True, kw_only=True)
class CleanerConfig:
    """These are the settings of the cleaner. Names are Kafka's where Kafka has them. Those that may
    change while the broker runs change in place."""

    enable: bool
    backoff_ms: int
    """It rests so long when there is nothing to do."""
    dedupe_buffer_bytes: int
    """Keys may take so much memory; what does not fit is left to the next pass."""
    io_max_bytes_per_second: int
    """It reads and writes so much together."""
    cpu_percent: int
    """It takes this share of one core."""


class CleaningWork(NamedTuple):
    """It is the work that there is to do in one log."""

    log: PartitionLog
    segments: list[Segment]
    """All of these may be compacted, from the oldest on."""
    dirty_from: int
    ratio: float
    """It is the share of bytes that are new, of what may be compacted."""
    overdue: bool


class _StoppedError(Exception):
    """The log has changed under the pass: what it has made is void."""


class Cleaner:
    """It is the cleaner of one broker; it calls ``on_damage(log, text)`` on the loop."""

    def __init__(
        self,
        *,
        clock: CautiousClock,
        config: CleanerConfig,
        logs: Callable[[], Sequence[PartitionLog]],
        high_watermarks: Callable[[], Mapping[TopicPartition, int]],
        on_damage: Callable[[PartitionLog, str], None],
    ) -> None:
        self._clock = clock
        self._config = config
        self._logs = logs
        self._high_watermarks = high_watermarks
        self._on_damage = on_damage
        self._pause = Pause()
        self._left_alone: dict[PartitionLog, int] = {}
        """These logs cannot be compacted; the number of their truncations then stands with them."""
        self.passes = 0
        """So many passes came to their end."""
        self.read_and_written_bytes = 0
        self.freed_bytes = 0

    async def run(self) -> None:
        """Clean until cancelled."""
        while True:
            if not self._config.enable:
                await self._pause.sleep(None)
                continue
            cleaned = False
            try:
                cleaned = await self.clean_dirtiest()
            except Exception:
                logger.exception("compaction_failed")
            if not cleaned:
                await self._pause.sleep(self._config.backoff_ms / 1000)

    def settings_changed(self) -> None:
        """End a rest that goes by the old settings."""
        self._pause.end()

    async def clean_dirtiest(self) -> bool:
        """Run one pass over the log that needs it most. Return whether there was one, and it came
        to its end.

        A log's own trouble is dealt with here.
        """
        work = self._choose()
        return work is not None and await self.clean(work)

    # ---- what to do

    def _choose(self) -> CleaningWork | None:
        marks, now_ms = self._high_watermarks(), self._clock.now_ms()
        expiry_ms = self._clock.expiry_ms()
        logs = [log for log in self._logs() if self._may_clean(log)]
        self._left_alone = {
            log: truncations for log, truncations in self._left_alone.items() if log in logs
        }
        best: CleaningWork | None = None
        for log in logs:
            if self._left_alone.get(log) == log.truncations:
                continue
            work = find_work(log, marks.get(log.topic_partition, 0), now_ms, expiry_ms)
            if work is not None and (
                best is None or (work.overdue, work.ratio) > (best.overdue, best.ratio)
            ):
                best = work
        return best

    @staticmethod
    def _may_clean(log: PartitionLog) -> bool:
        log_dir = log.log_dir
        return (
            log.config.is_compacted
            and not log.damage
            and not log.producers.is_reading
            and not log.is_read_whole
            and log_dir.online
            and not log_dir.full
            and log_dir.logs.get(log.topic_partition) is log
        )

    # ---- a pass

    async def clean(self, work: CleaningWork) -> bool:
        """Compact a log; return whether that came to its end."""
        log = work.log
        truncations, before = log.truncations, log.size_bytes
        began = asyncio.get_running_loop().time()
        try:
            upto, records = await self._pass(work, truncations)
        except _StoppedError:
            logger.info("compaction_overtaken", partition=log.topic_partition)
            return False
        except (CorruptBatchError, CorruptMessageError) as error:
            if self._may_clean(log) and log.truncations == truncations:
                self._on_damage(log, str(error))
                self._left_alone[log] = truncations
            return False
        except UncleanableError as error:
            logger.warning("compaction_refused", partition=log.topic_partition, error=error)
            self._left_alone[log] = truncations
            return False
        except OSError as error:
            self._failed(log, error)
            return False
        self.passes += 1
        freed = max(0, before - log.size_bytes)
        self.freed_bytes += freed
        logger.info(
            "log_compacted",
            partition=log.topic_partition,
            offset=upto,
            seconds=round(asyncio.get_running_loop().time() - began, 1),
            records=records,
            bytes=freed,
        )
        return True

    async def _pass(self, work: CleaningWork, truncations: int) -> tuple[int, int]:
        log, now_ms = work.log, self._clock.expiry_ms()
        files = log.log_dir.files
        tombstones_below = log.clean.tombstones_below(now_ms, log.config.delete_retention_ms)
        keys = KeyMap(self._config.dedupe_buffer_bytes)
        start, end = work.segments[0].base_offset, work.segments[-1].next_offset
        aborted = AbortedRanges(log.aborted.ranges(start, end))
        known = Known(keys, work.dirty_from, aborted)
        sources = [SourceSegment.of(s) for s in work.segments if s.next_offset > work.dirty_from]
        await self._drive(log, truncations, read_keys(files, sources, known))
        rule = Rule(
            keys.newest,
            known.upto,
            min(tombstones_below, known.upto),
            EpochHistory(log.epochs.entries()),
            log.log_start_offset,
            log.producers.last_batches(known.upto),
            aborted,
        )
        total = Written()
        for run in runs(work.segments, known.upto, log.config.segment_bytes):
            written = await self._replace(log, truncations, run, rule)
            total.first_tombstone = min(total.first_tombstone, written.first_tombstone)
            total.records += written.records
        self._check(log, truncations)
        log.clean.passed(known.upto, self._clock.latest_ms(), total.first_tombstone)
        log.log_dir.checkpoint_due()
        return known.upto, total.records

    async def _replace(
        self, log: PartitionLog, truncations: int, run: list[Segment], rule: Rule
    ) -> Written:
        """Write one segment of what stays of a run, and swap it in if that differs."""
        log_dir, written = log.log_dir, Written()
        size_bytes = sum([old.size_bytes for old in run])
        if log_dir.files.disk_space(log_dir.path).free_bytes < 2 * size_bytes:
            raise OSError(errno.ENOSPC, f"{size_bytes} bytes wanted", log_dir.path)
        segment = Segment.cleaned(
            log_dir.pool, log.directory, run[0].base_offset, log.config.index_interval_bytes
        )
        segment.wrote_unsynced()  # not to be closed by somebody else
        try:
            segment.create()
            sources = [SourceSegment.of(old) for old in run]
            now_ms = self._clock.latest_ms()
            work = rewrite(log_dir.files, sources, rule, segment, written, now_ms)
            await self._drive(log, truncations, work)
            if not written.changed and len(run) == 1:
                return written
            await self._in_thread(log, segment.open().sync)
            self._check(log, truncations)
            if not log.segments.holds(run):
                raise _StoppedError
            segment.as_old_as(run)
            segment.synced()
            segment.close()
            log.clean.relies_on(rule.upto)
            log.swap_in(run, segment, written.markers)
        finally:
            if segment.is_cleaned:  # it has not taken its place
                segment.remove()
        await self._in_thread(log, log.swap.sync_names)
        if log.swap.replaced and log.segments.has(segment):
            log.swap.drop_replaced(log.config.file_delete_delay_ms)
        return written

    # ---- pace

    async def _drive(self, log: PartitionLog, truncations: int, work: Iterator[int]) -> None:
        """Do all of the work, slice by slice."""
        loop = asyncio.get_running_loop()
        config = self._config
        try:
            while True:
                began = loop.time()
                size = await self._in_thread(log, next, work, _DONE)
                if size == _DONE:
                    return
                self._check(log, truncations)
                self.read_and_written_bytes += size
                rest = (loop.time() - began) * (100 / config.cpu_percent - 1)
                rest = max(rest, size / config.io_max_bytes_per_second, REST_S_MIN)
                await asyncio.sleep(rest)
        finally:
            work.close()  # type: ignore[attr-defined]

    async def _in_thread(self, log: PartitionLog, job: Callable[..., T], *arguments: object) -> T:
        """Run a job in a thread. If cancelled, it returns when the job has ended, or was given up:
        the job would go on writing files that are being closed."""
        running = log.log_dir.jobs.run(job, *arguments)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.gather(running, return_exceptions=True)
            raise

    def _check(self, log: PartitionLog, truncations: int) -> None:
        if log.truncations != truncations or not self._may_clean(log):
            raise _StoppedError

    def _failed(self, log: PartitionLog, error: OSError) -> None:
        if error.errno in _PASSING:
            logger.warning("compaction_not_written", partition=log.topic_partition, error=error)
        elif self._may_clean(log):  # otherwise it is being deleted, or its directory is gone
            log.log_dir.fail(f"compact {log.topic_partition}", error)


def find_work(
    log: PartitionLog, high_watermark: int, now_ms: int, expiry_ms: int | None = None
) -> CleaningWork | None:
    """Find what is to be compacted in a log now; None means nothing. Tombstones go by
    ``expiry_ms``, which may be earlier than ``now_ms`` by a clock that is in doubt; None means that
    the clock is not."""
    config = log.config
    _roll_if_overdue(log, now_ms)
    bound = min(high_watermark, log.recovery_point, log.producers.first_undecided)
    segments: list[Segment] = []
    for segment in log.segments:
        lags = now_ms - segment.stamp_ms < config.min_compaction_lag_ms
        active = segment is log.segments.active
        if active or lags or segment.dirty or segment.next_offset > bound:
            break
        segments.append(segment)
    if not segments:
        return None
    dirty_from = max(log.clean.upto, segments[0].base_offset)
    dirty = [segment for segment in segments if segment.next_offset > dirty_from]
    total_bytes = sum([segment.size_bytes for segment in segments])
    ratio = sum([segment.size_bytes for segment in dirty]) / max(1, total_bytes)
    overdue = bool(dirty) and now_ms - dirty[0].created_ms > config.max_compaction_lag_ms
    tombstones = log.clean.tombstones_due(
        now_ms if expiry_ms is None else expiry_ms, config.delete_retention_ms
    )
    if (dirty and ratio >= config.min_cleanable_dirty_ratio) or overdue or tombstones:
        return CleaningWork(log, segments, dirty_from, ratio, overdue)
    return None


def _roll_if_overdue(log: PartitionLog, now_ms: int) -> None:
    """Begin a new active segment in a log that takes no records: nobody else does."""
    active = log.segments.active
    if active.size_bytes and now_ms - active.created_ms > log.config.max_compaction_lag_ms:
        try:
            log.roll()
        except StorageError as error:
            logger.warning("compaction_roll_failed", partition=log.topic_partition, error=error)


def runs(segments: Sequence[Segment], upto: int, size_max_bytes: int) -> list[list[Segment]]:
    """Return runs of neighbours that become one segment each: as many as fit into one, of those
    that begin below ``upto``."""
    found: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        if segment.base_offset >= upto:
            break
        size_bytes += segment.size_bytes
        if (
            not found
            or size_bytes > size_max_bytes
            or segment.next_offset - 1 - found[-1][0].base_offset > RELATIVE_OFFSET_MAX
        ):
            found.append([])
            size_bytes = segment.size_bytes
        found[-1].append(segment)
    return found
