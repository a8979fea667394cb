"""A replica with rot gives way until it is whole again."""

from __future__ import annotations

import logging

import pytest

from oncelog_broker.log.scrubber import Scrubber
from oncelog_broker.replication.repair import Repair
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from support.logs import batch, follower_batches, make_log, sync
from support.replicas import TP, Replicas
from support.replication_cluster import Cluster
from support.waiting import eventually


def repair_of(records: int) -> Repair:
    log = make_log(MemoryFiles())
    for _ in range(records):
        log.append_as_leader(batch(b"x"), 0)
    sync(log)
    return Repair(log)


async def test_damage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    repair = repair_of(3)
    with caplog.at_level(logging.ERROR):
        assert repair.found("rot")
        assert not repair.found("rot")
        assert not repair.found("the same, found by another reader")
    assert len(caplog.records) == 1
    repair.dropped()
    assert repair.found("other rot")


async def test_a_follower_gives_its_log_up_when_there_is_a_leader() -> None:
    repair = repair_of(3)
    assert not repair.give_up(None, 2, None), "it is sound"
    repair.found("rot")
    assert not repair.give_up(None, NO_BROKER, None)
    assert not repair._log.damage
    assert repair.give_up(None, 2, None)
    assert repair._log.needs_refetch
    assert not repair.give_up(None, 2, None), "once"


async def test_called_upon_to_lead_it_takes_its_word_back() -> None:
    repair = repair_of(3)
    repair.found("rot")
    repair.give_up(None, 2, None)
    repair.withdraw()
    assert not repair._log.needs_refetch
    repair._log.damage = "found by recovery: records are missing"
    repair.withdraw()
    assert repair._log.needs_refetch


async def test_whole_is_who_has_synced_what_is_committed() -> None:
    repair = repair_of(10)
    log = repair._log
    log.damage = "rot"
    repair.begins()
    log.truncate_fully_and_start_at(0)
    repair.dropped()
    log.append_as_follower(follower_batches((0, 4, 0)))
    repair.heard(4, 0)
    states = [repair.refetching]
    sync(log)
    repair.synced()
    states.append(repair.refetching)
    assert states == [True, False], "what is not synced does not count"
    assert log.refetch_until < 0


async def test_a_leader_of_another_epoch_may_know_too_little() -> None:
    repair = repair_of(10)
    log = repair._log
    log.damage = "rot"
    repair.begins()
    log.truncate_fully_and_start_at(0)
    log.append_as_follower(follower_batches((0, 9, 0)))
    sync(log)
    repair.heard(4, 7)
    assert repair.refetching, "the damaged log had one record more"
    log.append_as_follower(follower_batches((9, 1, 7)))
    sync(log)
    repair.heard(4, 7)
    assert not repair.refetching


async def test_a_leader_makes_room_as_soon_as_somebody_complete_is_there() -> None:
    group = Replicas(isr=[1])
    group.produce(b"a", b"b")
    group.sync(1)
    leader = group[1].partition
    leader.corruption_found("rot")
    assert not leader.log.needs_refetch, "nobody else has it all"
    group.replicate(2)
    assert 2 in group.isr
    leader.check_isr(group.now, 10.0)
    assert leader.log.needs_refetch


async def test_one_who_leaves_the_isr_is_no_successor() -> None:
    group = Replicas(isr=[1, 2])
    group.produce(b"a", b"b")
    group.replicate(2)
    leader = group[1].partition
    assert leader.leader is not None
    assert leader.leader.has_successor(None)
    leader.leader.propose_leave([2])
    assert not leader.leader.has_successor(None)


async def test_a_member_of_the_elr_is_a_successor_while_it_is_heard_of() -> None:
    group = Replicas(isr=[1, 2])
    group.produce(b"a", b"b")
    group.replicate(2)
    role = group[1].partition.leader
    assert role is not None
    role.state = type(role.state)((1,), 7, elr=(2,))
    assert not role.has_successor(None)
    assert role.has_successor(group.now)
    assert not role.has_successor(group.now + 60)


async def test_what_the_scrubber_finds_has_the_replica_fetched_again() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"a", b"b", b"c")
        follower = cluster[2].partition(TP)
        log = follower.log
        await eventually(lambda: log.log_end_offset == 3)
        files = cluster[2].files
        path = log.segments.active.path
        sound = files.read_bytes(path)
        files.corrupt(path, 70, 1)
        scrubber = Scrubber(
            log.log_dir,
            find=cluster[2].logs.get,
            interval_ms=1,
            bytes_per_second=1 << 30,
            entropy=SeededEntropy(1),
            on_damage=cluster[2].logs.damage_found,
        )
        await scrubber.scrub()
        assert log.needs_refetch
        await eventually(lambda: not log.damage and not follower.refetching)
        await cluster.isr_is(TP, 1, 2, 3)
        assert files.read_bytes(path) == sound


async def test_rot_in_a_log_that_is_nobody_s_replica_is_told() -> None:
    async with Cluster() as cluster:
        log = cluster[1].logs.create(TP, "id", cluster[1].logs.default_config)
        cluster[1].logs.damage_found(log, "rot")
        assert not log.needs_refetch
