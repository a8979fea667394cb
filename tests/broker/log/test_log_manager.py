"""All logs of a broker are placed, deleted, started and stopped, and lose a disk."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.log_dir import LogDir, LogDirError
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import InconsistentTopicIdError, StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.clock import CautiousClock
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import Files, SystemFiles
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import NOW_MS, TP, batch, topic_config, values_in
from support.room_settings import log_settings
from support.waiting import eventually

DIRS = ("/disk1", "/disk2")


def manager(
    files: Files,
    *,
    dirs: tuple[str, ...] = DIRS,
    offline: list[LogDir] | None = None,
    clock: CautiousClock | None = None,
    **config: object,
) -> LogManager:
    return LogManager(
        files=files,
        clock=clock or ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=dirs, headroom_bytes=0, **config),
        broker_id=1,
        on_dir_offline=None if offline is None else offline.append,
    )


async def started(files: Files, **options: object) -> LogManager:
    made = manager(files, **options)  # type: ignore[arg-type]
    await made.start("cluster")
    return made


async def append(log: PartitionLog, value: bytes, epoch: int = 0) -> None:
    """Append and wait until it counts."""
    end = log.append_as_leader(batch(value), epoch).last_offset + 1
    await eventually(lambda: log.synced_offset >= end)


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


async def test_the_directory_with_the_fewest_gets_the_next() -> None:
    logs = await started(MemoryFiles())
    for number in range(4):
        logs.create(tp(number), "id", logs.default_config)
    assert [len(log_dir.logs) for log_dir in logs.dirs] == [2, 2]
    for number in (0, 2):
        await logs.delete(tp(number))
    assert [len(log_dir.logs) for log_dir in logs.dirs] == [0, 2]
    for number in (10, 11, 12):
        logs.create(tp(number), "id", logs.default_config)
    assert [len(log_dir.logs) for log_dir in logs.dirs] == [3, 2]
    assert [log.topic_partition.partition for log in logs.all()] == [1, 3, 10, 11, 12]
    await logs.stop(clean=False)


async def test_creating_twice_gives_the_same_log_and_another_topic_none() -> None:
    logs = await started(MemoryFiles())
    log = logs.create(TP, "id", logs.default_config)
    other = topic_config(segment_bytes=2048)
    assert logs.create(TP, "id", other) is log
    assert log.config is other
    with pytest.raises(InconsistentTopicIdError):
        logs.create(TP, "another", logs.default_config)
    assert logs.get(TP) is log
    assert logs.get(tp(9)) is None
    await logs.stop(clean=False)


@pytest.mark.parametrize("clean", [True, False])
async def test_everything_that_counted_is_there_after_a_restart(clean: bool) -> None:
    files = MemoryFiles()
    logs = await started(files)
    assert not logs.was_clean
    for number in range(70):
        log = logs.create(tp(number), f"id-{number}", logs.default_config)
        log.append_as_leader(batch(b"%d" % number), number)
    await asyncio.gather(*[append(log, b"second", 100) for log in logs.all()])
    logs.set_high_watermark_source(lambda: {tp(number): 1 for number in range(70)})
    await logs.stop(clean=clean, broker_epoch=55)
    files = files.reborn("none")
    logs = await started(files)
    assert logs.was_clean is clean
    assert logs.previous_broker_epoch == (55 if clean else -1)
    assert len(logs.all()) == 70
    for number, log in enumerate(logs.all()):
        assert log.topic_partition == tp(number)
        assert log.topic_id == f"id-{number}"
        assert values_in(log) == [b"%d" % number, b"second"]
        assert log.epochs.entries() == ([(number, 0), (100, 1)])
        assert log.synced_offset == 2
        assert not log.needs_refetch
    if clean:
        assert logs.high_watermark_checkpoint() == {tp(number): 1 for number in range(70)}
    await logs.stop(clean=False)


async def test_a_deleted_log_is_gone_and_its_name_is_free() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "one", logs.default_config)
    log.append_as_leader(batch(b"old"), 0)
    await logs.delete(TP)
    await logs.delete(TP)
    assert logs.get(TP) is None
    assert not files.exists(log.directory)
    log = logs.create(TP, "two", logs.default_config)
    await append(log, b"new")
    files = files.reborn("none")
    logs = await started(files)
    only = logs.all()
    assert [values_in(each) for each in only] == [[b"new"]]
    assert only[0].topic_id == "two"
    await logs.stop(clean=False)


async def test_a_deletion_that_a_crash_interrupted_is_finished() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "one", logs.default_config)
    await append(log, b"x")
    files.fail("remove", log.log_dir.path)
    with pytest.raises(StorageError):
        await logs.delete(TP)
    files.heal()
    path = log.log_dir.path
    assert any(name.endswith("-delete") for name in files.list_dir(path))
    await logs.stop(clean=False)
    files = files.reborn("all")
    logs = await started(files)
    assert logs.all() == []
    assert not any(name.endswith("-delete") for name in files.list_dir(path))
    await logs.stop(clean=False)


async def test_long_names_can_be_deleted() -> None:
    files = MemoryFiles()
    logs = await started(files)
    long = TopicPartition("x" * 249, 0)
    await append(logs.create(long, "id", logs.default_config), b"x")
    seen: list[str] = []
    files.before_change = lambda operation, path: seen.append(path.rpartition("/")[2])
    await logs.delete(long)
    assert max(map(len, seen)) <= 255
    assert any(name.endswith("-delete") for name in seen)
    await logs.stop(clean=False)


async def test_a_failing_directory_takes_only_its_own_logs_along() -> None:
    files = MemoryFiles()
    offline: list[LogDir] = []
    logs = await started(files, offline=offline)
    first = logs.create(tp(0), "id", logs.default_config)
    second = logs.create(tp(1), "id", logs.default_config)
    files.fail("sync", first.log_dir.path)
    first.append_as_leader(batch(), 0)
    await append(second, b"x")
    await eventually(lambda: offline == [first.log_dir])
    with pytest.raises(StorageError):
        first.append_as_leader(batch(), 0)
    assert first.synced_offset == 0
    assert logs.create(tp(2), "id", logs.default_config).log_dir is second.log_dir
    assert logs.get(tp(0)) is first
    await logs.stop(clean=True, broker_epoch=3)
    files.heal()
    logs = await started(files.reborn("none"))
    assert [log_dir.was_clean for log_dir in logs.dirs] == [False, True]
    assert not logs.was_clean
    survivor = logs.get(tp(1))
    assert survivor is not None
    assert values_in(survivor) == [b"x"]
    await logs.stop(clean=False)


async def test_a_disk_that_is_broken_at_the_start() -> None:
    files = MemoryFiles()
    logs = await started(files)
    logs.create(tp(0), "id", logs.default_config)
    await logs.stop(clean=True, broker_epoch=1)
    files.fail("read", "/disk1", times=None)
    logs = await started(files)
    assert [log_dir.online for log_dir in logs.dirs] == [False, True]
    await logs.stop(clean=False)
    files.fail("read", "/disk2", times=None)
    with pytest.raises(LogDirError, match="no log directory works"):
        await started(files)


@pytest.mark.parametrize("dirs", [(), ("/a", "/a"), ("/a", "/a/")])
async def test_directories_must_be_named_once(dirs: tuple[str, ...]) -> None:
    files = MemoryFiles()
    with pytest.raises(LogDirError):
        await started(files, dirs=dirs)
    assert files.list_dir("/") == []


async def test_a_directory_of_another_broker_stops_the_start_and_frees_the_others() -> None:
    files = MemoryFiles()
    await (await started(files, dirs=("/disk1",))).stop()
    other = LogManager(
        files=files,
        clock=ManualClock(),
        entropy=SeededEntropy(1),
        config=log_settings(log_dirs=("/disk2", "/disk1")),
        broker_id=2,
    )
    with pytest.raises(LogDirError, match="another broker"):
        await other.start("cluster")
    await (await started(files, dirs=("/disk1",))).stop()


async def test_a_partition_in_two_directories_stops_the_start() -> None:
    files = MemoryFiles()
    for path in DIRS:
        logs = await started(files, dirs=(path,))
        await append(logs.create(TP, "id", logs.default_config), b"x")
        await logs.stop(broker_epoch=1)
    with pytest.raises(LogDirError, match="move one of the two"):
        await started(files)


async def test_left_overs_of_a_creation_are_no_log() -> None:
    files = MemoryFiles()
    logs = await started(files)
    await logs.stop(broker_epoch=1)
    files.make_dirs("/disk1/t-5")
    files.make_dirs("/disk1/not a partition")
    logs = await started(files)
    assert logs.all() == []
    assert not files.exists("/disk1/t-5")
    assert files.exists("/disk1/not a partition")
    logs.create(tp(5), "id", logs.default_config)
    await logs.stop()


async def test_a_creation_that_fails_takes_the_directory_offline() -> None:
    files = MemoryFiles()
    logs = await started(files)
    files.fail("make_dirs", "/disk1")
    with pytest.raises(StorageError):
        logs.create(TP, "id", logs.default_config)
    assert logs.get(TP) is None
    files.fail("append", "/disk2")
    with pytest.raises(StorageError):
        logs.create(TP, "id", logs.default_config)
    with pytest.raises(StorageError, match="no log directory is online"):
        logs.create(TP, "id", logs.default_config)
    assert logs.all() == []
    await logs.stop(clean=False)


async def test_what_creations_left_on_full_disks_does_not_stop_the_next_start() -> None:
    """The topic was made again between the two, so each directory has what is no log."""
    files = MemoryFiles()
    logs = await started(files)
    for path, topic_id in zip(DIRS, ("id", "made again"), strict=True):
        files.fail("append", f"{path}/{TP}/{checkpoint.PARTITION_META}")
        with pytest.raises(StorageError):
            logs.create(TP, topic_id, logs.default_config)
    await logs.stop(clean=False)
    assert [files.exists(f"{path}/{TP}") for path in DIRS] == [True, True]
    logs = await started(files)
    assert logs.all() == []
    assert logs.create(TP, "made again", logs.default_config).topic_id == "made again"
    await logs.stop(clean=False)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_directory_that_is_back_holds_a_log_whose_topic_was_made_again(
    restarted: bool,
) -> None:
    """The broker is not told so. It made the other log later, so the other topic is the newer."""
    files = MemoryFiles()
    logs = await started(files)
    logs.continuity.registered(10)
    log = logs.create(TP, "deleted", logs.default_config)
    await append(log, b"old")
    failed, other = log.log_dir, next(each for each in logs.dirs if each is not log.log_dir)
    files.fail("rename", f"{failed.path}/{TP}", times=None)
    with pytest.raises(StorageError):
        await logs.delete(TP)
    assert not failed.online
    if restarted:
        await logs.stop(broker_epoch=10)
        logs = await started(files, dirs=(other.path,))
        logs.continuity.registered(20)
    again = logs.create(TP, "made again", logs.default_config)
    assert again.directory == f"{other.path}/{TP}"
    await append(again, b"new")
    await logs.stop(clean=False)
    files.heal()
    logs = await started(files)
    found = logs.get(TP)
    assert found is not None
    assert (found.topic_id, values_in(found)) == ("made again", [b"new"])
    assert files.list_dir(failed.path).count(str(TP)) == 0
    await logs.stop(clean=False)


async def test_without_recovery_points_committed_records_count_as_synced() -> None:
    for damage in (b"", b"\0" * 50, None):
        files = MemoryFiles()
        logs = await started(files, dirs=("/disk1",))
        log = logs.create(TP, "id", logs.default_config)
        for _ in range(5):
            await append(log, b"value")
        logs.set_high_watermark_source(lambda: {TP: 3})
        await logs.stop(clean=True, broker_epoch=4)
        path = f"/disk1/{checkpoint.RECOVERY_POINT}"
        if damage is None:
            files.remove(path)
        else:
            files.write_atomic_now(path, damage)
        segment = log.segments.active.path
        files.open(segment).truncate(files.size(segment) - 5)
        logs = await started(files, dirs=("/disk1",))
        (log,) = logs.all()
        # Above the high watermark: a torn tail.
        assert (log.log_end_offset, log.needs_refetch) == (4, False)
        await logs.stop(clean=False)
        files.open(segment).truncate(files.size(segment) // 2)
        logs = await started(files, dirs=("/disk1",))
        assert logs.all()[0].needs_refetch
        await logs.stop(clean=False)


async def test_a_lost_topic_id_is_taken_from_the_order() -> None:
    files = MemoryFiles()
    logs = await started(files, dirs=("/disk1",))
    await append(logs.create(TP, "id", logs.default_config), b"x")
    await logs.stop(broker_epoch=1)
    files.corrupt(f"/disk1/{TP}/{checkpoint.PARTITION_META}", 5)
    logs = await started(files, dirs=("/disk1",))
    log = logs.create(TP, "id", logs.default_config)
    assert values_in(log) == [b"x"]
    await logs.stop(broker_epoch=2)
    logs = await started(files.reborn("none"), dirs=("/disk1",))
    assert logs.all()[0].topic_id == "id"
    await logs.stop()


async def test_retention_asks_for_the_high_watermark() -> None:
    files = MemoryFiles()
    clock = ManualClock(NOW_MS)
    logs = await started(files, clock=clock, topic_defaults={"retention_ms": "1000"})
    log = logs.create(TP, "id", logs.default_config)
    await append(log, b"x")
    clock.advance(10_000)
    assert await logs.apply_retention() == 0
    logs.set_high_watermark_source(lambda: {TP: 1})
    assert await logs.apply_retention() > 0
    assert log.log_start_offset == 1
    await logs.stop()


@pytest.mark.parametrize("days", [1, 10, -10])
async def test_retention_waits_while_the_clock_is_in_doubt(days: int) -> None:
    wall, day_ms = ManualClock(NOW_MS), 86_400_000
    clock = CheckedClock(wall, lambda: 0.0)
    clock.heard([NOW_MS, NOW_MS], 3)
    settings = {"retention_ms": str(day_ms // 2), "segment_bytes": "1024"}
    logs = await started(MemoryFiles(), clock=clock, topic_defaults=settings)
    log = logs.create(TP, "id", logs.default_config)
    logs.set_high_watermark_source(lambda: {TP: log.log_end_offset})
    await append(log, b"before")
    wall.advance(days * day_ms)
    for number in range(20):
        log.append_as_leader(batch(b"%100d" % number, timestamps=NOW_MS), 0)
    await append(log, b"meanwhile")
    assert await logs.apply_retention() == 0
    wall.advance(-days * day_ms)
    clock.heard([NOW_MS, NOW_MS], 3)
    assert await logs.apply_retention() == 0, "what was written meanwhile is as old as it is"
    wall.advance(day_ms)
    clock.heard([NOW_MS + day_ms, NOW_MS + day_ms], 3)
    assert await logs.apply_retention() > 0
    assert log.log_start_offset == log.log_end_offset
    await logs.stop()


async def test_the_retention_loop_runs() -> None:
    files = MemoryFiles()
    clock = ManualClock(NOW_MS)
    logs = await started(files, clock=clock, retention_check_interval_ms=1)
    log = logs.create(TP, "id", topic_config(retention_ms=0))
    logs.set_high_watermark_source(lambda: {TP: log.log_end_offset})
    await append(log, b"x")
    clock.advance(10)
    await eventually(lambda: log.log_start_offset == 1)
    await logs.stop()


async def test_the_flush_setting_of_the_broker_is_a_default() -> None:
    logs = await started(MemoryFiles(), flush="interval")
    assert logs.default_config.flush == "interval"
    log = logs.create(TP, "id", logs.default_config)
    log.append_as_leader(batch(), 0)
    assert log.synced_offset == 1
    await logs.stop(broker_epoch=1)
    assert log.recovery_point == 1


async def test_a_shutdown_error_of_one_directory_does_not_skip_the_other() -> None:
    # KAFKA-13315
    files = MemoryFiles()
    logs = await started(files)
    for number in (0, 1):
        await append(logs.create(tp(number), "id", logs.default_config), b"x")
        logs.create(tp(number), "id", logs.default_config).append_as_leader(batch(b"y"), 0)
    files.fail("append", f"/disk1/{checkpoint.RECOVERY_POINT}", error=errno.EIO)
    await logs.stop(broker_epoch=9)
    logs = await started(files.reborn("none"))
    assert [log_dir.was_clean for log_dir in logs.dirs] == [False, True]
    assert [values_in(log) for log in logs.all()] == [[b"x", b"y"]] * 2
    await logs.stop()


async def test_over_real_files(tmp_path: object) -> None:
    dirs = (f"{tmp_path}/a", f"{tmp_path}/b")
    for round_number in range(3):
        logs = await started(SystemFiles(), dirs=dirs)
        assert logs.was_clean is (round_number == 2)
        for number in range(10):
            log = logs.create(tp(number), "id", logs.default_config)
            assert len(values_in(log)) == round_number
            await append(log, b"%d" % round_number)
        await logs.stop(clean=round_number == 1, broker_epoch=round_number)


class SlowWrites(MemoryFiles):
    """Files are put in place in a thread, which goes on when who waits for it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()
        self.being_written: list[str] = []
        self.written_at_once: list[str] = []
        """Paths that two writers wrote at the same time."""

    def rename(self, source: str, target: str) -> None:
        if threading.current_thread() is threading.main_thread():
            return super().rename(source, target)
        if target in self.being_written:
            self.written_at_once.append(target)
        self.being_written.append(target)
        self.go_on.wait(30)
        super().rename(source, target)
        self.being_written.remove(target)


@pytest.mark.parametrize("clean", [True, False])
async def test_stopping_waits_for_the_checkpoint_that_is_being_written(clean: bool) -> None:
    files = SlowWrites()
    logs = await started(files, dirs=("/disk1",), checkpoint_interval_ms=1)
    log = logs.create(TP, "id", logs.default_config)
    await append(log, b"a")
    files.go_on.clear()
    logs.dirs[0].checkpoint_due()
    await eventually(lambda: files.being_written)
    stopping = asyncio.get_running_loop().create_task(logs.stop(clean=clean, broker_epoch=1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stopping.done()
    files.go_on.set()
    await stopping
    assert files.written_at_once == []
    assert files.being_written == [], "nothing writes on after the lock was given back"


async def test_how_far_logs_are_compacted_outlives_a_restart() -> None:
    files = MemoryFiles(*DIRS)
    logs = await started(files, dirs=DIRS[:1])
    log = logs.create(TP, "id", topic_config())
    for _ in range(4):
        await append(log, b"v")
    log.clean.passed(3, 1000, 0)
    log.log_dir.checkpoint_due()
    assert await log.log_dir.write_checkpoints()
    await logs.stop(clean=False)
    for lost, expected in ((b"", [(3, 1000)]), (b"x", [])):
        image = files.image("all")
        if lost:
            image.open(f"/disk1/{checkpoint.CLEANER}").append([lost])
        again = await started(image, dirs=DIRS[:1])
        assert again.all()[0].clean.rows(4) == expected
        assert again.all()[0].clean.relied_on == (3 if expected else 0)
        await again.stop(clean=False)


async def test_a_log_that_began_anew_is_not_taken_for_compacted() -> None:
    """The mark of the cut holds for the checkpoint of the cleaner too."""
    files = MemoryFiles(*DIRS)
    logs = await started(files, dirs=DIRS[:1], checkpoint_interval_ms=3_600_000)
    log = logs.create(TP, "id", topic_config())
    for _ in range(4):
        await append(log, b"v")
    log.clean.passed(3, 1000, 0)
    assert await log.log_dir.write_checkpoints()
    log.truncate_fully_and_start_at(0)
    for _ in range(4):
        await append(log, b"v")
    await logs.stop(clean=False)
    again = await started(files.image("all"), dirs=DIRS[:1])
    log = again.all()[0]
    assert log.log_end_offset == 4
    assert log.clean.rows(4) == []
    await again.delete(TP)
    log = again.create(TP, "other", topic_config())
    assert log.clean.upto == 0
    await again.stop(clean=False)


@pytest.mark.parametrize("clean", [True, False])
async def test_producers_are_known_over_a_restart(clean: bool) -> None:
    files = MemoryFiles(*DIRS)
    logs = await started(files)
    log = logs.create(tp(0), "id", logs.default_config)
    sent = batch(b"x", producer=(7, 0, 0))
    log.append_as_leader(sent, 0)
    await eventually(lambda: log.synced_offset == 1)
    await logs.stop(clean=clean)
    logs = await started(files)
    again = logs.get(tp(0))
    assert again is not None
    assert again.append_as_leader(batch(b"x", producer=(7, 0, 0)), 0).repeated
    await logs.stop()


async def test_the_retention_loop_forgets_producers() -> None:
    clock = ManualClock(NOW_MS)
    logs = await started(MemoryFiles(*DIRS), clock=clock, producer_id_expiration_ms=1000)
    log = logs.create(tp(0), "id", logs.default_config)
    log.append_as_leader(batch(b"x", producer=(7, 0, 0)), 0)
    await logs.apply_retention()
    assert log.producers.state.producers
    clock.advance(1001)
    await logs.apply_retention()
    assert not log.producers.state.producers
    await logs.stop()


async def test_a_deleted_log_leaves_no_snapshot() -> None:
    files = MemoryFiles(*DIRS)
    logs = await started(files)
    log = logs.create(tp(0), "id", logs.default_config)
    log.append_as_leader(batch(b"x", producer=(7, 0, 0)), 0)
    await logs.delete(tp(0))
    assert not [path for path in files.contents() if path.endswith(".snapshot")]
    await logs.stop()
