"""Index files: blocks come back, and nothing that does not hold does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.index_file import (
    HEADER_BYTES,
    OFFSET_INDEX_MAGIC,
    TIME_INDEX_MAGIC,
    Summary,
    decode_blocks,
    decode_summary,
    encode_blocks,
)

SUMMARY = Summary(4096, 77, 1_000, 900, 800)


def written(counts: list[int]) -> tuple[bytes, bytes]:
    data = payloads = b""
    first = 0
    for count in counts:
        payload = bytes(range(count * 8 % 256)) + bytes(count * 8 - count * 8 % 256)
        data += encode_blocks(OFFSET_INDEX_MAGIC, first, count, payload, SUMMARY)
        payloads += payload
        first += count
    return data, payloads


@given(st.lists(st.integers(0, 20), max_size=6))
def test_blocks_come_back(counts: list[int]) -> None:
    data, payloads = written(counts)
    blocks, whole = decode_blocks(OFFSET_INDEX_MAGIC, data, 8)
    assert whole
    assert b"".join(block.payload for block in blocks) == payloads
    assert sum(block.entries for block in blocks) == sum(counts)
    if counts:
        assert decode_summary(OFFSET_INDEX_MAGIC, data[-HEADER_BYTES:]) == SUMMARY


def test_every_bit_flip_costs_that_block_and_what_follows() -> None:
    data, payloads = written([3, 2])
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            blocks, whole = decode_blocks(OFFSET_INDEX_MAGIC, bytes(flipped), 8)
            assert not whole
            assert payloads.startswith(b"".join(block.payload for block in blocks))


def test_every_prefix_gives_a_prefix() -> None:
    data, payloads = written([3, 2])
    for size in range(len(data)):
        blocks, _ = decode_blocks(OFFSET_INDEX_MAGIC, data[:size], 8)
        assert payloads.startswith(b"".join(block.payload for block in blocks))


def test_blocks_that_do_not_follow_each_other_are_not_taken() -> None:
    data = encode_blocks(OFFSET_INDEX_MAGIC, 0, 1, bytes(8), SUMMARY)
    gap = encode_blocks(OFFSET_INDEX_MAGIC, 5, 1, bytes(8), SUMMARY)
    blocks, whole = decode_blocks(OFFSET_INDEX_MAGIC, data + gap, 8)
    assert not whole
    assert sum(block.entries for block in blocks) == 1


def test_a_summary_is_the_end_of_a_write_or_nothing() -> None:
    data, _ = written([3])
    assert decode_summary(OFFSET_INDEX_MAGIC, data[:HEADER_BYTES]) is None
    assert decode_summary(TIME_INDEX_MAGIC, data[-HEADER_BYTES:]) is None
    assert decode_summary(OFFSET_INDEX_MAGIC, b"") is None
    assert decode_summary(OFFSET_INDEX_MAGIC, bytes(HEADER_BYTES)) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    decode_blocks(OFFSET_INDEX_MAGIC, data, 8)
    decode_blocks(OFFSET_INDEX_MAGIC, OFFSET_INDEX_MAGIC + data, 8)
    decode_summary(OFFSET_INDEX_MAGIC, data)
