"""A replica whose log was damaged makes room for another leader, until it may lead again."""

from __future__ import annotations

import errno

import pytest

from oncelog_broker.log.refetch import ALL_OFFSETS
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.replication import LeaderAndIsrPartition
from support.replicas import TOPIC_ID, Replicas


def order(epoch: int, leader: int, *, isr: tuple[int, ...] = (1, 2, 3)) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        "t", TOPIC_ID, 0, leader, epoch, list(isr), epoch, [1, 2, 3], False
    )


def damaged_member_under_a_leader_that_knows_little() -> Replicas:
    """All three hold what is committed; the new leader has not heard that it is, and member 3 finds
    rot and drops its log."""
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    assert group.acked == [b"a", b"b", b"c"]
    group[2].partition.high_watermark = 0
    group.elect(2)
    group[3].partition.log.damage = "rot"
    group[3].partition.restart_log_at(0)
    assert group[3].partition.refetching
    assert group[3].partition.log.log_end_offset == 0
    return group


async def test_it_may_not_lead_on_the_word_of_a_leader_that_knows_little() -> None:
    group = damaged_member_under_a_leader_that_knows_little()
    member = group[3].partition
    first = group[2].partition.log.read(0, 1, upto=1)
    member.log.append_as_follower(memoryview(first))
    member.leader_offsets(group[2].partition.high_watermark, 0)
    assert (member.log.log_end_offset, group[2].partition.high_watermark) == (1, 0)
    assert member.refetching
    assert group.deliver(group.elect(3, to=[]), 3) == StorageError.code


async def test_it_may_lead_when_it_holds_what_it_held() -> None:
    group = damaged_member_under_a_leader_that_knows_little()
    group[3].connect()
    group[3].machine.add(group[3].partition)
    group.replicate()
    assert not group[3].partition.refetching
    group.elect(3)
    assert group[3].partition.is_leader
    assert group.lost() == []


async def test_a_tail_of_its_own_need_not_come_back() -> None:
    """The leader will not have it; what it has committed in its own epoch tells enough."""
    group = Replicas()
    group.produce(b"a")
    group.replicate()
    group[1].partition.log.log_dir.flusher.sync_now()
    group.produce(*[b"tail-%d" % number for number in range(9)])
    group.sync(1)
    group.elect(2)
    group[1].partition.log.damage = "rot"
    group.replicate()
    assert group[1].partition.log.log_end_offset == 1
    refetching = [group[1].partition.refetching]
    group.produce(b"x")
    group.replicate()
    refetching.append(group[1].partition.refetching)
    assert refetching == [True, False]
    assert group.values(1) == [b"a", b"x"]


# ---- a damaged member leaves first, and is whole when it was let in again


async def test_a_damaged_member_is_taken_out_before_anything_is_dropped() -> None:
    """Its leader may have no idea of what is committed, and would count it for its lag time."""
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    group[3].partition.log.damage = "rot"
    order = group.elect(2, to=[1, 2])
    assert group.deliver(order, 3) == StorageError.code, "that is how the controller hears"
    assert group[3].partition.log.log_end_offset == 3
    group.elect(2, isr=[1, 2])
    group.fetch(3)
    assert group[3].partition.refetching
    group.replicate()
    assert sorted(group.isr) == [1, 2, 3]
    assert group.values(3) == [b"a", b"b", b"c"]


async def test_one_that_was_still_incomplete_when_it_stopped_is_taken_out_as_well() -> None:
    group = damaged_member_under_a_leader_that_knows_little()
    group[3].crash("all")
    group[3].restart()
    assert group[3].partition.refetching
    order = group.elect(2, to=[1, 2])
    assert group.deliver(order, 3) == StorageError.code
    assert group.deliver(group.elect(2, isr=[1, 2], to=[1, 2]), 3) == 0


async def test_who_was_let_in_again_is_whole() -> None:
    """It may not be known how far the damaged log reached, and nobody may write here for days."""
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    log = group[3].partition.log
    log.damage, log.refetch_until = "rot", ALL_OFFSETS
    group.elect(2, isr=[1, 2])
    group.replicate()
    assert sorted(group.isr) == [1, 2, 3]
    refetching = [group[3].partition.refetching]
    group.elect(3)
    refetching.append(group[3].partition.refetching)
    assert refetching == [True, False]
    assert group[3].partition.is_leader
    assert group.lost() == []


async def test_an_unclean_election_does_not_make_it_whole() -> None:
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate(2)
    group[3].partition.log.damage = "rot"
    group.elect(1, isr=[1, 2])
    group.replicate(2)
    group.fetch(3)
    group[3].partition.log.truncate_to(1)  # as if it had been sent no more yet
    assert group.deliver(group.elect(3, isr=[3], to=[]), 3) == StorageError.code


async def test_who_found_damage_after_it_was_let_in_is_not() -> None:
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    log = group[3].partition.log
    log.damage, log.refetch_until = "rot", ALL_OFFSETS
    group.elect(2, isr=[1, 2])
    group.replicate()
    log.damage = "more of it"
    group[3].partition.restart_log_at(0)
    assert log.log_end_offset == 0
    assert group.deliver(group.elect(3, to=[1, 2], isr=[1, 2, 3]), 3) == StorageError.code


async def test_a_damaged_member_keeps_its_log_while_anybody_counts_on_it() -> None:
    """The leader may be none any more, and the controller about to elect just this one."""
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    member = group[3].partition
    member.corruption_found("rot")
    assert member.log.needs_refetch
    for _ in range(3):
        group.fetch(3)
    assert group[1].partition.isr_item() is not None
    assert (member.log.log_end_offset, member.refetching) == (3, False)
    group.elect(3, to=[3])
    assert member.is_leader
    assert group.lost() == []


async def test_a_damaged_member_leaves_and_is_fetched_again() -> None:
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    member = group[3].partition
    member.corruption_found("rot")
    group.fetch(3)
    group.settle_isr()
    assert group.isr == [1, 2]
    group.fetch(3)
    assert (member.log.needs_refetch, member.refetching) == (False, True)
    group.replicate()
    assert member.refetching is False
    assert sorted(group.isr) == [1, 2, 3]
    assert group.values(3) == [b"a", b"b", b"c"]


async def test_an_empty_member_leaves_although_its_new_leader_knows_of_nothing_committed() -> None:
    group = Replicas()
    group.produce(b"a", b"b", b"c")
    group.replicate()
    group[2].partition.high_watermark = 0
    group.elect(2)
    group[3].partition.corruption_found("rot")
    group.fetch(3)
    assert group[2].partition.high_watermark == 0
    item = group[2].partition.isr_item()
    assert item is not None
    assert [member.broker_id for member in item.isr] == [1, 2]
    assert item.incomplete == [3], "or it would become eligible"


# ---- rot at the leader


HEADER_BYTE, LENGTH_BYTE, BODY_BYTE = 7, 10, 63
"""Bytes of a batch: in its base offset, which reading checks; in its length, so that it seems to go
on behind what is read; and where only the checksum tells."""


def rotten_leader(position: int, *, isr: list[int]) -> Replicas:
    """Let the second batch of the leader rot; broker 3 has yet to fetch it."""
    group = Replicas(isr=isr)
    group.produce(b"a", b"b", b"c")
    if 2 in isr:
        group.replicate(2)
    group.sync(1)
    log = group[1].partition.log
    group[1].files.corrupt(log.segments.active.path, log.size_bytes // 3 + position)
    if position == HEADER_BYTE:
        log.segments.active._tail.clear()  # so that it is the file that is asked
    for _ in range(4):
        group.fetch(3)
        group.sync(3)
    return group


@pytest.mark.parametrize("position", [HEADER_BYTE, LENGTH_BYTE, BODY_BYTE])
async def test_a_leader_with_rot_makes_room_and_is_fetched_again(position: int) -> None:
    """Not cut, not served for good, and not kept."""
    group = rotten_leader(position, isr=[1, 2])
    leader = group[1].partition
    assert leader.log.needs_refetch
    assert group.produce(b"x") == StorageError.code
    assert leader.log.log_end_offset == 3, "nothing is cut while others could want it"
    again = group.elect(1, to=[])
    again.leader_epoch = leader.leader_epoch
    assert group.deliver(again, 1) == StorageError.code, "that is how the controller hears"
    group.elect(2, isr=[2])
    group.replicate()
    assert [group.values(i) for i in (1, 2, 3)] == [[b"a", b"b", b"c"]] * 3
    assert sorted(group.isr) == [1, 2, 3]
    assert group.lost() == []


@pytest.mark.parametrize("position", [HEADER_BYTE, LENGTH_BYTE, BODY_BYTE])
async def test_a_leader_that_is_alone_goes_on_with_what_holds(position: int) -> None:
    group = rotten_leader(position, isr=[1])
    leader = group[1].partition
    assert not leader.log.needs_refetch
    assert group.produce(b"d") is None
    group.sync(1)
    assert group.acked[-1] == b"d"


async def test_a_follower_that_asks_again_for_what_is_right_is_served() -> None:
    """Its own disk may be full; the leader looks at what it has sent, and finds nothing."""
    group = Replicas(isr=[1, 2])
    group.produce(b"a", b"b")
    group.replicate(2)
    group[3].files.fail("append", group[3].partition.log.directory, error=errno.ENOSPC)
    for _ in range(3):
        group.fetch(3)
    assert not group[1].partition.log.needs_refetch
    assert group.values(3) == [b"a", b"b"]


async def test_a_damaged_follower_is_fetched_again_from_scratch() -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    broken = group[2].partition
    broken.log.damage = "rot"
    group[2].connect()
    group[2].machine.add(broken)
    group.fetch(2, lose_answer=True)
    assert broken.log.log_end_offset == 2, "who asks may get no answer"
    broken.restart_log_at(0)
    assert broken.refetching
    group[2].connect()
    group[2].machine.add(broken)
    assert broken.apply_leader_and_isr(order(group.leader_epoch + 1, 2), 0.0) == StorageError.code
    group.replicate()
    assert group[2].partition.refetching is False
    assert group.values(2) == [b"a", b"b"]
    assert sorted(group.isr) == [1, 2, 3]


async def test_a_damaged_log_may_not_lead() -> None:
    group = Replicas()
    group[2].partition.log.damage = "rot"
    assert group[2].partition.apply_leader_and_isr(order(1, 2), 0.0) == StorageError.code
