"""After a cut, what producers wrote is read again some a turn; nobody sees half of it."""

from __future__ import annotations

import asyncio
import random

import pytest

from oncelog_broker.log import producer_snapshots, producer_state
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import DuplicateSequenceNumberError, StorageError
from oncelog_testing.memory.files import MemoryFiles
from support.compaction import headers_in
from support.logs import (
    NOW_MS,
    SMALL,
    TP,
    batch,
    make_log,
    make_log_dir,
    reload_log,
    sync,
    topic_config,
)
from support.turns import Turns
from support.waiting import eventually

STEPS = 8
COUNT = 10 * STEPS


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_snapshots, "BATCHES_PER_STEP", 10)
    monkeypatch.setattr(producer_state, "RESTORED_PER_STEP", 10)


def write(log: PartitionLog, producer_id: int, sequence: int, epoch: int = 0) -> None:
    log.append_as_leader(batch(b"x" * 30, producer=(producer_id, 3, sequence)), epoch)


def cut_log(files: MemoryFiles | None = None) -> PartitionLog:
    """Make a log that holds more of producer 7 than is remembered, but no fitting snapshot."""
    log = make_log(files or MemoryFiles(), SMALL)
    log.log_dir.start()
    for sequence in range(COUNT):
        write(log, 7, sequence)
    for sequence in range(50):
        write(log, 8, sequence)
    for sequence in range(COUNT, COUNT + producer_state.BATCHES_MAX):
        write(log, 7, sequence)
    log.log_dir.flusher.sync_now()
    log.truncate_to(COUNT)
    return log


async def known(log: PartitionLog) -> None:
    await eventually(lambda: not log.producers.is_reading)


async def test_others_get_their_turns_and_are_told_of_the_end() -> None:
    files = MemoryFiles()
    log = cut_log(files)
    told: list[int] = []
    log.tell_synced_to(told.append)
    other = make_log(files, log_dir=log.log_dir, topic_partition=TP._replace(partition=1))
    async with Turns() as turns:
        while log.producers.is_reading:
            other.append_as_leader(batch(), 0)
            await asyncio.sleep(0)
    assert turns.count >= STEPS - 2
    assert other.log_end_offset >= STEPS - 2
    assert told == [COUNT]
    assert log.producers.contradiction() == ""
    with pytest.raises(DuplicateSequenceNumberError):
        write(log, 7, COUNT - producer_state.BATCHES_MAX - 1)


async def test_who_asks_before_gets_the_rest_at_once() -> None:
    log = cut_log()
    was_reading = log.producers.is_reading
    with pytest.raises(DuplicateSequenceNumberError):
        write(log, 7, 1)
    assert [was_reading, log.producers.is_reading] == [True, False]
    assert log.producers.contradiction() == ""


async def test_what_a_follower_appends_meanwhile_is_counted_once() -> None:
    leader = make_log(MemoryFiles(), SMALL)
    for sequence in range(COUNT + 3):
        write(leader, 7, sequence)
    log = cut_log()
    while log.log_end_offset < leader.log_end_offset:
        data = leader.read(log.log_end_offset, 700, upto=leader.log_end_offset)
        log.append_as_follower(memoryview(bytearray(data)))
    assert log.producers.contradiction() == ""
    last = log.producers.state.producers[7].batches
    assert [each.base_offset for each in last] == list(range(COUNT - 2, COUNT + 3))


async def test_nothing_is_deleted_or_forgotten_meanwhile() -> None:
    log = cut_log()
    log.reconfigure(topic_config(retention_bytes=0, segment_bytes=1024))
    assert log.apply_retention(NOW_MS, COUNT) == 0
    log.producers.expire(NOW_MS + 10**9, 0)
    log.producers.snapshot()
    assert log.producers.is_reading
    await known(log)
    assert log.apply_retention(NOW_MS, COUNT) > 0


async def test_segments_that_go_meanwhile_are_not_missed() -> None:
    log = cut_log()
    log.drop_oldest(2)
    await known(log)
    assert log.log_dir.online
    assert not log.damage
    assert log.producers.state.producers[7].last_sequence == COUNT - 1


@pytest.mark.parametrize("seed", range(10))
async def test_another_cut_meanwhile(seed: int) -> None:
    draw = random.Random(seed)
    log = make_log(MemoryFiles(), SMALL)
    log.log_dir.start()
    sequences = dict.fromkeys(range(4), 0)
    for number in range(120):
        producer_id = number // 7 % 4
        write(log, producer_id, sequences[producer_id])
        sequences[producer_id] += 1
    log.log_dir.flusher.sync_now()
    for _ in range(5):
        log.truncate_to(draw.randrange(log.log_end_offset + 1))
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
        if not log.log_end_offset:
            break
    await known(log)
    assert log.producers.contradiction() == ""
    assert set(log.producers.state.producers) == {h.producer_id for h in headers_in(log)}


async def test_a_log_that_is_emptied_meanwhile_knows_nobody() -> None:
    log = cut_log()
    log.truncate_fully_and_start_at(500)
    assert not log.producers.is_reading
    assert log.producers.state.producers == {}


@pytest.mark.parametrize("keep", [True, False])
async def test_a_log_that_is_closed_meanwhile_is_let_go(keep: bool) -> None:
    files = MemoryFiles()
    log = cut_log(files)
    sync(log)
    log.close(keep=keep)
    before = files.open_count
    for _ in range(2 * STEPS):
        await asyncio.sleep(0)
    assert files.open_count == before
    again = reload_log(files, SMALL, recovery_point=COUNT, clean=keep)
    assert again.producers.contradiction() == ""
    assert again.producers.state.producers[7].last_sequence == COUNT - 1


async def test_rot_that_is_found_meanwhile_is_damage() -> None:
    files = MemoryFiles()
    log = cut_log(files)
    segment = log.segments[3]
    files.corrupt(segment.path, 100)
    await known(log)
    assert segment.path in log.damage
    assert log.log_dir.online


@pytest.mark.parametrize("asked", [True, False])
async def test_a_disk_that_fails_meanwhile_takes_the_directory_along(asked: bool) -> None:
    files = MemoryFiles()
    log = cut_log(files)
    files.fail("read", log.directory)
    if asked:
        with pytest.raises(StorageError):
            _ = log.producers.state
    await known(log)
    assert not log.log_dir.online


async def test_a_snapshot_of_many_is_restored_in_steps() -> None:
    files = MemoryFiles()
    log = make_log(files, log_dir=make_log_dir(files))
    log.log_dir.start()
    for producer_id in range(COUNT):
        write(log, producer_id, 5)
    log.producers.snapshot()
    log.log_dir.flusher.sync_now()
    for sequence in range(6, 6 + producer_state.BATCHES_MAX):
        write(log, 7, sequence)
    log.log_dir.flusher.sync_now()
    log.truncate_to(COUNT)
    turns = 0
    while log.producers.is_reading:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= STEPS - 2
    assert log.producers.contradiction() == ""
    assert log.producers.state.producers[7].last_sequence == 5
