"""Logs begin where the disk is known to hold data, and a start after a power cut finds that."""

from __future__ import annotations

from oncelog_broker.log import checkpoint
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.log_starts import LogStarts
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.topic_config import parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.replicas import batch_of
from support.room_settings import log_settings
from support.waiting import eventually

TP = TopicPartition("t", 0)
CONFIG = parse_topic_config({})


async def started(files: MemoryFiles, interval_ms: int = 3_600_000) -> LogManager:
    """Start logs whose checkpoints come by themselves only after an hour."""
    logs = LogManager(
        files=files,
        clock=ManualClock(),
        entropy=SeededEntropy(1),
        config=log_settings(
            log_dirs=["/d"], headroom_bytes=0, checkpoint_interval_ms=interval_ms, flush="commit"
        ),
        broker_id=1,
    )
    await logs.start("c")
    return logs


async def filled(logs: LogManager, records: int = 5) -> PartitionLog:
    log = logs.create(TP, "id", CONFIG)
    for number in range(records):
        log.append_as_leader(batch_of(b"%d" % number), 0)
    await eventually(lambda: log.synced_offset == records, what="a sync")
    return log


async def crashed(logs: LogManager, files: MemoryFiles) -> LogManager:
    """Return the next life after a power cut."""
    reborn = files.reborn("none")
    await logs.stop(clean=False)
    return await started(reborn)


def starts_of(log: PartitionLog) -> LogStarts:
    return log.log_dir.starts


async def test_who_waits_makes_the_disk_hold_it() -> None:
    files = MemoryFiles("/d")
    logs = await started(files)
    log = await filled(logs)
    log.advance_log_start(3)
    assert starts_of(log).durable(log) == 0
    called: list[int] = []

    def note() -> None:
        called.append(starts_of(log).durable(log))

    starts_of(log).when_durable(log, note)
    starts_of(log).when_durable(log, note)
    await eventually(lambda: bool(called), what="a checkpoint, long before its time")
    assert called == [3]
    log.advance_log_start(4)
    assert starts_of(log).durable(log) == 3
    logs = await crashed(logs, files)
    again = logs.get(TP)
    assert again is not None
    assert again.log_start_offset == 3
    assert starts_of(again).durable(again) == 3
    await logs.stop(clean=False)


async def test_what_nobody_wrote_down_is_not_claimed() -> None:
    files = MemoryFiles("/d")
    logs = await started(files)
    log = await filled(logs)
    log.advance_log_start(3)
    assert starts_of(log).durable(log) == 0
    logs = await crashed(logs, files)
    again = logs.get(TP)
    assert again is not None
    assert again.log_start_offset == 0, "the disk did not know it"
    await logs.stop(clean=False)


async def test_the_mark_of_a_cut_goes_over_the_checkpoint() -> None:
    files = MemoryFiles("/d")
    logs = await started(files)
    log = await filled(logs)
    log.advance_log_start(2)
    assert await log.log_dir.write_checkpoints()
    assert starts_of(log).durable(log) == 2
    log.truncate_fully_and_start_at(7)
    assert starts_of(log).durable(log) == 7, "the mark is on the disk"
    log.truncate_fully_and_start_at(1)
    assert starts_of(log).durable(log) == 1
    log.append_as_leader(batch_of(b"x", b"y", b"z"), 0)
    log.advance_log_start(3)
    assert starts_of(log).durable(log) == 1, "what it was once does not count"
    await eventually(lambda: log.synced_offset == 4, what="a sync")
    assert await log.log_dir.write_checkpoints()
    assert (log.truncation_mark, starts_of(log).durable(log)) == (0, 3)
    logs = await crashed(logs, files)
    again = logs.get(TP)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (3, 4)
    await logs.stop(clean=False)


async def test_a_log_that_begins_above_its_checkpoint_is_written_down() -> None:
    files = MemoryFiles("/d")
    logs = await started(files)
    log = await filled(logs, 2)
    log.roll()
    log.append_as_leader(batch_of(b"2"), 0)
    await eventually(lambda: log.synced_offset == 3, what="a sync")
    assert await log.log_dir.write_checkpoints()
    for name in files.list_dir(log.directory):
        if name.startswith("0" * 20):
            files.remove(f"{log.directory}/{name}")
    files.sync_dir(log.directory)
    reborn = files.reborn("none")
    await logs.stop(clean=False)
    logs = await started(reborn, interval_ms=1)
    again = logs.get(TP)
    assert again is not None
    assert again.log_start_offset == 2
    await eventually(lambda: starts_of(again).durable(again) == 2, what="a checkpoint")
    assert b"t 0 2" in reborn.read_bytes(f"/d/{checkpoint.LOG_START}")
    await logs.stop(clean=False)


async def test_a_log_that_is_deleted_is_forgotten() -> None:
    files = MemoryFiles("/d")
    logs = await started(files)
    log = await filled(logs)
    log.advance_log_start(5)
    assert await log.log_dir.write_checkpoints()
    called: list[str] = []
    starts_of(log).when_durable(log, lambda: called.append("after its end"))
    await logs.delete(TP)
    new = logs.create(TP, "id2", CONFIG)
    assert starts_of(new).durable(new) == 0
    assert await new.log_dir.write_checkpoints()
    assert called == []
    await logs.stop(clean=False)
