"""Each rule of the log is safe as shipped; without it, its harm is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.files import Files
from oncelog_testing.memory.files import MemoryFiles
from support.clock import ManualClock
from support.logs import DATA, NOW_MS, TP, batch, values_in
from support.room_settings import log_settings
from support.waiting import eventually
from unsafe.log import NamesUnsynced, without


async def started(files: Files, safeguards: LogSafeguards = SAFE) -> LogManager:
    logs = LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(7),
        config=log_settings(log_dirs=(DATA,), headroom_bytes=0),
        broker_id=1,
        safeguards=safeguards,
    )
    await logs.start("cluster")
    return logs


async def with_three_records(files: Files, safeguards: LogSafeguards = SAFE) -> LogManager:
    logs = await started(files, safeguards)
    log = logs.create(TP, "id", logs.default_config)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), 0)
    await eventually(lambda: log.synced_offset == 3)
    return logs


async def found_after_a_power_cut(wrapped: Callable[[Files], Any] = lambda disk: disk) -> list[Any]:
    files = MemoryFiles()
    await with_three_records(wrapped(files))
    logs = await started(wrapped(files.reborn("none")))
    found = [value for log in logs.all() for value in values_in(log)]
    await logs.stop(clean=False)
    return found


async def test_names_survive_a_power_cut() -> None:
    assert await found_after_a_power_cut() == [b"a", b"b", b"c"]


async def test_losing_synced_records_is_caught_when_directories_are_not_synced() -> None:
    assert await found_after_a_power_cut(NamesUnsynced) == []


async def test_without_synced_names_everything_else_is_as_it_should_be() -> None:
    """The switch takes away one thing only: whoever is merely killed finds all that was written."""
    files = MemoryFiles()
    logs = await with_three_records(cast(Files, NamesUnsynced(files)))
    await logs.stop(clean=True, broker_epoch=9)
    logs = await started(cast(Files, NamesUnsynced(files.reborn("all"))))
    assert (logs.was_clean, logs.previous_broker_epoch) == (True, 9)
    assert values_in(logs.all()[0]) == [b"a", b"b", b"c"]
    await logs.stop(clean=False)


async def after_rot(safeguards: LogSafeguards, *, clean: bool) -> LogManager:
    """The second of three batches rots after it was synced and the checkpoint had followed."""
    files = MemoryFiles()
    logs = await with_three_records(files, safeguards)
    log = logs.all()[0]
    size = log.size_bytes // 3
    path = f"{log.directory}/{0:020d}.log"
    if clean:
        await logs.stop(clean=True)
    else:
        await logs.dirs[0].write_checkpoints()
    files = files.reborn("none")
    files.corrupt(path, size + 7)  # its base offset
    if clean:
        files.remove(f"{log.directory}/{0:020d}.index")  # or the batches would not be read
    return await started(files, safeguards)


@pytest.mark.parametrize("clean", [True, False])
async def test_rot_takes_the_replica_out_of_service(clean: bool) -> None:
    logs = await after_rot(SAFE, clean=clean)
    assert logs.all()[0].needs_refetch
    await logs.stop(clean=False)


@pytest.mark.parametrize("clean", [True, False])
async def test_forgetting_synced_records_is_caught_when_rot_is_cut_off(clean: bool) -> None:
    logs = await after_rot(without("keep_damaged_logs"), clean=clean)
    log = logs.all()[0]
    assert not log.needs_refetch, "it would be elected, and the others would cut as well"
    assert values_in(log) == [b"a"]
    await logs.stop(clean=False)


async def found_after_a_failed_sync(safeguards: LogSafeguards) -> list[bytes | None]:
    """A sync fails, the process is started again and syncs what it reads, then the power goes."""
    files = MemoryFiles()
    logs = await with_three_records(files, safeguards)
    log = logs.all()[0]
    files.fail("sync")
    log.append_as_leader(batch(b"d"), 0)
    await eventually(lambda: not logs.dirs[0].online)
    assert log.synced_offset == 3, "nobody was told that the fourth is safe"
    files = files.reborn("all")
    logs = await started(files, safeguards)
    log = logs.all()[0]
    assert (values_in(log), log.synced_offset) == ([b"a", b"b", b"c", b"d"], 4), (
        "from here on it is"
    )
    logs = await started(files.reborn("none"), safeguards)
    found = values_in(logs.all()[0])
    await logs.stop(clean=False)
    return found


async def test_what_a_failed_sync_had_dropped_is_safe_once_it_counts() -> None:
    assert await found_after_a_failed_sync(SAFE) == [b"a", b"b", b"c", b"d"]


async def test_losing_synced_records_is_caught_when_what_was_found_is_only_synced() -> None:
    found = await found_after_a_failed_sync(without("rewrite_unsynced"))
    assert found == [b"a", b"b", b"c"]
