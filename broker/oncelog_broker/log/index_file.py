"""Index files on disk are blocks with checksums, which are encoded and decoded here. Pure.

These are ``.index`` and ``.timeindex``. Both are caches [D11]: written lazily and unsynced, removed
when in doubt, rebuilt from batch headers. Rules:

- a file is a run of blocks, each a header and the payload of so many new entries;
- every write ends with an empty block, so that the last bytes of the file alone tell how the
  segment ended (:class:`Summary`), and a broker that starts reads no more of a segment than that;
- a reader keeps the blocks up to the first that does not hold.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from struct import Struct
from typing import NamedTuple

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
OFFSET_INDEX_MAGIC = b"OLi1"
TIME_INDEX_MAGIC = b"OLt1"

_HEADER = Struct(">4sIIQqqqqI")
"""It has magic, number of the first entry, entries, then the summary, then the payload's CRC-32."""
_CHECKSUM = Struct(">I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


class Summary(NamedTuple):
    """It describes a segment at the moment its index was written."""

    size_bytes: int
    next_offset: int
    max_timestamp: int
    """It is the newest record timestamp, -1 when there is none."""
    stamp_ms: int
    """It is the same, but never later than the append: retention counts from it."""
    created_ms: int
    """It is the wall clock at the first append: rolling by age counts from it."""


class IndexBlock(NamedTuple):
    """It holds so many entries from number ``first`` on, encoded."""

    first: int
    entries: int
    payload: bytes
    summary: Summary


def encode_blocks(magic: bytes, first: int, count: int, payload: bytes, summary: Summary) -> bytes:
    """Encode new entries, followed by the empty block that ends every write."""
    end = _encode_header(magic, first + count, 0, b"", summary)
    if not count:
        return end
    return _encode_header(magic, first, count, payload, summary) + payload + end


def decode_blocks(magic: bytes, data: bytes, entry_bytes: int) -> tuple[list[IndexBlock], bool]:
    """Return the blocks that hold, and whether they are the whole file."""
    blocks: list[IndexBlock] = []
    position = expected = 0
    while position < len(data):
        head = _decode_header(magic, data[position : position + HEADER_BYTES])
        if head is None:
            return blocks, False
        first, count, summary, checksum = head
        start = position + HEADER_BYTES
        payload = data[start : start + count * entry_bytes]
        if first != expected or len(payload) < count * entry_bytes:
            return blocks, False
        if zlib.crc32(payload) != checksum:
            return blocks, False
        blocks.append(IndexBlock(first, count, payload, summary))
        expected += count
        position = start + len(payload)
    return blocks, True


def decode_end(magic: bytes, tail: bytes) -> tuple[int, Summary] | None:
    """Read from the last ``HEADER_BYTES`` of a file how many entries it has, and the summary; None
    when they do not end one."""
    head = _decode_header(magic, tail)
    return (head[0], head[2]) if head is not None and head[1] == 0 else None


def column_bytes(column: array[int]) -> bytes:
    """Return the column's items, little-endian."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def column_from(typecode: str, data: bytes) -> array[int]:
    """Return the column that :func:`column_bytes` encoded."""
    column = array(typecode)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _encode_header(magic: bytes, first: int, count: int, payload: bytes, summary: Summary) -> bytes:
    head = _HEADER.pack(magic, first, count, *summary, zlib.crc32(payload))
    return head + _CHECKSUM.pack(zlib.crc32(head))


def _decode_header(magic: bytes, data: bytes) -> tuple[int, int, Summary, int] | None:
    if len(data) != HEADER_BYTES or data[:4] != magic:
        return None
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != zlib.crc32(data[: _HEADER.size]):
        return None
    _, first, count, *summary, checksum = _HEADER.unpack_from(data)
    return first, count, Summary(*summary), checksum


assert array("I").itemsize == 4
assert array("q").itemsize == 8
