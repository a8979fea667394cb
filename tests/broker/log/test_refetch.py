"""The mark of a log that is being fetched again outlives whatever happens on the way."""

from __future__ import annotations

import pytest

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.refetch import (
    ALL_OFFSETS,
    NOT_REFETCHING,
    REFETCH_MARK,
    read_mark,
    remove_mark,
    write_mark,
)
from oncelog_testing.memory.files import MemoryFiles
from support.logs import DIRECTORY, batch, follower_batches, make_log, reload_log, sync


def damaged(files: MemoryFiles) -> PartitionLog:
    log = make_log(files)
    for _ in range(10):
        log.append_as_leader(batch(b"x"), 0)
    sync(log)
    log.damage = "rot"
    return log


def test_it_is_written_read_and_removed() -> None:
    files = MemoryFiles(DIRECTORY)
    assert read_mark(files, DIRECTORY) == NOT_REFETCHING
    write_mark(files, DIRECTORY, 17)
    files = files.reborn("none")
    assert read_mark(files, DIRECTORY) == 17
    remove_mark(files, DIRECTORY)
    remove_mark(files, DIRECTORY)
    assert read_mark(files, DIRECTORY) == NOT_REFETCHING


def test_one_that_has_rotted_reaches_without_end() -> None:
    files = MemoryFiles(DIRECTORY)
    write_mark(files, DIRECTORY, 17)
    files.corrupt(f"{DIRECTORY}/{REFETCH_MARK}", 20, 1)
    assert read_mark(files, DIRECTORY) == ALL_OFFSETS


def test_it_is_durable_before_anything_is_dropped() -> None:
    files = MemoryFiles()
    log = damaged(files)
    steps: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation in ("rename", "truncate", "remove") and path.startswith(DIRECTORY):
            steps.append(path)

    files.before_change = note
    log.truncate_fully_and_start_at(0)
    assert steps[0].endswith(f"{REFETCH_MARK}.tmp")
    assert log.refetch_until == 10


@pytest.mark.parametrize("keep", ["all", "none"])
def test_a_crash_on_the_way_leaves_a_log_that_knows(keep: str) -> None:
    files = MemoryFiles()
    log = damaged(files)
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(follower_batches((0, 3, 0)))
    sync(log)
    assert reload_log(files.reborn(keep)).refetch_until == 10  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", ["all", "none"])
def test_it_goes_when_the_log_is_whole(keep: str) -> None:
    files = MemoryFiles()
    log = damaged(files)
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(follower_batches((0, 12, 0)))
    sync(log)
    log.refetched()
    assert log.refetch_until == NOT_REFETCHING
    again = reload_log(files.reborn(keep))  # type: ignore[arg-type]
    assert (again.refetch_until, again.log_end_offset) == (NOT_REFETCHING, 12)


def test_a_second_damage_on_the_way_does_not_lower_it() -> None:
    log = damaged(MemoryFiles())
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(follower_batches((0, 3, 0)))
    log.damage = "again"
    log.truncate_fully_and_start_at(0)
    assert log.refetch_until == 10
