"""Work on all logs, or much work on one, goes some a turn of the loop."""

from __future__ import annotations

import pytest

from oncelog_broker.log import log_manager, log_producers, producer_state
from oncelog_broker.log.log_manager import LogManager
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import NOW_MS, batch
from support.room_settings import log_settings
from support.turns import Turns


async def started(
    files: MemoryFiles, clock: ManualClock | None = None, **config: str
) -> LogManager:
    logs = LogManager(
        files=files,
        clock=clock or ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=["/disk1"], headroom_bytes=0, topic_defaults=config),
        broker_id=1,
    )
    await logs.start("cluster")
    return logs


def tp(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@pytest.mark.parametrize(("count", "segments"), [(60, 1), (1, 300)])
async def test_retention_deletes_some_a_turn(count: int, segments: int) -> None:
    files = MemoryFiles()
    logs = await started(files, retention_bytes="0", segment_bytes="1024")
    made = [logs.create(tp(number), "id", logs.default_config) for number in range(count)]
    for log in made:
        for _ in range(segments):
            log.append_as_leader(batch(b"x" * 900), 0)
    await logs.dirs[0].flusher.drain()
    logs.set_high_watermark_source(lambda: {log.topic_partition: segments for log in made})

    def changing(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith(".log"):
            turns.note()

    async with Turns() as turns:
        files.before_change = changing
        await logs.apply_retention()
        files.before_change = None
    assert [log.log_start_offset for log in made] == [segments] * count
    assert turns.noted == count * segments
    assert turns.most_in_one <= turns.noted / 2
    await logs.stop()


async def test_a_clean_stop_closes_some_logs_a_turn() -> None:
    files = MemoryFiles()
    logs = await started(files)
    for number in range(60):
        logs.create(tp(number), "id", logs.default_config).append_as_leader(batch(b"x"), 0)

    def changing(operation: str, path: str) -> None:
        if operation == "append" and path.endswith(".index"):
            turns.note()

    async with Turns() as turns:
        files.before_change = changing
        await logs.stop()
        files.before_change = None
    assert turns.noted == 60
    assert turns.most_in_one <= 20
    again = await started(files)
    assert again.was_clean
    await again.stop()


async def test_many_producers_are_forgotten_some_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (producer_state, log_producers):
        monkeypatch.setattr(module, "EXPIRED_AT_ONCE", 10)
    monkeypatch.setattr(log_manager, "_RETENTION_WEIGHT_MAX", 0)
    clock = ManualClock(NOW_MS)
    logs = await started(MemoryFiles(), clock)
    log = logs.create(tp(0), "id", logs.default_config)
    for producer_id in range(45):
        log.append_as_leader(batch(b"x", producer=(producer_id, 0, 0)), 0)
    clock.advance(logs.config.producer_id_expiration_ms + 1)
    async with Turns() as turns:
        await logs.apply_retention()
        assert turns.count >= 4
    assert not log.producers.count
    await logs.stop()
