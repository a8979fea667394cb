"""A broker whose clock starts far behind deletes and forgets nothing when it is set right."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.topic_config import parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.checked_clock import CheckedClock
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import Keep, MemoryFiles
from support.clock import ManualClock
from support.replicas import batch_of
from support.room_settings import log_settings

TP = TopicPartition("t", 0)
DAY_MS = 86_400_000


class Machine:
    """It holds the logs of a broker over several lives. Peers know the time."""

    def __init__(self) -> None:
        self.files = MemoryFiles("/d")
        self.wall = ManualClock()
        self.lives = 0

    async def start(self) -> None:
        self.lives += 1
        self.clock = CheckedClock(self.wall, asyncio.get_running_loop().time)
        self.logs = LogManager(
            files=self.files,
            clock=self.clock,
            entropy=SeededEntropy(self.lives),
            config=log_settings(log_dirs=("/d",), headroom_bytes=0),
            broker_id=1,
        )
        await self.logs.start("c")
        self.logs.set_high_watermark_source(lambda: {TP: self.log.log_end_offset})

    @property
    def log(self) -> PartitionLog:
        log = self.logs.get(TP)
        assert log is not None
        return log

    def hear_the_time(self) -> None:
        """A majority, this clock included, says what the clock says now."""
        self.clock.heard([self.wall.now_ms()], 2)

    async def crash(self, keep: Keep) -> None:
        for log_dir in self.logs.dirs:
            await log_dir.flusher.drain()
            log_dir.flusher.stop()
        self.files = self.files.reborn(keep)
        await self.logs._tasks.close()


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("keep", ["all", "none"])
async def test_young_records_and_their_producers_stay(keep: Keep, stamped: bool) -> None:
    machine = Machine()
    await machine.start()
    machine.hear_the_time()
    config = parse_topic_config({"flush": "commit", "retention_ms": str(DAY_MS)})
    machine.logs.create(TP, "id", config)
    stamp_ms = machine.wall.now_ms() if stamped else -1
    for sequence in range(5):
        batch = batch_of(b"x", timestamp_ms=stamp_ms, producer=(7, 0, sequence))
        machine.log.append_as_leader(batch, 0)
    await machine.crash(keep)

    machine.wall.advance(-10 * DAY_MS)
    await machine.start()
    machine.logs.create(TP, "id", config)  # takes the settings in
    assert await machine.logs.apply_retention() == 0
    machine.log.append_as_leader(
        batch_of(b"y", timestamp_ms=machine.wall.now_ms(), producer=(8, 0, 0)), 0
    )

    machine.wall.advance(10 * DAY_MS)
    machine.hear_the_time()
    assert await machine.logs.apply_retention() == 0
    assert (machine.log.log_start_offset, machine.log.producers.count) == (0, 2)

    machine.wall.advance(DAY_MS + 1000)
    machine.hear_the_time()
    assert await machine.logs.apply_retention() > 0, "they are dated now, and grow old as any"
    assert (machine.log.log_start_offset, machine.log.producers.count) == (6, 0)
    await machine.logs.stop(clean=False)
