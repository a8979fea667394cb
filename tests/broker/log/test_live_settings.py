"""Settings of logs change while the broker runs: the loops live by them at once.

Each loop begins with settings by which it would rest for an hour, or for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.scrubber import Scrubber
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.compaction import COMPACTED, append
from support.logs import NOW_MS, TP, topic_config
from support.room_settings import cleaner_settings, log_settings
from support.waiting import eventually

HOUR_MS = 3_600_000


async def started(**config: Any) -> LogManager:
    logs = LogManager(
        files=MemoryFiles(),
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=["/disk"], headroom_bytes=0, **config),
        broker_id=1,
    )
    await logs.start("cluster")
    return logs


async def settled(log: PartitionLog) -> None:
    """All of it is synced, and counts as committed."""
    await eventually(lambda: log.synced_offset == log.log_end_offset)


async def reads(scrubber: Scrubber, target_bytes: int) -> None:
    """It comes so far."""
    await eventually(lambda: scrubber.read_bytes >= target_bytes)


async def let_loops_run() -> None:
    """What would happen at once has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_retention_is_looked_at_by_the_new_interval() -> None:
    logs = await started(retention_check_interval_ms=HOUR_MS)
    log = logs.create(TP, "id", topic_config(retention_ms=0))
    logs.set_high_watermark_source(lambda: {TP: log.log_end_offset})
    append(log, (b"k", b"v"), timestamps=NOW_MS - 1)
    await settled(log)
    await let_loops_run()
    assert log.log_start_offset == 0
    logs.config.retention_check_interval_ms = 1
    logs.settings_changed()
    await eventually(lambda: log.log_start_offset == 1)
    await logs.stop()


async def test_the_cleaner_can_be_switched_on_and_off() -> None:
    logs = await started(cleaner=cleaner_settings(enable=False, backoff_ms=1, cpu_percent=100))
    log = logs.create(TP, "id", COMPACTED)
    logs.set_high_watermark_source(lambda: {TP: log.log_end_offset})
    for number in range(100):
        append(log, (b"k", b"%d" % number * 20))
    await settled(log)
    await let_loops_run()
    assert logs.cleaner.passes == 0
    logs.config.cleaner.enable = True
    logs.settings_changed()
    await eventually(lambda: logs.cleaner.passes > 0)
    logs.config.cleaner.enable = False
    logs.settings_changed()
    await let_loops_run()
    passes = logs.cleaner.passes
    for number in range(100):
        append(log, (b"k", b"%d" % number * 20))
    await settled(log)
    await let_loops_run()
    assert logs.cleaner.passes == passes
    await logs.stop()


async def test_scrubbing_can_be_switched_on_and_off_and_hurried() -> None:
    logs = await started(scrub_interval_ms=0, scrub_bytes_per_second=1 << 40)
    log = logs.create(TP, "id", topic_config())
    append(log, (b"k", b"v" * 1000))
    await settled(log)
    (scrubber,) = logs._scrubbers
    await let_loops_run()
    assert scrubber.passes == 0
    for interval_ms in (HOUR_MS, 1):  # the second one while the loop rests by the first
        target = scrubber.read_bytes + 1
        logs.config.scrub_interval_ms = interval_ms
        logs.settings_changed()
        await reads(scrubber, target)
    logs.config.scrub_interval_ms = 0
    logs.settings_changed()
    await let_loops_run()
    passes = scrubber.passes
    await let_loops_run()
    assert scrubber.passes <= passes + 1, "at most the pass that was under way"
    await logs.stop()


async def test_defaults_of_topics_are_read_anew() -> None:
    logs = await started(topic_defaults={"retention_ms": "5"})
    assert logs.default_config.retention_ms == 5
    logs.config.topic_defaults = {"retention_ms": "6"}
    logs.settings_changed()
    assert logs.default_config.retention_ms == 6
    assert logs.topic_defaults["retention_ms"] == "6"
    await logs.stop()
