"""Loading one log after a stop, clean or not.

Owns the decision what of the files is the log. Rules:

- *below* the recovery point everything was synced: there, what does not hold is damage and is
  never cut off (D2). The log then ends before the damage, takes no writes, and waits to be
  fetched again from the leader;
- *above* it a broken batch is the torn tail of a crash: it and all that follows goes. So does a
  batch that does not continue offsets, or goes back in epochs: what an unsynced truncation left;
- what is kept of the tail is synced before it counts: a later power cut must not take it;
- the recovery point never lies past the log end, epochs never ahead of the log (D3, D12);
- after a clean stop nothing is scanned: the last bytes of the index file tell how the segment
  ended.

Runs in an executor: it blocks, and touches nothing that the loop uses meanwhile.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field

from oncelog_broker.log.checkpoint import (
    LEADER_EPOCH,
    PARTITION_META,
    CheckpointError,
    decode_document,
    decode_epochs,
)
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    file_name,
)
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError

logger = logging.getLogger(__name__)

TRUNCATION_MARK = "truncation.json"
"""Lowers the recovery point of one log, until the directory's checkpoint has followed."""

_SEGMENT_NAME = re.compile(r"(\d{20})\.log")
_OFFSET_END = 2**63 - 1


@dataclass(slots=True)
class LoadedLog:
    """What the files of one partition hold."""

    directory: str
    topic_id: str
    segments: list[Segment]
    epochs: EpochHistory
    epochs_intact: bool
    """Whether the epoch checkpoint on disk says what ``epochs`` says."""
    log_start_offset: int
    recovery_point: int
    damage: str = ""
    """What does not hold below the recovery point; empty when all does."""
    cut_bytes: int = 0
    marked: bool = False
    """Whether a truncation mark is there, to be removed after the next checkpoint."""

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset

    @classmethod
    def empty(
        cls, pool: OpenSegments, directory: str, topic_id: str, interval_bytes: int
    ) -> LoadedLog:
        """A log that has nothing yet."""
        segment = Segment(pool, directory, 0, interval_bytes)
        return cls(directory, topic_id, [segment], EpochHistory(), True, 0, 0)


@dataclass(slots=True)
class _Loader:
    pool: OpenSegments
    directory: str
    interval_bytes: int
    now_ms: int
    recovery_point: int
    clean: bool
    epochs: EpochHistory
    epochs_known: bool
    segments: list[Segment] = field(default_factory=list)
    damage: str = ""
    cut_bytes: int = 0
    marked: bool = False


def load_log(
    pool: OpenSegments,
    directory: str,
    *,
    interval_bytes: int,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
) -> LoadedLog | None:
    """Load one partition's directory; None when it holds no log yet (a crash while it was made).

    ``recovery_point`` and ``log_start_offset`` are 0 when no checkpoint names the log. Raises
    OSError when the disk fails.
    """
    files = pool.files
    names = _tidy(pool, directory)
    topic_id = _read_topic_id(pool, directory, names)
    bases = [int(match[1]) for name in names if (match := _SEGMENT_NAME.fullmatch(name))]
    sizes = [files.size(f"{directory}/{file_name(base, LOG_SUFFIX)}") for base in bases]
    if not topic_id and not any(sizes):
        return None
    if TRUNCATION_MARK in names:
        clean = False
        recovery_point = min(recovery_point, _read_truncation(pool, directory))
    known = _read_epochs(pool, directory, names)
    written = known.entries() if known is not None else None
    loader = _Loader(
        pool,
        directory,
        interval_bytes,
        now_ms,
        recovery_point,
        clean,
        known or EpochHistory(),
        known is not None,
        marked=TRUNCATION_MARK in names,
    )
    _load_segments(loader, bases, sizes)
    if not loader.segments:
        if recovery_point > log_start_offset and not loader.damage:
            loader.damage = f"no segment, and offsets up to {recovery_point} were synced"
        loader.segments.append(Segment(pool, directory, log_start_offset, interval_bytes))
    return _finish(loader, topic_id, log_start_offset, written)


def _finish(
    loader: _Loader,
    topic_id: str,
    log_start_offset: int,
    written: list[tuple[int, int]] | None,
) -> LoadedLog:
    segments, epochs = loader.segments, loader.epochs
    end = segments[-1].next_offset
    epochs.truncate_from_end(end)
    start = min(max(log_start_offset, segments[0].base_offset), end)
    epochs.truncate_from_start(start)
    if end < loader.recovery_point and not loader.damage:
        loader.damage = (
            f"ends at offset {end}, and offsets up to {loader.recovery_point} were synced"
        )
    if loader.damage:
        logger.error("%s is damaged: %s", loader.directory, loader.damage)
    for segment in segments:
        segment.release()
    return LoadedLog(
        directory=loader.directory,
        topic_id=topic_id,
        segments=segments,
        epochs=epochs,
        epochs_intact=written == epochs.entries(),
        log_start_offset=start,
        recovery_point=loader.recovery_point if loader.damage else end,
        damage=loader.damage,
        cut_bytes=loader.cut_bytes,
        marked=loader.marked,
    )


def _load_segments(loader: _Loader, bases: list[int], sizes: list[int]) -> None:
    if not loader.clean:
        # Entries at the recovery point and above are found again in the batches, if these survived.
        loader.epochs.truncate_from_end(loader.recovery_point)
    for number, (base, size) in enumerate(zip(bases, sizes, strict=True)):
        following = bases[number + 1] if number + 1 < len(bases) else None
        segment = Segment(loader.pool, loader.directory, base, loader.interval_bytes)
        if loader.segments and loader.segments[-1].next_offset != base:
            end = loader.segments[-1].next_offset
            if min(base, end) < loader.recovery_point:
                loader.damage = f"offset {base} follows offset {end}"
            else:
                _drop(loader, bases[number:], sizes[number:])
            return
        loader.segments.append(segment)
        if following is not None and following <= loader.recovery_point:
            whole = _load_sealed(loader, segment, size, following)
        elif loader.clean and following is None:
            whole = _load_sealed(loader, segment, size, loader.recovery_point)
        else:
            whole = _load_tail(loader, segment, size)
        if loader.damage:
            return
        segment.close()
        if not whole:
            _drop(loader, bases[number + 1 :], sizes[number + 1 :])
            return


def _load_sealed(loader: _Loader, segment: Segment, size: int, end_offset: int) -> bool:
    """Take over a segment that was synced whole, up to ``end_offset``."""
    if not size and segment.base_offset == end_offset:
        return True
    summary = segment.read_summary(size)
    if summary is not None and summary.next_offset == end_offset:
        segment.restore(summary)
        if not loader.epochs_known:
            _scan_epochs(loader, segment)
        return True
    _map_synced(loader, segment, size, end_offset)
    if segment.size_bytes < size and not loader.damage:
        loader.damage = f"segment {segment.base_offset} goes on behind offset {end_offset}"
    return True


def _load_tail(loader: _Loader, segment: Segment, size: int) -> bool:
    """Scan a segment that may hold unsynced bytes; False when some were cut off."""
    file = segment.open()
    if not _map_synced(loader, segment, size, loader.recovery_point):
        return True
    scan = Scan(
        file,
        segment.size_bytes,
        size,
        next_offset=segment.next_offset,
        verify=True,
        chunk_bytes=SCAN_CHUNK_BYTES,
    )
    whole = True
    try:
        for _, header in scan:
            _note_epoch(loader.epochs, header)
            segment.note_header(header, loader.now_ms)
    except CorruptBatchError as error:
        whole = False
        _cut(loader, segment, size, str(error))
    file.sync()
    loader.pool.files.sync_dir(loader.directory)
    return whole


def _map_synced(loader: _Loader, segment: Segment, size: int, end_offset: int) -> bool:
    """Map the batches up to ``end_offset``, all of which must hold; False when they do not.

    An index entry that does not fit the log is the index's fault: it is then made anew.
    """
    file = segment.open()
    reason = ""
    for trusting in (True, False) if loader.epochs_known else (False,):
        if trusting:
            segment.load_entries(end_offset)
        if not trusting or segment.size_bytes > size:
            segment.forget()
        scan = Scan(
            file,
            segment.size_bytes,
            size,
            next_offset=segment.next_offset,
            chunk_bytes=SCAN_CHUNK_BYTES,
        )
        try:
            if segment.next_offset < end_offset:
                for _, header in scan:
                    if header.next_offset > end_offset:
                        raise CorruptBatchError(f"a batch reaches over offset {end_offset}")
                    if not loader.epochs_known:
                        _note_epoch(loader.epochs, header)
                    segment.note_header(header, loader.now_ms)
                    if segment.next_offset == end_offset:
                        break
        except CorruptBatchError as error:
            reason = f"byte {scan.position}: {error}"
            continue
        if segment.next_offset >= end_offset:
            return True
        reason = f"ends at offset {segment.next_offset}, not {end_offset}"
    loader.damage = f"segment {segment.base_offset}: {reason}"
    return False


def _scan_epochs(loader: _Loader, segment: Segment) -> None:
    """The epoch checkpoint is gone or bad: read every batch header."""
    scan = Scan(segment.open(), 0, segment.size_bytes, chunk_bytes=SCAN_CHUNK_BYTES)
    try:
        for _, header in scan:
            _note_epoch(loader.epochs, header)
    except CorruptBatchError as error:
        loader.damage = f"segment {segment.base_offset} at byte {scan.position}: {error}"


def _note_epoch(epochs: EpochHistory, header: BatchHeader) -> None:
    if header.leader_epoch < 0 or header.leader_epoch == epochs.latest:
        return
    try:
        epochs.assign(header.leader_epoch, header.base_offset)
    except ValueError as error:
        raise CorruptBatchError(str(error)) from error


def _cut(loader: _Loader, segment: Segment, size: int, reason: str) -> None:
    cut_bytes = size - segment.size_bytes
    logger.warning(
        "%s: cutting %d unsynced bytes at offset %d: %s",
        loader.directory,
        cut_bytes,
        segment.next_offset,
        reason,
    )
    segment.remove_index_files()
    segment.cut_unnoted()
    loader.cut_bytes += cut_bytes


def _drop(loader: _Loader, bases: list[int], sizes: list[int]) -> None:
    """Remove segments behind the end that was found, newest first."""
    files = loader.pool.files
    for base, size in reversed(list(zip(bases, sizes, strict=True))):
        logger.warning("%s: removing the unsynced segment %d", loader.directory, base)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            path = f"{loader.directory}/{file_name(base, suffix)}"
            if files.exists(path):
                files.remove(path)
        loader.cut_bytes += size
    if bases:
        files.sync_dir(loader.directory)


def _tidy(pool: OpenSegments, directory: str) -> list[str]:
    """Remove what a crash left half-done, and indexes without a log; return the names left."""
    files = pool.files
    names = files.list_dir(directory)
    kept = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        orphan = (
            dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem + LOG_SUFFIX not in names
        )
        if orphan or name.endswith((DELETED_SUFFIX, ".tmp")):
            files.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _read_topic_id(pool: OpenSegments, directory: str, names: list[str]) -> str:
    if PARTITION_META in names:
        try:
            data = pool.files.read_bytes(f"{directory}/{PARTITION_META}")
            return str(decode_document(PARTITION_META, data)["topic_id"])
        except (CheckpointError, KeyError) as error:
            logger.error("%s: topic id unknown: %s", directory, error)
    return ""


def _read_truncation(pool: OpenSegments, directory: str) -> int:
    try:
        data = pool.files.read_bytes(f"{directory}/{TRUNCATION_MARK}")
        return int(decode_document(TRUNCATION_MARK, data)["offset"])
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s: %s", directory, error)
        return 0


def _read_epochs(pool: OpenSegments, directory: str, names: list[str]) -> EpochHistory | None:
    if LEADER_EPOCH not in names:
        return None
    try:
        data = pool.files.read_bytes(f"{directory}/{LEADER_EPOCH}")
        return EpochHistory(decode_epochs(data))
    except (CheckpointError, ValueError) as error:
        logger.warning("%s: rebuilding leader epochs: %s", directory, error)
        return None
