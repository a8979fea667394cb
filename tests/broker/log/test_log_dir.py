"""One log directory: whose it is, how it fails, fills up, and checkpoints."""

from __future__ import annotations

import asyncio
import contextlib
import errno

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.dir_making import LOCK_FILE
from oncelog_broker.log.log_dir import LogDir, LogDirError
from oncelog_broker.log.recovery import TRUNCATION_MARK
from oncelog_protocol.errors import StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import DiskSpace, SystemFiles
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import (
    DATA,
    NOW_MS,
    TP,
    batch,
    make_log,
    make_log_dir,
    new_dir,
    reload_log,
    topic_config,
)
from support.turns import Turns
from support.waiting import eventually


def acquire(files: MemoryFiles, cluster_id: str = "c", broker_id: int = 1) -> LogDir:
    log_dir = new_dir(DATA, files=files, clock=ManualClock(NOW_MS), headroom_bytes=0)
    log_dir.acquire(cluster_id, broker_id, SeededEntropy(1))
    return log_dir


# ---- belonging


def test_a_new_directory_gets_an_identity_that_survives() -> None:
    files = MemoryFiles()
    first = acquire(files)
    assert first.directory_id
    assert not first.was_clean
    files.crash("none")
    assert acquire(files).directory_id == first.directory_id


def test_new_names_on_the_way_are_durable() -> None:
    files = MemoryFiles()
    path = "/a/b/c"
    log_dir = new_dir(path, files=files, clock=ManualClock())
    log_dir.acquire("c", 1, SeededEntropy(1))
    files.crash("none")
    assert files.exists(f"{path}/{checkpoint.META}")


def test_one_process_at_a_time() -> None:
    files = MemoryFiles()
    first = acquire(files)
    with pytest.raises(LogDirError, match="in use by another broker"):
        acquire(files)
    first.release()
    acquire(files)


@pytest.mark.parametrize(("cluster_id", "broker_id"), [("other", 1), ("c", 2), ("c", -1)])
def test_a_directory_of_another_broker_is_refused(cluster_id: str, broker_id: int) -> None:
    files = MemoryFiles()
    acquire(files).release()
    before = files.list_dir(DATA)
    with pytest.raises(LogDirError, match=r"meta\.json"):
        acquire(files, cluster_id, broker_id)
    assert files.list_dir(DATA) == before
    acquire(files)  # and the lock was given back


def test_every_flipped_bit_of_the_identity_is_noticed() -> None:
    files = MemoryFiles()
    acquire(files).release()
    path = f"{DATA}/{checkpoint.META}"
    identity = checkpoint.decode_document("meta", files.read_bytes(path))
    for position in range(files.size(path)):
        files.corrupt(path, position, 0x04)
        with contextlib.suppress(LogDirError):
            log_dir = acquire(files)
            assert log_dir.directory_id == identity["directory_id"]
            log_dir.release()
        files.corrupt(path, position, 0x04)


@pytest.mark.parametrize("name", ["photos", "orders-0", checkpoint.RECOVERY_POINT])
def test_a_directory_with_other_things_is_refused_untouched(name: str) -> None:
    files = MemoryFiles(DATA)
    files.open(f"{DATA}/{name}", create=True)
    with pytest.raises(LogDirError, match="not a directory of Oncelog"):
        acquire(files)
    assert files.list_dir(DATA) == [name]


@pytest.mark.parametrize(
    "name", [LOCK_FILE, "lost+found", f"{checkpoint.META}.tmp", checkpoint.SESSION]
)
def test_left_overs_of_a_first_start_are_no_obstacle(name: str) -> None:
    files = MemoryFiles(DATA)
    files.open(f"{DATA}/{name}", create=True)
    acquire(files)


def test_a_file_in_the_place_of_the_directory() -> None:
    files = MemoryFiles()
    files.open(DATA, create=True)
    with pytest.raises(LogDirError, match="not a directory;"):
        acquire(files)


def test_a_directory_that_cannot_be_written(tmp_path: object) -> None:
    class ReadOnly(SystemFiles):
        def is_writable(self, path: str) -> bool:
            return False

    log_dir = new_dir(str(tmp_path), files=ReadOnly(), clock=ManualClock())
    with pytest.raises(LogDirError, match="not writable"):
        log_dir.acquire("c", 1, SeededEntropy(1))
    assert SystemFiles().list_dir(str(tmp_path)) == []


def test_a_directory_that_cannot_be_made() -> None:
    files = MemoryFiles()
    files.fail("make_dirs", DATA, error=errno.EACCES)
    with pytest.raises(LogDirError, match="cannot be made"):
        acquire(files)


# ---- the clean-shutdown file


def test_the_clean_shutdown_file_is_read_once() -> None:
    files = MemoryFiles()
    log_dir = acquire(files)
    asyncio.run(stop(log_dir, clean=True, broker_epoch=77))
    files.crash("none")
    log_dir = acquire(files)
    assert log_dir.was_clean
    assert log_dir.previous_broker_epoch == 77
    # A crash right after the start counts as one: the file is durably gone.
    files.crash("none")
    log_dir = acquire(files)
    assert not log_dir.was_clean
    assert log_dir.previous_broker_epoch == -1


async def stop(log_dir: LogDir, *, clean: bool, broker_epoch: int) -> None:
    log_dir.start()
    await log_dir.stop(clean=clean, broker_epoch=broker_epoch)


def test_a_damaged_clean_shutdown_file_is_none() -> None:
    files = MemoryFiles()
    path = f"{DATA}/{checkpoint.CLEAN_SHUTDOWN}"
    for content in (b"", b"\0" * 40, checkpoint.encode_document({"broker_epoch": None})):
        log_dir = acquire(files)
        log_dir.release()
        files.write_atomic_now(path, content)
        log_dir = acquire(files)
        assert not log_dir.was_clean
        assert not files.exists(path)
        log_dir.release()


def test_an_unclean_stop_writes_none() -> None:
    files = MemoryFiles()
    asyncio.run(stop(acquire(files), clean=False, broker_epoch=5))
    assert not acquire(files).was_clean


# ---- failing and filling up


async def test_a_failure_is_told_once_and_not_from_inside() -> None:
    told: list[str] = []
    files = MemoryFiles(DATA)
    log_dir = new_dir(
        DATA, files=files, clock=ManualClock(), on_offline=lambda each: told.append(each.path)
    )
    log_dir.start()
    log_dir.fail("append", OSError(errno.EIO, "broken"))
    log_dir.fail("append", OSError(errno.EIO, "broken"))
    assert told == []
    await asyncio.sleep(0)
    assert told == [DATA]
    assert "broken" in log_dir.failure


def test_room_is_asked_for_again_only_when_the_credit_is_used_up() -> None:
    files = MemoryFiles(DATA, total_bytes=1_000_000)
    log_dir = new_dir(DATA, files=files, clock=ManualClock(), headroom_bytes=10_000)
    log_dir.take_space(100, internal=False)
    assert log_dir.credit_bytes == (1_000_000 - 10_000) // 4
    files.set_free_bytes(10_050)
    with pytest.raises(StorageError):
        log_dir.take_space(51, internal=False)
    assert (log_dir.online, log_dir.full) == (True, True)
    log_dir.take_space(50, internal=False)
    assert (log_dir.online, log_dir.full) == (True, False)
    log_dir.take_space(5_050, internal=True)
    with pytest.raises(StorageError):
        log_dir.take_space(5_051, internal=True)
    assert log_dir.online


def test_a_disk_that_does_not_answer_stops_the_directory() -> None:
    class Broken(MemoryFiles):
        def disk_space(self, path: str) -> DiskSpace:
            raise OSError(errno.EIO, "broken")

    log_dir = new_dir(DATA, files=Broken(DATA), clock=ManualClock())
    with pytest.raises(StorageError):
        log_dir.take_space(1, internal=False)
    assert not log_dir.online


# ---- checkpoints


async def test_checkpoints_hold_what_is_synced() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    for _ in range(5):
        log.append_as_leader(batch(), 3)
    assert await log_dir.write_checkpoints()
    assert log_dir.read_offsets(checkpoint.RECOVERY_POINT) == {TP: 0}
    log_dir.flusher.sync_now()
    log.advance_log_start(2)
    log_dir.high_watermarks = lambda: {TP: 4}
    assert await log_dir.write_checkpoints()
    files.crash("none")
    assert log_dir_after(files).read_offsets(checkpoint.RECOVERY_POINT) == {TP: 5}
    assert log_dir_after(files).read_offsets(checkpoint.HIGH_WATERMARK) == {TP: 4}
    assert log_dir_after(files).read_offsets(checkpoint.LOG_START) == {TP: 2}
    epochs = checkpoint.decode_epochs(
        files.read_bytes(f"{log.directory}/{checkpoint.LEADER_EPOCH}")
    )
    assert epochs == [(3, 2)]


def log_dir_after(files: MemoryFiles) -> LogDir:
    return make_log_dir(files)


async def test_epochs_are_durable_before_the_recovery_point_passes_them() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    log.append_as_leader(batch(), 3)
    log_dir.flusher.sync_now()
    renamed: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "rename":
            renamed.append(path.rpartition("/")[2].removesuffix(".tmp"))

    files.before_change = note
    await log_dir.write_checkpoints()
    assert renamed.index(checkpoint.LEADER_EPOCH) < renamed.index(checkpoint.RECOVERY_POINT)
    renamed.clear()
    await log_dir.write_checkpoints()
    assert checkpoint.LEADER_EPOCH not in renamed


async def test_a_truncation_mark_stays_until_the_checkpoint_has_followed() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    for _ in range(5):
        log.append_as_leader(batch(), 3)
    log_dir.flusher.sync_now()
    await log_dir.write_checkpoints()
    log.truncate_to(2)
    mark = f"{log.directory}/{TRUNCATION_MARK}"
    assert files.exists(mark)
    await log_dir.write_checkpoints()
    assert not files.exists(mark)
    assert log_dir.read_offsets(checkpoint.RECOVERY_POINT) == {TP: 2}
    # Nothing that the checkpoint promises is cut: no mark is needed.
    log.append_as_leader(batch(), 4)
    log.truncate_to(2)
    assert not files.exists(mark)


@pytest.mark.parametrize(
    "failing", [checkpoint.LEADER_EPOCH, checkpoint.LOG_START, checkpoint.RECOVERY_POINT]
)
async def test_a_mark_outlives_a_checkpoint_that_fails_and_goes_with_the_next(failing: str) -> None:
    """Left behind it would lower the recovery point of the next start, below which rot is not
    taken for a torn tail."""
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    for epoch in range(5):
        log.append_as_leader(batch(), epoch)
    log_dir.flusher.sync_now()
    await log_dir.write_checkpoints()
    log.truncate_to(2)
    mark = f"{log.directory}/{TRUNCATION_MARK}"
    parent = log.directory if failing == checkpoint.LEADER_EPOCH else DATA
    files.fail("append", f"{parent}/{failing}", error=errno.ENOSPC)
    assert not await log_dir.write_checkpoints()
    assert files.exists(mark)
    assert await log_dir.write_checkpoints()
    assert not files.exists(mark)
    files.crash("none")
    assert not files.exists(mark), "its removal is durable"


async def test_a_mark_that_a_restart_found_goes_with_the_first_checkpoint() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    log_dir.flusher.sync_now()
    await log_dir.write_checkpoints()
    log.truncate_to(1)
    files.crash("none")
    log = reload_log(files, recovery_point=3)
    assert log.truncation_mark
    assert not log.needs_refetch
    assert await log.log_dir.write_checkpoints()
    assert not files.exists(f"{log.directory}/{TRUNCATION_MARK}")
    assert log.truncation_mark == 0


async def test_marks_of_many_cuts_go_some_a_turn() -> None:
    """So it is after an election, when a broker follows everywhere that has led."""
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    logs = [
        make_log(files, log_dir=log_dir, topic_partition=TopicPartition("t", number))
        for number in range(200)
    ]
    for log in logs:
        log.append_as_leader(batch(), 0)
        log.append_as_leader(batch(), 0)
    log_dir.flusher.sync_now()
    assert await log_dir.write_checkpoints()
    for log in logs:
        log.truncate_to(1)

    def changing(operation: str, path: str) -> None:
        if operation == "remove" and path.endswith(TRUNCATION_MARK):
            turns.note()
            if turns.noted == 100:
                logs[-1].truncate_to(0)

    async with Turns() as turns:
        files.before_change = changing
        assert await log_dir.write_checkpoints()
        files.before_change = None
    assert turns.noted == 199
    assert turns.most_in_one < 100
    assert [files.exists(f"{log.directory}/{TRUNCATION_MARK}") for log in logs[-2:]] == [
        False,
        True,
    ], "cut again meanwhile"


async def test_a_log_cut_while_a_checkpoint_is_written_keeps_its_mark() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, log_dir=log_dir)
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    log_dir.flusher.sync_now()
    await log_dir.write_checkpoints()
    log.truncate_to(4)

    def cut(operation: str, path: str) -> None:
        if operation == "rename" and checkpoint.RECOVERY_POINT in path:
            files.before_change = None
            log.truncate_to(1)

    files.before_change = cut
    assert await log_dir.write_checkpoints()
    mark = f"{log.directory}/{TRUNCATION_MARK}"
    assert files.exists(mark), "the checkpoint says 4"
    assert await log_dir.write_checkpoints()
    assert not files.exists(mark)


async def test_a_checkpoint_under_way_is_waited_for_and_no_other_begins() -> None:
    files = MemoryFiles(DATA)
    log_dir = new_dir(
        DATA, files=files, clock=ManualClock(), checkpoint_interval_ms=1, headroom_bytes=0
    )
    make_log(files, log_dir=log_dir)
    renamed: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "rename":
            renamed.append(path.rpartition("/")[2].removesuffix(".tmp"))
            under_way.set()

    under_way = asyncio.Event()
    files.before_change = note
    log_dir.high_watermarks = dict
    log_dir.checkpoint_due()
    loop = asyncio.get_running_loop()
    task = loop.create_task(log_dir.run_checkpoints())
    await under_way.wait()
    assert checkpoint.HIGH_WATERMARK not in renamed
    await log_dir.end_checkpoints()
    assert renamed[-1] == checkpoint.HIGH_WATERMARK
    renamed.clear()
    log_dir.checkpoint_due()
    await task
    assert renamed == []


async def test_the_checkpointer_works_only_after_changes() -> None:
    files = MemoryFiles()
    log_dir = new_dir(
        DATA, files=files, clock=ManualClock(), checkpoint_interval_ms=1, headroom_bytes=0
    )
    files.make_dirs(DATA)
    log = make_log(files, log_dir=log_dir)
    log_dir.start()
    await log_dir.write_checkpoints()
    task = asyncio.get_running_loop().create_task(log_dir.run_checkpoints())
    writes: list[str] = []
    files.before_change = lambda operation, path: writes.append(path)
    for _ in range(20):
        await asyncio.sleep(0)
    assert writes == []
    log.append_as_leader(batch(), 0)
    await eventually(lambda: log_dir.read_offsets(checkpoint.RECOVERY_POINT) == {TP: 1})
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    log_dir.flusher.stop()


@pytest.mark.parametrize(("error", "online"), [(errno.ENOSPC, True), (errno.EIO, False)])
async def test_a_checkpoint_that_fails(error: int, online: bool) -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    make_log(files, log_dir=log_dir)
    files.fail("append", f"{DATA}/{checkpoint.RECOVERY_POINT}", error=error)
    assert not await log_dir.write_checkpoints()
    assert log_dir.online is online
    if online:
        assert await log_dir.write_checkpoints()


def test_bad_checkpoints_are_absent() -> None:
    files = MemoryFiles(DATA)
    log_dir = make_log_dir(files)
    assert log_dir.read_offsets(checkpoint.LOG_START) is None
    files.write_atomic_now(f"{DATA}/{checkpoint.LOG_START}", b"\0" * 30)
    assert log_dir.read_offsets(checkpoint.LOG_START) is None


async def test_news_of_one_iteration_is_told_once() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    log = make_log(files, topic_config(flush="interval"), log_dir=log_dir)
    log_dir.start()
    told: list[int] = []
    log.tell_synced_to(told.append)
    for _ in range(3):
        log.append_as_leader(batch(), 0)
        assert told == []
    await asyncio.sleep(0)
    assert told == [3]
    log_dir.flusher.stop()


async def test_trash_is_removed_off_the_loop_now_or_later() -> None:
    files = MemoryFiles(DATA)
    log_dir = make_log_dir(files)
    log_dir.start()
    for name in ("now", "soon", "late"):
        files.open(f"{DATA}/{name}", create=True)
    log_dir.remove_later([f"{DATA}/now"], 0)
    log_dir.remove_later([f"{DATA}/soon", f"{DATA}/missing"], 1)
    log_dir.remove_later([f"{DATA}/late"], 3_600_000)
    await eventually(lambda: files.list_dir(DATA) == ["late"])
    await log_dir.stop(clean=False, broker_epoch=-1)


def test_unclean_stop_of_a_broken_directory_gives_the_lock_back() -> None:
    files = MemoryFiles()
    log_dir = acquire(files)
    make_log(files, log_dir=log_dir)
    log_dir.fail("sync", OSError(errno.EIO, "broken"))
    asyncio.run(stop(log_dir, clean=True, broker_epoch=4))
    assert not files.exists(f"{DATA}/{checkpoint.CLEAN_SHUTDOWN}")
    acquire(files)
