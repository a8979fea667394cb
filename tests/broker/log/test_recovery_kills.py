"""A killed process leaves files to a machine that runs on: rot in them is no torn tail.

Which of the two it is, above the recovery point, only the boot id can tell: see ``recovery``.
"""

from __future__ import annotations

from oncelog_broker.log.recovery import LoadedLog, load_log
from oncelog_protocol.records.batch import CRC_OFFSET
from oncelog_testing.memory.files import MemoryFiles
from support.logs import (
    DATA,
    DIRECTORY,
    NOW_MS,
    SMALL,
    TP,
    batch,
    fill,
    make_log,
    make_log_dir,
    started,
)


def killed(corrupt: int | None = None, cut: int = 0) -> LoadedLog:
    """Write six batches in two segments, none of them checkpointed; the machine runs on."""
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 6)
    paths = [segment.path for segment in log.segments]
    assert len(paths) == 2
    for path in paths:
        if corrupt is not None and corrupt < files.size(path):
            files.corrupt(path, corrupt, 1)
            break
        corrupt = None if corrupt is None else corrupt - files.size(path)
    if cut:
        files.open(paths[-1]).truncate(files.size(paths[-1]) - cut)
    loaded = load_log(
        make_log_dir(files.reborn("all")).pool,
        DIRECTORY,
        interval_bytes=200,
        recovery_point=0,
        log_start_offset=0,
        clean=False,
        now_ms=NOW_MS,
        same_run=True,
    )
    assert loaded is not None
    return loaded


def test_a_killed_process_leaves_its_last_write_cut_short_and_nothing_else_broken() -> None:
    whole = killed()
    assert (whole.damage, whole.log_end_offset, whole.refetch_until) == ("", 6, -1)
    size = whole.segments[-1].size_bytes // (6 - whole.segments[-1].base_offset)
    for cut in (1, size - 61, size - 60, size - 1):
        torn = killed(cut=cut)
        assert (torn.damage, torn.log_end_offset, torn.refetch_until) == ("", 5, -1)
    total = sum(segment.size_bytes for segment in whole.segments)
    for position in range(0, total, 3):
        if position % size < CRC_OFFSET:
            continue  # no checksum covers these, and one of them is the length
        rotten = killed(corrupt=position)
        assert rotten.damage, position
        assert rotten.log_end_offset == position // size
        assert rotten.refetch_until >= 6
        assert rotten.recovery_point == rotten.log_end_offset, "what is kept is synced"


def test_a_segment_that_is_cut_short_before_another_is_damage() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 6)
    path = log.segments[0].path
    files.open(path).truncate(files.size(path) - 10)
    for same_run, damaged in ((True, True), (False, False)):
        loaded = load_log(
            make_log_dir(files.image("all")).pool,
            DIRECTORY,
            interval_bytes=200,
            recovery_point=0,
            log_start_offset=0,
            clean=False,
            now_ms=NOW_MS,
            same_run=same_run,
        )
        assert loaded is not None
        assert bool(loaded.damage) is damaged


async def test_the_boot_id_tells_a_kill_from_a_power_cut() -> None:
    for keep, damaged, end in (("all", True, 1), ("none", False, 1)):
        files = MemoryFiles(DATA)
        logs = await started(files)
        logs.continuity.claim()
        log = logs.create(TP, "id", logs.default_config)
        for _ in range(3):
            log.append_as_leader(batch(b"x"), 0)
        await log.log_dir.flusher.drain()
        path = log.segments.active.path
        files.corrupt(path, files.size(path) // 3 + 30, 1)
        logs = await started(files.reborn(keep))  # type: ignore[arg-type]
        (log,) = logs.all()
        assert (log.needs_refetch, log.log_end_offset) == (damaged, end)
        await logs.stop(clean=False)
