"""These tests give codecs round trips, bombs, and streams that are cut off or go on."""

from __future__ import annotations

import importlib
import re
import sys
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.records import compression
from oncelog_protocol.records.compression import (
    Codec,
    CodecUnavailableError,
    CompressionError,
    compress,
    decompress,
    decompressed,
    output_bound,
)

MIB = 2**20
REAL = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]
"""These take any ratio; snappy stops below 1:30."""
each_codec = pytest.mark.parametrize("codec", REAL, ids=lambda codec: codec.name)


def text(size: int) -> bytes:
    """Return what is compressible, but not much beyond 1:10."""
    return b"".join(b"%d," % (i * i) for i in range(size // 5))[:size]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
@given(data=st.binary(max_size=2000))
def test_round_trip(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data
    assert compress(codec, memoryview(data)) == packed


@each_codec
@pytest.mark.parametrize(
    "size", [0, 1, 262_143, 262_144, 262_145, pytest.param(5_000_000, marks=pytest.mark.slow)]
)
def test_sizes_around_the_pieces(codec: Codec, size: int) -> None:
    data = text(size + size // 2 + 10)[:size]
    assert decompress(codec, compress(codec, data)) == data


@each_codec
def test_levels(codec: Codec) -> None:
    data = text(100_000)
    assert compress(codec, data, 9) != compress(codec, data, 1)
    assert decompress(codec, compress(codec, data, 9)) == data


@each_codec
def test_the_same_input_gives_the_same_output(codec: Codec) -> None:
    assert compress(codec, text(1000)) == compress(codec, text(1000))


def bomb(codec: Codec, mebibytes: int) -> bytes:
    """Return zeros, compressed as a stream that does not say its size."""
    zeros = bytes(MIB)
    if codec is Codec.GZIP:
        deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(deflate.compress(zeros) for _ in range(mebibytes)) + deflate.flush()
    if codec is Codec.LZ4:
        stream = lz4.frame.LZ4FrameCompressor()
        blocks = [stream.begin(), *(stream.compress(zeros) for _ in range(mebibytes))]
        return b"".join([*blocks, stream.flush()])
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    packed = [packer.compress(zeros) for _ in range(mebibytes)]
    return b"".join([*packed, packer.flush()])


@each_codec
@pytest.mark.slow
def test_line_58_a_decompression_bomb(codec: Codec) -> None:
    packed = bomb(codec, 1024)
    bound = output_bound(len(packed))
    assert bound <= limits.DECOMPRESSED_BYTES_MAX
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="larger than"):
            decompress(codec, packed)
        assert tracemalloc.get_traced_memory()[1] < bound + 2 * MIB
    finally:
        tracemalloc.stop()


@each_codec
def test_line_58_a_small_bomb_costs_little(codec: Codec) -> None:
    packed = bomb(codec, 64)
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="larger than 2000000 "):
            decompress(codec, packed, size_max=2_000_000)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.cve("2023-34455")
def test_line_58_a_zstd_frame_that_claims_terabytes() -> None:
    packed = bytearray(zstandard.ZstdCompressor().compress(bytes(300_000)))
    # Single segment, content size in 8 bytes.
    lies = packed[:4] + bytes([0xE0]) + (2**42).to_bytes(8, "little") + packed[9:]
    assert zstandard.frame_content_size(bytes(lies)) == 2**42
    with pytest.raises(CompressionError, match="larger than"):
        decompress(Codec.ZSTD, lies)


def test_line_58_a_zstd_frame_that_claims_less_than_it_holds() -> None:
    packed = bytearray(zstandard.ZstdCompressor().compress(bytes(300_000)))
    lies = packed[:4] + bytes([0xE0]) + (10).to_bytes(8, "little") + packed[9:]
    with pytest.raises(CompressionError):
        decompress(Codec.ZSTD, lies)


def test_line_58_a_zstd_window_of_gigabytes() -> None:
    # No content size, a window of 2 GiB: what a decoder would allocate on the word of the frame.
    frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, 0xA8]) + b"\x01\x00\x00"
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError):
            decompress(Codec.ZSTD, frame)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_line_58_lz4_with_a_bad_block_size() -> None:
    packed = bytearray(compress(Codec.LZ4, text(1000)))
    packed[5] = 0x00
    with pytest.raises(CompressionError):
        decompress(Codec.LZ4, packed)


@each_codec
def test_the_ratio_is_bounded_above_what_is_free(codec: Codec) -> None:
    free = compress(codec, bytes(limits.DECOMPRESSED_FREE_BYTES))
    assert len(decompress(codec, free, ratio_max=1)) == limits.DECOMPRESSED_FREE_BYTES
    more = compress(codec, bytes(limits.DECOMPRESSED_FREE_BYTES + 1))
    with pytest.raises(CompressionError, match="larger than 1048576"):
        decompress(codec, more, ratio_max=1)


def test_no_codec_is_bounded_too() -> None:
    assert decompress(Codec.NONE, b"abc", size_max=3) == b"abc"
    with pytest.raises(CompressionError):
        decompress(Codec.NONE, b"abcd", size_max=3)


@each_codec
@pytest.mark.parametrize("size", [0, 1, 1000, 400_000])
@pytest.mark.cve("2023-34455")
def test_line_59_a_stream_cut_off_anywhere(codec: Codec, size: int) -> None:
    packed = compress(codec, text(2 * size)[:size])
    for end in {*range(min(len(packed), 40)), *range(max(len(packed) - 40, 0), len(packed))}:
        with pytest.raises(CompressionError):
            decompress(codec, packed[:end])


@each_codec
@pytest.mark.parametrize("size", [0, 1000, 400_000])
def test_line_59_bytes_after_the_end_of_the_stream(codec: Codec, size: int) -> None:
    packed = compress(codec, text(2 * size)[:size])
    for extra in (b"\0", b"x" * 300_000, packed):
        with pytest.raises(CompressionError):
            decompress(codec, packed + extra)


@each_codec
def test_line_59_the_stream_of_another_codec(codec: Codec) -> None:
    for other in REAL:
        if other is not codec:
            with pytest.raises(CompressionError):
                decompress(codec, compress(other, text(1000)))
    with pytest.raises(CompressionError):
        decompress(codec, text(1000))


HELLO_TWICE = bytes.fromhex("0a1068656c6c6f120500")
"""It is "hellohello" as one block of snappy."""


@pytest.mark.parametrize("size", [0, 1, 32_767, 32_768, 32_769, 400_000])
def test_snappy_goes_out_in_the_framing_of_java(size: int) -> None:
    packed = compress(Codec.SNAPPY, text(2 * size)[:size])
    assert packed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    assert decompress(Codec.SNAPPY, packed) == text(2 * size)[:size]
    for end in {*range(1, min(len(packed), 40)), *range(len(packed) - 6, len(packed))}:
        if end != 16:
            with pytest.raises(CompressionError):
                decompress(Codec.SNAPPY, packed[:end])


def test_snappy_comes_in_as_one_block_or_in_the_framing_of_java() -> None:
    assert decompress(Codec.SNAPPY, HELLO_TWICE) == b"hellohello"
    framed = b"\x82SNAPPY\0" + bytes(7) + b"\1" + b"\0\0\0\x0a" + HELLO_TWICE
    assert decompress(Codec.SNAPPY, framed + framed[16:]) == b"hellohello" * 2
    for bad in (b"", b"\xff" * 12, HELLO_TWICE + b"x", HELLO_TWICE[:-1], framed + b"\xff" * 8):
        with pytest.raises(CompressionError):
            decompress(Codec.SNAPPY, bad)


@given(st.binary(max_size=60), st.booleans())
def test_any_snappy_is_read_or_refused(data: bytes, framed: bool) -> None:
    try:
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"")[: 16 * framed] + data)
    except CompressionError:
        pass


def test_line_58_snappy_that_claims_much_takes_nothing() -> None:
    claims = b"\xff\xff\xff\xff\x0f" + bytes(100)
    with pytest.raises(CompressionError, match="larger than"):
        decompress(Codec.SNAPPY, claims)
    # Blocks are small each, and too much together.
    blocks = compress(Codec.SNAPPY, bytes(100_000))
    with pytest.raises(CompressionError, match="larger than"):
        decompress(Codec.SNAPPY, blocks, size_max=99_999)
    assert decompress(Codec.SNAPPY, blocks, size_max=100_000) == bytes(100_000)


def test_zstd_streams_that_do_not_say_their_size() -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(text(300_000)) + packer.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert decompress(Codec.ZSTD, packed) == text(300_000)
    with pytest.raises(CompressionError):
        decompress(Codec.ZSTD, packed + b"x")


# ------------------------------------------------------------------------------ in pieces


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 1_000_000])
def test_what_comes_in_pieces_is_the_same(codec: Codec, size: int) -> None:
    data = text(2 * size)[:size]
    pieces = list(decompressed(codec, compress(codec, data)))
    assert b"".join(pieces) == data
    if codec is not Codec.NONE:
        assert max(map(len, pieces), default=0) <= compression.PIECE_BYTES


def test_a_zstd_stream_that_does_not_say_its_size_comes_in_pieces() -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(text(600_000)) + packer.flush()
    pieces = list(decompressed(Codec.ZSTD, packed))
    assert b"".join(pieces) == text(600_000)
    assert len(pieces) > 2


@each_codec
def test_a_bomb_in_pieces_is_refused_and_one_piece_held(codec: Codec) -> None:
    packed = bomb(codec, 65)
    sizes = map(len, decompressed(codec, packed))
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="larger than"):
            sum(sizes)
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


@each_codec
def test_a_stream_in_pieces_that_is_cut_off_or_another_one(codec: Codec) -> None:
    packed = compress(codec, text(800_000))
    for wrong in (packed[:-1], packed[: len(packed) // 2], packed[:3], text(1000)):
        with pytest.raises(CompressionError):
            list(decompressed(codec, wrong))


@pytest.mark.parametrize(
    ("codec", "module", "extra"),
    [
        (Codec.LZ4, "lz4.frame", "oncelog[lz4]"),
        (Codec.SNAPPY, "cramjam", "oncelog[snappy]"),
        (Codec.ZSTD, "zstandard", "oncelog[zstd]"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    codec: Codec, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = compress(codec, b"abc")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CodecUnavailableError, match=re.escape(extra)):
        compress(codec, b"abc")
    with pytest.raises(CodecUnavailableError, match=re.escape(extra)):
        decompress(codec, packed)
    with pytest.raises(CodecUnavailableError, match=re.escape(extra)):
        compression.require(codec)
    compression.require(Codec.NONE)
    compression.require(Codec.GZIP)


def test_optional_libraries_are_not_imported_with_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    again = importlib.util.find_spec(compression.__name__)
    assert again is not None
    assert again.loader is not None
    module = importlib.util.module_from_spec(again)
    again.loader.exec_module(module)
    assert module.decompress(module.Codec.GZIP, compress(Codec.GZIP, b"abc")) == b"abc"
