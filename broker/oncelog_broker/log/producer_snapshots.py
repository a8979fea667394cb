"""``.snapshot`` files say what a log knew of its producers at an offset.

A start reads on from there. Rules:

- a snapshot is written when a segment is rolled, when the log is closed, and after some MiB. It is
  not synced: one that does not hold, or is gone, costs reading more of the log, nothing else [K16];
- it counts only if the log still is what it was made from: it names leader epoch and checksum of
  the batch that ends at its offset. A power cut can bring back a file that was removed after a
  truncation, beside other records at the same offsets;
- the newest two are kept, and the newest two of what is synced: a power cut may take the tail that
  the others are of.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import msgpack

from oncelog_broker.log.aborted_transactions import AbortedTransactions
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.open_transactions import AbortedRow
from oncelog_broker.log.producer_state import ProducerState
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import Segment
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError, TimestampType
from oncelog_protocol.records.control import decode_marker
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

SNAPSHOT_SUFFIX = ".snapshot"
KEPT = 2
BATCHES_PER_STEP = 500
"""One step of reading a log for its producers takes so many batches: some milliseconds of work."""
BYTES_PER_STEP = 4 * 1024 * 1024
"""One step checks so many bytes at most: some milliseconds of work, too."""
Steps = Generator[None, None, str]
"""It is work in steps, which returns what is damaged, or ""."""
_NAME = re.compile(r"(\d{20})\.snapshot")
_VERSION = 2
_WITHOUT_TRANSACTIONS = 1


class ProducerSnapshots:
    """It keeps the snapshot files of one log."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.newest = -1
        """It is the offset of the newest that was written or found to fit; -1 when none is
        known."""

    def rehouse(self, directory: str) -> None:
        """Go on in another directory, in which no snapshot is known."""
        self._directory, self.newest = directory, -1

    def offsets(self) -> list[int]:
        """Return the offsets of the snapshots that are there, the newest first. Raises OSError."""
        names = self._files.list_dir(self._directory)
        return sorted([int(m[1]) for name in names if (m := _NAME.fullmatch(name))], reverse=True)

    def write(
        self,
        offset: int,
        last: BatchHeader | None,
        state: bytes,
        synced: int,
        aborted: list[list[int]] | None = None,
    ) -> None:
        """Keep the encoded ``state`` as of ``offset``; ``last`` is the batch that ends there. The
        log is synced up to ``synced``. ``aborted`` is what its index files must hold, encoded.

        A failure is logged and costs nothing but time at the next start.
        """
        mark = None if last is None else [last.leader_epoch, last.crc]
        index: bytes = msgpack.packb(aborted if aborted is not None else [])
        index = zlib.crc32(index).to_bytes(4, "big") + index
        body: bytes = msgpack.packb([_VERSION, offset, mark, state, index])
        path = self._path(offset)
        try:
            if self._files.exists(path):
                self._files.remove(path)
            file = self._files.open(path, create=True)
            try:
                file.append((body,))
            finally:
                file.close()
            self.newest = offset
            offsets = self.offsets()
            safe = [each for each in offsets if each <= synced]
            for each in offsets[KEPT:]:
                if each not in safe[:KEPT]:
                    self._files.remove(self._path(each))
        except OSError as error:
            self.newest = -1
            logger.info(
                "producer_snapshot_not_written", path=path, error=error
            )  # the next failure says it louder

    def remove_above(self, offset: int) -> None:
        """Remove the snapshots above ``offset``, to which the log was truncated. Raises OSError."""
        self.newest = -1
        for each in self.offsets():
            if each > offset:
                self._files.remove(self._path(each))

    def load(
        self,
        segments: Sequence[Segment],
        state: ProducerState,
        now_ms: int,
        aborted: AbortedTransactions | None = None,
        *,
        clean: bool = False,
        was_truncated: bool = False,
    ) -> str:
        """Fill an empty state, and an empty list of aborted transactions, from the newest snapshot
        that fits the log and the batches behind it, or from all batches. A snapshot that does not
        fit is removed.

        ``clean`` says that the last stop was, so the log is not read for a snapshot of its end.
        ``was_truncated`` says that the log may have been emptied since a snapshot was written, so
        one that cannot be held against its last batch does not fit.

        Return what is damaged in the batches that were read, or "": behind that nothing is known,
        neither who writes nor which transactions are open, so such a log must not be led. Blocks.
        Raises OSError.
        """
        end = segments[-1].next_offset
        steps = self.loading(
            segments, end, state, now_ms, aborted, clean=clean, was_truncated=was_truncated
        )
        return _to_the_end(steps)

    def loading(
        self,
        segments: Sequence[Segment],
        end: int,
        state: ProducerState,
        now_ms: int,
        aborted: AbortedTransactions | None = None,
        *,
        clean: bool = False,
        was_truncated: bool = False,
    ) -> Steps:
        """Do what :meth:`load` does for what lies below ``end``, in steps of some milliseconds.
        Between them batches may come behind ``end``, and the log must not change below it."""
        start = position = segments[0].base_offset
        if aborted is not None:
            aborted.read_from(finder(segments))
        for offset in self.offsets():
            if start <= offset <= end:
                among = () if clean and offset == end else segments
                bases = [segment.base_offset for segment in segments]
                fits = yield from self._restoring(
                    offset, among, state, was_truncated, aborted, bases
                )
                if fits:
                    self.newest = position = offset
                    break
            self._files.remove(self._path(offset))
        damage = yield from _Replay(segments, end, state, now_ms, aborted).steps(position)
        if aborted is not None and not damage:
            _preload(aborted, segments[-1])
        return damage

    def _restoring(
        self,
        offset: int,
        segments: Sequence[Segment],
        state: ProducerState,
        was_truncated: bool,
        aborted: AbortedTransactions | None,
        bases: Sequence[int],
    ) -> Generator[None, None, bool]:
        path = self._path(offset)
        try:
            at, mark, encoded, index = decode(self._files.read_bytes(path))
            last = last_batch(segments, offset)
            if at != offset or (
                was_truncated if last is None else mark != [last.leader_epoch, last.crc]
            ):
                raise CheckpointError("it is of other records")
            yield from state.restoring(encoded)
            if aborted is not None:
                aborted.restore(index, bases)
        except (CheckpointError, CorruptBatchError, CorruptMessageError) as error:
            logger.info("producer_snapshot_unusable", path=path, error=error)
            return False
        return True

    def _path(self, offset: int) -> str:
        return snapshot_path(self._directory, offset)


def decode(data: bytes) -> tuple[int, list[int] | None, bytes, list[list[int]]]:
    """Return (offset, leader epoch and checksum of the batch that ends there, what
    ``ProducerState.restore`` takes, what ``AbortedTransactions.restore`` takes). Raises
    CheckpointError."""
    try:
        version, offset, mark, encoded, *rest = msgpack.unpackb(data)
        if version == _VERSION:
            (index,) = rest
            if zlib.crc32(index[4:]) != int.from_bytes(index[:4], "big"):
                raise CheckpointError("producer snapshot: the checksum does not hold")
            aborted = msgpack.unpackb(index[4:])
        else:
            aborted = []
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"producer snapshot: {error!r}") from None
    known = version in (_WITHOUT_TRANSACTIONS, _VERSION)
    if not known or not isinstance(offset, int) or not isinstance(encoded, bytes):
        raise CheckpointError(f"producer snapshot: version {version!r}, offset {offset!r}")
    return offset, mark, encoded, aborted


def snapshot_path(directory: str, offset: int) -> str:
    """Return the path of the file that holds the state at ``offset``."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def last_batch(segments: Sequence[Segment], offset: int) -> BatchHeader | None:
    """Return the batch that ends at ``offset``; None when it is not in the log any more. Raises as
    a read does."""
    for segment in segments:
        if segment.base_offset < offset <= segment.next_offset:
            return segment.header_at(offset - 1)[1]
    return None


def _preload(aborted: AbortedTransactions, active: Segment) -> None:
    """Load the rows of the active segment, so that an append needs not read them."""
    try:
        aborted.preload([active.base_offset])
    except CorruptMessageError as error:
        logger.info("aborted_index_unreadable", error=error)  # for others to find


def finder(segments: Sequence[Segment]) -> Callable[[int], Segment]:
    """Return a function that finds the segment that holds an offset, of those that are there
    now."""

    def find(offset: int) -> Segment:
        found = segments[0]
        for segment in segments:
            if segment.base_offset > offset:
                break
            found = segment
        return found

    return find


def replay(
    segments: Sequence[Segment],
    state: ProducerState,
    now_ms: int,
    aborted: AbortedTransactions | None = None,
) -> str:
    """Apply every batch of the log to an empty state, up to the first that is damaged; return what
    is wrong with that one, or "". Blocks. Raises OSError."""
    end = segments[-1].next_offset
    return _to_the_end(_Replay(segments, end, state, now_ms, aborted).steps(0))


def _to_the_end(steps: Steps) -> str:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return str(stop.value)


class _Replay(NamedTuple):
    """It applies the batches below ``end`` to a state."""

    segments: Sequence[Segment]
    end: int
    state: ProducerState
    now_ms: int
    aborted: AbortedTransactions | None

    def steps(self, offset: int) -> Steps:
        """Apply the batches from ``offset`` on."""
        damage = ""
        for segment in self.segments:
            base = segment.base_offset
            if base < self.end and segment.next_offset > offset and segment.size_bytes:
                damage = yield from self._one(segment, max(offset, base))
                if damage:
                    break
        return damage

    def _one(self, segment: Segment, offset: int) -> Steps:
        try:
            position = segment.header_at(offset)[0] if offset > segment.base_offset else 0
            while True:
                # Opened anew each time: it may be closed between two steps.
                done = self._some(segment, position)
                if done is None:
                    return ""
                position = done
                yield
        except (CorruptBatchError, CorruptMessageError) as error:
            return f"{segment.path}: {error}"

    def _some(self, segment: Segment, position: int) -> int | None:
        """Apply the batches of one step; return where the next one goes on, None at the end."""
        end, state, now_ms = self.end, self.state, self.now_ms
        # With their checksums: a bit makes a commit of an abort.
        scan = Scan(
            segment.open(), position, segment.size_bytes, verify=True, chunk_bytes=SCAN_CHUNK_BYTES
        )
        left = BATCHES_PER_STEP
        for at, header in scan:
            if header.base_offset >= end:
                return None
            if header.is_control:
                row = self._marked(segment, at, header)
                if row is not None and self.aborted is not None:
                    self.aborted.add(segment.base_offset, row)
            elif header.producer_id >= 0:
                append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
                state.applied(header, now_ms, append_time=append_time)
            left -= 1
            following = at + header.size_bytes
            if not left or following - position >= BYTES_PER_STEP:
                return following
        return None

    def _marked(self, segment: Segment, position: int, header: BatchHeader) -> AbortedRow | None:
        try:
            marker = decode_marker(segment.read_batch(position, header), verify=False)
        except CorruptBatchError as error:
            # Its checksum held: it is of a later release.
            logger.error("segment_marker_unreadable", path=segment.path, error=error)
            return None
        return self.state.marked(marker, self.now_ms)
