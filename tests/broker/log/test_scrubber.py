"""The scrubber finds every kind of rot in what is synced, and nothing else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from oncelog_broker.log.cleaner import find_work
from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES
from oncelog_broker.log.scrubber import Scrubber, ScrubJob, Stretch, check
from oncelog_protocol.records.batch import CRC_OFFSET, EPOCH_OFFSET, iter_headers
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.compaction import append, make_cleaner
from support.logs import DATA, NOW_MS, TP, batch, make_log, make_log_dir, sync, topic_config
from support.room_settings import log_settings
from support.waiting import eventually

SMALL = topic_config(segment_bytes=1024)


def fill(log: PartitionLog, count: int, epoch: int = 0, size: int = 100) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"." * size), epoch)


def finder(log_dir: LogDir) -> Callable[[TopicPartition], PartitionLog | None]:
    def find(topic_partition: TopicPartition) -> PartitionLog | None:
        log = log_dir.logs.get(topic_partition)
        return log if isinstance(log, PartitionLog) else None

    return find


def scrubber(log_dir: LogDir, found: list[str], *, interval_ms: int = 1) -> Scrubber:
    return Scrubber(
        log_dir,
        find=finder(log_dir),
        interval_ms=interval_ms,
        bytes_per_second=1 << 40,
        entropy=SeededEntropy(1),
        on_damage=lambda log, text: found.append(f"{log.topic_partition}: {text}"),
    )


def segmented(files: MemoryFiles, count: int = 40) -> PartitionLog:
    """Make several segments, all synced, with two epochs."""
    log = make_log(files, SMALL)
    fill(log, count // 2)
    fill(log, count - count // 2, epoch=3)
    sync(log)
    assert len(log.segments) > 3
    return log


async def test_sound_logs_are_read_whole_and_nothing_is_found() -> None:
    log = segmented(MemoryFiles())
    found: list[str] = []
    scrub = scrubber(log.log_dir, found)
    await scrub.scrub()
    assert (found, scrub.read_bytes, scrub.passes) == ([], log.size_bytes, 1)


async def test_every_byte_under_the_checksum_is_looked_at() -> None:
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, 3, size=5)
    sync(log)
    path = log.segments.active.path
    starts = [position for position, _ in iter_headers(files.read_bytes(path))]
    for position in range(starts[1] + CRC_OFFSET, starts[2]):
        found: list[str] = []
        files.corrupt(path, position, 1)
        await scrubber(log.log_dir, found).scrub()
        files.corrupt(path, position, 1)
        assert len(found) == 1, position
        assert f"byte {starts[1]}, offset 1:" in found[0]


async def test_offsets_and_epochs_are_compared_although_no_checksum_covers_them() -> None:
    files = MemoryFiles()
    log = segmented(files)
    path = log.segments[0].path
    for place, text in ((7, "where 0 was to come"), (EPOCH_OFFSET + 3, "its history says 0")):
        found: list[str] = []
        files.corrupt(path, place, 1)
        await scrubber(log.log_dir, found).scrub()
        files.corrupt(path, place, 1)
        assert len(found) == 1
        assert text in found[0]


async def test_a_segment_that_is_short_or_not_there_is_damage() -> None:
    for gone in (False, True):
        files = MemoryFiles()
        log = segmented(files)
        path = log.segments[1].path
        if gone:
            files.remove(path)
        else:
            files.open(path).truncate(files.size(path) - 1)
        found: list[str] = []
        await scrubber(log.log_dir, found).scrub()
        assert len(found) == 1
        assert path in found[0]


async def test_what_is_not_synced_yet_is_not_judged() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 2)
    sync(log)
    fill(log, 2)
    path = log.segments.active.path
    files.corrupt(path, files.size(path) - 1, 1)
    found: list[str] = []
    await scrubber(log.log_dir, found).scrub()
    assert found == []
    sync(log)
    await scrubber(log.log_dir, found).scrub()
    assert len(found) == 1


async def test_one_damaged_log_does_not_keep_the_others_from_being_read() -> None:
    files = MemoryFiles()
    log_dir = make_log_dir(files)
    logs = []
    for number in range(3):
        logs.append(make_log(files, log_dir=log_dir, topic_partition=TopicPartition("t", number)))
        fill(logs[-1], 5)
        sync(logs[-1])
    for number in (0, 2):
        files.corrupt(logs[number].segments.active.path, 100, 1)
    found: list[str] = []
    scrub = scrubber(log_dir, found)
    await scrub.scrub(begin_at=0.5)
    assert [text[:3] for text in found] == ["t-2", "t-0"], "it began in the middle"
    logs[0].damage = "known"
    await scrub.scrub()
    assert [text[:3] for text in found] == ["t-2", "t-0", "t-2"]


async def test_a_log_larger_than_a_chunk_takes_several_jobs() -> None:
    log = make_log(MemoryFiles())
    fill(log, 5, size=SCAN_CHUNK_BYTES // 2)
    sync(log)
    found: list[str] = []
    scrub = scrubber(log.log_dir, found)
    await scrub.scrub()
    assert (found, scrub.read_bytes) == ([], log.size_bytes)


class Meanwhile(MemoryFiles):
    """It does something while the scrubber's job is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], None] = lambda: None

    def open(self, path: str, *, create: bool = False) -> object:  # type: ignore[override]
        then, self.then = self.then, lambda: None
        then()
        return super().open(path, create=create)


async def test_what_is_cut_meanwhile_is_not_judged() -> None:
    files = Meanwhile()
    log = segmented(files)
    files.corrupt(log.segments[0].path, 100, 1)

    def cut() -> None:
        log.truncate_fully_and_start_at(0)
        fill(log, 5, epoch=4)

    files.then = cut
    found: list[str] = []
    await scrubber(log.log_dir, found).scrub()
    assert found == []


async def test_what_retention_removes_meanwhile_is_not_missed() -> None:
    files = Meanwhile()
    log = segmented(files)
    log.config = topic_config(segment_bytes=1024, retention_bytes=1100)

    def retain() -> None:
        assert log.apply_retention(NOW_MS, log.log_end_offset)
        for name in files.list_dir(log.directory):
            if name.endswith(".deleted"):
                files.remove(f"{log.directory}/{name}")

    files.then = retain
    found: list[str] = []
    await scrubber(log.log_dir, found).scrub()
    assert found == []
    await scrubber(log.log_dir, found).scrub()
    assert found == []


async def test_a_disk_that_cannot_read_stops_and_a_passing_trouble_does_not() -> None:
    files = MemoryFiles()
    log = segmented(files)
    found: list[str] = []
    files.fail("open", DATA, error=errno.EMFILE)
    online = []
    await scrubber(log.log_dir, found).scrub()
    online.append(log.log_dir.online)
    files.fail("read", DATA, error=errno.EIO)
    await scrubber(log.log_dir, found).scrub()
    online.append(log.log_dir.online)
    assert (online, found) == ([True, False], [])


async def test_passes_are_spread_over_the_interval() -> None:
    log = segmented(MemoryFiles())
    scrub = scrubber(log.log_dir, [], interval_ms=10_000)
    assert scrub._rate() == log.size_bytes / 10
    slow = Scrubber(
        log.log_dir,
        find=finder(log.log_dir),
        interval_ms=1,
        bytes_per_second=1000,
        entropy=SeededEntropy(1),
        on_damage=lambda log, text: None,
    )
    assert slow._rate() == 1000


async def test_it_goes_on_until_the_directory_stops() -> None:
    log = segmented(MemoryFiles())
    scrub = scrubber(log.log_dir, [])
    task = asyncio.create_task(scrub.run())
    await eventually(lambda: scrub.passes >= 3)
    log.log_dir.fail("test", OSError(errno.EIO, "broken"))
    await asyncio.wait_for(task, 5)


async def test_the_manager_runs_it_and_hands_on_what_it_finds() -> None:
    files = MemoryFiles()
    logs = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(1),
        config=log_settings(log_dirs=("/d",), headroom_bytes=0, scrub_interval_ms=1),
        broker_id=1,
    )
    await logs.start("cluster")
    found: list[tuple[PartitionLog, str]] = []
    logs.tell_damage_to(lambda log, text: found.append((log, text)))
    log = logs.create(TP, "id", logs.default_config)
    fill(log, 3)
    await log.log_dir.flusher.drain()
    files.corrupt(log.segments.active.path, 100, 1)
    await eventually(lambda: bool(found))
    assert found[0][0] is log
    await logs.stop(clean=False)


def test_a_job_reads_no_more_than_its_share() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 10, size=SCAN_CHUNK_BYTES // 4)
    segment = log.segments.active
    stretch = Stretch(0, segment.path, 0, segment.size_bytes)
    checked = check(files, ScrubJob([stretch], 0, EpochHistory(), 0))
    assert SCAN_CHUNK_BYTES <= checked.read_bytes < 1.3 * SCAN_CHUNK_BYTES
    assert checked.position == checked.read_bytes
    assert checked.next_offset == 4


async def test_compaction_in_between_is_no_damage() -> None:
    """What was looked at is not where it was; the rest is looked at, wherever it is now."""
    files = MemoryFiles()
    log = make_log(files, topic_config(cleanup_policy="compact", segment_bytes=600_000))
    for number in range(400):
        append(log, (b"k%d" % (number % 10), b"v" * 4000))
    sync(log)
    assert len(log.segments) > 2
    found: list[str] = []
    scrub = scrubber(log.log_dir, found)
    cleaner = make_cleaner(log)
    work = find_work(log, log.log_end_offset, NOW_MS)
    assert work is not None
    passed = asyncio.create_task(scrub.scrub())
    for _ in range(3):
        await asyncio.sleep(0)
    await asyncio.gather(passed, cleaner.clean(work))
    assert log.swap.count > 0
    await scrub.scrub()
    assert found == []
    assert scrub.passes == 2


async def test_after_compaction_it_goes_on_where_it_was() -> None:
    files = MemoryFiles()
    log = make_log(files, topic_config(cleanup_policy="compact", segment_bytes=600_000))
    for number in range(400):
        append(log, (b"k%d" % (number % 10), b"v" * 4000))
    sync(log)
    found: list[str] = []
    scrub = scrubber(log.log_dir, found)
    cleaner = make_cleaner(log)
    work = find_work(log, log.log_end_offset, NOW_MS)
    assert work is not None
    task = asyncio.create_task(scrub.scrub())
    await eventually(lambda: scrub.read_bytes > 0, what="a first chunk")
    assert await cleaner.clean(work)
    await task
    assert found == []
    last = log.segments[-2]
    files.corrupt(last.path, last.size_bytes - 10)
    await scrub.scrub()
    assert len(found) == 1
