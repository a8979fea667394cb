"""A directory that failed may have lost data, and somebody remembers that for the next life."""

from __future__ import annotations

import pytest

from broker.log.test_continuity import TAIL, TP, Machine
from oncelog_broker.log.claims import KeptData, Loss
from oncelog_testing.memory.crashes import length_only
from oncelog_testing.memory.files import Keep


async def fail_and_remount(machine: Machine, path: str, *, noted: bool, shorter: bool) -> None:
    """The sync of what has counted fails, the process ends, the volume is mounted again."""
    logs = machine.logs
    assert logs is not None
    log_dir = next(d for d in logs.dirs if d.path == path)
    machine.files.fail("sync", f"{path}/t-0")
    log_dir.flusher.sync_now()
    assert not log_dir.online
    if noted:
        logs.continuity.note_failed(log_dir)
        assert await logs.continuity.directory_failed(log_dir) == log_dir.directory_id
    machine.logs = None
    keep: Keep = (lambda view: view.shortened) if shorter else "none"
    machine.files = machine.files.reborn(keep, keep_names=True, remount=path)
    await logs._tasks.close()


@pytest.mark.parametrize("shorter", [True, False])
async def test_a_failed_sync_and_a_remount_lose_the_tail_without_a_restart(shorter: bool) -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    await fail_and_remount(machine, "/d", noted=True, shorter=shorter)
    assert await machine.start() == KeptData(None, 10, TAIL)
    assert machine.record().failed == {}
    await machine.crash("all")
    assert await machine.start() == KeptData(20, 20, Loss.NONE), "said once"
    await machine.stop()


async def test_what_was_synced_when_a_directory_failed_is_kept() -> None:
    machine = Machine()
    await machine.start()
    machine.append("commit")
    assert machine.logs is not None
    log_dir = machine.logs.dirs[0]
    machine.files.fail("sync", "/d/t-0")
    log_dir.flusher.sync_now()
    machine.logs.continuity.note_failed(log_dir)
    assert await machine.logs.continuity.directory_failed(log_dir) == ""
    await machine.crash("all")
    assert await machine.start() == KeptData(10, 10, Loss.NONE)
    await machine.stop()


async def test_the_other_directories_remember_what_one_may_have_lost() -> None:
    machine = Machine("/d", "/e")
    await machine.start()
    machine.append("interval")
    machine.files.fail("append", "/d/continuity.json", times=None)
    await fail_and_remount(machine, "/d", noted=True, shorter=False)
    machine.files.heal()
    assert machine.record("/d").failed == {}, "it could not be written there"
    assert list(machine.record("/e").failed.values()) == [True]
    assert await machine.start() == KeptData(None, 10, TAIL)
    await machine.stop()


async def test_a_directory_that_comes_back_after_a_life_without_it_has_lost_its_tail() -> None:
    machine = Machine("/d", "/e")
    await machine.start()
    machine.append("interval")
    await fail_and_remount(machine, "/d", noted=True, shorter=True)
    machine.files.fail("open", "/d/", times=None)
    assert (await machine.start()).loss is Loss.NONE
    assert machine.logs is not None
    assert [d.online for d in machine.logs.dirs] == [False, True]
    await machine.stop()
    machine.files.heal()
    assert (await machine.start()).loss is TAIL
    await machine.stop()


async def test_the_store_remembers_what_no_directory_could() -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    assert machine.logs is not None
    name = machine.logs.dirs[0].directory_id
    await fail_and_remount(machine, "/d", noted=False, shorter=False)
    assert await machine.start({name: 10}) == KeptData(None, 10, TAIL)
    await machine.stop()
    assert await machine.start({name: 10}) == KeptData(20, 20, Loss.NONE), "said once"
    await machine.stop()


@pytest.mark.parametrize("flush", ["commit", "interval"])
async def test_a_log_that_ends_below_its_checkpointed_high_watermark_has_lost(flush: str) -> None:
    machine = Machine()
    await machine.start()
    logs = machine.logs
    assert logs is not None
    machine.append(flush)
    await logs.dirs[0].flusher.drain()
    if flush == "commit":
        logs.dirs[0].flusher.stop()
    machine.append(flush)
    logs.set_high_watermark_source(lambda: {TP: 2})
    assert await logs.dirs[0].write_checkpoints()
    machine.logs = None
    machine.files = machine.files.reborn("none", keep_names=True, remount="/d")
    await logs._tasks.close()
    claim = await machine.start()
    assert claim.loss is (Loss.NONE if flush == "commit" else TAIL), (
        "where all that counts is synced, only what was in no ISR can go"
    )
    await machine.stop()


async def test_rot_in_one_log_says_nothing_of_the_others_in_its_directory() -> None:
    """The log ends where the rot lies, below its high watermark; what the broker held of other
    partitions was perhaps their last whole copy."""
    machine = Machine()
    await machine.start()
    logs = machine.logs
    assert logs is not None
    machine.append("interval")
    machine.append("interval")
    await logs.dirs[0].flusher.drain()
    logs.set_high_watermark_source(lambda: {TP: 2})
    assert await logs.dirs[0].write_checkpoints()
    machine.files.corrupt("/d/t-0/00000000000000000000.log", 60)
    await machine.crash("all")
    claim = await machine.start()
    assert machine.logs is not None
    assert [bool(log.damage) for log in machine.logs.all()] == [True]
    assert claim.loss is Loss.NONE
    await machine.stop()


@pytest.mark.parametrize("flush", ["commit", "interval"])
async def test_holes_in_the_tail_of_a_directory_that_failed_are_no_rot(flush: str) -> None:
    machine = Machine()
    await machine.start()
    logs = machine.logs
    assert logs is not None
    machine.append(flush)
    await logs.dirs[0].flusher.drain()
    assert await logs.dirs[0].write_checkpoints()
    machine.files.fail("sync", "/d/t-0")
    machine.append(flush)
    machine.append(flush)
    logs.dirs[0].flusher.sync_now()
    logs.continuity.note_failed(logs.dirs[0])
    await logs.continuity.directory_failed(logs.dirs[0])
    machine.files = machine.files.reborn(length_only, keep_names=True, remount="/d")
    await logs._tasks.close()
    claim = await machine.start()
    found = machine.logs.all() if machine.logs is not None else []
    assert [(log.damage, log.log_end_offset) for log in found] == [("", 1)]
    assert claim.loss is (Loss.NONE if flush == "commit" else TAIL)
    await machine.stop()


@pytest.mark.parametrize("flush", ["commit", "interval"])
async def test_a_directory_that_could_not_be_opened_after_a_kill_may_be_another_mount(
    flush: str,
) -> None:
    """What the killed process had left in the page cache may have gone with the volume, whatever
    the boot id says."""
    machine = Machine("/d", "/e")
    await machine.start()
    machine.append(flush)
    assert machine.logs is not None
    log_dir = machine.logs.dirs[0]
    await log_dir.flusher.drain()
    assert await log_dir.write_checkpoints()
    machine.append(flush)
    log_dir.flusher.stop()
    machine.files = machine.files.reborn("none", keep_names=True, remount="/d")
    await machine.logs._tasks.close()
    machine.files.fail("open", "/d/", times=None)
    assert (await machine.start()).loss is Loss.NONE
    assert machine.logs is not None
    assert [d.online for d in machine.logs.dirs] == [False, True]
    await machine.stop()
    machine.files.heal()
    claim = await machine.start()
    assert claim.loss is (Loss.NONE if flush == "commit" else TAIL)
    assert [(log.damage, log.log_end_offset) for log in machine.logs.all()] == [("", 1)]
    await machine.stop()


@pytest.mark.parametrize("dirs", [("/d",), ("/d", "/e")])
async def test_a_failure_is_noted_before_anything_else_is_done_about_it(
    dirs: tuple[str, ...],
) -> None:
    """A broker that is killed in the midst of it leaves the note to the next one."""
    machine = Machine(*dirs)
    await machine.start()
    machine.append("interval")
    logs = machine.logs
    assert logs is not None
    machine.files.fail("sync", "/d/t-0")
    logs.dirs[0].flusher.sync_now()
    logs.continuity.note_failed(logs.dirs[0])
    machine.files = machine.files.reborn("none", keep_names=True, remount="/d")
    await logs._tasks.close()
    assert await machine.start() == KeptData(None, 10, TAIL)
    await machine.stop()
