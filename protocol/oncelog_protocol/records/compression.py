"""Batch bodies are compressed here, and decompressed so that a hostile body cannot harm us.

Rules
-----
* Decompression is bounded by an absolute size and by a ratio, and the output is never taken in one
  piece on the word of the input alone.
* The input is one stream and nothing else: what ends early or has bytes after its end is refused.
* lz4, zstandard and cramjam (snappy) are optional libraries, imported at their first use. Without
  one, :class:`CodecUnavailableError` names the extra that brings it.
* Snappy is one block, or blocks in the framing of Java's library, which is what is written here. A
  block says first how large it becomes: that is held against the bound before it is believed.
"""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from oncelog_protocol import limits
from oncelog_protocol.errors import OncelogError, ProtocolError
from oncelog_protocol.types import Buffer

ZSTD_LEVEL_DEFAULT = 1
GZIP_LEVEL_DEFAULT = 6
LZ4_LEVEL_DEFAULT = 0

ZSTD_WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""RFC 8878 wants every decoder to take this window; the decoder of a frame that does not say its
size allocates the window on the word of the frame."""

PIECE_BYTES = 256 * 1024
"""Streams are decompressed in pieces of so many bytes."""
_GZIP_WBITS = 31

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
"""Snappy's framing of Java begins with this: its magic, its version, and the oldest version that
reads it."""
_XERIAL_MAGIC_BYTES = 8
_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")

_LIBRARIES = {2: ("cramjam", "snappy"), 3: ("lz4.frame", "lz4"), 4: ("zstandard", "zstd")}
"""The module and the extra of a codec, by its number."""


class Codec(IntEnum):
    """Codec numbers in batch attributes are Kafka's. Snappy is in Kafka's batches only."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


NATIVE_CODECS = tuple(codec for codec in Codec if codec is not Codec.SNAPPY)
"""Batches of our own format have these."""


class CompressionError(ProtocolError):
    """A body does not decompress, or only past its bounds."""


class CodecUnavailableError(OncelogError):
    """The library of a codec is not installed; the message names the extra to install."""


def require(codec: Codec) -> None:
    """Make sure that ``codec`` can be used here.

    :raises CodecUnavailableError: its library is not installed.
    """
    if codec in _LIBRARIES:
        _library(codec)


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return ``data`` as one stream of ``codec``; the same input gives the same output.

    :param level: the codec's own scale; None takes 6 (gzip), 0 (lz4), 1 (zstd).
    :raises CodecUnavailableError: the library is not installed.
    """
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        deflate = zlib.compressobj(
            GZIP_LEVEL_DEFAULT if level is None else level, zlib.DEFLATED, _GZIP_WBITS
        )
        return deflate.compress(data) + deflate.flush()
    if codec is Codec.SNAPPY:
        return _compress_snappy(data)
    if codec is Codec.LZ4:
        lz4_frame = _library(codec)
        compressed: bytes = lz4_frame.compress(
            data, compression_level=LZ4_LEVEL_DEFAULT if level is None else level
        )
        return compressed
    zstandard = _library(codec)
    compressed = zstandard.ZstdCompressor(
        level=ZSTD_LEVEL_DEFAULT if level is None else level
    ).compress(data)
    return compressed


def decompress(
    codec: Codec,
    data: Buffer,
    *,
    size_max: int = limits.DECOMPRESSED_BYTES_MAX,
    ratio_max: int = limits.DECOMPRESSED_RATIO_MAX,
) -> bytes:
    """Return what ``data`` holds.

    :param size_max: most bytes of output.
    :param ratio_max: most bytes of output a byte of input, above 1 MiB of output.
    :raises CompressionError: not one whole stream of ``codec``, or larger than allowed.
    :raises CodecUnavailableError: the library is not installed.
    """
    bound = output_bound(len(data), size_max, ratio_max)
    if codec is Codec.NONE:
        if len(data) > bound:
            raise _too_large(codec, bound)
        return bytes(data)
    if codec is Codec.ZSTD:
        return _decompress_zstd(data, bound)
    return b"".join(_pieces(codec, data, bound))


def decompressed(codec: Codec, data: Buffer) -> Iterator[bytes]:
    """Yield what ``data`` holds piece by piece, for whoever has other things to do between them.

    Only one piece is held at a time. It has :data:`PIECE_BYTES` at most, except of snappy: there it
    is a block, which may become some twenty times as large as it is. Bounds are those of
    :func:`decompress`. A large frame of zstd that does not say its size may be cut off behind its
    last byte, or go on behind its end: that is seen by :func:`decompress` only.

    :raises CompressionError: not one whole stream of ``codec``, or larger than allowed.
    :raises CodecUnavailableError: the library is not installed.
    """
    bound = output_bound(len(data))
    if codec is Codec.ZSTD:
        yield from _zstd_pieces(data, bound)
    elif codec is Codec.NONE:
        yield decompress(codec, data)
    else:
        yield from _pieces(codec, data, bound)


def _pieces(codec: Codec, data: Buffer, bound: int) -> Iterator[bytes]:
    if codec is Codec.SNAPPY:
        return _snappy_pieces(data, bound)
    if codec is Codec.GZIP:
        return _stream_pieces(codec, zlib.decompressobj(_GZIP_WBITS), data, bound, zlib.error)
    lz4_frame = _library(codec)
    return _stream_pieces(codec, lz4_frame.LZ4FrameDecompressor(), data, bound, RuntimeError)


def output_bound(
    input_bytes: int,
    size_max: int = limits.DECOMPRESSED_BYTES_MAX,
    ratio_max: int = limits.DECOMPRESSED_RATIO_MAX,
) -> int:
    """Return how many bytes ``input_bytes`` of compressed data may become at most."""
    return min(size_max, max(ratio_max * input_bytes, limits.DECOMPRESSED_FREE_BYTES))


def _stream_pieces(
    codec: Codec, stream: Any, data: Buffer, bound: int, error: type[Exception]
) -> Iterator[bytes]:
    """Drain a decompressor object of the standard library's form, piece by piece. The input goes in
    by pieces too: what is not taken at once is copied, each time."""
    name = codec.name.lower()
    view = memoryview(data)
    size = 0
    try:
        for start in range(0, len(view), PIECE_BYTES):
            if stream.eof:
                raise CompressionError(f"{name}: bytes after the end of the stream")
            pending: Buffer = view[start : start + PIECE_BYTES]
            more = True
            while more:
                room = min(PIECE_BYTES, bound + 1 - size)
                piece = stream.decompress(pending, room)
                # zlib hands the unused input back; lz4 keeps it.
                pending = getattr(stream, "unconsumed_tail", b"")
                size += len(piece)
                if size > bound:
                    raise _too_large(codec, bound)
                if piece:
                    yield piece
                more = not stream.eof and (len(piece) == room or len(pending) > 0)
    except (error, ValueError, EOFError) as exc:
        raise CompressionError(f"{name}: {exc}") from exc
    if not stream.eof:
        raise CompressionError(f"{name}: the stream is cut off")
    if stream.unused_data:
        raise CompressionError(f"{name}: bytes after the end of the stream")


def _decompress_zstd(data: Buffer, bound: int) -> bytes:
    zstandard = _library(Codec.ZSTD)
    try:
        claimed = zstandard.frame_content_size(data)
        if claimed > bound:
            raise _too_large(Codec.ZSTD, bound)
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
        if claimed < 0:
            claimed = _measure_zstd(decompressor, data, bound)
        if claimed == 0:
            return _decompress_empty_zstd(decompressor, data)
        plain: bytes = decompressor.decompress(
            data, max_output_size=claimed, allow_extra_data=False
        )
    except zstandard.ZstdError as exc:
        raise CompressionError(f"zstd: {exc}") from exc
    return plain


def _decompress_empty_zstd(decompressor: Any, data: Buffer) -> bytes:
    """Decompress a frame that says it is empty: the one-shot call would believe it without a
    look."""
    stream = decompressor.decompressobj()
    if stream.decompress(data) or not stream.eof or stream.unused_data:
        raise CompressionError("zstd: a frame that says it is empty is cut off or goes on")
    return b""


def _measure_zstd(decompressor: Any, data: Buffer, bound: int) -> int:
    """Size of a frame that does not say it, found without holding the output."""
    size = 0
    with decompressor.stream_reader(data, read_across_frames=False) as reader:
        while piece := reader.read(PIECE_BYTES):
            size += len(piece)
            if size > bound:
                raise _too_large(Codec.ZSTD, bound)
    return size


def _zstd_pieces(data: Buffer, bound: int) -> Iterator[bytes]:
    zstandard = _library(Codec.ZSTD)
    size = 0
    try:
        claimed = zstandard.frame_content_size(data)
        if claimed > bound:
            raise _too_large(Codec.ZSTD, bound)
        if 0 <= claimed <= PIECE_BYTES:
            yield _decompress_zstd(data, bound)
            return
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
        with decompressor.stream_reader(data, read_across_frames=False) as reader:
            while piece := reader.read(PIECE_BYTES):
                size += len(piece)
                if size > bound:
                    raise _too_large(Codec.ZSTD, bound)
                yield piece
    except zstandard.ZstdError as exc:
        raise CompressionError(f"zstd: {exc}") from exc
    if size < claimed:
        raise CompressionError("zstd: the stream is cut off")


def _compress_snappy(data: Buffer) -> bytes:
    snappy = _library(Codec.SNAPPY).snappy
    view = memoryview(data)
    pieces = [_XERIAL]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        pieces += (_INT32.pack(len(block)), block)
    return b"".join(pieces)


def _snappy_pieces(data: Buffer, bound: int) -> Iterator[bytes]:
    """Decompress one block, or the blocks of Java's framing, each after its length."""
    view = memoryview(data)
    if view[:_XERIAL_MAGIC_BYTES] != _XERIAL[:_XERIAL_MAGIC_BYTES]:
        yield _decompress_block(view, bound)
        return
    if len(view) < len(_XERIAL):
        raise CompressionError("snappy: the stream is cut off")
    position, size = len(_XERIAL), 0
    while position < len(view):
        start = position + _INT32.size
        length = _INT32.unpack_from(view, position)[0] if start <= len(view) else -1
        position = start + length
        if length < 0 or position > len(view):
            raise CompressionError("snappy: the stream is cut off")
        piece = _decompress_block(view[start:position], bound - size)
        size += len(piece)
        yield piece


def _decompress_block(block: memoryview, bound: int) -> bytes:
    cramjam = _library(Codec.SNAPPY)
    try:
        if cramjam.snappy.decompress_raw_len(block) > bound:
            raise _too_large(Codec.SNAPPY, bound)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as exc:
        raise CompressionError(f"snappy: {exc}") from exc


def _too_large(codec: Codec, bound: int) -> CompressionError:
    return CompressionError(f"{codec.name.lower()}: the body is larger than {bound} bytes")


def _library(codec: Codec) -> Any:
    name, extra = _LIBRARIES[codec]
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise CodecUnavailableError(
            f"compression {extra!r} needs a library that is not installed:"
            f" pip install 'oncelog[{extra}]'"
        ) from exc
