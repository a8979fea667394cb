"""A segment has indexes, in memory and in files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.index_file import (
    HEADER_BYTES,
    INDEX_SUFFIX,
    OFFSET_INDEX_MAGIC,
    TIME_INDEX_MAGIC,
    TIME_INDEX_SUFFIX,
    Summary,
    decode_blocks,
    decode_end,
    encode_blocks,
)
from oncelog_broker.log.index_reading import (
    count_entries,
    entries_near,
    read_index,
    read_summary,
)
from oncelog_broker.log.offset_index import OffsetIndex, TailIndex
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.time_index import TimeIndex
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, batch, make_log, topic_config

# ---- index_file.py: index files: blocks come back, and nothing that does not hold does


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
        assert decode_end(OFFSET_INDEX_MAGIC, data[-HEADER_BYTES:]) == (sum(counts), SUMMARY)


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
    assert decode_end(OFFSET_INDEX_MAGIC, data[:HEADER_BYTES]) is None
    assert decode_end(TIME_INDEX_MAGIC, data[-HEADER_BYTES:]) is None
    assert decode_end(OFFSET_INDEX_MAGIC, b"") is None
    assert decode_end(OFFSET_INDEX_MAGIC, bytes(HEADER_BYTES)) is None


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    decode_blocks(OFFSET_INDEX_MAGIC, data, 8)
    decode_blocks(OFFSET_INDEX_MAGIC, OFFSET_INDEX_MAGIC + data, 8)
    decode_end(OFFSET_INDEX_MAGIC, data)


# ---- offset_index.py: the sparse and the dense index against plain lists


steps = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10_000)), min_size=1, max_size=60)


def entries_of(moves: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries = [(0, 0)]
    for offset, position in moves:
        entries.append((entries[-1][0] + offset, entries[-1][1] + position))
    return entries


@given(steps, st.integers(0, 70_000), st.integers(0, 700_000))
def test_floors_agree_with_a_scan(moves: list[tuple[int, int]], offset: int, position: int) -> None:
    entries = entries_of(moves)
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    assert index.floor_offset(offset) == max(e for e in entries if e[0] <= offset)
    assert index.floor_position(position) == max(p for _, p in entries if p <= position)


@pytest.mark.parametrize("fill", ["append", "extend"])
def test_indexes_without_entries_share_what_no_other_fills(fill: str) -> None:
    """A broker may have 40,000 sealed segments, whose indexes are on disk."""
    index, tail, times = OffsetIndex(), TailIndex(), TimeIndex()
    if fill == "append":
        index.append(3, 100)
        tail.append(3, 100)
        times.append(9)
    else:
        assert index.extend(index_payload([(3, 100)]), 1)
        assert times.extend(times_payload([9]))
        tail.append(3, 100)
    assert (len(index), len(times), len(tail)) == (1, 1, 1)
    others = OffsetIndex(), TimeIndex(), TailIndex()
    assert [len(other) for other in others] == [0, 0, 0]
    assert OffsetIndex().offsets is OffsetIndex().positions
    assert TimeIndex().timestamps is TimeIndex().timestamps
    index.truncate(0)
    times.truncate(0)
    tail.clear()
    others[0].append(5, 700)
    others[1].append(8)
    others[2].append(5, 700)
    assert (len(index), len(times), len(tail)) == (0, 0, 0)
    index.append(4, 200)
    assert index.floor_offset(9) == (4, 200)
    assert others[0].floor_offset(9) == (5, 700)


def index_payload(entries: list[tuple[int, int]]) -> bytes:
    index = OffsetIndex()
    for offset, position in entries:
        index.append(offset, position)
    return index.payload(0)


def times_payload(stamps: list[int]) -> bytes:
    times = TimeIndex()
    for stamp in stamps:
        times.append(stamp)
    return times.payload(0)


def test_an_empty_index_points_to_the_start() -> None:
    index = OffsetIndex()
    assert index.floor_offset(5) == (0, 0)
    assert index.floor_position(5) == 0
    assert len(index) == 0


@given(steps, st.integers(0, 61))
def test_entries_survive_encoding_in_two_parts(moves: list[tuple[int, int]], at: int) -> None:
    entries = entries_of(moves)
    index, copy = OffsetIndex(), OffsetIndex()
    for number, entry in enumerate(entries):
        index.append(*entry)
        if number == at:
            assert copy.extend(index.payload(0), len(index))
    assert copy.extend(index.payload(len(copy)), len(index) - len(copy))
    assert (copy.offsets, copy.positions) == (index.offsets, index.positions)


def test_entries_that_do_not_increase_are_not_taken() -> None:
    index = OffsetIndex()
    index.append(0, 0)
    index.append(10, 100)
    for pairs in ([(10, 200)], [(11, 100)], [(20, 200), (20, 300)], [(20, 200), (30, 150)]):
        other = OffsetIndex()
        for pair in pairs:
            other.append(*pair)
        assert not index.extend(other.payload(0), len(pairs))
        assert len(index) == 2


def test_truncate_keeps_the_first() -> None:
    index = OffsetIndex()
    for number in range(5):
        index.append(number, number * 10)
    index.truncate(2)
    assert index.floor_offset(99) == (1, 10)


@given(steps, st.integers(0, 70_000))
def test_the_tail_is_exact_where_it_reaches(moves: list[tuple[int, int]], offset: int) -> None:
    entries = entries_of(moves)
    tail = TailIndex()
    for entry in entries:
        tail.append(*entry)
    assert tail.floor_offset(offset) == max(e for e in entries if e[0] <= offset)[1]


def test_the_tail_is_bounded_and_says_what_it_does_not_know() -> None:
    tail = TailIndex()
    for number in range(10_000):
        tail.append(number * 3, number * 50)
    assert len(tail) < 600
    assert tail.floor_offset(3) == -1
    assert tail.floor_position(50) == -1
    assert tail.floor_offset(9_999 * 3 + 2) == 9_999 * 50
    assert tail.floor_position(9_998 * 50 + 49) == 9_998 * 50
    tail.clear()
    assert tail.floor_offset(10**6) == -1


# ---- time_index.py: the running maximum of timestamps against a scan


@given(st.lists(st.integers(-1, 100), max_size=40), st.integers(-1, 110))
def test_everything_before_the_entry_is_older(stamps: list[int], sought: int) -> None:
    index, newest = TimeIndex(), -1
    for stamp in stamps:  # an entry for each batch
        index.append(newest)
        newest = max(newest, stamp)
    entry = index.last_before(sought)
    first = next((n for n, stamp in enumerate(stamps) if stamp >= sought), len(stamps))
    assert all(stamp < sought for stamp in stamps[: max(0, entry)])
    assert entry <= first
    if 0 <= first < len(stamps) and sought >= 0:
        assert entry == first  # and it is the last such entry: nothing is walked in vain


@given(st.lists(st.integers(-1, 2**62), max_size=40), st.integers(0, 40))
def test_entries_survive_encoding_in_two_parts_of_time_index(stamps: list[int], at: int) -> None:
    stamps.sort()
    index, copy = TimeIndex(), TimeIndex()
    for number, stamp in enumerate(stamps):
        index.append(stamp)
        if number == at:
            assert copy.extend(index.payload(0))
    assert copy.extend(index.payload(len(copy)))
    assert copy.timestamps == index.timestamps


def test_entries_that_decrease_are_not_taken() -> None:
    index, other = TimeIndex(), TimeIndex()
    index.append(50)
    other.append(40)
    assert not index.extend(other.payload(0))
    other.truncate(0)
    other.append(60)
    other.append(55)
    assert not index.extend(other.payload(0))
    assert len(index) == 1


def test_truncate_keeps_the_first_of_time_index() -> None:
    index = TimeIndex()
    for stamp in (1, 2, 3):
        index.append(stamp)
    index.truncate(1)
    assert list(index.timestamps) == [1]


# ---- index_reading.py: index files as they are found: whole, in part, or not at all


def closed(files: MemoryFiles) -> tuple[Segment, str]:
    log = make_log(files, topic_config(index_interval_bytes=1))
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    segment = log.segments.active
    segment.close()
    return segment, segment.path.removesuffix(".log")


def test_whole_files() -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    index = read_index(files, prefix)
    assert index.whole
    assert index.summary == segment.summary
    assert [block.entries for block in index.blocks] == [3]
    assert (len(index.offsets), len(index.times)) == (3, 3)
    assert count_entries(files, prefix, segment.size_bytes) == 3
    assert read_summary(files, prefix, segment.size_bytes, 0) == segment.summary


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_one_that_is_gone(suffix: str) -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    files.remove(prefix + suffix)
    index = read_index(files, prefix)
    assert not index.whole
    assert (index.summary is None, len(index.offsets)) == (suffix == INDEX_SUFFIX, 0)
    assert (read_summary(files, prefix, segment.size_bytes, 0) is None) == (suffix == INDEX_SUFFIX)


def test_one_that_is_damaged() -> None:
    files = MemoryFiles()
    _, prefix = closed(files)
    files.corrupt(prefix + INDEX_SUFFIX, 60)
    index = read_index(files, prefix)
    assert (index.whole, index.blocks, index.summary) == (False, [], None)
    assert (len(index.offsets), len(index.times)) == (0, 0)


def test_a_summary_of_another_log() -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    assert read_summary(files, prefix, segment.size_bytes + 1, 0) is None
    assert read_summary(files, prefix, segment.size_bytes, 100) is None
    assert count_entries(files, prefix, segment.size_bytes + 1) == -1


def test_entries_near_an_offset() -> None:
    files = MemoryFiles()
    segment, prefix = closed(files)
    index = read_index(files, prefix)
    segment.open()

    def near(offset: int, count: int) -> list[int]:
        found = entries_near(index.offsets, index.times, 0, offset, count)
        assert found == segment.entries_near(offset, count), "memory and files say the same"
        return [entry.offset for entry in found]

    assert near(1, 1) == [1, 2]
    assert near(0, 1) == [0, 1]
    assert near(9, 2) == [1, 2]
    first, second, _ = entries_near(index.offsets, index.times, 0, 1, 9)
    assert (first.position, first.max_timestamp_before) == (0, -1)
    assert (second.position, second.max_timestamp_before) == (segment.size_bytes // 3, NOW_MS)


def test_a_pair_of_files_that_do_not_belong_together() -> None:
    files = MemoryFiles()
    _, prefix = closed(files)
    summary = Summary(1, 1, 1, 1, 1)
    times = encode_blocks(
        TIME_INDEX_MAGIC, 0, 3, TimeIndex().payload(0) + bytes(16) + b"\xff" * 8, summary
    )
    files.remove(prefix + TIME_INDEX_SUFFIX)
    file = files.open(prefix + TIME_INDEX_SUFFIX, create=True)
    file.append([times])
    index = read_index(files, prefix)
    assert (len(index.offsets), len(index.times), index.whole) == (0, 0, False)
