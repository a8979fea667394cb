"""One log is loaded here after a stop, clean or not.

Owns the decision what of the files is the log. Rules:

- *below* the recovery point everything was synced: there, what does not hold is damage and is
  never truncated [D2]. The log then ends before the damage, takes no writes, and waits to be
  fetched again from the leader;
- *above* it a broken batch is the torn tail of a crash: it and all that follows goes. So does a
  batch that does not continue offsets, or goes back in epochs: what an unsynced truncation left;
- a machine that has been running since forgets nothing: what a killed process leaves is whole but
  for the end of its last write. Any other batch that is broken then is corrupt;
- what is kept of the tail is synced before it counts: a later power cut must not take it. And
  unless the machine has restarted it is written again before that, in its place: a sync that failed
  in the last life may have left pages that are read as if they were on the disk, and that no later
  sync would write (fsyncgate);
- a segment that reaches over those behind it, up to where one begins, is what compaction has made
  of them: they go (``swap``). And a hole of compaction may reach over the recovery point, as all
  that was there had been synced;
- the recovery point never lies past the log end, epochs never ahead of the log [D3] [D12];
- after a clean stop nothing is scanned: the last bytes of the index file tell how the segment
  ended.

Runs in an executor: it blocks, and touches nothing that the loop uses meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.checkpoint import (
    LEADER_EPOCH,
    PARTITION_META,
    CheckpointError,
    decode_document,
    decode_epochs,
    encode_document,
)
from oncelog_broker.log.compaction import is_hole
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.index_file import Summary
from oncelog_broker.log.load_progress import LoadProgress
from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.partition_meta import PartitionMeta, never_was_a_log, read_meta
from oncelog_broker.log.producer_snapshots import ProducerSnapshots
from oncelog_broker.log.producer_state import ProducerState
from oncelog_broker.log.refetch import ALL_OFFSETS, NOT_REFETCHING, read_mark, remove_mark
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import (
    CLEANED_MARK,
    DELETED_SUFFIX,
    FILE_SUFFIXES,
    LOG_SUFFIX,
    Segment,
    file_name,
    log_sizes,
)
from oncelog_protocol.limits import BATCH_HEADER_BYTES
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, parse_header, verify_crc
from oncelog_protocol.types import NO_EPOCH
from oncelog_runtime.files import File, Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

TRUNCATION_MARK = "truncation.json"
"""It overrides what the directory's checkpoints say of one log, until they have followed a
truncation."""

_OFFSET_END = 2**63 - 1


@dataclass(slots=True)
class LoadedLog:
    """The files of one partition hold this."""

    directory: str
    topic_id: str
    made_epoch: int
    """It is the broker epoch under which it was made here; -1: before logs knew it."""
    segments: list[Segment]
    epochs: EpochHistory
    epochs_intact: bool
    """It tells whether the epoch checkpoint on disk says what ``epochs`` says."""
    log_start_offset: int
    recovery_point: int
    damage: str = ""
    """It names what was written and does not hold, though no crash explains that; empty when all
    does."""
    corrupt: bool = False
    """It tells whether the damage lies in what the files hold, and not in where they end."""
    refetch_until: int = NOT_REFETCHING
    """The log reached so far before damage was found in it, this time or an earlier one."""
    truncated_bytes: int = 0
    truncation_offset: int = _OFFSET_END
    """A truncation was there, of which the directory's checkpoints may know nothing yet."""

    producers: ProducerState = field(default_factory=ProducerState)
    """The batches say this of producers; it is empty for a damaged log."""
    snapshots: ProducerSnapshots | None = None
    """These are the snapshot files of its producers; None for a new log."""
    aborted: AbortedTransactions | None = None
    """The markers say this; None for a new log."""

    @property
    def marked(self) -> bool:
        """Return whether a truncation mark is there, to be removed after the next checkpoint."""
        return self.truncation_offset < _OFFSET_END

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset

    @classmethod
    def empty(
        cls,
        pool: OpenSegments,
        directory: str,
        topic_id: str,
        interval_bytes: int,
        made_epoch: int = NO_EPOCH,
        producers: ProducerState | None = None,
        *,
        marked: bool = False,
    ) -> LoadedLog:
        """Return a log that has nothing yet; ``marked``: a truncation mark says so to
        checkpoints."""
        segment = Segment(pool, directory, 0, interval_bytes)
        return cls(
            directory,
            topic_id,
            made_epoch,
            [segment],
            EpochHistory(),
            True,
            0,
            0,
            truncation_offset=0 if marked else _OFFSET_END,
            producers=producers or ProducerState(),
        )


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
    same_run: bool
    rewrite: bool
    producers: ProducerState
    progress: LoadProgress | None = None
    segments: list[Segment] = field(default_factory=list)
    damage: str = ""
    truncated_bytes: int = 0
    truncation_offset: int = _OFFSET_END


def load_log(
    pool: OpenSegments,
    directory: str,
    *,
    interval_bytes: int,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
    same_run: bool = False,
    rewrite: bool = True,
    producers: ProducerState | None = None,
    progress: LoadProgress | None = None,
) -> LoadedLog | None:
    """Load one partition's directory; None when it holds no log yet (a crash while it was made).

    ``recovery_point`` and ``log_start_offset`` are 0 if no checkpoint names the log; ``same_run``:
    the machine surely ran on since it was written; ``rewrite``: it may have. Raises OSError.
    """
    names = _tidy(pool, directory)
    truncated_at = _OFFSET_END
    if TRUNCATION_MARK in names:
        clean = False
        # The checkpoint may be older: of a log that began further up, or of another one.
        truncated_at, log_start_offset = read_truncation(pool.files, directory, log_start_offset)
        recovery_point = min(recovery_point, truncated_at)
    meta = _read_meta(pool, directory, names, was_synced=recovery_point > 0)
    found = log_sizes(pool.files, directory, names)
    bases, sizes = list(found), list(found.values())
    if never_was_a_log(meta, sizes):
        return None
    if not clean and not recovery_point:
        _sync_names(pool, directory, names, rewrite)
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
        same_run,
        rewrite,
        producers or ProducerState(),
        progress,
        truncation_offset=truncated_at,
    )
    _load_segments(loader, bases, sizes)
    if not (meta.topic_id or loader.damage or any(each.size_bytes for each in loader.segments)):
        _release(loader.segments)
        return None
    loaded = _finish(loader, meta, log_start_offset, written, bases, sizes)
    if loaded.marked and loaded.log_start_offset < log_start_offset:
        # A power cut brought the log back shorter than the mark's start. The next start must not
        # believe the mark, and hide what is written until then.
        write_truncation(pool.files, directory, truncated_at, loaded.log_start_offset)
    return loaded


def _finish(
    loader: _Loader,
    meta: PartitionMeta,
    log_start_offset: int,
    written: list[tuple[int, int]] | None,
    bases: list[int],
    sizes: list[int],
) -> LoadedLog:
    segments, epochs, corrupt = loader.segments, loader.epochs, bool(loader.damage)
    if not segments:
        if loader.recovery_point > log_start_offset and not loader.damage:
            loader.damage = f"no segment, and offsets up to {loader.recovery_point} were synced"
        empty = Segment(loader.pool, loader.directory, log_start_offset, loader.interval_bytes)
        segments.append(empty)
    end = segments[-1].next_offset
    epochs.truncate_from_end(end)
    start = min(max(log_start_offset, segments[0].base_offset), end)
    epochs.truncate_from_start(start)
    if end < loader.recovery_point and not loader.damage:
        loader.damage = (
            f"ends at offset {end}, and offsets up to {loader.recovery_point} were synced"
        )
    snapshots = ProducerSnapshots(loader.pool.files, loader.directory)
    aborted = AbortedTransactions(loader.pool.files, loader.directory)
    if not loader.damage:
        was_truncated = loader.truncation_offset < _OFFSET_END
        loader.damage = snapshots.load(
            segments,
            loader.producers,
            loader.now_ms,
            aborted,
            clean=loader.clean,
            was_truncated=was_truncated,
        )
    refetch_until = read_mark(loader.pool.files, loader.directory)
    if loader.damage:
        logger.error("log_damaged", path=loader.directory, error=loader.damage)
        refetch_until = max(refetch_until, _reach(loader, bases, sizes))
    elif NOT_REFETCHING < refetch_until <= end:
        remove_mark(loader.pool.files, loader.directory)  # harmless, should it come back
        refetch_until = NOT_REFETCHING
    _release(segments)
    return LoadedLog(
        directory=loader.directory,
        topic_id=meta.topic_id,
        made_epoch=meta.made_epoch,
        segments=segments,
        epochs=epochs,
        epochs_intact=written == epochs.entries(),
        log_start_offset=start,
        recovery_point=max(loader.recovery_point, end) if loader.damage else end,
        damage=loader.damage,
        corrupt=corrupt,
        refetch_until=refetch_until,
        truncated_bytes=loader.truncated_bytes,
        truncation_offset=loader.truncation_offset,
        producers=loader.producers,
        snapshots=snapshots,
        aborted=aborted,
    )


def _release(segments: list[Segment]) -> None:
    for segment in segments:
        segment.release()


def _load_segments(loader: _Loader, bases: list[int], sizes: list[int]) -> None:
    if not loader.clean:
        # Entries at the recovery point and above are found again in the batches, if these survived.
        loader.epochs.truncate_from_end(loader.recovery_point)
    if loader.progress is not None:
        loader.progress.begin(loader.directory, len(bases))
    number = -1
    while (number := number + 1) < len(bases):
        if loader.progress is not None:
            loader.progress.one_segment()
        base, size = bases[number], sizes[number]
        segment = Segment(loader.pool, loader.directory, base, loader.interval_bytes)
        summary = segment.read_summary(size)
        if replaced := _count_replaced(segment, summary, size, bases[number + 1 :]):
            _drop_replaced(loader, bases[number + 1 : number + 1 + replaced])
            del bases[number + 1 : number + 1 + replaced]
            del sizes[number + 1 : number + 1 + replaced]
        following = bases[number + 1] if number + 1 < len(bases) else None
        if loader.segments and loader.segments[-1].next_offset != base:
            end = loader.segments[-1].next_offset
            if min(base, end) < loader.recovery_point or loader.same_run:
                loader.damage = f"offset {base} follows offset {end}"
            else:
                _drop(loader, bases[number:], sizes[number:])
            return
        loader.segments.append(segment)
        # A segment that begins at the recovery point may have been truncated, and be back; the one
        # before it may go on with what was written instead. That is damage only after a clean stop.
        if following is not None and following < loader.recovery_point + loader.clean:
            whole = _load_sealed(loader, segment, summary, size, following)
        elif loader.clean and following is None:
            whole = _load_sealed(loader, segment, summary, size, loader.recovery_point)
        else:
            whole = _load_tail(loader, segment, size, last=following is None)
        if loader.damage:
            return
        segment.close()
        if not whole:
            _drop(loader, bases[number + 1 :], sizes[number + 1 :])
            return


def _count_replaced(
    segment: Segment, summary: Summary | None, size: int, following: list[int]
) -> int:
    """Return how many of the segments that begin at ``following`` have gone into this one."""
    if len(following) < 2 or not size:
        return 0  # a compacted segment ends where one that was left alone begins
    end = segment.base_offset
    if summary is not None:
        end = summary.next_offset
    else:
        try:
            scan = Scan(segment.open(), 0, size, next_offset=end, chunk_bytes=SCAN_CHUNK_BYTES)
            for last in scan:
                end = last[1].next_offset
            if end in following[1:]:
                # No other batch says where it ends, and others will be removed by that [D14].
                verify_crc(segment.read_batch(*last))
        except CorruptBatchError:
            return 0
        finally:
            segment.release()
    return following.index(end) if end in following else 0


def _drop_replaced(loader: _Loader, bases: list[int]) -> None:
    """Remove segments in whose place another one is; that is to be durable first."""
    files = loader.pool.files
    files.sync_dir(loader.directory)
    for base in bases:
        logger.info("compacted_segment_removed", path=loader.directory, base_offset=base)
        _remove_files(files, loader.directory, base)
    files.sync_dir(loader.directory)


def _load_sealed(
    loader: _Loader, segment: Segment, summary: Summary | None, size: int, end_offset: int
) -> bool:
    """Take over a segment that was synced whole, up to ``end_offset``."""
    if not size and segment.base_offset == end_offset:
        return True
    if summary is not None and summary.next_offset == end_offset:
        segment.restore(summary)
        if not loader.epochs_known:
            _scan_epochs(loader, segment)
        return True
    _map_synced(loader, segment, size, end_offset)
    if segment.size_bytes < size and not loader.damage:
        loader.damage = f"segment {segment.base_offset} goes on behind offset {end_offset}"
    return True


def _load_tail(loader: _Loader, segment: Segment, size: int, *, last: bool) -> bool:
    """Scan a segment that may hold unsynced bytes; return False when some were truncated."""
    file = segment.open()
    if not _map_synced(loader, segment, size, loader.recovery_point):
        return True
    synced_bytes = segment.size_bytes
    scan = Scan(
        file,
        synced_bytes,
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
        if loader.same_run and not (last and _is_cut_short(file, scan.position, size)):
            loader.damage = f"segment {segment.base_offset} at byte {scan.position}: {error}"
        else:
            whole = False
            _cut(loader, segment, size, str(error))
    if loader.rewrite and segment.size_bytes > synced_bytes:
        file.rewrite(synced_bytes, segment.size_bytes - synced_bytes)
    file.sync()
    loader.pool.files.sync_dir(loader.directory)
    return whole


def _is_cut_short(file: File, position: int, size: int) -> bool:
    """Return whether a batch begins at ``position`` and the file ends before it does."""
    if size - position < BATCH_HEADER_BYTES:
        return True
    try:
        return parse_header(file.read_at(position, BATCH_HEADER_BYTES)).size_bytes > size - position
    except CorruptBatchError:
        return False


def _reach(loader: _Loader, bases: list[int], sizes: list[int]) -> int:
    """Return how far a damaged log may have reached, as far as its headers tell."""
    reach = max(loader.recovery_point, loader.segments[-1].next_offset)
    if not bases:
        return reach
    path = f"{loader.directory}/{file_name(bases[-1], LOG_SUFFIX)}"
    file = loader.pool.files.open(path)
    try:
        for _, header in Scan(file, 0, sizes[-1], chunk_bytes=SCAN_CHUNK_BYTES):
            reach = max(reach, header.next_offset)
    except CorruptBatchError:
        return ALL_OFFSETS
    finally:
        file.close()
    return reach


def _map_synced(loader: _Loader, segment: Segment, size: int, end_offset: int) -> bool:
    """Map the batches up to ``end_offset``, all of which must hold; return False when they do not.

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
                    if header.next_offset > end_offset and not is_hole(header):
                        raise CorruptBatchError(f"a batch reaches over offset {end_offset}")
                    if not loader.epochs_known:
                        _note_epoch(loader.epochs, header)
                    segment.note_header(header, loader.now_ms)
                    if segment.next_offset >= end_offset:
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
    """Read every batch header, as the epoch checkpoint is gone or bad."""
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
    truncated_bytes = size - segment.size_bytes
    logger.warning(
        "unsynced_tail_truncated",
        path=loader.directory,
        bytes=truncated_bytes,
        offset=segment.next_offset,
        reason=reason,
    )
    segment.remove_index_files()
    segment.truncate_unnoted()
    loader.truncated_bytes += truncated_bytes


def _drop(loader: _Loader, bases: list[int], sizes: list[int]) -> None:
    """Remove segments behind the end that was found, newest first."""
    files = loader.pool.files
    for base, size in reversed(list(zip(bases, sizes, strict=True))):
        logger.warning("unsynced_segment_removed", path=loader.directory, base_offset=base)
        _remove_files(files, loader.directory, base)
        loader.truncated_bytes += size
    if bases:
        files.sync_dir(loader.directory)


def _remove_files(files: Files, directory: str, base: int) -> None:
    for suffix in FILE_SUFFIXES:
        path = f"{directory}/{file_name(base, suffix)}"
        if files.exists(path):
            files.remove(path)


def _tidy(pool: OpenSegments, directory: str) -> list[str]:
    """Remove what a crash left half-done, and indexes without a log; return the names left."""
    files = pool.files
    names = files.list_dir(directory)
    kept = []
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        orphan = dot + suffix in FILE_SUFFIXES[:-1] and stem + LOG_SUFFIX not in names
        cleaned = stem.endswith(CLEANED_MARK)
        if orphan or cleaned or name.endswith((DELETED_SUFFIX, ".tmp")):
            files.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def _sync_names(pool: OpenSegments, directory: str, names: list[str], rewrite: bool) -> None:
    """Sync the small file and the names of a log of which no sync round is known: they are not
    durable for sure, and no later round would see to it. Nor is the removal of what was tidied
    away."""
    if PARTITION_META in names:
        meta = pool.files.open(f"{directory}/{PARTITION_META}")
        try:
            if rewrite:
                meta.rewrite(0, meta.size())
            meta.sync()
        finally:
            meta.close()
    pool.files.sync_dir(directory)


def _read_meta(
    pool: OpenSegments, directory: str, names: list[str], *, was_synced: bool
) -> PartitionMeta:
    if PARTITION_META in names:
        try:
            return read_meta(pool.files, directory)
        except CheckpointError as error:
            # A power cut may take what a partition's first sync had not covered yet.
            level = logging.ERROR if was_synced else logging.WARNING
            logger.log(level, "topic_id_unknown", path=directory, error=error)
    return PartitionMeta()


def read_truncation(files: Files, directory: str, log_start_offset: int) -> tuple[int, int]:
    """Return (where the truncation was, where the log began then); a bad mark promises nothing."""
    try:
        data = files.read_bytes(f"{directory}/{TRUNCATION_MARK}")
        mark = decode_document(TRUNCATION_MARK, data)
        return int(mark["offset"]), int(mark["log_start_offset"])
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        logger.warning("truncation_mark_unreadable", path=directory, error=error)
        return 0, log_start_offset


def write_truncation(files: Files, directory: str, offset: int, log_start_offset: int) -> None:
    """Write durably what :func:`read_truncation` reads. Raises OSError."""
    document = {"version": 1, "offset": offset, "log_start_offset": log_start_offset}
    files.write_atomic_now(f"{directory}/{TRUNCATION_MARK}", encode_document(document))


def _read_epochs(pool: OpenSegments, directory: str, names: list[str]) -> EpochHistory | None:
    if LEADER_EPOCH not in names:
        return None
    try:
        data = pool.files.read_bytes(f"{directory}/{LEADER_EPOCH}")
        return EpochHistory(decode_epochs(data))
    except (CheckpointError, ValueError) as error:
        logger.warning("leader_epochs_rebuilt", path=directory, error=error)
        return None
