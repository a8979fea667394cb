"""Logs move between the directories of a broker while they are used, and directories fail."""

from __future__ import annotations

import asyncio
import errno

import pytest

from oncelog_broker.log.claims import Loss
from oncelog_broker.log.dir_making import LogDirError
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.move_marks import SwapMark, write_moved, write_swap
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import LogDirNotFoundError, ReplicaNotAvailableError, StorageError
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import NOW_MS, SMALL, TP, batch, fill, topic_config, values_in
from support.room_settings import log_settings
from support.waiting import eventually

A, B, C = "/a", "/b", "/c"
LARGE = 60_000
"""Records of so many bytes make a log too large to be copied in one turn."""


class HandPace:
    """It lets a test say how much may be copied."""

    def __init__(self) -> None:
        self.room = 0

    def room_bytes(self, now: float) -> int:
        return max(0, self.room)

    def ready_at(self, now: float) -> float:
        return now + 0.001

    def spend(self, size_bytes: int) -> None:
        self.room -= size_bytes


async def started(files: MemoryFiles, *dirs: str) -> LogManager:
    logs = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=dirs or (A, B), headroom_bytes=0),
        broker_id=1,
    )
    await logs.start("cluster")
    return logs


async def a_log(logs: LogManager, size: int = 120) -> PartitionLog:
    log = logs.create(TP, "id", topic_config(segment_bytes=max(1024, 2 * size)))
    fill(log, 40, size=size)
    await eventually(lambda: log.synced_offset == 40)
    return log


def move(logs: LogManager, path: str, *, validate_only: bool = False) -> int:
    return logs.moves.begin(TP, path, validate_only=validate_only)


async def moved(logs: LogManager) -> None:
    await eventually(lambda: logs.moves.is_idle)


async def half_way(logs: LogManager) -> PartitionLog:
    """Return a log of which a part is copied into B; no more of it is."""
    pace = HandPace()
    logs.moves.go_by(pace, lambda log: None)
    log = await a_log(logs, LARGE)
    move(logs, B)
    pace.room = LARGE
    await eventually(lambda: any(each.size_bytes for each in logs.moves.under_way()))
    return log


def traces(files: MemoryFiles, path: str) -> list[str]:
    return [name for name in files.list_dir(path) if name.startswith(str(TP))]


async def test_a_log_is_the_same_in_another_directory() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    log = await a_log(logs)
    told: list[int] = []
    log.tell_synced_to(told.append)
    values, truncations = values_in(log), log.truncations
    assert move(logs, B, validate_only=True) == log.size_bytes
    assert logs.moves.is_idle
    assert move(logs, B + "/") == log.size_bytes
    await moved(logs)
    assert logs.get(TP) is log
    assert (log.log_dir.path, log.directory) == (B, f"{B}/{TP}")
    assert (values_in(log), log.synced_offset, log.truncations) == (values, 40, truncations)
    fill(log, 2)
    await eventually(lambda: told[-1:] == [42])
    assert (traces(files, A), traces(files, B)) == ([], [str(TP)])
    assert logs.moves.done == 1
    await logs.stop(broker_epoch=3)
    again = await started(files)
    assert again.was_clean
    found = again.get(TP)
    assert found is not None
    assert values_in(found)[:40] == values
    await again.stop()


async def test_what_is_appended_meanwhile_counts_in_its_new_place() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    log = await a_log(logs)
    move(logs, B)
    # Not for as long as the move takes: who appends without end may always be ahead of it.
    for _ in range(200):
        log.append_as_leader(batch(b"meanwhile"), 1)
        for _ in range(5):
            await asyncio.sleep(0)
        if logs.moves.done:
            break
    await moved(logs)
    await eventually(lambda: log.synced_offset == log.log_end_offset)
    assert log.log_dir.path == B
    after = await started(files.image("none"))
    found = after.get(TP)
    assert found is not None
    assert found.log_end_offset == log.log_end_offset
    await after.stop()
    await logs.stop()


async def test_wishes_that_cannot_be_granted() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    with pytest.raises(ReplicaNotAvailableError):
        move(logs, B)
    log = await a_log(logs)
    assert log.log_dir.path == B  # where it was wanted before it was made
    with pytest.raises(LogDirNotFoundError, match="/c is none of the log directories: /a, /b"):
        move(logs, C)
    files.set_free_bytes(100)
    with pytest.raises(StorageError, match="/a has room for 100 bytes"):
        move(logs, A)
    logs.dirs[0].fail("test", OSError(errno.EIO, "gone"))
    with pytest.raises(StorageError, match="/a is offline"):
        move(logs, A)
    await logs.stop(clean=False)


async def test_another_target_and_a_change_of_mind() -> None:
    files = MemoryFiles(A, B, C)
    logs = await started(files, A, B, C)
    log = await half_way(logs)
    (future,) = logs.moves.under_way()
    assert (future.topic_partition, future.path, future.phase) == (TP, B, "copying")
    assert logs.moves.reserved_bytes(logs.dirs[1]) < log.size_bytes
    move(logs, C)
    await eventually(lambda: [each.path for each in logs.moves.under_way()] == [C])
    assert not traces(files, B)
    move(logs, A)  # where it is
    await moved(logs)
    assert (log.log_dir.path, traces(files, C)) == (A, [])
    await logs.stop()


async def test_a_move_that_is_taken_back_leaves_nothing_once_all_is_idle() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    await half_way(logs)
    move(logs, A)
    async with asyncio.timeout(15):
        while not logs.moves.is_idle:
            await asyncio.sleep(0)  # every turn of the loop: it must not be idle too early
    assert traces(files, B) == []
    await logs.stop()


async def test_one_move_at_a_time_for_each_pair_of_directories() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    pace = HandPace()
    logs.moves.go_by(pace, lambda log: None)
    some = [logs.create(TP._replace(partition=number), "id", SMALL) for number in range(4)]
    for log in some:
        fill(log, 5)
    in_a = [log for log in some if log.log_dir.path == A]
    for log in in_a:
        logs.moves.begin(log.topic_partition, B, validate_only=False)
    await eventually(
        lambda: [each.phase for each in logs.moves.under_way()] == ["copying", "queued"]
    )
    pace.room = 1_000_000
    await moved(logs)
    assert {log.log_dir.path for log in some} == {B}
    await logs.stop()


async def test_a_deleted_log_takes_its_copy_along() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    await half_way(logs)
    await logs.delete(TP)
    assert logs.moves.is_idle
    assert (traces(files, A), traces(files, B)) == ([], [])
    await logs.stop()


@pytest.mark.parametrize("failing", [A, B])
async def test_a_directory_that_fails_takes_only_its_own_copy_along(failing: str) -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    log = await half_way(logs)
    directory = logs.dirs[0 if failing == A else 1]
    directory.fail("test", OSError(errno.EIO, "gone"))
    await moved(logs)
    assert log.log_dir.path == A
    assert log.log_dir.online is (failing == B)
    if failing == B:
        fill(log, 1)
        await eventually(lambda: log.synced_offset == 41)
    await logs.stop(clean=False)


async def test_a_disk_that_takes_no_name_keeps_the_log_where_it_is() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    log = await a_log(logs)

    def before(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("swap.json.tmp"):
            files.before_change = None
            files.fail("rename", B)

    files.before_change = before
    move(logs, B)
    await moved(logs)
    assert not logs.dirs[1].online
    assert log.log_dir.path == A
    fill(log, 1)
    await eventually(lambda: log.synced_offset == 41)
    assert not files.exists(f"{A}/{TP}/moved.json")
    await logs.stop(clean=False)


async def test_a_log_whose_new_directory_is_offline_is_not_made_anew() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    await a_log(logs)
    directory_id = logs.dirs[1].directory_id
    await logs.stop()
    write_moved(files, f"{A}/{TP}", directory_id)
    files.fail("read", f"{B}/meta.json", times=None)
    without = await started(files)
    assert without.get(TP) is None
    with pytest.raises(StorageError, match="was moved from /a/orders-0"):
        without.create(TP, "id", SMALL)
    assert without.create(TP, "another-id", SMALL).topic_id == "another-id"
    await without.stop(clean=False)


# ---------------------------------------------------------------- the new directory is gone


async def half_moved(files: MemoryFiles, *dirs: str) -> dict[str, str]:
    """Leave a log in directory A that says it goes to B, as a crash in mid-swap does; return the
    ids of the directories."""
    logs = await started(files, *dirs)
    log = await a_log(logs)
    if log.log_dir.path != A:
        move(logs, A)
        await moved(logs)
    logs.continuity.claim()
    logs.continuity.registered(10)
    ids = {each.path: each.directory_id for each in logs.dirs}
    await logs.stop(broker_epoch=10)
    write_moved(files, f"{A}/{TP}", ids[B])
    return ids


def replace(files: MemoryFiles, path: str) -> None:
    """Put a new, empty disk in the place of a directory."""
    files.remove_tree_now(path)
    files.make_dirs(path)
    files.sync_dir("/")


@pytest.mark.parametrize("dirs", [(A, B), (A,)], ids=["replaced", "removed"])
async def test_a_log_whose_new_directory_is_gone_for_good_begins_anew(dirs: tuple[str]) -> None:
    files = MemoryFiles(A, B)
    await half_moved(files)
    replace(files, B)
    logs = await started(files, *dirs)
    claimed = logs.continuity.claim()
    assert (claimed.since, claimed.loss) == (None, Loss.ALL)
    assert logs.continuity.listed == [], "nobody vouches for what may be an older copy"
    logs.continuity.registered(20)
    assert logs.get(TP) is None
    log = logs.create(TP, "id", SMALL)
    assert (log.log_end_offset, log.made_epoch) == (0, 20)
    fill(log, 3)
    await eventually(lambda: log.synced_offset == 3)
    (kept,) = [name for name in traces(files, A) if name != str(TP)]
    assert kept.endswith("-stray"), "somebody may want what is in the older copy"
    assert any(name.endswith(".log") for name in files.list_dir(f"{A}/{kept}"))
    await logs.stop(broker_epoch=20)
    again = await started(files, *dirs)
    found = again.get(TP)
    assert found is not None
    assert found.log_end_offset == 3
    assert files.exists(f"{A}/{kept}")
    await again.stop()


async def test_a_broker_that_dies_before_it_could_tell_of_the_loss_tells_of_it_later() -> None:
    files = MemoryFiles(A, B)
    await half_moved(files)
    replace(files, B)
    logs = await started(files)
    logs.continuity.claim()
    files = files.image("none")
    again = await started(files)
    assert again.continuity.claim().loss is Loss.ALL
    assert again.get(TP) is None
    assert again.create(TP, "id", SMALL).log_end_offset == 0
    await again.stop(clean=False)
    await logs.stop(clean=False)


async def test_a_power_cut_after_the_loss_was_told_brings_no_older_copy_back() -> None:
    files = MemoryFiles(A, B)
    await half_moved(files)
    replace(files, B)
    logs = await started(files)
    logs.continuity.claim()
    logs.continuity.registered(20)
    logs.create(TP, "id", SMALL)
    again = await started(files.image("none"))
    found = again.get(TP)
    assert found is None or found.log_end_offset == 0
    assert again.create(TP, "id", SMALL).log_end_offset == 0
    await again.stop(clean=False)
    await logs.stop(clean=False)


async def test_while_another_directory_is_offline_the_new_one_may_be_that() -> None:
    files = MemoryFiles(A, B, C)
    await half_moved(files, A, B, C)
    replace(files, B)
    files.fail("read", f"{C}/meta.json", times=None)
    logs = await started(files, A, B, C)
    with pytest.raises(StorageError, match="was moved from /a/orders-0"):
        logs.create(TP, "id", SMALL)
    logs.continuity.claim()
    logs.continuity.registered(20)
    await logs.stop(clean=False)
    files.heal()
    again = await started(files, A, B, C)
    assert again.continuity.claim().loss is Loss.ALL
    assert again.create(TP, "id", SMALL).log_end_offset == 0
    await again.stop(clean=False)


async def test_a_mark_that_cannot_be_read_names_no_directory_that_is_gone() -> None:
    """Nothing is said to be lost, so the replica must not pass for a whole one."""
    files = MemoryFiles(A, B)
    await half_moved(files)
    files.write_atomic_now(f"{A}/{TP}/moved.json", b"rot")
    logs = await started(files)
    assert logs.continuity.claim().loss is Loss.NONE
    with pytest.raises(StorageError, match="was moved from /a/orders-0"):
        logs.create(TP, "id", SMALL)
    await logs.stop(clean=False)


async def test_of_copies_that_all_went_on_none_is_taken_when_the_last_is_gone() -> None:
    files = MemoryFiles(A, B, C)
    ids = await half_moved(files, A, B, C)
    files.make_dirs(f"{B}/{TP}")
    write_moved(files, f"{B}/{TP}", ids[C])
    replace(files, C)
    logs = await started(files, A, B, C)
    assert logs.continuity.claim().loss is Loss.ALL
    assert logs.create(TP, "id", SMALL).log_end_offset == 0
    await logs.stop(clean=False)


async def test_a_directory_that_comes_back_although_it_was_lost_stops_the_start() -> None:
    """Its copy may hold what nobody else has: it is not thrown away unasked."""
    files = MemoryFiles(A, B)
    await half_moved(files)
    swap = SwapMark("id", 1, 0, 0, [])
    files.make_dirs(f"{B}/{TP}")
    write_swap(files, f"{B}/{TP}", swap)
    logs = await started(files, A)
    logs.continuity.claim()
    logs.continuity.registered(20)
    logs.create(TP, "id", SMALL)
    await logs.stop(broker_epoch=20)
    with pytest.raises(LogDirError, match="orders-0 is in /a and in /b"):
        await started(files)


async def test_a_place_that_is_taken_is_left_alone() -> None:
    files = MemoryFiles(A, B)
    logs = await started(files)
    log = await a_log(logs)
    files.make_dirs(f"{B}/{TP}")
    move(logs, B)
    await moved(logs)
    assert (log.log_dir.path, logs.dirs[1].online) == (A, True)
    assert traces(files, B) == [str(TP)]
    await logs.stop()
