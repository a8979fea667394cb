"""The cleaner changes what a reader gets, goes so far, and is stopped by some things."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from oncelog_broker.log.cleaner import Cleaner, CleaningWork, find_work, runs
from oncelog_broker.log.compaction import is_hole
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.packing import pack
from oncelog_protocol.records.batch import assemble, parse_header
from oncelog_protocol.records.compression import Codec
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.crashes import KILL
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.compaction import (
    COMPACTED,
    append,
    clean,
    headers_in,
    make_cleaner,
    newest_in,
    records_in,
)
from support.crash_points import run_inline
from support.logs import NOW_MS, TP, batch, make_log, make_log_dir, reload_log, sync, topic_config
from support.room_settings import cleaner_settings, log_settings
from support.waiting import eventually

T = TypeVar("T")

DAY_MS = 86_400_000


def fill(log: PartitionLog, seed: int, batches: int = 60, keys: int = 12) -> None:
    """Append batches of one to eight records of few keys or tombstones, in rising epochs."""
    draw = random.Random(seed)
    epoch = max(0, log.latest_epoch())
    for _ in range(batches):
        epoch += draw.random() < 0.1
        append(
            log,
            *[
                (
                    b"k%d" % draw.randrange(keys),
                    None if draw.random() < 0.1 else b"%d" % draw.randrange(1000) * 8,
                )
                for _ in range(draw.randint(1, 8))
            ],
            epoch=epoch,
            codec=draw.choice([Codec.NONE, Codec.GZIP]),
            timestamps=NOW_MS + draw.randrange(1000),
        )


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_from_the_start_gets_the_same_newest_values(seed: int) -> None:
    files = MemoryFiles("/data")
    log = make_log(files, COMPACTED)
    for round_number in range(3):
        fill(log, seed * 3 + round_number)
        before, end, epochs = records_in(log), log.log_end_offset, log.epochs.entries()
        size = log.size_bytes
        assert clean(log) >= 1
        after = records_in(log)
        assert newest_in(after) == newest_in(before)
        assert set(after) <= set(before), "a record has changed, or moved"
        assert (log.log_start_offset, log.log_end_offset) == (0, end)
        assert log.epochs.entries() == epochs
        assert log.size_bytes < size
        assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)
        below = [r for r in after if r.offset < log.segments.active.base_offset]
        assert len({r.key for r in below}) == len(below), "a key is there twice"
        headers_in(log)  # offsets are unbroken
        for stamp in range(NOW_MS - 1, NOW_MS + 1010, 50):
            found = next(
                ((r.timestamp, r.offset, r.epoch) for r in after if r.timestamp >= stamp), None
            )
            assert log.offset_for_timestamp(stamp) == found
        for offset in range(0, end, 7):
            assert [r.offset for r in records_in(log, offset)] == [
                r.offset for r in after if r.offset >= offset
            ]
    sync(log)
    again = reload_log(files, COMPACTED, recovery_point=log.recovery_point)
    assert not again.damage
    assert records_in(again) == records_in(log)
    assert again.epochs.entries() == log.epochs.entries()


def test_epochs_read_from_the_batches_are_those_of_the_history() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for epoch in range(20):
        for _ in range(10):
            append(log, (b"k", b"%d" % epoch * 20), epoch=epoch)
    entries = log.epochs.entries()
    clean(log)
    derived: list[tuple[int, int]] = []
    for header in headers_in(log):
        if not derived or derived[-1][0] != header.leader_epoch:
            derived.append((header.leader_epoch, header.base_offset))
    assert derived == entries


def test_holes_take_little_room() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for number in range(1000):
        append(log, (b"hot", b"%d" % number))
    for _ in range(3):  # small segments become one only a pass later
        append(log, (b"hot", b"again"))
        log.roll()
        clean(log)
    holes = [header for header in headers_in(log) if is_hole(header)]
    assert len(holes) <= 2
    assert len(log.segments) <= 3


def test_not_the_active_segment_and_nothing_above_the_high_watermark() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for _ in range(100):
        append(log, (b"k", b"v" * 50))
    active = log.segments.active.base_offset
    upto = log.segments[3].next_offset
    assert clean(log, make_cleaner(log, high_watermark=upto + 1)) == 1
    assert [record.offset for record in records_in(log)] == list(range(upto - 1, 100))
    clean(log)
    assert [r.offset for r in records_in(log)] == [active - 1, *range(active, 100)]


def test_nothing_above_the_recovery_point() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for _ in range(50):
        append(log, (b"k", b"v" * 50))
    assert log.recovery_point == 0
    assert find_work(log, log.log_end_offset, NOW_MS) is None


def test_a_tombstone_stays_for_its_time_once_it_is_clean() -> None:
    files, clock = MemoryFiles("/data"), ManualClock(NOW_MS)
    log_dir = make_log_dir(files, clock=clock)
    log = make_log(files, COMPACTED, log_dir=log_dir)
    append(log, (b"gone", b"1"))
    append(log, (b"gone", None), (b"there", b"1"))
    log.roll()
    clock.advance(10 * DAY_MS)
    assert clean(log) == 1
    assert [(r.offset, r.value) for r in records_in(log)] == [(1, None), (2, b"1")]
    clock.advance(DAY_MS - 1)
    assert clean(log) == 0
    clock.advance(1)
    assert clean(log) == 1
    assert [(r.offset, r.value) for r in records_in(log)] == [(2, b"1")]
    assert clean(log) == 0


def test_a_map_that_is_full_leaves_the_rest_to_the_next_pass() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for _ in range(2):
        for number in range(100):
            append(log, (b"k%d" % number, b"v" * 20))
    append(log, (b"end", b"v"))
    log.roll()
    before = newest_in(records_in(log))
    passes = clean(log, make_cleaner(log, dedupe_buffer_bytes=5000))
    assert passes > 5
    assert newest_in(records_in(log)) == before
    assert len(records_in(log)) == 101


def test_the_ratio_says_when() -> None:
    config = topic_config(cleanup_policy="compact", segment_bytes=2048)
    log = make_log(MemoryFiles("/data"), config)
    for number in range(200):
        append(log, (b"k%d" % number, b"v" * 50))
    assert clean(log, config=config) == 1
    assert clean(log, config=config) == 0
    for _ in range(30):
        append(log, (b"k1", b"v" * 50))
    assert clean(log, config=config) == 0
    for _ in range(220):
        append(log, (b"k1", b"v" * 50))
    assert clean(log, config=config) == 1


def test_no_record_waits_longer_than_the_largest_lag() -> None:
    clock = ManualClock(NOW_MS)
    config = topic_config(cleanup_policy="compact", max_compaction_lag_ms=1000)
    files = MemoryFiles("/data")
    log = make_log(files, config, log_dir=make_log_dir(files, clock=clock))
    append(log, (b"k", b"1"))
    append(log, (b"k", b"2"))
    assert clean(log, config=config) == 0
    clock.advance(1001)
    assert clean(log, config=config) == 1
    assert [record.value for record in records_in(log)] == [b"2"]
    assert clean(log, config=config) == 0


def test_no_record_is_compacted_before_the_smallest_lag() -> None:
    clock = ManualClock(NOW_MS)
    config = topic_config(
        cleanup_policy="compact", min_compaction_lag_ms=1000, min_cleanable_dirty_ratio=0
    )
    files = MemoryFiles("/data")
    log = make_log(files, config, log_dir=make_log_dir(files, clock=clock))
    append(log, (b"k", b"1"))
    log.roll()
    clock.advance(600)
    append(log, (b"k", b"2"), timestamps=clock.now_ms())
    log.roll()
    clock.advance(600)
    append(log, (b"k", b"3"), timestamps=clock.now_ms())
    log.roll()
    assert clean(log, config=config) == 1
    assert [record.value for record in records_in(log)] == [b"1", b"2", b"3"]
    clock.advance(1000)
    assert clean(log, config=config) == 1
    assert [record.value for record in records_in(log)] == [b"3"]


def test_retention_of_a_topic_with_both_policies() -> None:
    files, clock = MemoryFiles("/data"), ManualClock(NOW_MS)
    config = topic_config(
        cleanup_policy="compact,delete",
        segment_bytes=2048,
        min_cleanable_dirty_ratio=0,
        retention_ms=DAY_MS,
        file_delete_delay_ms=0,
    )
    log = make_log(files, config, log_dir=make_log_dir(files, clock=clock))
    fill(log, 1)
    clean(log, config=config)
    assert log.log_start_offset == 0
    clock.advance(DAY_MS // 2)
    append(log, (b"k", b"new"), timestamps=clock.now_ms(), epoch=log.latest_epoch())
    log.roll()
    append(log, (b"k", b"new"), timestamps=clock.now_ms(), epoch=log.latest_epoch())
    clock.advance(DAY_MS // 2 + 2000)
    old = log.segments[-2].base_offset
    assert log.apply_retention(clock.now_ms(), log.log_end_offset) > 0
    assert log.log_start_offset == old


def test_a_damaged_batch_is_told_and_nothing_of_it_copied() -> None:
    files = MemoryFiles("/data")
    log = make_log(files, COMPACTED)
    for number in range(100):
        append(log, (b"k%d" % (number % 5), b"v" * 50))
    sync(log)
    path = log.segments[1].path
    position = log.segments[1].header_at(log.segments[1].base_offset + 2)[0]
    files.corrupt(path, position + 70)
    sizes = [segment.size_bytes for segment in log.segments]
    damage: list[str] = []
    assert clean(log, make_cleaner(log, damage=damage)) == 0
    assert len(damage) == 1
    assert path in damage[0]
    assert [segment.size_bytes for segment in log.segments] == sizes
    assert not [name for name in files.list_dir(log.directory) if "cleaned" in name]


def test_a_log_that_cannot_be_decoded_is_left_as_it_is() -> None:
    plain = topic_config(segment_bytes=2048)
    log = make_log(MemoryFiles("/data"), plain)
    append(log, (b"k", b"1"))
    log.append_as_leader(undecodable(), 0)
    append(log, (b"k", b"2"))
    log.roll()
    damage: list[str] = []
    cleaner = make_cleaner(log, damage=damage)
    assert clean(log, cleaner) == 0
    assert not damage
    assert log.log_end_offset == 3
    assert len(headers_in(log)) == 3


def undecodable() -> memoryview:
    """Return a batch whose checksum holds and whose columns do not fit each other."""
    header = parse_header(batch(b"v", keys=[b"k"]))
    return memoryview(assemble(header, pack([[b"v"], [b"k", b"too many"], None, None, None])))


def test_runs_fit_into_a_segment() -> None:
    log = make_log(MemoryFiles("/data"), COMPACTED)
    for _ in range(100):
        append(log, (b"k", b"v" * 50))
    segments = list(log.segments)[:-1]
    assert [len(run) for run in runs(segments, 1000, 2048)] == [1] * len(segments)
    two = segments[0].size_bytes + segments[1].size_bytes
    assert [len(run) for run in runs(segments[:4], 1000, two)] == [2, 2]
    assert runs(segments, segments[1].base_offset, 2048) == [[segments[0]]]


# ---- what happens meanwhile


class Interrupted(Cleaner):
    """It does something behind its n-th trip to the executor."""

    at = 0
    then: Callable[[], None] = staticmethod(lambda: None)
    trips = 0

    async def _in_thread(self, log: PartitionLog, job: Callable[..., T], *arguments: object) -> T:
        result = await super()._in_thread(log, job, *arguments)
        self.trips += 1
        if self.trips == self.at:
            self.then()
        return result


def interrupted(log: PartitionLog, at: int, then: Callable[[], None]) -> Interrupted:
    made = make_cleaner(log)
    made.__class__ = Interrupted
    assert isinstance(made, Interrupted)
    made.at, made.then = at, then
    return made


MERGING = topic_config(
    cleanup_policy="compact",
    segment_bytes=4096,
    min_cleanable_dirty_ratio=0,
    file_delete_delay_ms=0,
)


def several_runs(files: MemoryFiles) -> PartitionLog:
    """Return eight segments, which become two."""
    log = make_log(files, MERGING)
    for number in range(64):
        append(log, (b"k%d" % (number % 5), b"%03d" % number * 15), epoch=number // 20)
        if number % 8 == 7:
            log.roll()
    append(log, (b"k0", b"last"), epoch=3)
    sync(log)
    return log


def cut_short(log: PartitionLog) -> None:
    log.truncate_to(60)
    sync(log)


def cut_whole(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(20)
    sync(log)


def drop_oldest(log: PartitionLog) -> None:
    log.advance_log_start(20)
    log.apply_retention(NOW_MS, log.log_end_offset)
    sync(log)


def grow(log: PartitionLog) -> None:
    append(log, (b"k1", b"while it was compacted"), epoch=3)
    log.roll()
    sync(log)


def detach(log: PartitionLog) -> None:
    log.log_dir.detach(log)


def stop_compacting(log: PartitionLog) -> None:
    log.reconfigure(topic_config())


def fall_ill(log: PartitionLog) -> None:
    log.damage = "found by somebody else"


CHANGES = [cut_short, cut_whole, drop_oldest, grow, detach, stop_compacting, fall_ill]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_whatever_happens_to_the_log_meanwhile(change: Callable[[PartitionLog], None]) -> None:
    at = 0
    while True:
        at += 1
        files = MemoryFiles("/data")
        log = several_runs(files)
        before = records_in(log)
        damage: list[str] = []
        cleaner = interrupted(log, at, lambda log=log: change(log))  # type: ignore[misc]
        work = find_work(log, log.log_end_offset, NOW_MS)
        assert work is not None

        async def go(cleaner: Cleaner = cleaner, work: CleaningWork = work) -> None:
            await cleaner.clean(work)

        run_inline(go())
        assert log.log_dir.online
        assert not damage
        if cleaner.trips < at:
            break
        if change is fall_ill:
            log.damage = ""
        start, end = log.log_start_offset, log.log_end_offset
        expected = [r for r in before if start <= r.offset < end]
        if change is grow:
            expected += records_in(log, 65)
        if change is cut_short and end == 0:
            expected = []  # it was compacted further than it was cut
        after = records_in(log)
        assert newest_in(after) == newest_in(expected)
        assert set(after) <= set(expected)
        assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)
        names = files.list_dir(log.directory)
        assert not [name for name in names if "cleaned" in name], at
        logs = [name for name in names if name.endswith(".log")]
        assert len(logs) == len(log.segments), at
        if change is not detach:
            again = reload_log(
                files,
                MERGING,
                recovery_point=log.recovery_point,
                log_start_offset=log.log_start_offset,
            )
            assert not again.damage
            assert records_in(again) == after
    assert at > 5


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", ["open", "append", "sync", "rename", "sync_dir"])
def test_a_disk_that_fails(operation: str, error: int) -> None:
    """It is done later when no room is left. Others stop the directory; no record is lost."""
    for at in range(1, 4):
        files = MemoryFiles("/data")
        log = several_runs(files)
        before = records_in(log)
        files.fail(operation, error=error, times=at)  # type: ignore[arg-type]
        damage: list[str] = []
        clean(log, make_cleaner(log, damage=damage), MERGING)
        files.heal()
        assert not damage
        assert log.log_dir.online or error == errno.EIO or operation == "sync_dir"
        image = files.image(KILL)
        again = reload_log(image, MERGING, recovery_point=log.recovery_point)
        assert not again.damage
        assert newest_in(records_in(again)) == newest_in(before)
        if log.log_dir.online:
            clean(log, config=MERGING)
            assert newest_in(records_in(log)) == newest_in(before)


def test_no_room_for_a_copy() -> None:
    files = MemoryFiles("/data")
    log = several_runs(files)
    files.set_free_bytes(1000)
    assert clean(log, config=MERGING) == 0
    assert log.log_dir.online
    files.set_free_bytes(1 << 30)
    assert clean(log, config=MERGING) == 1


def test_cancelled_it_leaves_nothing_behind() -> None:
    at = 0
    while True:
        at += 1
        files = MemoryFiles("/data")
        log = several_runs(files)
        before = records_in(log)

        async def go(log: PartitionLog = log, at: int = at) -> bool:
            def cancel() -> None:
                task.cancel()

            cleaner = interrupted(log, at, cancel)
            task = asyncio.create_task(cleaner.clean_dirtiest())
            await asyncio.gather(task, return_exceptions=True)
            return task.cancelled()

        if not run_inline(go()):
            break
        assert newest_in(records_in(log)) == newest_in(before)
        assert not [name for name in files.list_dir(log.directory) if "cleaned" in name]
        log.close()
        again = reload_log(files, MERGING, recovery_point=65, clean=True)
        assert not again.damage
        assert records_in(again) == records_in(log)
    assert at > 5


def test_the_dirtiest_log_goes_first() -> None:
    files = MemoryFiles("/data")
    log_dir = make_log_dir(files)
    logs = [
        make_log(files, COMPACTED, log_dir=log_dir, topic_partition=TopicPartition(name, 0))
        for name in ("a", "b", "c")
    ]
    cleaners = make_cleaner(logs[0])
    cleaners._logs = lambda: logs
    cleaners._high_watermarks = lambda: {log.topic_partition: log.log_end_offset for log in logs}
    for log in logs[:2]:
        for _ in range(50):
            append(log, (b"k", b"v" * 50))
        sync(log)
        clean(log)
    for _ in range(20):
        append(logs[0], (b"k", b"v" * 50))
    for _ in range(90):
        append(logs[1], (b"k", b"v" * 50))
    for log in logs:
        sync(log)

    async def go() -> list[int]:
        assert await cleaners.clean_dirtiest()
        first = [log.swap.count for log in logs]
        assert await cleaners.clean_dirtiest()
        return first

    before = [log.swap.count for log in logs]
    first = run_inline(go())
    assert first[0] == before[0]
    assert first[1] > before[1]
    assert logs[0].swap.count > before[0]


async def test_it_runs_beside_everything_else() -> None:
    files = MemoryFiles("/data")
    manager = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(1),
        config=log_settings(
            log_dirs=("/data",), headroom_bytes=0, cleaner=cleaner_settings(backoff_ms=1)
        ),
        broker_id=1,
    )
    manager.set_high_watermark_source(
        lambda: {log.topic_partition: log.synced_offset for log in manager.all()}
    )
    await manager.start("cluster")
    log = manager.create(TP, "id", MERGING)
    expected: dict[bytes, bytes] = {}

    def write(number: int) -> None:
        key, value = b"k%d" % (number % 7), b"%d" % number * 20
        append(log, (key, value))
        expected[key] = value

    for number in range(300):
        write(number)
        if number % 10 == 0:
            await asyncio.sleep(0.001)
            found = newest_in(records_in(log))
            assert {key: record.value for key, record in found.items()} == expected
    while (passes := manager.cleaner.passes) <= 2:  # its pace is its own: it may be behind us
        for number in range(300, 400):
            write(number)
        await eventually(
            lambda passes=passes: manager.cleaner.passes > passes,  # type: ignore[misc]
            timeout_s=30,
            what="a pass",
        )
    await eventually(lambda: len(records_in(log)) < 150, timeout_s=30, what="a compacted log")
    upto = log.clean.upto
    assert upto > 0
    await manager.stop(clean=True)
    again = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(1),
        config=log_settings(log_dirs=("/data",), headroom_bytes=0),
        broker_id=1,
    )
    await again.start("cluster")
    log = again.all()[0]
    found = newest_in(records_in(log))
    assert {key: record.value for key, record in found.items()} == expected
    assert log.clean.upto >= upto
    await again.stop(clean=True)
