"""These tests check the list of a log's segments."""

from __future__ import annotations

import pytest

from oncelog_broker.log.open_segments import OpenSegments
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.segment_list import SegmentList
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, follower_batches


def make_list(stamps: list[int], files: MemoryFiles | None = None) -> SegmentList:
    """Make a segment for each stamp, of ten offsets each, and an empty active one."""
    pool = OpenSegments(files or MemoryFiles("/d"), 10)
    segments = SegmentList(pool, "/d", [Segment(pool, "/d", 0, 4096)])
    for stamp_ms in stamps:
        segment = segments.active
        data = follower_batches((segment.next_offset, 10, 0))
        segment.write((data,))
        base = segment.next_offset
        segment.note(base, base + 10, len(data), stamp_ms, NOW_MS)
        segments.roll(base + 10, 4096)
    return segments


def bases(segments: SegmentList) -> list[int]:
    return [segment.base_offset for segment in segments]


@pytest.mark.parametrize(
    ("offset", "base"), [(0, 0), (9, 0), (10, 10), (19, 10), (29, 20), (30, 30), (99, 30)]
)
def test_find(offset: int, base: int) -> None:
    assert make_list([1, 2, 3]).find(offset).base_offset == base


@pytest.mark.parametrize(
    ("stamp_ms", "first"), [(0, 0), (5, 0), (6, 20), (9, 20), (10, 30), (10**9, 30)]
)
def test_since_skips_segments_that_are_older_as_a_whole(stamp_ms: int, first: int) -> None:
    segments = make_list([5, 3, 9])
    assert next(segments.since(stamp_ms)).base_offset == first


@pytest.mark.parametrize(("offset", "passed"), [(0, 0), (10, 1), (20, 2), (30, 3), (99, 3)])
def test_how_many_bytes_are_left(offset: int, passed: int) -> None:
    segments = make_list([1, 2, 3])
    left = sum(segment.size_bytes for segment in list(segments)[passed:])
    assert segments.bytes_from(offset) == left


def test_since_sees_changes() -> None:
    segments = make_list([5, 3])
    list(segments.since(4))
    segments.drop_oldest(1)
    assert [segment.base_offset for segment in segments.since(4)] == [20]


def test_drop_oldest_spares_the_active_one() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1, 2, 3], files)
    trash = segments.drop_oldest(99)
    assert bases(segments) == [30]
    assert [path.endswith(".deleted") for path in trash] == [True] * len(trash)
    assert segments.size_bytes() == 0


def test_dropping_goes_oldest_first_and_stops_at_a_failure() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1, 2, 3], files)
    files.fail("rename", "/d/00000000000000000010")
    with pytest.raises(OSError):
        segments.drop_oldest(3)
    assert bases(segments) == [10, 20, 30]


@pytest.mark.parametrize(
    ("offset", "left", "end"),
    [(30, [0, 10, 20], 30), (29, [0, 10, 20], 20), (20, [0, 10], 20), (5, [0], 0), (0, [0], 0)],
)
def test_truncate(offset: int, left: list[int], end: int) -> None:
    segments = make_list([1, 2, 3])
    segments.truncate_to(offset, NOW_MS)
    assert bases(segments) == left
    assert segments.active.next_offset == end


def test_truncating_goes_newest_first() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1, 2, 3], files)
    files.fail("rename", "/d/00000000000000000010")
    with pytest.raises(OSError):
        segments.truncate_to(5, NOW_MS)
    assert bases(segments) == [0, 10]


def test_restart() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1, 2, 3], files)
    segments.restart_at(77, 4096)
    assert bases(segments) == [77]
    assert segments.active.next_offset == 77
    left = [name for name in files.list_dir("/d") if not name.endswith(".deleted")]
    assert left == ["00000000000000000077.log"]


def test_strays_are_files_that_no_segment_of_the_list_has() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1], files)
    for name in ("00000000000000000500.log", "00000000000000000500.index", "leader-epoch"):
        files.open(f"/d/{name}", create=True)
    assert segments.strays() == [
        "/d/00000000000000000500.index.deleted",
        "/d/00000000000000000500.log.deleted",
    ]
    assert files.exists("/d/00000000000000000000.log")


def test_a_failed_roll_changes_nothing() -> None:
    files = MemoryFiles("/d")
    segments = make_list([1], files)
    files.fail("open", "/d/00000000000000000050")
    with pytest.raises(OSError):
        segments.roll(50, 4096)
    assert bases(segments) == [0, 10]
    assert segments[-1] is segments.active
    assert len(segments) == 2


def test_compaction_replaces_a_run() -> None:
    segments = make_list([1, 2, 3])
    run = [segments[1], segments[2]]
    assert segments.holds(run)
    assert not segments.holds([segments[0], segments[2]])
    assert not segments.holds([segments[2], segments[3]]), "the active one is in it"
    other = Segment(OpenSegments(MemoryFiles("/d"), 10), "/d", 10, 4096)
    assert not segments.holds([other])
    other.next_offset = 30
    segments.replace(run, other)
    assert bases(segments) == [0, 10, 30]
    assert segments.has(other)
    assert not segments.has(run[1])
    assert segments.find(25) is other
    assert segments.active.base_offset == 30
