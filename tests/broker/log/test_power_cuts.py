"""These are crashes that the enumeration of crash points once lost something to, one by one.

Most are two crashes in a row: a kill leaves names and bytes that no sync covers, the next start
takes them for granted, and a power cut takes them away.
"""

from __future__ import annotations

import asyncio
import errno

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.recovery import TRUNCATION_MARK
from oncelog_protocol.errors import StorageError
from oncelog_testing.memory.crashes import KILL, Crash
from oncelog_testing.memory.files import MemoryFiles
from support.logs import (
    DATA,
    NOW_MS,
    SMALL,
    TP,
    batch,
    fill,
    follower_batches,
    make_log,
    reload_log,
    started,
    sync,
    values_in,
)


class Killed(Exception):
    """A change of the disk raises this, and does not happen."""


async def write(log: PartitionLog, *values: bytes, epoch: int = 0) -> None:
    for value in values:
        log.append_as_leader(batch(value), epoch)
    await log.log_dir.flusher.drain()
    assert log.synced_offset == log.log_end_offset


async def test_a_later_cut_further_up_leaves_an_earlier_one_marked() -> None:
    """No checkpoint has followed the first: what the disk says of its offsets is of before."""
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "id", logs.default_config)
    await write(log, *[b"old"] * 11)
    assert await log.log_dir.write_checkpoints()
    log.truncate_to(5)
    await write(log, *[b"new"] * 15, epoch=1)
    files.fail("append", f"{DATA}/{checkpoint.LOG_START}", error=errno.ENOSPC)
    assert not await log.log_dir.write_checkpoints()
    log.truncate_to(15)
    logs = await started(files.reborn("none"))
    (log,) = logs.all()
    assert log.epochs.entries() == [(0, 0), (1, 5)]
    assert values_in(log) == [b"old"] * 5 + [b"new"] * 10
    await logs.stop(clean=False)


async def test_a_clean_stop_does_not_come_back_to_life() -> None:
    files = MemoryFiles()
    logs = await started(files)
    await write(logs.create(TP, "id", logs.default_config), b"before")
    await logs.stop(clean=True, broker_epoch=5)

    def kill(operation: str, path: str) -> None:
        if operation == "sync_dir" and not files.exists(f"{DATA}/{checkpoint.CLEAN_SHUTDOWN}"):
            raise Killed

    files.before_change = kill
    with pytest.raises(Killed):
        await started(files)
    files = files.reborn(KILL)
    logs = await started(files)
    assert not logs.was_clean
    (log,) = logs.all()
    await write(log, b"after", epoch=1)
    logs = await started(files.reborn("none"))
    assert not logs.was_clean
    (log,) = logs.all()
    assert (values_in(log), log.damage) == ([b"before", b"after"], "")
    await logs.stop(clean=False)


async def test_a_partition_that_a_killed_broker_had_made_is_durable_before_it_counts() -> None:
    files = MemoryFiles()
    logs = await started(files)
    logs.create(TP, "id", logs.default_config)
    files = files.reborn(KILL)  # nothing of it is synced
    logs = await started(files)
    (log,) = logs.all()
    await write(log, b"acknowledged")
    logs = await started(files.reborn("none"))
    (log,) = logs.all()
    assert (log.topic_id, values_in(log)) == ("id", [b"acknowledged"])
    await logs.stop(clean=False)


@pytest.mark.parametrize("keep", ["all", "none"])
async def test_checkpoints_of_a_deleted_log_say_nothing_of_the_next(keep: str) -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "one", logs.default_config)
    await write(log, *[b"%d" % number for number in range(20)])
    log.advance_log_start(10)
    logs.set_high_watermark_source(lambda: {TP: 20})
    assert await logs.dirs[0].write_checkpoints()
    await logs.delete(TP)
    log = logs.create(TP, "two", logs.default_config)
    await write(log, b"a", b"b")
    files = files.reborn("all" if keep == "all" else "none")
    logs = await started(files)
    (log,) = logs.all()
    assert (log.topic_id, log.damage, log.log_start_offset) == ("two", "", 0)
    assert values_in(log) == [b"a", b"b"]
    assert logs.high_watermark_checkpoint() == {TP: 0}, "the mark was the other log's"
    # The next checkpoint is of this log, and nothing special is left.
    assert await logs.dirs[0].write_checkpoints()
    assert TRUNCATION_MARK not in files.list_dir(log.directory)
    await logs.stop(clean=False)


async def test_a_new_name_is_not_marked() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "one", logs.default_config)
    assert files.list_dir(log.directory) == [checkpoint.PARTITION_META]
    await logs.stop(clean=False)


def test_a_second_cut_promises_nothing_that_the_first_one_took() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 10)
    sync(log)
    log._checkpointed_recovery_point = 10
    entries = log.epochs.entries()
    files.write_atomic_now(
        f"{log.directory}/{checkpoint.LEADER_EPOCH}", checkpoint.encode_epochs(entries)
    )
    log.truncate_to(4)
    fill(log, 3, epoch=1)
    log.truncate_to(6)
    files.crash("none")
    loaded = reload_log(files, recovery_point=10)
    assert (loaded.damage, loaded.log_end_offset) == ("", 6)
    assert loaded.epochs.entries() == [(0, 0), (1, 4)], "no checkpoint had the second yet"


async def test_no_epoch_is_forgotten_of_offsets_that_are_still_there() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "id", logs.default_config)
    for epoch in range(4):
        await write(log, b"x", b"y", epoch=epoch)
    assert await logs.dirs[0].write_checkpoints()
    log.advance_log_start(5)
    steps = 0

    def count(operation: str, path: str) -> None:
        nonlocal steps
        steps += 1
        images.append(files.image(KILL))

    images: list[MemoryFiles] = []
    files.before_change = count
    assert await logs.dirs[0].write_checkpoints()
    assert steps == len(images) > 10
    starts = set()
    for image in images:
        (log,) = (await started(image)).all()
        starts.add(log.log_start_offset)
        entries = log.epochs.entries()
        assert entries[0][1] == log.log_start_offset
        assert [epoch for epoch, _ in entries] == list(range(log.log_start_offset // 2, 4))
    assert starts == {0, 5}
    await logs.stop(clean=False)


async def test_what_retention_deleted_is_not_read_again() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "id", SMALL)
    fill(log, 30)
    await log.log_dir.flusher.drain()
    border = log.segments[2].base_offset
    log.advance_log_start(border)
    assert await logs.dirs[0].write_checkpoints()
    assert log.apply_retention(NOW_MS, 30)
    assert log.segments[0].base_offset == border
    assert await logs.dirs[0].write_checkpoints()
    # The segments were renamed, and that is lost.
    files = files.reborn(Crash("all", names=False))
    logs = await started(files)
    (log,) = logs.all()
    assert log.segments[0].base_offset == 0
    assert log.log_start_offset == border
    assert log.epochs.entries() == [(0, border)]
    assert log.apply_retention(NOW_MS, 30)
    assert log.segments[0].base_offset == border
    await logs.stop(clean=False)


async def test_a_log_that_begins_anew_further_down_is_there_from_its_beginning() -> None:
    files = MemoryFiles()
    logs = await started(files)
    log = logs.create(TP, "id", logs.default_config)
    log.truncate_fully_and_start_at(500)
    log.append_as_follower(follower_batches((500, 10, 1)))
    await log.log_dir.flusher.drain()
    assert await logs.dirs[0].write_checkpoints()
    log.truncate_fully_and_start_at(10)
    log.append_as_follower(follower_batches((10, 600, 2)))
    await log.log_dir.flusher.drain()
    assert log.synced_offset == 610
    logs = await started(files.reborn("none"))
    (log,) = logs.all()
    assert (log.log_start_offset, log.log_end_offset, log.damage) == (10, 610, "")
    await logs.stop(clean=False)


def test_a_cut_is_durable_before_anything_follows_it() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 6, epoch=5)
    sync(log)
    log.truncate_to(3)
    path = log.segments.active.path
    assert len(files.durable_bytes(path)) == files.size(path)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EINTR])
def test_a_cut_that_cannot_be_synced_stops_the_directory(error: int) -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 6)
    sync(log)
    files.fail("sync", error=error)
    with pytest.raises(StorageError, match="truncate failed"):
        log.truncate_to(3)
    assert not log.log_dir.online


async def test_garbage_of_an_unknown_topic_is_no_log() -> None:
    """The meta file and the first batch of a new partition are both torn."""
    files = MemoryFiles(f"{DATA}/{TP}")
    for name in (checkpoint.PARTITION_META, f"{0:020d}.log"):
        files.open(f"{DATA}/{TP}/{name}", create=True).append([b"{torn"])
    files.crash(Crash("all", names=True))
    files.write_atomic_now(f"{DATA}/{checkpoint.META}", b"")
    files.remove(f"{DATA}/{checkpoint.META}")
    files.rename(f"{DATA}/{TP}", "/aside")
    logs = await started(files)
    await logs.stop(clean=False)
    files.rename("/aside", f"{DATA}/{TP}")
    logs = await started(files)
    assert logs.all() == []
    assert not files.exists(f"{DATA}/{TP}")
    await asyncio.sleep(0)
    await logs.stop(clean=False)
