"""One segment is read at every offset and size, cut, and may have lost or bad indexes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.segment import PARKED_ENTRIES_MAX, Segment, file_name
from oncelog_protocol.errors import CorruptMessageError
from oncelog_protocol.records.batch import BatchHeader, iter_headers
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, follower_batches, offsets_in

DIRECTORY = "/d"


def make_segment(
    counts: list[int], interval_bytes: int = 4096, base_offset: int = 0
) -> tuple[MemoryFiles, OpenSegments, Segment]:
    """Make a segment of batches with so many records each."""
    files = MemoryFiles(DIRECTORY)
    pool = OpenSegments(files, 10)
    segment = Segment(pool, DIRECTORY, base_offset, interval_bytes)
    segment.create()
    extend(segment, counts)
    return files, pool, segment


def extend(segment: Segment, counts: list[int], stamp_ms: int = NOW_MS) -> None:
    for count in counts:
        data = follower_batches((segment.next_offset, count, 0))
        segment.write((data,))
        segment.note(segment.next_offset, segment.next_offset + count, len(data), stamp_ms, NOW_MS)


def reopened(pool: OpenSegments, segment: Segment, interval_bytes: int = 4096) -> Segment:
    """Open the same files as a broker does that started after a clean stop."""
    again = Segment(pool, DIRECTORY, segment.base_offset, interval_bytes)
    again.restore(segment.summary)
    return again


def headers_of(files: MemoryFiles, segment: Segment) -> list[tuple[int, BatchHeader]]:
    return list(iter_headers(files.read_bytes(segment.path)))


def check_reads(files: MemoryFiles, segment: Segment, max_bytes: int, upto: int) -> None:
    """Compare every read with a plain walk over the file."""
    batches = headers_of(files, segment)
    for offset in range(segment.base_offset, min(upto, segment.next_offset)):
        holding = next(n for n, (_, h) in enumerate(batches) if h.next_offset > offset)
        allowed = [h.base_offset for _, h in batches[holding:] if h.next_offset <= upto]
        data = segment.read(offset, max_bytes, upto, True)
        found = offsets_in(data)
        assert found == allowed[: len(found)]
        assert found or not allowed
        assert len(data) <= max_bytes or len(found) == 1
        if not found and allowed:
            raise AssertionError("no progress")
        without = segment.read(offset, max_bytes, upto, False)
        assert len(without) <= max_bytes
        if allowed and max_bytes >= batches[holding][1].size_bytes:
            assert offsets_in(without)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.sampled_from([0, 100, 300, 4096]),
    st.integers(0, 2500),
    st.integers(0, 3),
)
def test_reads_agree_with_a_walk(
    counts: list[int], interval_bytes: int, max_bytes: int, behind: int
) -> None:
    files, pool, segment = make_segment(counts, interval_bytes, base_offset=100)
    upto = max(segment.base_offset, segment.next_offset - behind)
    check_reads(files, segment, max_bytes, upto)
    check_reads(files, segment, max_bytes, upto)  # with hints
    segment.close()
    check_reads(files, segment, max_bytes, upto)  # without the dense tail
    check_reads(files, reopened(pool, segment, interval_bytes), max_bytes, upto)


def test_a_batch_that_reaches_over_the_limit_is_left_out() -> None:
    _, _, segment = make_segment([10, 10, 10])
    assert offsets_in(segment.read(0, 1 << 20, 25, True)) == [0, 10]
    assert offsets_in(segment.read(12, 1 << 20, 19, True)) == []
    segment.close()
    assert offsets_in(segment.read(0, 1 << 20, 25, True)) == [0, 10]


def test_sequential_reads_take_large_pieces_and_lose_nothing() -> None:
    counts = [3] * 2000
    _, _, segment = make_segment(counts)
    segment.close()
    offset, reads = 0, 0
    while offset < segment.next_offset:
        found = list(iter_headers(segment.read(offset, 32 * 1024, segment.next_offset, True)))
        assert found[0][1].base_offset == offset
        offset = found[-1][1].next_offset
        reads += 1
    assert reads < segment.size_bytes / (32 * 1024 - 8 * 1024) + 2


def test_close_and_open_keep_everything() -> None:
    files, _, segment = make_segment([5] * 400, interval_bytes=500)
    before = segment.summary
    segment.close()
    assert segment.unpersisted_entries == 0
    extend(segment, [5] * 10)
    segment.close()
    assert segment.summary.next_offset == before.next_offset + 50
    check_reads(files, segment, 700, segment.next_offset)


def test_the_summary_is_found_only_for_the_size_it_was_written_for() -> None:
    _, _, segment = make_segment([5] * 40)
    segment.close()
    assert segment.read_summary(segment.size_bytes) == segment.summary
    assert segment.read_summary(segment.size_bytes - 1) is None
    segment.remove_index_files()
    assert segment.read_summary(segment.size_bytes) is None


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_bit_flip_anywhere_in_an_index_changes_no_read(suffix: str) -> None:
    files, pool, segment = make_segment([3] * 30, interval_bytes=300)
    segment.close()
    path = f"{DIRECTORY}/{file_name(0, suffix)}"
    good = files.read_bytes(path)
    expected = [bytes(segment.read(n, 400, 90, True)) for n in range(90)]
    for position in range(len(good)):
        for mask in (0x01, 0x80):
            file = files.open(path, create=True)
            file.truncate(0)
            flipped = bytearray(good)
            flipped[position] ^= mask
            file.append([bytes(flipped)])
            again = reopened(pool, segment, 300)
            for offset in (0, 31, 89):
                assert bytes(again.read(offset, 400, 90, True)) == expected[offset]
            assert [h.base_offset for _, h in again.batches_since(NOW_MS)][:1] == [0]
            again.release()


@pytest.mark.parametrize("keep", [0, 10, 100, 150])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_cut_short_or_gone_is_made_anew(suffix: str, keep: int) -> None:
    files, pool, segment = make_segment([3] * 60, interval_bytes=300)
    segment.close()
    path = f"{DIRECTORY}/{file_name(0, suffix)}"
    files.open(path).truncate(keep)
    if not keep:
        files.remove(path)
    again = reopened(pool, segment, 300)
    check_reads(files, again, 500, again.next_offset)
    again.close()
    assert again.read_summary(again.size_bytes) == segment.summary


@pytest.mark.parametrize("offset", [100, 101, 104, 105, 117, 149, 150, 151, 200])
@pytest.mark.parametrize("closed", [False, True])
def test_cutting_keeps_whole_batches_below(offset: int, closed: bool) -> None:
    files, pool, segment = make_segment([5] * 10, interval_bytes=200, base_offset=100)
    if closed:
        segment.close()
    segment.truncate_to(offset, NOW_MS)
    end = min(offset, 150) // 5 * 5
    assert segment.next_offset == end
    assert files.size(segment.path) == segment.size_bytes
    if segment.size_bytes:
        assert headers_of(files, segment)[-1][1].next_offset == end
        check_reads(files, segment, 300, end)
    extend(segment, [5, 5])
    check_reads(files, segment, 300, segment.next_offset)
    segment.close()
    check_reads(files, reopened(pool, segment, 200), 300, segment.next_offset)


def test_cutting_forgets_timestamps_of_what_was_cut() -> None:
    _, _, segment = make_segment([1, 1], interval_bytes=0)
    extend(segment, [1], stamp_ms=NOW_MS + 500)
    assert segment.max_timestamp == NOW_MS + 500
    segment.truncate_to(2, NOW_MS)
    assert segment.max_timestamp == NOW_MS


def test_index_files_are_gone_before_the_log_is_cut() -> None:
    files, _, segment = make_segment([5] * 40, interval_bytes=200)
    segment.close()
    steps: list[str] = []
    files.before_change = lambda operation, path: steps.append(f"{operation} {path[-9:]}")
    segment.truncate_to(50, NOW_MS)
    cut = next(n for n, step in enumerate(steps) if step.startswith("truncate"))
    assert sum(step.startswith("remove") for step in steps[:cut]) == 2


def test_a_failed_write_leaves_the_end_where_it_was() -> None:
    files, _, segment = make_segment([5])
    size = segment.size_bytes
    files.fail("append", segment.path, keep_bytes=30)
    with pytest.raises(OSError):
        segment.write((follower_batches((5, 1, 0)),))
    assert files.size(segment.path) == size + 30
    segment.truncate_unnoted()
    assert files.size(segment.path) == size == segment.size_bytes


def test_stamps_are_capped_at_the_append() -> None:
    _, _, segment = make_segment([])
    extend(segment, [1], stamp_ms=NOW_MS + 10**9)
    assert (segment.max_timestamp, segment.stamp_ms) == (NOW_MS + 10**9, NOW_MS)
    _, _, segment = make_segment([])
    extend(segment, [1], stamp_ms=-1)
    assert (segment.max_timestamp, segment.stamp_ms) == (-1, NOW_MS)
    _, _, segment = make_segment([])
    extend(segment, [1], stamp_ms=5)
    assert (segment.max_timestamp, segment.stamp_ms) == (5, 5)


def test_rot_is_an_error_not_other_data() -> None:
    files, pool, segment = make_segment([1] * 3, interval_bytes=10_000)
    segment.close()
    second = headers_of(files, segment)[1][0]
    files.corrupt(segment.path, second + 8)  # its length
    again = reopened(pool, segment, 10_000)
    assert offsets_in(again.read(0, 10, 3, True)) == [0]
    with pytest.raises(CorruptMessageError):
        again.read(2, 10, 3, True)


def test_a_batch_that_claims_to_be_shorter_is_not_stepped_over() -> None:
    """A reader that is sent the batch behind it would miss records and never know."""
    files, pool, segment = make_segment([1, 8, 1], interval_bytes=10_000)
    segment.close()
    second = headers_of(files, segment)[1][0]
    for delta in (3, 8):  # instead of 7
        files.corrupt(segment.path, second + 26, 7 ^ delta)
        again = reopened(pool, segment, 10_000)
        try:
            assert offsets_in(again.read(5, 10, 10, True)) == [1], "whose checksum tells"
        except CorruptMessageError:
            assert delta == 3
        files.corrupt(segment.path, second + 26, 7 ^ delta)


def test_a_file_that_lost_its_end_is_an_error() -> None:
    files, pool, segment = make_segment([1] * 3)
    segment.close()
    files.open(segment.path).truncate(segment.size_bytes - 1)
    with pytest.raises(CorruptMessageError):
        reopened(pool, segment).read(0, 1 << 20, 3, True)


def test_a_failing_index_write_costs_a_rebuild_only() -> None:
    files, _, segment = make_segment([5] * 40, interval_bytes=200)
    files.fail("append", f"{DIRECTORY}/{file_name(0, '.index')}", keep_bytes=20)
    segment.close()
    check_reads(files, segment, 500, segment.next_offset)
    segment.close()
    assert segment.read_summary(segment.size_bytes) == segment.summary


def test_discard_renames_and_names_the_trash() -> None:
    files, _, segment = make_segment([5] * 40, interval_bytes=200)
    segment.close()
    trash = segment.discard()
    assert sorted(trash) == [f"{DIRECTORY}/{name}" for name in files.list_dir(DIRECTORY)]
    assert len(trash) == 3
    assert all(path.endswith(".deleted") for path in trash)


def test_create_cuts_off_what_an_older_segment_left() -> None:
    files, pool, segment = make_segment([5] * 40, interval_bytes=200)
    segment.close()
    again = Segment(pool, DIRECTORY, 0, 200)
    again.create()
    assert files.size(again.path) == 0
    assert files.list_dir(DIRECTORY) == [file_name(0, ".log")]
    extend(again, [7])
    check_reads(files, again, 500, 7)


def test_a_parked_segment_keeps_a_small_index_and_reads_none() -> None:
    files, pool, segment = make_segment([3] * 40, interval_bytes=200)
    opened = []
    segment.park()
    assert len(pool) == 0
    read = files.read_bytes

    def counted(path: str) -> bytes:
        opened.append(path)
        return read(path)

    files.read_bytes = counted  # type: ignore[method-assign]
    extend(segment, [2, 2])
    assert opened == []
    assert not files.exists(f"{DIRECTORY}/{file_name(0, '.index')}"), "parking writes nothing"
    files.read_bytes = read  # type: ignore[method-assign]
    check_reads(files, segment, 500, segment.next_offset)
    segment.park()
    segment.close()
    again = reopened(pool, segment, 200)
    check_reads(files, again, 500, again.next_offset)
    assert again.unpersisted_entries == 0


def test_a_parked_segment_is_closed_with_its_index_written() -> None:
    files, _, segment = make_segment([3] * 40, interval_bytes=200)
    segment.park()
    assert segment.unpersisted_entries > 0
    segment.close()
    assert segment.read_summary(segment.size_bytes) == segment.summary
    assert segment.unpersisted_entries == 0
    check_reads(files, segment, 500, segment.next_offset)


def test_a_large_index_is_given_up_when_parked() -> None:
    files, _, segment = make_segment([1] * (PARKED_ENTRIES_MAX + 10), interval_bytes=1)
    segment.park()
    assert segment.read_summary(segment.size_bytes) == segment.summary
    assert segment.unpersisted_entries == 0
    check_reads(files, segment, 500, 20)
    segment.truncate_to(7, NOW_MS)
    segment.park()
    check_reads(files, segment, 500, 7)
