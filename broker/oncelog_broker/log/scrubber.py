"""The scrubber rereads the disk, and finds corruption while other replicas hold what it took [D1].

One for each log directory. Rules:

- everything that was synced is read once an interval, spread over all of it, in chunks and in an
  executor, never faster than a bound: readers and writers hardly notice;
- each batch is held against its checksum, the offsets against those before, the epoch against the
  log's history;
- a job in the executor has a descriptor of its own and touches nothing that the loop uses. Its
  findings count only if the log was not truncated, and the segment not removed, meanwhile;
- only damage below the recovery point counts. Replication decides what to do about it;
- a broker that restarts often must not read the beginning of its logs over and over: the first
  pass begins at a drawn place.

Pages in the kernel's cache are read from there: corruption of the medium below them is found when
the page has gone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

IDLE_S = 60.0
"""A directory with nothing to read is looked at again after so long, or after an interval."""

OnDamage = Callable[[PartitionLog, str], None]


class Stretch(NamedTuple):
    """A part of a segment file is to be read."""

    base_offset: int
    """It is the base offset of the segment."""
    path: str
    position: int
    """It is in bytes; a batch begins there."""
    end: int
    """The segment had so many bytes when the job was made."""


class ScrubJob(NamedTuple):
    """An executor is to read this of one log."""

    stretches: list[Stretch]
    next_offset: int
    """The first batch begins with this offset."""
    epochs: EpochHistory
    """It is a copy of the log's history."""
    epochs_from: int
    """Below this offset the history says nothing."""


class Checked(NamedTuple):
    """It tells how far a job came."""

    next_offset: int
    base_offset: int
    """It is the base offset of the segment in which that lies."""
    position: int
    read_bytes: int
    damage: str = ""
    """It names what does not hold at ``next_offset``; empty when all does."""


class Scrubber:
    """It reads the logs of one directory again and again."""

    def __init__(
        self,
        log_dir: LogDir,
        *,
        find: Callable[[TopicPartition], PartitionLog | None],
        interval_ms: int,
        bytes_per_second: int,
        entropy: Entropy,
        on_damage: OnDamage,
    ) -> None:
        """``find`` gives the log of a partition. ``on_damage(log, text)`` is called on the loop,
        once a pass for a log with damage."""
        self._log_dir = log_dir
        self._find = find
        self._interval_s = interval_ms / 1000
        self._bytes_per_second = bytes_per_second
        self._pause = Pause()
        self._entropy = entropy
        self._on_damage = on_damage
        self.passes = 0
        """Everything was read so often."""
        self.read_bytes = 0
        """So many bytes were read and held, in all passes."""

    def set_pace(self, *, interval_ms: int, bytes_per_second: int) -> None:
        """Read at this pace from now on; an interval of 0 is no reading at all."""
        self._interval_s, self._bytes_per_second = interval_ms / 1000, bytes_per_second
        self._pause.end()

    async def run(self) -> None:
        """Go on until cancelled, or until the directory stops."""
        begin_at = self._entropy.random()
        while self._log_dir.online:
            if not self._interval_s:
                await self._pause.sleep(None)
                continue
            before = self.read_bytes
            await self.scrub(begin_at)
            begin_at = 0.0
            if self.read_bytes == before:
                await self._pause.sleep(min(self._interval_s, IDLE_S))

    async def scrub(self, begin_at: float = 0.0) -> None:
        """Read everything once; ``begin_at``, from 0 to 1, says with which of the logs to begin."""
        names = sorted(self._log_dir.logs)
        first = int(begin_at * len(names))
        for topic_partition in names[first:] + names[:first]:
            log = self._find(topic_partition)
            if log is not None and log.log_dir is self._log_dir:
                await self._scrub_log(log)
        self.passes += 1

    def _rate(self) -> float:
        """Return the bytes per second that spread what there is over the interval."""
        total = sum([log.size_bytes for log in self._log_dir.logs.values()])
        if not self._interval_s:
            return self._bytes_per_second  # switched off under the way: the pass comes to its end
        return min(self._bytes_per_second, max(1.0, total / self._interval_s))

    async def _scrub_log(self, log: PartitionLog) -> None:
        base_offset = next_offset = log.segments[0].base_offset
        position = 0
        truncations = log.truncations  # counted once: each of them moves batches
        swaps = log.swap.count  # so does compaction
        while self._is_current(log) and log.truncations == truncations:
            recovery_point = log.recovery_point
            stretches = _gather(log, base_offset, position, next_offset)
            if next_offset >= recovery_point or not stretches:
                return
            epochs = EpochHistory(log.epochs.entries())
            job = ScrubJob(stretches, next_offset, epochs, log.log_start_offset)
            unreadable: OSError | None = None
            try:
                checked = await self._log_dir.jobs.run(check, self._log_dir.files, job)
            except OSError as error:
                unreadable = error
            oldest = log.segments[0].base_offset
            if log.truncations != truncations or oldest > stretches[0].base_offset:
                return  # the bytes that were read may be neither the old nor the new
            if not self._is_current(log):
                return
            if log.swap.count != swaps:
                swaps = log.swap.count
                base_offset, position, next_offset = _find_again(log, next_offset)
                continue
            if unreadable is not None:
                return self._unreadable(log, unreadable)
            if checked.damage:
                if checked.next_offset < recovery_point:
                    self._on_damage(log, checked.damage)
                return
            next_offset, base_offset = checked.next_offset, checked.base_offset
            position = checked.position
            self.read_bytes += checked.read_bytes
            await self._pause.sleep(checked.read_bytes / self._rate())

    def _is_current(self, log: PartitionLog) -> bool:
        log_dir = self._log_dir
        return log_dir.online and not log.damage and log_dir.logs.get(log.topic_partition) is log

    def _unreadable(self, log: PartitionLog, error: OSError) -> None:
        if error.errno == errno.ENOENT:
            self._on_damage(log, f"{error.filename} is not there")
        elif error.errno == errno.EIO:
            # It is as for any reader: a disk that cannot read is not trusted with more.
            self._log_dir.fail(f"scrub {log.topic_partition}", error)
        else:
            logger.info("scrub_failed", path=log.directory, error=error)


def _find_again(log: PartitionLog, offset: int) -> tuple[int, int, int]:
    """Return where the batch is that holds ``offset`` now, as (segment, position, offset). If it
    cannot be found, return the beginning of its segment."""
    segment = log.segments.find(offset)
    try:
        position, header = segment.header_at(offset)
    except (OSError, CorruptMessageError):
        return segment.base_offset, 0, segment.base_offset
    return segment.base_offset, position, header.base_offset


def _gather(log: PartitionLog, base_offset: int, position: int, next_offset: int) -> list[Stretch]:
    """Return the next chunk's worth of segments, from the one that holds ``next_offset``."""
    stretches: list[Stretch] = []
    size_bytes, offset = 0, next_offset
    while size_bytes < SCAN_CHUNK_BYTES:
        segment = log.segments.find(offset)
        start = position if segment.base_offset == base_offset else 0
        if start >= segment.size_bytes or segment.next_offset <= offset:
            break
        stretches.append(Stretch(segment.base_offset, segment.path, start, segment.size_bytes))
        size_bytes += segment.size_bytes - start
        offset = segment.next_offset
    return stretches


def check(files: Files, job: ScrubJob) -> Checked:
    """Read a chunk's worth of batches. Runs in an executor. Raises OSError."""
    next_offset, read_bytes = job.next_offset, 0
    for stretch in job.stretches:
        position = stretch.position
        file = files.open(stretch.path)
        try:
            scan = Scan(
                file,
                position,
                stretch.end,
                next_offset=next_offset,
                verify=True,
                chunk_bytes=SCAN_CHUNK_BYTES,
            )
            for start, header in scan:
                _check_epoch(job, header)
                read_bytes += header.size_bytes
                position, next_offset = start + header.size_bytes, header.next_offset
                if read_bytes >= SCAN_CHUNK_BYTES:
                    break
        except CorruptBatchError as error:
            damage = f"{stretch.path} at byte {position}, offset {next_offset}: {error}"
            return Checked(next_offset, stretch.base_offset, position, read_bytes, damage)
        finally:
            file.close()
        if read_bytes >= SCAN_CHUNK_BYTES:
            break
    return Checked(next_offset, stretch.base_offset, position, read_bytes)


def _check_epoch(job: ScrubJob, header: BatchHeader) -> None:
    if header.base_offset < job.epochs_from:
        return
    known = job.epochs.epoch_at(header.base_offset)
    if known >= 0 and header.leader_epoch != known:
        raise CorruptBatchError(f"leader epoch {header.leader_epoch}, its history says {known}")
