"""These tests check what is written and not yet synced."""

from __future__ import annotations

from oncelog_broker.log.flusher import SyncJob
from oncelog_broker.log.segment import Segment
from oncelog_broker.log.unsynced import Unsynced
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, follower_batches, make_log


def make() -> tuple[Unsynced, Segment, MemoryFiles]:
    files = MemoryFiles("/d")
    log = make_log(files)
    segment = Segment(log.log_dir.pool, "/d", 0, 4096)
    return Unsynced(log, log.log_dir.flusher), segment, files


def append(unsynced: Unsynced, segment: Segment) -> None:
    data = follower_batches((segment.next_offset, 1, 0))
    segment.write((data,))
    end = segment.next_offset
    segment.note(end, end + 1, len(data), NOW_MS, NOW_MS)
    if not segment.dirty:
        unsynced.wrote(segment, len(data))


def begin(unsynced: Unsynced) -> SyncJob:
    return unsynced.begin(1, "/d", "/")


def test_the_first_write_into_a_file_has_its_name_synced_too() -> None:
    unsynced, segment, _ = make()
    append(unsynced, segment)
    job = begin(unsynced)
    assert job.dirs == ["/d"]
    assert [file.path for file in job.files] == [segment.path]
    assert unsynced.finish(job)
    assert not segment.dirty
    append(unsynced, segment)
    assert begin(unsynced).dirs == []


def test_what_is_written_during_a_round_stays_dirty() -> None:
    unsynced, segment, _ = make()
    append(unsynced, segment)
    job = begin(unsynced)
    append(unsynced, segment)
    unsynced.finish(job)
    assert segment.dirty
    second = begin(unsynced)
    assert len(second.files) == 1
    unsynced.finish(second)
    assert not segment.dirty


def test_a_cut_makes_the_proof_void() -> None:
    unsynced, segment, _ = make()
    append(unsynced, segment)
    job = begin(unsynced)
    segment.truncate_to(0, NOW_MS)
    unsynced.truncated(segment)
    append(unsynced, segment)
    assert not unsynced.finish(job)
    assert segment.dirty
    second = begin(unsynced)
    assert second.dirs == ["/d"]
    assert unsynced.finish(second)
    assert not segment.dirty


def test_segments_that_are_gone_are_not_synced() -> None:
    unsynced, segment, _ = make()
    append(unsynced, segment)
    segment.discard()
    unsynced.drop_gone()
    assert begin(unsynced).files == []


def test_a_new_log_has_its_own_name_synced_too() -> None:
    unsynced, _, files = make()
    meta = files.open("/d/partition.json", create=True)
    unsynced.created(meta)
    job = begin(unsynced)
    assert (job.once, job.dirs) == ([meta], ["/d", "/"])
    assert begin(unsynced).dirs == []
