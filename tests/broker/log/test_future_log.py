"""The copy of a log follows the log, whatever happens to it, and holds the same bytes."""

from __future__ import annotations

import pytest

from oncelog_broker.log.future_log import FutureLog
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import NOW_MS, SMALL, TP, fill
from support.room_settings import log_settings

COPY = "/b/t-0.0-future"


async def a_log(files: MemoryFiles) -> tuple[LogManager, PartitionLog, FutureLog]:
    logs = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=("/a", "/b"), headroom_bytes=0),
        broker_id=1,
    )
    await logs.start("cluster")
    log = logs.create(TP, "id", SMALL)
    fill(log, 40)
    files.make_dirs(COPY)
    future = FutureLog(log, logs.dirs[1], COPY)
    future.begin()
    return logs, log, future


async def copy_all(future: FutureLog, piece_bytes: int = 700) -> None:
    while await future.copy_piece(piece_bytes) >= 0:
        pass


def segments(files: MemoryFiles, directory: str) -> dict[str, bytes]:
    return {
        name: files.read_bytes(f"{directory}/{name}")
        for name in files.list_dir(directory)
        if name.endswith(".log")
    }


def assert_same(files: MemoryFiles, log: PartitionLog, future: FutureLog) -> None:
    future.append_rest()
    assert segments(files, COPY) == segments(files, log.directory)
    assert future.bytes_left == 0
    assert future.end_offset == log.log_end_offset


async def test_it_has_the_same_bytes_and_the_caches_of_sealed_segments() -> None:
    files = MemoryFiles("/a", "/b")
    logs, log, future = await a_log(files)
    assert future.bytes_left == log.size_bytes
    await copy_all(future)
    assert_same(files, log, future)
    first = log.segments[0].path.rpartition("/")[2].removesuffix(".log")
    assert files.exists(f"{COPY}/{first}.index")
    assert await future.sync() == log.log_end_offset
    assert files.durable_bytes(f"{COPY}/{first}.log") == files.read_bytes(log.segments[0].path)
    future.close()
    await logs.stop()


async def test_it_follows_appends_cuts_and_retention() -> None:
    files = MemoryFiles("/a", "/b")
    logs, log, future = await a_log(files)
    await copy_all(future)
    fill(log, 9)
    log.truncate_to(log.log_end_offset - 12)
    fill(log, 5, epoch=2)
    await copy_all(future)
    assert_same(files, log, future)
    log.drop_oldest(2)
    assert future.end_offset == log.log_end_offset
    await copy_all(future)
    assert_same(files, log, future)
    log.truncate_fully_and_start_at(500)
    fill(log, 3, epoch=3)
    await copy_all(future)
    assert_same(files, log, future)
    future.close()
    await logs.stop()


async def test_what_is_cut_while_it_is_copied_does_not_count() -> None:
    files = MemoryFiles("/a", "/b")
    logs, log, future = await a_log(files)
    await copy_all(future)
    fill(log, 2)
    cut = log.log_end_offset - 2

    def cut_now(operation: str, path: str) -> None:
        if operation == "write" and path.startswith(COPY):
            files.before_change = None
            log.truncate_to(cut)

    files.before_change = cut_now
    await future.copy_piece(1 << 20)
    assert future.end_offset == cut
    fill(log, 1, epoch=7)
    await copy_all(future)
    assert_same(files, log, future)
    future.close()
    await logs.stop()


async def test_corruption_is_not_copied() -> None:
    files = MemoryFiles("/a", "/b")
    logs, log, future = await a_log(files)
    files.corrupt(log.segments[0].path, 90)
    with pytest.raises(CorruptBatchError):
        await copy_all(future)
    assert not segments(files, COPY)
    future.close()
    await logs.stop()
