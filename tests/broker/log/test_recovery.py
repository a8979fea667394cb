"""A crash leaves the durable prefix, and never less than what was synced."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.log.checkpoint import LEADER_EPOCH, PARTITION_META, encode_epochs
from oncelog_broker.log.compaction import hole
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.recovery import (
    TRUNCATION_MARK,
    LoadedLog,
    load_log,
    write_truncation,
)
from oncelog_protocol.records.batch import iter_headers
from oncelog_testing.memory.crashes import Crash
from oncelog_testing.memory.files import CrashView, MemoryFiles
from support.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    batch,
    fill,
    follower_batches,
    make_log,
    make_log_dir,
    reload_log,
    sync,
    topic_config,
    values_in,
)

SIZE = 120


def expected(first: int, end: int) -> list[bytes]:
    return [b"%06d" % number + b"." * SIZE for number in range(first, end)]


def load(
    files: MemoryFiles,
    recovery_point: int = 0,
    *,
    clean: bool = False,
    start: int = 0,
    rewrite: bool = True,
) -> LoadedLog | None:
    return load_log(
        make_log_dir(files).pool,
        DIRECTORY,
        interval_bytes=200,
        recovery_point=recovery_point,
        log_start_offset=start,
        clean=clean,
        now_ms=NOW_MS,
        rewrite=rewrite,
    )


def log_names(files: MemoryFiles, suffix: str = ".log") -> list[str]:
    return [name for name in files.list_dir(DIRECTORY) if name.endswith(suffix)]


# ---- what a sync that failed left


def with_a_failed_sync(files: MemoryFiles) -> list[int]:
    """Write twelve batches over three segments, two synced, then a sync that fails, and half a
    batch; return the sizes of the segments."""
    log = make_log(files, SMALL)
    fill(log, 2)
    sync(log)
    files.fail("sync", times=None)
    fill(log, 10, epoch=1)
    sync(log)
    files.heal()
    path = log.segments.active.path
    files.open(path).append([bytes(batch(b"cut short"))[:40]])
    assert len(log.segments) == 3
    return [segment.size_bytes for segment in log.segments]


def test_pages_that_a_failed_sync_dropped_are_written_again() -> None:
    """The kernel shows them to the next process, and its sync "succeeds" without them."""
    files = MemoryFiles()
    sizes = with_a_failed_sync(files)
    files = files.reborn("all")
    loaded = load(files, 2)
    assert loaded is not None
    assert (loaded.recovery_point, loaded.damage) == (12, "")
    files = files.reborn("none")
    assert [files.size(f"{DIRECTORY}/{name}") for name in log_names(files)] == sizes
    assert values_in(reload_log(files, recovery_point=12)) == expected(0, 12)


def test_without_writing_them_again_a_sync_proves_nothing() -> None:
    files = MemoryFiles()
    with_a_failed_sync(files)
    files = files.reborn("all")
    loaded = load(files, 2, rewrite=False)
    assert loaded is not None
    assert loaded.recovery_point == 12
    assert reload_log(files.reborn("none"), recovery_point=12).needs_refetch


def test_only_what_is_unsynced_is_written_again() -> None:
    files = MemoryFiles()
    with_a_failed_sync(files)
    files = files.reborn("all")
    rewritten: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "rewrite":
            rewritten.append(path)

    files.before_change = note
    for recovery_point, segments in ((2, [0, 5, 10]), (5, [5, 10]), (11, [10]), (12, [])):
        load(files, recovery_point)
        assert rewritten == [f"{DIRECTORY}/{base:020d}.log" for base in segments]
        rewritten.clear()


def test_a_rewrite_that_fails_is_as_a_sync_that_fails() -> None:
    files = MemoryFiles()
    with_a_failed_sync(files)
    files = files.reborn("all")
    files.fail("rewrite")
    with pytest.raises(OSError, match="Input/output"):
        load(files, 2)


def test_the_topic_id_survives_a_failed_sync() -> None:
    files = MemoryFiles()
    log = make_log(files)
    meta = files.open(f"{DIRECTORY}/{PARTITION_META}")
    content = meta.read_at(0, meta.size())
    meta.truncate(0)
    meta.append([content])
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        meta.sync()
    assert log.log_end_offset == 0
    files = files.reborn("all")
    load(files)
    assert files.image("none").read_bytes(f"{DIRECTORY}/{PARTITION_META}") == content


# ---- torn tails


def test_every_prefix_of_the_unsynced_bytes_gives_the_durable_prefix() -> None:
    def scenario() -> MemoryFiles:
        files = MemoryFiles()
        log = make_log(files)
        fill(log, 2)
        sync(log)
        fill(log, 2, epoch=1)
        return files

    files = scenario()
    content = files.read_bytes(f"{DIRECTORY}/{log_names(files)[0]}")
    ends = [position + header.size_bytes for position, header in iter_headers(content)]
    for size in range(ends[1], len(content) + 1):
        files = scenario()

        def keep(view: CrashView, size: int = size) -> bytes:
            return view.current[:size] if view.path.endswith(".log") else view.current

        files.crash(keep)
        log = reload_log(files, recovery_point=2)
        whole = sum(end <= size for end in ends)
        assert values_in(log) == expected(0, whole)
        assert log.synced_offset == log.recovery_point == whole
        assert not log.needs_refetch
        assert log.epochs.entries() == [(0, 0), (1, 2)][: 1 + (whole > 2)]
        assert files.size(f"{DIRECTORY}/{log_names(files)[0]}") == ends[whole - 1]
        # What recovery kept is synced: a power cut right after it takes nothing.
        files.crash("none")
        assert values_in(reload_log(files, recovery_point=whole)) == expected(0, whole)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(st.integers(0, 20), st.integers(0, 25), st.data())
def test_any_damage_above_the_recovery_point_is_cut(
    synced: int, unsynced: int, data: st.DataObject
) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, synced)
    sync(log)
    fill(log, unsynced)
    ends: dict[str, list[tuple[int, int]]] = {}

    def torn(view: CrashView) -> bytes:
        """Any prefix of the pages may be missing or zero, synced ones excepted."""
        if not view.path.endswith(".log") or len(view.current) == len(view.durable):
            return view.current
        ends[view.path] = [(p, h.next_offset) for p, h in iter_headers(view.current)]
        low, high = len(view.durable), len(view.current)
        hole = data.draw(st.integers(low, high))
        kind = data.draw(st.sampled_from(["cut", "zero", "flip", "whole"]))
        if kind == "cut":
            return view.current[:hole]
        if kind == "zero":
            return view.current[:hole] + bytes(high - hole)
        if kind == "flip" and hole < high:
            flipped = bytearray(view.current)
            flipped[hole] ^= 1 << data.draw(st.integers(0, 7))
            return bytes(flipped)
        return view.current

    files.crash(torn)
    loaded = reload_log(files, SMALL, recovery_point=synced)
    assert not loaded.needs_refetch
    assert loaded.log_end_offset >= synced
    # An epoch is not covered by the checksum; a flipped one may be taken for the batch's own.
    assert values_in(loaded) == expected(0, loaded.log_end_offset)
    loaded.append_as_leader(batch(b"after"), 2**30 + 2**29)
    sync(loaded)
    assert values_in(loaded)[-1] == b"after"


def test_a_torn_segment_takes_the_later_ones_along() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 20)
    names = log_names(files)
    assert len(names) > 2
    files.crash(lambda v: v.current[:-1] if v.path.endswith(names[0]) else v.current)
    loaded = reload_log(files, SMALL)
    assert loaded.log_end_offset == int(names[1][:20]) - 1
    assert log_names(files) == names[:1]
    assert not loaded.needs_refetch


def test_a_segment_that_does_not_continue_is_a_left_over() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 20)
    names = log_names(files)
    files.remove(f"{DIRECTORY}/{names[1]}")
    loaded = reload_log(files, SMALL)
    assert loaded.log_end_offset == int(names[1][:20])
    assert log_names(files) == names[:1]


def test_a_segment_that_was_cut_may_come_back_where_something_else_goes_on() -> None:
    files = MemoryFiles()
    with_room = topic_config(segment_bytes=1100, index_interval_bytes=200)
    log = make_log(files, with_room)
    fill(log, 10)
    sync(log)
    log.begin_checkpoint()
    border = log.segments[1].base_offset
    log.truncate_to(border)
    log.append_as_leader(batch(b"short"), 1)
    assert len(log.segments) == 1
    files.crash(Crash("all", False))  # the kernel has written bytes, and no names yet
    loaded = reload_log(files, with_room, recovery_point=10)
    assert not loaded.damage
    assert values_in(loaded) == [*expected(0, border), b"short"]


def test_a_tail_that_goes_back_in_epochs_is_cut() -> None:
    # A truncation was not durable, and what was written over it is shorter: old batches follow.
    files = MemoryFiles()
    log = make_log(files)
    log.append_as_follower(follower_batches((0, 2, 1)))
    sync(log)
    file = files.open(log.segments.active.path)
    file.append([follower_batches((2, 1, 7), (3, 1, 3))])
    loaded = reload_log(files, recovery_point=2)
    assert loaded.log_end_offset == 3
    assert loaded.epochs.entries() == [(1, 0), (7, 2)]


# ---- damage below the recovery point


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("index", [False, True])
def test_missing_bytes_below_the_recovery_point_are_never_cut_away(
    clean: bool, index: bool
) -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 20)
    sync(log)
    log.close()
    last = f"{DIRECTORY}/{log_names(files)[-1]}"
    size = files.size(last) - 10
    files.open(last).truncate(size)
    if not index:
        for name in log_names(files, "index"):
            files.remove(f"{DIRECTORY}/{name}")
    loaded = reload_log(files, SMALL, recovery_point=20, clean=clean)
    assert loaded.needs_refetch
    assert loaded.log_end_offset < 20
    assert loaded.recovery_point == 20
    assert values_in(loaded) == expected(0, loaded.log_end_offset)
    assert files.size(last) == size
    # It is found again at the next start: nothing has become better by itself.
    loaded.close()
    assert reload_log(files, SMALL, recovery_point=20).needs_refetch


def test_a_lost_segment_below_the_recovery_point() -> None:
    for number in range(3):
        files = MemoryFiles()
        log = make_log(files, SMALL)
        fill(log, 20)
        sync(log)
        log.close()
        names = log_names(files)
        files.remove(f"{DIRECTORY}/{names[number]}")
        loaded = reload_log(files, SMALL, recovery_point=20)
        if number:
            assert loaded.needs_refetch
            assert log_names(files) == [n for n in names if n != names[number]]
        else:
            # The log now begins later; that is not told from retention.
            assert loaded.log_start_offset == int(names[1][:20])


def test_a_lost_log_below_the_recovery_point() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    for name in log_names(files):
        files.remove(f"{DIRECTORY}/{name}")
    loaded = load(files, 3)
    assert loaded is not None
    assert loaded.damage
    assert loaded.log_end_offset == 0


def test_every_flipped_bit_of_a_header_below_is_found_or_leaves_offsets_right() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    log.close()
    path = f"{DIRECTORY}/{log_names(files)[0]}"
    second = list(iter_headers(files.read_bytes(path)))[1][0]
    for name in log_names(files, "index"):
        files.remove(f"{DIRECTORY}/{name}")
    for position in range(second, second + 61):
        for bit in range(8):
            files.corrupt(path, position, 1 << bit)
            loaded = load(files, 3)
            assert loaded is not None
            assert loaded.damage or loaded.log_end_offset == 3
            assert files.size(path) > second
            files.corrupt(path, position, 1 << bit)
            for name in log_names(files, "index"):
                files.remove(f"{DIRECTORY}/{name}")


# ---- clean stops


def test_a_clean_start_reads_no_log() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 30, epoch=3)
    sync(log)
    log.close()
    write_epochs(files, log)
    opened: list[str] = []
    files.fail("open", f"{DIRECTORY}/{log_names(files)[-1]}", times=None)
    files.before_change = lambda operation, path: opened.append(f"{operation} {path}")
    loaded = load(files, 30, clean=True)
    assert loaded is not None
    assert loaded.log_end_offset == 30
    assert loaded.epochs.entries() == [(3, 0)]
    assert loaded.epochs_intact
    assert not loaded.damage
    assert opened == ["sync_dir /"]  # by the test's own directory
    files.heal()
    assert values_in(reload_log(files, SMALL, recovery_point=30, clean=True)) == expected(0, 30)


def write_epochs(files: MemoryFiles, log: PartitionLog) -> None:
    data = encode_epochs(log.epochs.entries())
    files.write_atomic_now(f"{DIRECTORY}/{LEADER_EPOCH}", data)


def test_a_restored_segment_knows_its_ages() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 30)
    sync(log)
    log.close()
    again = reload_log(files, SMALL, recovery_point=30, clean=True)
    assert [s.summary for s in again.segments] == [s.summary for s in log.segments]


# ---- epochs


def test_epochs_above_the_recovery_point_come_from_the_batches() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 2, epoch=1)
    fill(log, 2, epoch=4)
    sync(log)
    # The checkpoint is of before; and it knows of an epoch that never got anything durable.
    files.write_atomic_now(f"{DIRECTORY}/{LEADER_EPOCH}", encode_epochs([(1, 0), (3, 2), (9, 50)]))
    loaded = load(files, 2)
    assert loaded is not None
    assert loaded.epochs.entries() == [(1, 0), (4, 2)]
    assert not loaded.epochs_intact


def test_epochs_of_a_tail_that_is_no_more_do_not_stay() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 2, epoch=1)
    fill(log, 4, epoch=3)
    sync(log)
    files.write_atomic_now(f"{DIRECTORY}/{LEADER_EPOCH}", encode_epochs([(1, 0), (3, 4)]))
    loaded = load(files, 2)
    assert loaded is not None
    assert loaded.epochs.entries() == [(1, 0), (3, 2)]


def test_epochs_are_cut_to_the_log() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 4, epoch=1)
    sync(log)
    log.close()
    files.write_atomic_now(f"{DIRECTORY}/{LEADER_EPOCH}", encode_epochs([(0, 0), (1, 1), (5, 9)]))
    loaded = load(files, 4, clean=True, start=2)
    assert loaded is not None
    assert loaded.epochs.entries() == [(1, 2)]
    assert loaded.log_start_offset == 2


def test_a_bad_epoch_checkpoint_is_made_anew() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 10, epoch=1)
    fill(log, 10, epoch=4)
    sync(log)
    log.close()
    write_epochs(files, log)
    path = f"{DIRECTORY}/{LEADER_EPOCH}"
    for position in range(files.size(path)):
        for clean in (False, True):
            files.corrupt(path, position, 1)
            loaded = load(files, 20, clean=clean)
            assert loaded is not None
            assert loaded.epochs.entries() == [(1, 0), (4, 10)]
            assert not loaded.epochs_intact
            assert not loaded.damage
            files.corrupt(path, position, 1)


# ---- marks, left-overs, meta


def test_a_truncation_mark_lowers_the_recovery_point() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 10)
    sync(log)
    log._checkpointed_recovery_point = 10
    log.truncate_to(4)
    fill(log, 3, epoch=1)
    files.crash("none")
    assert files.exists(f"{DIRECTORY}/{TRUNCATION_MARK}")
    loaded = load(files, 10)
    assert loaded is not None
    assert not loaded.damage
    assert loaded.marked
    assert loaded.recovery_point == loaded.log_end_offset


def test_a_bad_truncation_mark_promises_nothing() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    files.write_atomic_now(f"{DIRECTORY}/{TRUNCATION_MARK}", b"\0\0")
    loaded = load(files, 10)
    assert loaded is not None
    assert (loaded.log_end_offset, loaded.damage) == (3, "")


def test_left_overs_are_tidied_away() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    log.close()
    for name in (
        "00000000000000000100.index",
        "00000000000000000100.timeindex",
        "00000000000000000007.log.deleted",
        "00000000000000000009.snapshot",
        f"{LEADER_EPOCH}.tmp",
    ):
        files.open(f"{DIRECTORY}/{name}", create=True)
    files.open(f"{DIRECTORY}/notes", create=True)
    load(files, 3)
    assert files.list_dir(DIRECTORY) == sorted(
        [
            *(f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")),
            f"{3:020d}.snapshot",
            "notes",
            PARTITION_META,
        ]
    )


def test_a_log_that_was_being_made_where_another_was_deleted_is_no_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Checkpoints know the deleted one, and the mark says that they do not mean this one."""
    files = MemoryFiles()
    files.make_dirs(DIRECTORY)
    write_truncation(files, DIRECTORY, 0, 0)
    files.open(f"{DIRECTORY}/partition.json", create=True).append([b'{"ver'])
    assert load(files, 9) is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_directory_without_log_and_topic_id_is_no_log() -> None:
    files = MemoryFiles(DIRECTORY)
    assert load(files) is None
    files.open(f"{DIRECTORY}/{PARTITION_META}", create=True)
    assert load(files) is None


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b"{}"])
def test_a_lost_topic_id_does_not_lose_the_log(content: bytes) -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    sync(log)
    files.write_atomic_now(f"{DIRECTORY}/{PARTITION_META}", content)
    loaded = load(files, 3)
    assert loaded is not None
    assert (loaded.topic_id, loaded.log_end_offset) == ("", 3)


def test_every_bit_of_every_small_file_may_flip() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 12, epoch=2)
    sync(log)
    log.close()
    write_epochs(files, log)
    for name in files.list_dir(DIRECTORY):
        if name.endswith(".log"):
            continue
        path = f"{DIRECTORY}/{name}"
        content = files.read_bytes(path)
        for position in range(len(content)):
            flipped = bytearray(content)
            flipped[position] ^= 0x10
            files.write_atomic_now(path, bytes(flipped))
            for clean in (True, False):
                loaded = load(files, 12, clean=clean)
                assert loaded is not None
                assert not loaded.damage
                assert loaded.log_end_offset == 12
                assert loaded.epochs.entries() == [(2, 0)]
                assert loaded.topic_id in ("topic-id", "")
        files.write_atomic_now(path, content)
        assert values_in(reload_log(files, SMALL, recovery_point=12, clean=True)) == expected(0, 12)


@pytest.mark.parametrize("point", [0, *range(2, 11), 12])
def test_a_hole_may_reach_over_the_recovery_point(point: int) -> None:
    """What a hole has taken the place of had been synced, whatever an older checkpoint says."""
    files = MemoryFiles("/data")
    log = make_log(files, SMALL)
    log.append_as_follower(follower_batches((0, 2, 0)))
    log.append_as_follower(memoryview(hole(2, 10, 0, NOW_MS)))
    log.append_as_follower(follower_batches((10, 2, 1)))
    sync(log)
    again = reload_log(files, SMALL, recovery_point=point)
    assert not again.damage
    assert again.log_end_offset == 12
    assert again.epochs.entries() == [(0, 0), (1, 10)]


def test_no_other_batch_may() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, SMALL)
    log.append_as_follower(follower_batches((0, 2, 0), (2, 8, 0)))
    sync(log)
    loaded = load(files, 5)
    assert loaded is not None
    assert "reaches over offset 5" in loaded.damage


def test_files_that_compaction_was_writing_are_removed() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, SMALL)
    fill(log, 3)
    sync(log)
    for suffix in ("log", "index", "timeindex"):
        files.open(f"{DIRECTORY}/{0:020d}.cleaned.{suffix}", create=True).append([b"half"])
    loaded = load(files, 3)
    assert loaded is not None
    assert loaded.log_end_offset == 3
    assert not [name for name in files.list_dir(DIRECTORY) if "cleaned" in name]


def test_a_mark_that_says_more_than_a_power_cut_left_hides_nothing_later() -> None:
    files = MemoryFiles()
    log = make_log(files)
    log.append_as_follower(follower_batches((0, 50, 0)))
    sync(log)
    log.begin_checkpoint()
    log.truncate_fully_and_start_at(82)
    files.crash("none")  # the old segments are back
    log = reload_log(files, recovery_point=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    log.append_as_follower(follower_batches((50, 40, 1)))
    sync(log)
    files.crash("all")  # before any checkpoint
    log = reload_log(files, recovery_point=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 90)
