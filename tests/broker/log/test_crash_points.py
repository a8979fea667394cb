"""A crash at every single step of a broker's life with its logs (targets R7 and F30 to F33).

One scenario appends, rolls, truncates, creates, deletes, checkpoints and stops; it is run again
for each of its changes of the disk, which then is the last one that happened. After a restart,
with all unsynced bytes kept or none: no log is damaged, what counted as synced is there, epochs
fit, and writing goes on.
"""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.log.log_manager import LogConfig, LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from support.clock import ManualClock
from support.logs import NOW_MS, batch, topic_config, values_in
from support.memory_files import Keep, MemoryFiles

CONFIG = topic_config(segment_bytes=1024, index_interval_bytes=200, retention_bytes=2048)
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Crash(Exception):
    """The power went."""


class World:
    """A disk that stops at a step, and what a client was told."""

    def __init__(self, last_step: int | None) -> None:
        self.files = MemoryFiles("/data")
        self.steps = 0
        self.last_step = last_step
        self.promised: dict[TopicPartition, dict[int, bytes]] = {A: {}, B: {}}
        self.started = 0
        self.deleted: set[TopicPartition] = set()

    def step(self, operation: str, path: str) -> None:
        if self.last_step is not None and self.steps >= self.last_step:
            raise Crash(f"before {operation} {path}")
        self.steps += 1

    def manager(self) -> LogManager:
        config = LogConfig(log_dirs=("/data",), headroom_bytes=0)
        logs = LogManager(
            files=self.files,
            clock=ManualClock(NOW_MS),
            entropy=SeededEntropy(3),
            config=config,
            broker_id=1,
        )
        logs.set_high_watermark_source(
            lambda: {log.topic_partition: log.synced_offset for log in logs.all()}
        )
        return logs

    def write(self, log: PartitionLog, count: int, epoch: int) -> None:
        """Append and sync; only what is synced is promised."""
        for _ in range(count):
            offset = log.log_end_offset
            value = b"%s %d in %d" % (log.topic_partition.topic.encode(), offset, epoch) + b"." * 90
            log.append_as_leader(batch(value), epoch)
        log.log_dir.flusher.sync_now()
        if not log.log_dir.online:
            raise Crash
        held = dict(enumerate(values_in(log), log.log_start_offset))
        self.promised[log.topic_partition] = {
            offset: value for offset, value in held.items() if value and offset < log.synced_offset
        }

    def cut(self, log: PartitionLog, offset: int) -> None:
        promised = self.promised[log.topic_partition]
        self.promised[log.topic_partition] = {o: v for o, v in promised.items() if o < offset}
        log.truncate_to(offset)


async def life(world: World) -> None:
    """Everything a log goes through, twice, with a clean stop in between."""
    for life_number in range(2):
        logs = world.manager()
        # Rounds are run by hand, so that the order of steps is the same each time.
        await logs.start("cluster")
        world.started += 1
        for log_dir in logs.dirs:
            log_dir.flusher._loop = None
        first = logs.create(A, "id-a", CONFIG)
        epoch = 10 * life_number
        world.write(first, 12, epoch)
        await logs.dirs[0].write_checkpoints()
        second = logs.create(B, "id-b", CONFIG)
        world.write(second, 5, epoch)
        world.cut(first, first.log_end_offset - 7)
        first.assign_epoch(epoch + 2, first.log_end_offset)
        world.write(first, 9, epoch + 2)
        promised = world.promised[A]
        world.promised[A] = {o: v for o, v in promised.items() if o >= first.log_end_offset - 5}
        logs.apply_retention()
        await logs.dirs[0].write_checkpoints()
        world.write(first, 3, epoch + 3)
        world.promised[B] = {}
        if life_number:
            world.deleted.add(B)
            await logs.delete(B)
        else:
            second.truncate_fully_and_start_at(40)
            world.write(second, 2, epoch + 1)
        await stop(logs, epoch)


async def stop(logs: LogManager, epoch: int) -> None:
    for log_dir in logs.dirs:
        log_dir.flusher.sync_now()
        if not log_dir.online:
            raise Crash
        log_dir.flusher._loop = asyncio.get_running_loop()
    await logs.stop(clean=True, broker_epoch=epoch)


async def run(world: World) -> None:
    world.files.before_change = world.step
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    try:
        await life(world)
    except (Crash, OncelogError):
        pass
    for task in asyncio.all_tasks(loop):
        if task is not asyncio.current_task():
            task.cancel()


async def check(world: World, files: MemoryFiles) -> None:
    world.files = files
    logs = world.manager()
    await logs.start("cluster")
    for log in logs.all():
        tp = log.topic_partition
        assert not log.needs_refetch, log.damage
        held = dict(enumerate(values_in(log), log.log_start_offset))
        for offset, promised in world.promised[tp].items():
            assert held.get(offset) == promised, (tp, offset)
        entries = log.epochs.entries()
        assert all(log.log_start_offset <= start <= log.log_end_offset for _, start in entries)
        for offset, value in held.items():
            assert value is not None
            written_in = int(value.split(b".")[0].rsplit(b" ", 1)[1])
            assert log.epochs.epoch_at(offset) == written_in
        log.reconfigure(CONFIG)
        world.write(log, 3, 99)
    present = {log.topic_partition for log in logs.all()}
    for tp, values in world.promised.items():
        assert not values or tp in present or tp in world.deleted
    await logs.stop(clean=True, broker_epoch=1)
    again = world.manager()
    await again.start("cluster")
    assert again.was_clean
    assert {log.topic_partition for log in again.all()} == present
    await again.stop(clean=False)


def count_steps() -> int:
    world = World(None)
    asyncio.run(run(world))
    assert world.started == 2
    return world.steps


@pytest.mark.parametrize("keep", ["none", "all"])
def test_every_crash_point(keep: Keep) -> None:
    steps = count_steps()
    assert steps > 200
    for last_step in range(steps + 1):
        world = World(last_step)
        asyncio.run(run(world))
        files = world.files.reborn(keep)
        try:
            asyncio.run(check(world, files))
        except AssertionError as error:
            raise AssertionError(f"after a crash at step {last_step}: {error}") from error
