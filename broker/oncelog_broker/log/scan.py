"""A scan walks over the batches of a segment file, header by header.

Lookups, index rebuilding and recovery share this one loop. Rules:

- it reads in chunks, and steps over the bodies of batches that are larger than a chunk, unless it
  is to verify checksums;
- a batch that is not whole, breaks the format, or does not continue the offsets raises
  CorruptBatchError; :class:`Scan` then still tells how far everything held;
- a claimed batch size is bounded before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog_protocol import limits
from oncelog_protocol.records.batch import (
    BatchHeader,
    CorruptBatchError,
    parse_header,
    verify_crc,
)
from oncelog_runtime.files import File

LOOKUP_CHUNK_BYTES = 8 * 1024
SCAN_CHUNK_BYTES = 256 * 1024


class Scan:
    """It iterates over (position, header) from a batch start to ``end``, a size in bytes."""

    __slots__ = (
        "_chunk_bytes",
        "_end",
        "_file",
        "_verify",
        "next_offset",
        "position",
        "read_bytes",
    )

    def __init__(
        self,
        file: File,
        position: int,
        end: int,
        *,
        next_offset: int | None = None,
        verify: bool = False,
        chunk_bytes: int = LOOKUP_CHUNK_BYTES,
    ) -> None:
        """``next_offset`` is what the first batch must begin with; None takes any."""
        self._file = file
        self.position = position
        """The next batch begins here: everything below holds."""
        self._end = end
        self.next_offset = next_offset
        self._verify = verify
        self._chunk_bytes = chunk_bytes
        self.read_bytes = 0
        """So many bytes were read of the file."""

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        chunk = memoryview(b"")
        start = self.position
        while self.position < self._end:
            at = self.position - start
            if len(chunk) - at < limits.BATCH_HEADER_BYTES:
                chunk, start, at = self._read(self._chunk_bytes), self.position, 0
            if len(chunk) - at < limits.BATCH_HEADER_BYTES:
                raise CorruptBatchError(f"{len(chunk) - at} bytes of a batch header")
            header = parse_header(chunk, at)
            size = header.size_bytes
            self._check(header, size)
            if self._verify:
                if len(chunk) - at < size:
                    chunk, start, at = (
                        self._read(max(size, self._chunk_bytes)),
                        self.position,
                        0,
                    )
                    if len(chunk) < size:
                        raise CorruptBatchError(f"{len(chunk)} bytes of a batch of {size}")
                verify_crc(chunk[at : at + size])
            yield self.position, header
            self.position += size
            self.next_offset = header.next_offset
            if self.position - start > len(chunk):
                chunk, start = memoryview(b""), self.position

    def _read(self, length: int) -> memoryview:
        length = min(length, self._end - self.position)
        self.read_bytes += length
        return memoryview(self._file.read_at(self.position, length))

    def _check(self, header: BatchHeader, size: int) -> None:
        if size > limits.BATCH_BYTES_MAX:
            raise CorruptBatchError(f"a batch of {size} bytes")
        if size > self._end - self.position:
            raise CorruptBatchError(f"{self._end - self.position} bytes of a batch of {size}")
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise CorruptBatchError("a batch with negative offsets")
        if self.next_offset is not None and header.base_offset != self.next_offset:
            raise CorruptBatchError(
                f"offset {header.base_offset} where {self.next_offset} was to come"
            )
