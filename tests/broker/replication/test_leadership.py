"""The high watermark follows its rule, replicas join and leave, and the controller answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.replication.leadership import REJOIN_DELAY_S, LeaderRole
from oncelog_broker.replication.progress import Contact
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
)
from oncelog_protocol.messages.replication import AlterPartitionResult, IsrMember
from oncelog_protocol.types import TopicPartition
from unsafe.replication import without

TP = TopicPartition("t", 0)
EPOCH = 4


def role(
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    start: int = 0,
    safeguards: Safeguards = SAFE,
    elr: tuple[int, ...] = (),
    origin: tuple[int, ...] | None = None,
) -> LeaderRole:
    return LeaderRole(
        TP,
        1,
        EPOCH,
        epoch_start_offset=start,
        replicas=replicas,
        origin=origin,
        isr=isr,
        partition_epoch=8,
        now=0.0,
        safeguards=safeguards,
        elr=elr,
    )


def fetch(
    leader: LeaderRole,
    replica: int,
    offset: int,
    *,
    end: int = 1000,
    now: float = 1.0,
    epoch: int = 20,
) -> None:
    leader.fetched(
        replica,
        offset,
        broker_epoch=epoch,
        log_start_offset=0,
        leader_end=end,
        contact=Contact(now),
        now=now,
    )


def result(
    code: int = 0, *, isr: tuple[int, ...] = (), epoch: int = EPOCH, version: int = 9
) -> AlterPartitionResult:
    return AlterPartitionResult("t", 0, code, 1, epoch, list(isr), version)


def test_the_high_watermark_is_the_least_offset_of_the_isr() -> None:
    leader = role()
    fetch(leader, 2, 70)
    assert leader.high_watermark(0, 100, 1) == 0  # broker 3 has not fetched in this epoch
    fetch(leader, 3, 90)
    assert leader.high_watermark(0, 100, 1) == 70
    assert leader.high_watermark(0, 60, 1) == 60  # the leader's own disk counts too


def test_it_never_moves_back() -> None:
    leader = role()
    fetch(leader, 2, 70)
    fetch(leader, 3, 70)
    assert leader.high_watermark(80, 100, 1) == 80


def test_it_stands_while_the_isr_is_too_small() -> None:
    leader = role(isr=(1,))
    assert leader.high_watermark(0, 100, 2) == 0
    assert leader.high_watermark(0, 100, 1) == 100
    unsafe = role(isr=(1,), safeguards=without("hold_below_min_isr"))
    assert unsafe.high_watermark(0, 100, 2) == 100


def test_a_topic_with_fewer_replicas_needs_just_those() -> None:
    assert role(isr=(1,), replicas=(1,)).high_watermark(0, 100, 2) == 100


def test_replicas_that_are_added_do_not_count_for_min_isr() -> None:
    moving = role(isr=(1,), replicas=(1, 2, 3), origin=(1,))
    assert moving.has_min_isr(2), "a move refuses no write that would be taken without it"
    assert not role(isr=(1,), replicas=(1, 2, 3, 4), origin=(1, 2)).has_min_isr(2)
    assert role(isr=(1, 4), replicas=(1, 2, 3, 4), origin=(1, 2)).has_min_isr(2)


def test_it_stands_while_somebody_outside_the_isr_may_be_elected() -> None:
    """KIP-966: the controller counts with a larger min.insync.replicas than this broker yet."""
    leader = role(isr=(1,), elr=(2, 3))
    assert not leader.has_min_isr(1)
    assert leader.high_watermark(0, 100, 1) == 0
    fetch(leader, 2, 100)
    assert leader.propose_join(2, 0, 1.0)
    assert leader.high_watermark(0, 100, 1) == 0
    leader.answered(result(isr=(1, 2)), 2.0)
    assert leader.has_min_isr(1)
    assert leader.high_watermark(0, 100, 1) == 100


def test_answers_tell_of_the_elr() -> None:
    leader = role(isr=(1, 2))
    assert leader.propose_leave([2])
    shrunk = result(isr=(1,))
    shrunk.elr = [2]
    leader.answered(shrunk, 2.0)
    assert leader.state.elr == (2,)
    assert leader.high_watermark(0, 100, 1) == 0
    newer = result(InvalidUpdateVersionError.code, isr=(1,), version=10)
    assert leader.propose_join(3, 0, 2.0) is False
    fetch(leader, 3, 100)
    assert leader.propose_join(3, 0, 2.0)
    leader.answered(newer, 3.0)
    assert not leader.state.elr


def test_who_lacks_committed_records_is_named_when_the_isr_changes() -> None:
    """It would become eligible else."""
    leader = role()
    leader.watermark = 80
    fetch(leader, 2, 10)
    fetch(leader, 3, 80)
    assert leader.propose_leave([2, 3])
    item = leader.item("id")
    assert item is not None
    assert item.incomplete == [2]
    leader.answered(result(isr=(1, 2, 3)), 2.0)
    fetch(leader, 2, 80)
    assert leader.propose_leave([2])
    item = leader.item("id")
    assert item is not None
    assert item.incomplete == []


def test_an_eligible_replica_that_lacks_committed_records_is_not_to_be_elected() -> None:
    leader = role(isr=(1,), elr=(2,))
    leader.watermark = 80
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert not leader.propose_leave([3])
    assert leader.propose_leave([2])
    item = leader.item("id")
    assert item is not None
    assert [member.broker_id for member in item.isr] == [1]
    assert 2 in item.incomplete
    leader.answered(result(isr=(1,)), 2.0)
    assert not leader.state.elr
    assert not leader.propose_leave([2])


def test_a_proposed_member_counts_before_the_controller_has_answered() -> None:
    leader = role(isr=(1, 2))
    fetch(leader, 2, 100)
    fetch(leader, 3, 90)
    assert leader.propose_join(3, 80, 1.0)
    assert leader.high_watermark(80, 100, 1) == 90
    unsafe = role(isr=(1, 2), safeguards=without("count_maximal_isr"))
    fetch(unsafe, 2, 100)
    fetch(unsafe, 3, 90)
    assert unsafe.propose_join(3, 80, 1.0)
    assert unsafe.high_watermark(80, 100, 1) == 100


def test_a_member_to_be_removed_counts_until_the_controller_has_answered() -> None:
    leader = role()
    fetch(leader, 2, 100)
    fetch(leader, 3, 10)
    assert leader.propose_leave([3])
    assert leader.high_watermark(0, 100, 1) == 10
    leader.answered(result(isr=(1, 2)), 2.0)
    assert leader.isr == (1, 2)
    assert leader.high_watermark(10, 100, 1) == 100


@pytest.mark.parametrize(
    ("offset", "joins"), [(79, False), (80, False), (99, False), (100, True), (101, True)]
)
def test_joining_needs_the_high_watermark_and_the_epoch_start(offset: int, joins: bool) -> None:
    leader = role(isr=(1, 2), start=100)
    fetch(leader, 3, offset)
    assert leader.propose_join(3, 80, 1.0) is joins


def test_joining_needs_a_fetch_in_this_epoch() -> None:
    assert not role(isr=(1, 2)).propose_join(3, 0, 1.0)


def test_the_epoch_start_can_be_ablated() -> None:
    leader = role(isr=(1, 2), start=100, safeguards=without("join_at_epoch_start"))
    fetch(leader, 3, 80)
    assert leader.propose_join(3, 80, 1.0)


def test_the_proposal_carries_the_broker_epochs_seen_when_eligible() -> None:
    """KAFKA-15221: a restart between the check and the request must be noticed."""
    leader = role(isr=(1, 2))
    fetch(leader, 3, 100, epoch=30)
    assert leader.propose_join(3, 80, 1.0)
    fetch(leader, 3, 0, epoch=31)
    item = leader.item("id")
    assert item is not None
    assert item.isr == [IsrMember(1, -1), IsrMember(2, -1), IsrMember(3, 30)]
    assert (item.leader_epoch, item.partition_epoch, item.topic_id) == (EPOCH, 8, "id")


def test_a_fetch_of_an_earlier_life_is_refused() -> None:
    leader = role()
    fetch(leader, 3, 0, epoch=31)
    with pytest.raises(StaleBrokerEpochError):
        fetch(leader, 3, 100, epoch=30)
    assert leader.followers[3].durable_offset == 0


def test_lagging_members_only() -> None:
    leader = role(isr=(1, 2))
    fetch(leader, 2, 100, end=100, now=5.0)
    assert leader.lagging(100, 100.0, 10.0) == []
    leader.appended(101, 100.0)
    assert leader.lagging(101, 100.0, 10.0) == [2]  # it was last heard of at 5.0
    assert 3 not in leader.lagging(101, 100.0, 10.0)


def test_who_had_to_leave_joins_when_it_was_heard_of_again() -> None:
    """It holds the high watermark, which stands; being silent it would come and go for ever."""
    leader = role(isr=(1, 2))
    fetch(leader, 2, 100, end=100, now=5.0)
    leader.appended(101, 5.0)
    assert leader.propose_leave([2])
    leader.answered(result(isr=(1,)), 7.0)
    assert leader.isr == (1,)
    assert not leader.propose_any_join(100, 7.0)
    fetch(leader, 2, 100, end=101, now=8.0)
    assert leader.propose_any_join(100, 8.0)


def test_a_refused_member_is_not_proposed_again_at_once() -> None:
    leader = role(isr=(1, 2))
    fetch(leader, 3, 100)
    assert leader.propose_join(3, 80, 1.0)
    leader.answered(result(IneligibleReplicaError.code, epoch=-1), 1.0)
    assert leader.state.proposal is None
    assert not leader.propose_join(3, 80, 1.5)
    assert leader.propose_join(3, 80, 1.0 + REJOIN_DELAY_S)


def test_a_superseded_proposal_adopts_the_controllers_state() -> None:
    leader = role()
    assert leader.propose_leave([3])
    leader.answered(result(InvalidUpdateVersionError.code, isr=(1, 3), version=12), 1.0)
    assert (leader.isr, leader.state.partition_epoch) == ((1, 3), 12)
    assert leader.state.proposal is None


@pytest.mark.parametrize(
    "answer",
    [
        result(NotControllerError.code, epoch=-1),
        result(FencedLeaderEpochError.code, epoch=EPOCH + 1),
        result(0, isr=(1,), epoch=EPOCH + 1),
        result(0, isr=(1,), version=7),
    ],
)
def test_answers_that_settle_nothing_leave_the_proposal(answer: AlterPartitionResult) -> None:
    leader = role()
    assert leader.propose_leave([3])
    leader.answered(answer, 1.0)
    assert leader.state.proposal is not None
    assert leader.state.maximal == (1, 2, 3)


@given(
    st.lists(
        st.tuples(st.sampled_from([2, 3]), st.integers(0, 200), st.integers(0, 50)), max_size=50
    )
)
def test_what_is_below_the_high_watermark_was_reported_by_the_whole_isr(
    steps: list[tuple[int, int, int]],
) -> None:
    leader = role()
    best = {2: -1, 3: -1}
    watermark, own = 0, 0
    for replica, offset, synced in steps:
        own += synced
        fetch(leader, replica, offset, end=own + 10)
        best[replica] = max(best[replica], offset)
        moved = leader.high_watermark(watermark, own, 2)
        assert moved >= watermark
        assert moved <= max(watermark, own)
        assert moved == 0 or all(moved <= offset for offset in best.values())
        watermark = moved


def test_who_is_ahead_of_this_disk_may_lead_and_holds_all_that_was_here() -> None:
    leader = role(isr=(1, 2))
    leader.watermark = 60
    assert leader.ahead(60, 100, 0.5, 1.0) == []
    fetch(leader, 3, 100, end=100)
    assert leader.ahead(60, 100, 0.5, 1.0) == []  # in no ISR
    fetch(leader, 2, 60, end=100)
    assert leader.ahead(60, 100, 0.5, 1.0) == []  # has no more than this disk
    fetch(leader, 2, 90, end=100, now=2.0)
    assert leader.ahead(60, 100, 1.5, 2.0) == []  # lacks what was here then
    fetch(leader, 2, 100, end=120, now=3.0)
    assert leader.ahead(60, 120, 1.0, 3.0) == [2]
    assert leader.ahead(100, 120, 1.0, 3.0) == []


def test_whom_the_isr_or_the_elr_may_count_on_is_never_held_back() -> None:
    leader = role(isr=(1, 2), replicas=(1, 2, 3, 4), elr=(3,))
    assert [leader.spares(replica) for replica in (2, 3, 4)] == [True, True, False]
    fetch(leader, 4, 1000)
    assert leader.propose_join(4, 0, 1.0)
    assert leader.spares(4), "the controller may have taken it in"
    throttled = role(safeguards=without("throttle_spares_in_sync"))
    assert not throttled.spares(2)
