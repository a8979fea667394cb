"""A segment's index files are read here; an unreadable or broken one counts as missing. Blocks."""

from __future__ import annotations

from typing import NamedTuple

from oncelog_broker.log import offset_index, time_index
from oncelog_broker.log.index_file import (
    HEADER_BYTES,
    INDEX_SUFFIX,
    OFFSET_INDEX_MAGIC,
    TIME_INDEX_MAGIC,
    TIME_INDEX_SUFFIX,
    IndexBlock,
    Summary,
    decode_blocks,
    decode_summary,
)
from oncelog_runtime.files import Files

__all__ = ["IndexColumns", "read_columns", "read_summary"]


class IndexColumns(NamedTuple):
    """These are the blocks of both files that hold, without the empty ones."""

    offsets: list[IndexBlock]
    times: list[IndexBlock]
    whole: bool
    """It tells whether they are all that there is."""
    summary: Summary | None
    """The end of the index file says this."""


def read_columns(files: Files, prefix: str) -> IndexColumns:
    """Read the index files of the segment whose files begin with ``prefix``."""
    whole, summary = True, None
    columns = []
    for suffix, magic, entry_bytes in (
        (INDEX_SUFFIX, OFFSET_INDEX_MAGIC, offset_index.ENTRY_BYTES),
        (TIME_INDEX_SUFFIX, TIME_INDEX_MAGIC, time_index.ENTRY_BYTES),
    ):
        try:
            data = files.read_bytes(prefix + suffix)
        except OSError:
            data = b""
        blocks, intact = decode_blocks(magic, data, entry_bytes)
        whole = whole and intact and bool(data)
        columns.append([block for block in blocks if block.entries])
        if suffix == INDEX_SUFFIX:
            summary = blocks[-1].summary if blocks and intact else None
    offsets, times = columns
    return IndexColumns(offsets, times, whole, summary)


def read_summary(files: Files, prefix: str, size_bytes: int, base_offset: int) -> Summary | None:
    """Return what the index file says of a log of ``size_bytes``; None when it says nothing of
    it."""
    try:
        file = files.open(prefix + INDEX_SUFFIX)
    except OSError:
        return None
    try:
        tail = file.read_at(max(0, file.size() - HEADER_BYTES), HEADER_BYTES)
    except OSError:
        return None
    finally:
        file.close()
    summary = decode_summary(OFFSET_INDEX_MAGIC, tail)
    if summary is None or summary.size_bytes != size_bytes:
        return None
    return summary if summary.next_offset >= base_offset else None
