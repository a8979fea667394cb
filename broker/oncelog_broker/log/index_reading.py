"""A segment's index files are read here; an unreadable or broken one counts as missing. Blocks."""

from __future__ import annotations

from bisect import bisect_right
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
    column_from,
    decode_blocks,
    decode_end,
)
from oncelog_broker.log.offset_index import OffsetIndex
from oncelog_broker.log.time_index import TimeIndex
from oncelog_protocol.messages.log_description import IndexEntry
from oncelog_runtime.files import Files

__all__ = [
    "LoadedIndex",
    "count_entries",
    "entries_near",
    "offset_entries",
    "read_index",
    "read_summary",
    "time_entries",
]


class LoadedIndex(NamedTuple):
    """It has the entries of both files that hold."""

    offsets: OffsetIndex
    times: TimeIndex
    blocks: list[IndexBlock]
    """The entries come from these blocks of the index file."""
    whole: bool
    """It tells whether they are all that there is."""
    summary: Summary | None
    """The end of the index file says this."""


def read_index(files: Files, prefix: str) -> LoadedIndex:
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
    offsets, times = OffsetIndex(), TimeIndex()
    taken: list[IndexBlock] = []
    for block, of_times in zip(*columns, strict=False):
        if (block.first, block.entries) != (of_times.first, of_times.entries):
            break
        if not offsets.extend(block.payload, block.entries):
            break
        if not times.extend(of_times.payload):
            offsets.truncate(len(times))
            break
        taken.append(block)
    whole = whole and len(taken) == len(columns[0]) == len(columns[1])
    return LoadedIndex(offsets, times, taken, whole, summary)


def read_summary(files: Files, prefix: str, size_bytes: int, base_offset: int) -> Summary | None:
    """Return what the index file says of a log of ``size_bytes``; None when it says nothing of
    it."""
    end = _read_end(files, prefix, size_bytes)
    if end is None:
        return None
    return end[1] if end[1].next_offset >= base_offset else None


def count_entries(files: Files, prefix: str, size_bytes: int) -> int:
    """Return how many entries the index file of a log of ``size_bytes`` has; -1 when it says
    nothing of it."""
    end = _read_end(files, prefix, size_bytes)
    return -1 if end is None else end[0]


def _read_end(files: Files, prefix: str, size_bytes: int) -> tuple[int, Summary] | None:
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
    end = decode_end(OFFSET_INDEX_MAGIC, tail)
    return None if end is None or end[1].size_bytes != size_bytes else end


def entries_near(
    offsets: OffsetIndex, times: TimeIndex, base_offset: int, offset: int, count: int
) -> list[IndexEntry]:
    """Return the last so many entries at or below ``offset``, and as many of those above it."""
    middle = bisect_right(offsets.offsets, offset - base_offset)
    return [
        IndexEntry(
            base_offset + offsets.offsets[number],
            offsets.positions[number],
            times.timestamps[number],
        )
        for number in range(max(0, middle - count), min(len(offsets), middle + count))
    ]


def offset_entries(block: IndexBlock, base_offset: int) -> list[tuple[int, int]]:
    """Return (offset, position) of the entries in a block of the index file, for tools."""
    offsets = column_from("I", block.payload[: block.entries * 4])
    positions = column_from("I", block.payload[block.entries * 4 :])
    return [(base_offset + each, at) for each, at in zip(offsets, positions, strict=True)]


def time_entries(block: IndexBlock) -> list[tuple[int, int]]:
    """Return (number of the index entry, newest timestamp before it) of a block of the file of
    times, for tools."""
    return list(enumerate(column_from("q", block.payload), block.first))
