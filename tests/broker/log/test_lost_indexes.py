"""A large segment without an index is mapped in a thread, while its readers come again later."""

from __future__ import annotations

import asyncio
import threading

import pytest

from oncelog_broker.log import lost_indexes
from oncelog_broker.log.index_file import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.scan import Scan
from oncelog_broker.log.segment import LOG_SUFFIX, Segment
from oncelog_protocol.errors import CorruptMessageError, StorageError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_testing.memory.files import MemoryFiles
from support.logs import batch, make_log, offsets_in, sync, topic_config
from support.waiting import eventually

COUNT = 40
CONFIG = topic_config(index_interval_bytes=200)


@pytest.fixture(autouse=True)
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_indexes, "LARGE_BYTES", 0)


def log_with_a_closed_segment(files: MemoryFiles, *, lost: bool = True) -> PartitionLog:
    log = make_log(files, CONFIG)
    for number in range(COUNT):
        log.append_as_leader(batch(b"%d" % number * 20), 0)
    log.roll()
    sync(log)
    log.log_dir.start()
    log.segments[0].close()
    if lost:
        lose_index(files, log.segments[0])
    return log


def lose_index(files: MemoryFiles, segment: Segment) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        files.remove(segment.path.replace(LOG_SUFFIX, suffix))


def read(log: PartitionLog, offset: int = 0) -> list[int]:
    return offsets_in(log.read(offset, 1 << 20, upto=log.log_end_offset))


@pytest.fixture
def scanned_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """It lists the threads in which whole segments are scanned."""
    threads: list[int] = []
    scan = Scan.__init__

    def noting(self: Scan, *args: object, **options: object) -> None:
        if "chunk_bytes" in options:
            threads.append(threading.get_ident())
        scan(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Scan, "__init__", noting)
    return threads


async def test_an_index_that_is_lost_is_made_off_the_loop(scanned_by: list[int]) -> None:
    log = log_with_a_closed_segment(MemoryFiles())
    for _ in range(2):
        with pytest.raises(StorageError, match="being made anew"):
            read(log)
    await eventually(lambda: not log.segments[0].lacks_index)
    assert read(log, 7) == list(range(7, COUNT))
    assert len(scanned_by) == 1
    assert threading.get_ident() not in scanned_by
    assert log.log_dir.online
    # It is kept.
    log.segments[0].close()
    scanned_by.clear()
    assert read(log) == list(range(COUNT))
    assert log.segments[0].unpersisted_entries == 0


async def test_an_index_that_is_there_is_read_at_once() -> None:
    log = log_with_a_closed_segment(MemoryFiles(), lost=False)
    assert read(log) == list(range(COUNT))


async def test_a_small_segment_is_mapped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_indexes, "LARGE_BYTES", 1 << 20)
    assert read(log_with_a_closed_segment(MemoryFiles())) == list(range(COUNT))


async def test_who_cannot_wait_maps_it_at_once() -> None:
    files = MemoryFiles()
    log = log_with_a_closed_segment(files)
    with pytest.raises(StorageError):
        read(log)
    log.truncate_to(COUNT // 2)
    assert read(log) == list(range(COUNT // 2))
    for number in range(COUNT):
        log.append_as_leader(batch(b"%d" % number), 0)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert read(log)[:COUNT] == list(range(COUNT)), "what was made of the log of before is not used"


async def test_rot_in_the_log_is_heard_by_who_reads_it() -> None:
    files = MemoryFiles()
    log = log_with_a_closed_segment(files)
    files.corrupt(log.segments[0].path, 8)
    with pytest.raises(StorageError):
        read(log)

    def damaged() -> bool:
        try:
            read(log)
        except StorageError:
            return False
        except (CorruptMessageError, CorruptBatchError):
            return True
        raise AssertionError("read")

    await eventually(damaged)
    assert log.log_dir.online


async def test_a_disk_that_fails_takes_the_directory_along() -> None:
    files = MemoryFiles()
    log = log_with_a_closed_segment(files)
    files.fail("read", log.segments[0].path)
    with pytest.raises(StorageError):
        read(log)
    await eventually(lambda: not log.log_dir.online)


async def test_a_segment_that_goes_meanwhile_is_let_go() -> None:
    files = MemoryFiles()
    log = log_with_a_closed_segment(files)
    with pytest.raises(StorageError):
        read(log)
    log.drop_oldest(1)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert log.log_dir.online
    assert log.log_start_offset == COUNT
