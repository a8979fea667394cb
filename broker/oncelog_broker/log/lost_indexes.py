"""Indexes of large segments that are gone, or do not fit the log, are made anew off the loop.

Rules: a segment whose index is nowhere is mapped from its batch headers, which takes seconds for 1
GB; so that is done in a thread, beside the segment, and taken over when it is whole. Readers hear
StorageError until then, and come again. An append and a truncation cannot wait: they open the
segment all the same and map it at once; so does everything for a segment up to ``LARGE_BYTES``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from oncelog_broker.log.dir_jobs import DirJobs
from oncelog_broker.log.index_file import Summary
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import Segment
from oncelog_protocol.errors import StorageError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger

__all__ = ["LARGE_BYTES", "LostIndexes"]

logger = get_logger(__name__)

LARGE_BYTES = 4 * 1024 * 1024
"""A segment up to this size is mapped in some ten milliseconds."""


class LostIndexes:
    """It makes the lost indexes of one directory. ``on_failure`` is told of a segment that cannot
    be read."""

    def __init__(
        self, files: Files, jobs: DirJobs, on_failure: Callable[[str, OSError], None]
    ) -> None:
        self._files = files
        self._jobs = jobs
        self._on_failure = on_failure
        self._under_way: dict[Segment, None] = {}
        self._hopeless: dict[Segment, None] = {}
        """Nothing could be mapped of these: whoever reads them shall hear why."""

    def __len__(self) -> int:
        """Return how many indexes are being made."""
        return len(self._under_way)

    def check(self, segment: Segment) -> None:
        """Have the index of a closed segment that is to be read made, if it is lost. Raises
        StorageError while it is not there yet."""
        if segment.size_bytes <= LARGE_BYTES or segment in self._hopeless:
            return
        if segment not in self._under_way:
            if not segment.lacks_index:
                return
            logger.warning("segment_index_rebuilt", path=segment.path)
            self._under_way[segment] = None
            summary, twin = segment.summary, segment.twin()
            made = self._jobs.run(_map, self._files, segment.path, summary, twin)
            made.add_done_callback(partial(self._made, segment, summary, twin))
        raise StorageError(f"{segment.path}: its index is lost, and is being made anew")

    def _made(
        self, segment: Segment, summary: Summary, twin: Segment, made: asyncio.Future[None]
    ) -> None:
        del self._under_way[segment]
        error = asyncio.CancelledError() if made.cancelled() else made.exception()
        if isinstance(error, FileNotFoundError):
            self._hopeless[segment] = None  # or it was deleted meanwhile, and nobody asks
        elif isinstance(error, OSError):
            self._on_failure(f"map {segment.path}", error)
        elif error is None and segment.summary == summary:
            segment.take_index(twin)
            if segment.lacks_index:
                self._hopeless[segment] = None


def _map(files: Files, path: str, summary: Summary, twin: Segment) -> None:
    """Map a segment into its twin, which this thread has for itself."""
    file = files.open(path)
    try:
        scan = Scan(
            file,
            0,
            summary.size_bytes,
            next_offset=twin.base_offset,
            chunk_bytes=SCAN_CHUNK_BYTES,
        )
        for _, header in scan:
            twin.note_header(header, summary.stamp_ms)
    except CorruptBatchError as error:
        # Corruption in the log itself. What lies below it can still be read.
        logger.error("segment_damaged", path=path, position=twin.size_bytes, error=error)
    finally:
        file.close()
