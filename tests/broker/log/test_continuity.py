"""A broker may say so much of its data after each kind of stop, and its files then hold that."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.claims import KeptData, Loss
from oncelog_broker.log.continuity import Continuity
from oncelog_broker.log.continuity_record import ContinuityRecord
from oncelog_broker.log.log_manager import LogManager
from oncelog_protocol.errors import StorageError
from oncelog_protocol.topic_config import parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import Keep, MemoryFiles
from support.clock import ManualClock
from support.replicas import batch_of
from support.room_settings import log_settings

TP = TopicPartition("t", 0)
NOTHING = KeptData(None, None, Loss.ALL)
TAIL = Loss.TAIL


class Machine:
    """It is a broker's directories over several lives; epochs are 10, 20, 30 and so on."""

    def __init__(self, *dirs: str) -> None:
        self.dirs = dirs or ("/d",)
        self.files = MemoryFiles(*self.dirs)
        self.epoch = 0
        self.ids = 0
        self.logs: LogManager | None = None

    async def start(
        self, losses: Mapping[str, int] | None = None, *, register: bool = True
    ) -> KeptData:
        """Return what this life claims, having heard of ``losses`` from the store; it is registered
        then, unless it dies before."""
        self.ids += 1
        self.logs = logs = LogManager(
            files=self.files,
            clock=ManualClock(),
            entropy=SeededEntropy(self.ids),
            config=log_settings(log_dirs=self.dirs, headroom_bytes=0),
            broker_id=1,
        )
        await logs.start("c")
        logs.continuity.heard(losses or {})
        claim = logs.continuity.claim()
        if register:
            self.epoch += 10
            logs.continuity.registered(self.epoch)
        return claim

    def append(self, flush: str) -> None:
        assert self.logs is not None
        config = parse_topic_config({"flush": flush})
        self.logs.create(TP, "id", config).append_as_leader(batch_of(b"x"), 0)

    async def stop(self) -> None:
        assert self.logs is not None
        await self.logs.stop(clean=True, broker_epoch=self.epoch)

    async def crash(self, keep: Keep = "none") -> None:
        logs, self.logs = self.logs, None
        self.files = self.files.reborn(keep)
        assert logs is not None
        for log_dir in logs.dirs:
            log_dir.flusher.stop()
        await logs._tasks.close()

    def record(self, path: str = "/d") -> ContinuityRecord:
        return ContinuityRecord.decode(self.files.read_bytes(f"{path}/{checkpoint.CONTINUITY}"))


# ---------------------------------------------------------------- kinds of stops


async def test_a_new_broker_has_nothing_from_before() -> None:
    machine = Machine()
    assert await machine.start() == NOTHING
    record = machine.record()
    assert (record.since, record.until, record.loss, record.unsynced) == (10, 10, Loss.NONE, False)
    await machine.stop()


@pytest.mark.parametrize("flush", ["commit", "interval"])
async def test_a_clean_stop_keeps_everything(flush: str) -> None:
    machine = Machine()
    await machine.start()
    machine.append(flush)
    await machine.stop()
    assert await machine.start() == KeptData(10, 10, Loss.NONE)
    await machine.stop()
    assert await machine.start() == KeptData(10, 20, Loss.NONE)
    await machine.stop()


@pytest.mark.parametrize(
    ("flush", "keep", "claim"),
    [
        ("commit", "none", KeptData(10, 10, Loss.NONE)),
        ("commit", "all", KeptData(10, 10, Loss.NONE)),
        ("interval", "all", KeptData(10, 10, Loss.NONE)),
        ("interval", "none", KeptData(None, 10, Loss.TAIL)),
    ],
    ids=["power cut, commit", "kill, commit", "kill, interval", "power cut, interval"],
)
async def test_crashes(flush: str, keep: Keep, claim: KeptData) -> None:
    machine = Machine()
    await machine.start()
    machine.append(flush)
    assert machine.record().unsynced is (flush == "interval"), "before the offset counts"
    await machine.crash(keep)
    assert await machine.start() == claim
    assert machine.record().unsynced is False, "what is here now is synced"
    assert machine.record().since == (10 if claim.since else 20)
    await machine.stop()


async def test_a_power_cut_after_a_kill_takes_nothing_that_a_start_has_kept() -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    await machine.crash("all")
    assert (await machine.start()).loss is Loss.NONE
    await machine.crash("none")
    assert await machine.start() == KeptData(10, 20, Loss.NONE)
    assert machine.logs is not None
    log = machine.logs.get(TP)
    assert log is not None
    assert log.log_end_offset == 1
    await machine.stop()


async def test_a_loss_is_not_forgotten_before_it_was_registered() -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    await machine.crash("none")
    lost = KeptData(None, 10, TAIL)
    assert await machine.start(register=False) == lost
    await machine.crash("none")
    assert await machine.start(register=False) == KeptData(None, None, TAIL)
    await machine.crash("all")
    assert (await machine.start()).loss is TAIL
    await machine.crash("none")
    assert await machine.start() == KeptData(20, 20, Loss.NONE)
    await machine.stop()


async def test_a_registration_whose_epoch_was_not_learnt() -> None:
    machine = Machine()
    await machine.start()
    await machine.crash("none")
    assert await machine.start(register=False) == KeptData(10, 10, Loss.NONE)
    await machine.crash("none")
    assert await machine.start() == KeptData(10, None, Loss.NONE), "it may have been any"
    await machine.stop()


async def test_registering_again_while_alive_keeps_everything() -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    assert machine.logs is not None
    continuity = machine.logs.continuity
    assert continuity.claim() == KeptData(10, 10, Loss.NONE)
    continuity.registered(20)
    continuity.registered(20)
    assert continuity.kept == KeptData(10, 20, Loss.NONE)
    assert machine.record().unsynced, "what was noted in this life stays"
    await machine.stop()


# ---------------------------------------------------------------- directories


async def test_another_disk_in_the_place_of_one() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    await machine.files.remove_tree("/b")
    assert await machine.start() == NOTHING
    await machine.stop()
    assert await machine.start() == KeptData(20, 20, Loss.NONE)
    await machine.stop()


def _make(machine: Machine, *numbers: int) -> dict[int, str]:
    """Make partitions, and return the directory that each lies in."""
    _, logs = _continuity(machine)
    names = [TopicPartition("t", number) for number in numbers]
    made = [logs.create(name, "id", logs.default_config) for name in names]
    return {log.topic_partition.partition: log.log_dir.path for log in made}


def _listed(machine: Machine) -> list[tuple[int, int | None, list[int]]]:
    found = _continuity(machine)[0].listed
    return [(each.since, each.until, sorted(each.partitions["id"])) for each in found]


@pytest.mark.parametrize("replaced", ["/a", "/b"])
async def test_a_sound_directory_vouches_for_what_lies_in_it(replaced: str) -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    where = _make(machine, 0, 1, 2, 3)
    assert _listed(machine) == []
    await machine.stop()
    await machine.files.remove_tree(replaced)
    sound = [number for number, path in where.items() if path != replaced]
    assert await machine.start() == NOTHING
    assert _listed(machine) == [(10, 10, sound)]
    # What is made again was in the other directory before, and may be incomplete.
    _make(machine, 0, 1, 2, 3)
    continuity, _ = _continuity(machine)
    assert continuity.claim() == KeptData(20, 20, Loss.NONE)
    assert _listed(machine) == [(10, 20, sound)]
    continuity.registered(30)
    machine.epoch = 30
    await machine.stop()
    assert await machine.start() == KeptData(20, 30, Loss.NONE)
    assert _listed(machine) == [(10, 30, sound)]
    await machine.stop()


async def test_a_sound_directory_vouches_also_after_a_start_that_came_to_nothing() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    where = _make(machine, 0, 1)
    await machine.stop()
    await machine.files.remove_tree("/b")
    await machine.start(register=False)
    await machine.crash("all")
    assert await machine.start() == NOTHING
    assert _listed(machine) == [(10, None, [n for n, path in where.items() if path == "/a"])]
    await machine.stop()


async def test_a_directory_that_lost_its_tail_vouches_for_nothing() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    (path,) = _make(machine, 0).values()
    _, logs = _continuity(machine)
    await next(d for d in logs.dirs if d.path == path).flusher.drain()
    machine.append("interval")
    await machine.crash("none")
    assert await machine.start() == KeptData(None, 10, Loss.TAIL)
    assert _listed(machine) == []
    await machine.stop()
    other = "/b" if path == "/a" else "/a"
    await machine.files.remove_tree(other)
    assert await machine.start() == NOTHING
    assert _listed(machine) == [(20, 20, [0])]
    await machine.stop()


async def test_the_store_knows_of_a_directory_that_may_have_lost_its_tail() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    where = _make(machine, 0, 1)
    _, logs = _continuity(machine)
    lossy = logs.dirs[1].directory_id
    await machine.stop()
    assert await machine.start({lossy: 10}) == KeptData(None, 10, Loss.TAIL)
    assert _listed(machine) == [(10, 10, [n for n, path in where.items() if path == "/a"])]
    await machine.stop()


async def test_files_of_an_older_release_speak_for_all_directories() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    _make(machine, 0, 1)
    await machine.stop()
    await machine.files.remove_tree("/b")
    await machine.start()
    await machine.stop()
    path = f"/a/{checkpoint.CONTINUITY}"
    document = checkpoint.decode_document(checkpoint.CONTINUITY, machine.files.read_bytes(path))
    del document["own_since"], document["own_loss"]
    machine.files.write_atomic_now(path, checkpoint.encode_document(document))
    assert await machine.start() == KeptData(20, 20, Loss.NONE)
    assert _listed(machine) == []
    await machine.stop()


async def test_an_empty_disk() -> None:
    machine = Machine()
    await machine.start()
    await machine.stop()
    machine.files = MemoryFiles("/d")
    assert await machine.start() == NOTHING
    await machine.stop()


async def test_a_directory_more_and_a_directory_less() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    machine.dirs = ("/a", "/b", "/c")
    assert await machine.start() == KeptData(10, 10, Loss.NONE)
    await machine.stop()
    machine.dirs = ("/a", "/c")
    assert await machine.start() == NOTHING
    await machine.stop()


async def test_a_directory_from_a_backup_remembers_less() -> None:
    machine = Machine()
    await machine.start()
    await machine.stop()
    backup = machine.files.image("all")
    await machine.start()
    await machine.stop()
    machine.files = backup
    assert await machine.start() == KeptData(10, 10, Loss.NONE), "the cluster knows of epoch 20"
    await machine.stop()


async def test_one_of_several_directories_from_a_backup() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    old = machine.files.read_bytes(f"/b/{checkpoint.CONTINUITY}")
    await machine.start()
    await machine.stop()
    machine.files.write_atomic_now(f"/b/{checkpoint.CONTINUITY}", old)
    assert await machine.start() == KeptData(10, 10, Loss.NONE)
    await machine.stop()


async def test_a_directory_that_does_not_answer_is_not_a_missing_one() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    machine.files.fail("open", "/b/.lock", times=1)
    assert await machine.start() == KeptData(10, 10, Loss.NONE), "its replicas fail one by one"
    await machine.stop()
    assert await machine.start() == KeptData(10, 20, Loss.NONE), "it took nothing in epoch 20"
    await machine.stop()


async def test_a_directory_that_was_away_for_several_lives_and_comes_back_as_it_was() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    older = machine.files.read_bytes(f"/b/{checkpoint.CONTINUITY}")
    await machine.start()
    await machine.stop()
    for _ in range(2):
        machine.files.fail("open", "/b/.lock", times=1)
        await machine.start()
        await machine.crash()
    kept = machine.files.image("all")
    assert await machine.start() == KeptData(10, 40, Loss.NONE)
    await machine.stop()
    machine.files = kept
    machine.files.write_atomic_now(f"/b/{checkpoint.CONTINUITY}", older)
    assert await machine.start() == KeptData(10, 10, Loss.NONE), "a backup is not what was left"
    await machine.stop()


async def test_a_directory_that_fails_while_the_registration_is_written() -> None:
    machine = Machine("/a", "/b")
    await machine.start()
    await machine.stop()
    machine.files.fail("sync", "/b/", times=1)
    await machine.start()
    assert machine.logs is not None
    assert [d.online for d in machine.logs.dirs] == [True, False]
    await machine.crash()
    assert await machine.start() == KeptData(10, 20, Loss.NONE)
    await machine.stop()


@pytest.mark.parametrize("failed", ["/a", "/b"])
async def test_a_directory_that_failed_before_the_broker_registered_again(failed: str) -> None:
    """Seed 80591: the session expired while a directory was away that held the last copy."""
    machine = Machine("/a", "/b")
    await machine.start()
    older = machine.files.read_bytes(f"{failed}/{checkpoint.CONTINUITY}")
    continuity, logs = _continuity(machine)
    continuity.claim()
    continuity.registered(20)
    next(d for d in logs.dirs if d.path == failed).fail("append", OSError("broken"))
    assert continuity.claim() == KeptData(10, 20, Loss.NONE)
    continuity.registered(30)
    machine.epoch = 30
    await machine.crash()
    kept = machine.files.image("all")
    assert await machine.start() == KeptData(10, 30, Loss.NONE), "it took nothing in epoch 30"
    await machine.stop()
    machine.files = kept
    machine.files.write_atomic_now(f"{failed}/{checkpoint.CONTINUITY}", older)
    assert await machine.start() == KeptData(10, 10, Loss.NONE), "a backup is not what was left"
    await machine.stop()


@pytest.mark.parametrize("flush", ["interval", "commit"])
async def test_a_directory_that_failed_between_claim_and_epoch(flush: str) -> None:
    """Seed 636322644: the last file of the directory named no epoch, which passed for the newest
    life, and the note of its failure in the other directory for an older one."""
    machine = Machine("/a", "/b")
    await machine.start()
    machine.append(flush)
    continuity, logs = _continuity(machine)
    continuity.claim()
    failed = next(d for d in logs.dirs if d.logs)
    failed.fail("sync", OSError("broken"))
    assert failed.lossy == (flush == "interval")
    continuity.registered(20)
    machine.epoch = 20
    await machine.crash("all")
    claim = await machine.start()
    assert claim.loss is (TAIL if failed.lossy else Loss.NONE)
    await machine.stop()


def _continuity(machine: Machine) -> tuple[Continuity, LogManager]:
    assert machine.logs is not None
    return machine.logs.continuity, machine.logs


@pytest.mark.parametrize("clean", [True, False])
async def test_directories_of_an_older_release(clean: bool) -> None:
    machine = Machine()
    await machine.start()
    await (machine.stop() if clean else machine.crash("all"))
    machine.files.remove(f"/d/{checkpoint.CONTINUITY}")
    wanted = KeptData(10, 10, Loss.NONE) if clean else KeptData(None, None, TAIL)
    assert await machine.start() == wanted
    await machine.stop()


@pytest.mark.parametrize("byte", range(0, 210, 7))
async def test_a_damaged_file_claims_nothing(byte: int) -> None:
    machine = Machine()
    await machine.start()
    await machine.crash("all")
    machine.files.corrupt(f"/d/{checkpoint.CONTINUITY}", byte)
    assert await machine.start() == KeptData(None, None, TAIL)
    await machine.stop()


# ---------------------------------------------------------------- what cannot be written


async def test_a_full_disk_does_not_stop_who_has_lost_nothing() -> None:
    machine = Machine()
    await machine.start()
    assert machine.logs is not None
    machine.files.fail("append", f"/d/{checkpoint.CONTINUITY}", error=errno.ENOSPC, times=None)
    machine.logs.continuity.claim()
    machine.logs.continuity.registered(20)
    assert machine.logs.dirs[0].online
    machine.files.heal()
    await machine.crash("all")
    assert await machine.start() == KeptData(10, None, Loss.NONE), "of epoch 20 nothing is written"
    await machine.stop()


@pytest.mark.parametrize("flush", ["commit", "interval"])
@pytest.mark.parametrize("then", ["all", "none"])
@pytest.mark.parametrize("first", ["all", "none"])
async def test_what_counts_after_a_start_on_a_full_disk_is_judged_as_any(
    first: Keep, then: Keep, flush: str
) -> None:
    """The file of the life before is the newest. It must neither vouch for what the next life may
    lose, nor cost that life the trust in what it keeps."""
    machine = Machine()
    await machine.start()
    await machine.crash(first)
    machine.files.fail("append", f"/d/{checkpoint.CONTINUITY}", error=errno.ENOSPC, times=None)
    await machine.start()
    machine.files.heal()
    machine.append(flush)
    assert machine.logs is not None
    if flush == "commit":
        await machine.logs.dirs[0].flusher.drain()
    await machine.crash(then)
    lost = flush == "interval" and then == "none"
    kept = KeptData(None, None, TAIL) if lost else KeptData(10, None, Loss.NONE)
    assert await machine.start() == kept
    await machine.stop()
    names = machine.files.list_dir("/d")
    assert checkpoint.CONTINUITY_LEFT not in names, "it has been written since"


@pytest.mark.parametrize(("left", "times"), [("all", 2), ("none", 0)])
async def test_what_is_found_is_written_again_unless_the_machine_has_restarted(
    left: Keep, times: int
) -> None:
    """Then what is read is on the disk, and the less is written after a power cut, the better."""
    machine = Machine()
    await machine.start()
    machine.append("commit")
    assert machine.logs is not None
    await machine.logs.dirs[0].flusher.drain()
    await machine.crash(left)
    rewritten: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "rewrite":
            rewritten.append(path)

    machine.files.before_change = note
    await machine.start()
    machine.files.before_change = None
    assert machine.logs.dirs[0].other_run is False, "it has a record of this run by now"
    assert len(rewritten) == times, "the topic id and the records"
    await machine.stop()


async def test_a_full_disk_does_not_pass_for_an_earlier_run_of_the_machine() -> None:
    """The next process would believe that what it reads is on the disk."""
    machine = Machine()
    await machine.start()
    await machine.crash("none")
    machine.files.fail("append", f"/d/{checkpoint.CONTINUITY}", error=errno.ENOSPC, times=None)
    await machine.start()
    assert machine.logs is not None
    assert machine.logs.dirs[0].online
    assert machine.logs.dirs[0].other_run is False
    machine.files.heal()
    await machine.crash("all")
    assert await machine.start() == KeptData(10, None, Loss.NONE), "it has lost nothing"
    assert machine.logs.dirs[0].other_run is False
    await machine.stop()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
async def test_a_loss_that_cannot_be_written_stops_the_directory(error: int) -> None:
    machine = Machine()
    await machine.start()
    machine.append("interval")
    await machine.crash("none")
    machine.files.fail("append", f"/d/{checkpoint.CONTINUITY}", error=error, times=None)
    await machine.start(register=False)
    assert machine.logs is not None
    assert not machine.logs.dirs[0].online
    await machine.logs.stop(clean=False)


async def test_nothing_counts_unsynced_before_that_is_written() -> None:
    machine = Machine()
    await machine.start()
    machine.files.fail("append", f"/d/{checkpoint.CONTINUITY}", times=None)
    with pytest.raises(StorageError):
        machine.append("interval")
    assert machine.logs is not None
    log = machine.logs.get(TP)
    assert log is not None
    assert log.synced_offset == 0
    assert not machine.logs.dirs[0].online
    machine.files.heal()
    await machine.logs.stop(clean=False)


# ---------------------------------------------------------------- the file
