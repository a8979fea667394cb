"""Each rule of replication has scenarios: safe as shipped, and caught when the rule is switched
off.

The two of KIP-101 come first: data loss by cutting to one's own high watermark, and divergence
by not cutting at all. Each test runs the same steps twice; the ablated run must show the damage,
which proves that the steps and the check are worth something.
"""

from __future__ import annotations

import pytest

from oncelog_broker.replication.leadership import LeaderRole
from oncelog_broker.replication.ports import FetchPosition
from oncelog_broker.replication.progress import Contact
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasAfterAppendError,
    StaleBrokerEpochError,
)
from oncelog_protocol.types import Acks, TopicPartition
from support.replicas import Replicas
from support.safeguards import decisions, left_out
from unsafe.replication import UNSAFE, without


def kip_101_data_loss(safeguards: Safeguards) -> Replicas:
    """The follower restarts before it has heard of the high watermark; then the leader dies."""
    group = Replicas(brokers=2, safeguards=safeguards)
    group.produce(b"m1", b"m2")
    group.sync(1)
    group.fetch(2)
    group.sync(2)
    group.fetch(2)  # tells the leader that both are held; the answer is about nothing new
    assert group.acked == [b"m1", b"m2"]
    group.checkpointed_high_watermark[2] = 1  # what the follower knew when it went down
    group[2].crash("all")
    group[2].restart()
    group.elect(1)
    group[1].crash("all")
    group.elect(2, isr=[2])
    return group


async def test_kip_101_data_loss_does_not_happen() -> None:
    group = kip_101_data_loss(SAFE)
    assert group.lost() == []


async def test_kip_101_data_loss_is_caught_when_followers_cut_to_their_high_watermark() -> None:
    group = kip_101_data_loss(without("truncate_to_high_watermark"))
    assert group.lost() == [b"m2"]


def kip_101_divergence(safeguards: Safeguards) -> Replicas:
    """The leader goes down with a record that nobody else has; the next leader writes another."""
    group = Replicas(brokers=2, safeguards=safeguards)
    group.produce(b"m1")
    group.replicate()
    group.produce(b"m2")
    group.sync(1)
    group[1].crash("none")
    group.elect(2, isr=[2])
    group.produce(b"m3", b"m4")
    group.sync(2)
    group[1].restart()
    group.elect(2)
    group.replicate()
    return group


async def test_kip_101_divergence_does_not_happen() -> None:
    group = kip_101_divergence(SAFE)
    assert not group.diverged()
    assert group.values(1) == [b"m1", b"m3", b"m4"]
    assert sorted(group.isr) == [1, 2]
    assert group.lost() == []


async def test_kip_101_divergence_is_caught_when_nobody_is_told_to_cut() -> None:
    group = kip_101_divergence(without("truncate_on_divergence"))
    assert group.diverged()


def two_elections_and_a_slow_follower(safeguards: Safeguards) -> Replicas:
    """It is KIP-320: broker 3 lives in an old epoch while the leader counts it in a new one."""
    group = Replicas(safeguards=safeguards, min_isr=2)
    group.produce(b"a")
    group.replicate()
    second = group.elect(2, to=[2])
    group.produce(b"zombie", to=2)
    group.sync(2)
    group.elect(1, to=[1])
    group.pass_time(20)
    group.produce(b"x")
    group.sync(1)
    for _ in range(3):  # broker 3 still follows broker 1 in epoch 0
        group.fetch(3)
        group.sync(3)
    group[1].partition.check_isr(group.now, 10.0)
    group.settle_isr(1)
    for _ in range(3):
        group.fetch(3)
        group.sync(3)
        group.settle_isr(1)
    group.deliver(second, 3)
    for _ in range(3):
        group.fetch(3)
        group.sync(3)
    group[1].crash("all")
    group.elect(3 if 3 in group.isr else 2, isr=[i for i in group.isr if i != 1] or [2])
    return group


async def test_a_fetch_of_an_older_epoch_does_not_count() -> None:
    group = two_elections_and_a_slow_follower(SAFE)
    assert group.acked == [b"a"]
    assert group.lost() == []


async def test_losing_records_is_caught_when_epochs_are_not_fenced() -> None:
    group = two_elections_and_a_slow_follower(without("fence_leader_epoch"))
    assert b"x" in group.acked
    assert b"x" in group.lost()


def a_join_whose_answer_is_lost(safeguards: Safeguards) -> Replicas:
    """The controller has taken broker 2 into the ISR; the leader does not know yet."""
    group = Replicas(brokers=2, safeguards=safeguards, isr=[1])
    group.fetch(2)
    group.settle_isr(lose_answer=True)
    assert group.isr == [1, 2]
    group.produce(b"x")
    group.sync(1)
    group[1].crash("all")
    group.elect(2, isr=[2])
    return group


async def test_a_replica_that_may_be_in_the_isr_is_waited_for() -> None:
    group = a_join_whose_answer_is_lost(SAFE)
    assert group.acked == []


async def test_losing_records_is_caught_when_only_the_committed_isr_counts() -> None:
    group = a_join_whose_answer_is_lost(without("count_maximal_isr"))
    assert group.lost() == [b"x"]


def the_last_replica_standing(safeguards: Safeguards) -> Replicas:
    """KIP-966: the ISR falls below its minimum with a record in flight, then its last disk dies."""
    group = Replicas(brokers=2, safeguards=safeguards, min_isr=2)
    group.produce(b"x")
    group.sync(1)
    group[2].crash("all")
    group.pass_time(20)
    group[1].partition.check_isr(group.now, 10.0)
    group.settle_isr()
    assert group.isr == [1]
    group[2].restart()
    group[1].crash(lambda view: b"")
    group.elect(2, isr=[2])
    return group


async def test_below_its_minimum_the_isr_commits_nothing() -> None:
    group = the_last_replica_standing(SAFE)
    assert group.acked == []
    assert group.failed == [(b"x", NotEnoughReplicasAfterAppendError.code)]


async def test_losing_records_is_caught_when_the_minimum_is_ignored() -> None:
    group = the_last_replica_standing(without("hold_below_min_isr"))
    assert group.lost() == [b"x"]


def power_cut(safeguards: Safeguards, *unsynced: int) -> Replicas:
    """Everybody has fetched; some have not synced, one of whom leads when the lights are on again.
    All are in the ISR: what is acknowledged is on each of them."""
    group = Replicas(safeguards=safeguards, min_isr=2)
    group.produce(b"x")
    for _ in range(3):
        group.sync(*(broker_id for broker_id in (1, 2, 3) if broker_id not in unsynced))
        group.fetch(2)
        group.fetch(3)
    for broker_id in (1, 2, 3):
        group[broker_id].crash("none")
    for broker_id in (1, 2, 3):
        group[broker_id].restart()
    group.elect(unsynced[0])
    return group


@pytest.mark.parametrize("unsynced", [(1,), (2, 3)], ids=["leader", "followers"])
async def test_what_is_acknowledged_survives_a_power_cut_of_all(unsynced: tuple[int, ...]) -> None:
    group = power_cut(SAFE, *unsynced)
    assert group.acked == []


async def test_losing_records_is_caught_when_the_leader_counts_before_its_sync() -> None:
    group = power_cut(without("leader_counts_synced_only"), 1)
    assert group.lost() == [b"x"]
    assert power_cut(without("follower_fetches_synced_only"), 1).acked == []


async def test_losing_records_is_caught_when_followers_fetch_ahead_of_their_sync() -> None:
    group = power_cut(without("follower_fetches_synced_only"), 2, 3)
    assert group.lost() == [b"x"]
    assert power_cut(without("leader_counts_synced_only"), 2, 3).acked == []


def a_leader_that_comes_back(safeguards: Safeguards) -> Replicas:
    """Broker 2 had fetched far in the epoch before the last; it has cut its log since."""
    group = Replicas(safeguards=safeguards, min_isr=2)
    group.produce(b"a")
    group.replicate()
    group.produce(b"b", b"c", b"d")
    group.replicate(2)
    group.elect(3)
    group.produce(b"e")  # so that the others part from it, and hear of it
    for _ in range(3):
        for broker_id in (1, 2):
            group.fetch(broker_id)
            group.sync(broker_id)
    group.elect(1, isr=[1, 2])
    group.produce(b"x")
    group.sync(1)
    group[1].crash("all")
    group.elect(2, isr=[2])
    return group


async def test_a_new_leader_knows_nothing_of_its_followers() -> None:
    group = a_leader_that_comes_back(SAFE)
    assert b"x" not in group.acked
    assert group.lost() == []


async def test_losing_records_is_caught_when_fetches_of_older_epochs_count() -> None:
    group = a_leader_that_comes_back(without("count_current_epoch_fetches_only"))
    assert group.lost() == [b"x"]


def a_fetch_of_an_earlier_life(safeguards: Safeguards) -> Replicas:
    """Broker 2 comes back without its disk; then a fetch arrives that it had sent before."""
    group = Replicas(brokers=2, safeguards=safeguards)
    group.produce(b"a")
    group.replicate()
    group.produce(b"x")
    group.sync(1)
    group[2].crash(lambda view: b"")
    group[2].restart()
    group.deliver(group.elect(1, to=[1]), 2)
    group.fetch(2, lose_answer=True)
    late = FetchPosition(2, group.leader_epoch, 0, 0)
    try:
        group[1].partition.record_follower_fetch(
            2, late, broker_epoch=200, contact=Contact(group.now), now=group.now
        )
    except StaleBrokerEpochError:
        pass
    group[1].crash("all")
    group.elect(2, isr=[2])
    return group


async def test_a_fetch_of_a_followers_earlier_life_does_not_count() -> None:
    group = a_fetch_of_an_earlier_life(SAFE)
    assert b"x" not in group.acked


async def test_losing_records_is_caught_when_fetches_of_an_earlier_life_count() -> None:
    group = a_fetch_of_an_earlier_life(without("check_broker_epoch"))
    assert b"x" in group.lost()


def a_cut_in_two_steps(safeguards: Safeguards) -> Replicas:
    """KAFKA-14704: broker 2 does not know the leader's epoch, so its first cut leaves records
    of its own in the log, while the leader has committed others at their offsets."""
    group = Replicas(safeguards=safeguards, min_isr=2)
    group.produce(b"a")
    group.replicate()
    group.elect(2, isr=[2], to=[2])
    group.produce(b"own-1", b"own-2", to=2, acks=Acks.LEADER)
    group.elect(1, isr=[1, 3], to=[1, 3])
    group.produce(b"x", b"y", b"z")
    group.replicate(3)
    group.elect(2, isr=[2], to=[2])
    group.produce(b"own-3", to=2, acks=Acks.LEADER)
    group.sync(2)
    group.elect(1, isr=[1, 3])
    group.replicate(3)
    group.fetch(2)
    return group


async def test_a_follower_learns_what_is_committed_after_it_has_cut() -> None:
    group = a_cut_in_two_steps(SAFE)
    assert group.values(2) == [b"a", b"own-1", b"own-2"]
    assert group[2].partition.high_watermark <= 1
    group.replicate()
    assert group[2].partition.committed_records_truncated == 0
    assert group.values(2) == [b"a", b"x", b"y", b"z"]


async def test_exposing_records_is_caught_when_a_diverging_answer_moves_the_watermark() -> None:
    group = a_cut_in_two_steps(without("high_watermark_after_truncation"))
    assert group.values(2) == [b"a", b"own-1", b"own-2"]
    assert group[2].partition.high_watermark == 3, "of its own records, which nobody committed"
    group.replicate()
    assert group[2].partition.committed_records_truncated > 0


def a_join_below_the_epoch_start(safeguards: Safeguards) -> Replicas:
    """KAFKA-7128: a new leader's high watermark is behind; a stale replica passes it."""
    group = Replicas(safeguards=safeguards, isr=[1, 2])
    group.produce(b"a", b"b", b"c")
    group.replicate(2)
    group.fetch(2)
    assert group.acked == [b"a", b"b", b"c"]
    group[2].partition.high_watermark = 0  # it has heard of none of it
    group.elect(2)
    group[1].crash("all")
    group.fetch(3, lose_answer=True)  # at offset 0: at the high watermark that broker 2 knows
    for _ in range(2):
        group.settle_isr()
    eligible = [member for member in group.isr if member == 3] or [2]
    if eligible == [3]:
        group[2].crash("all")
    group.elect(eligible[0], isr=eligible)
    return group


async def test_a_follower_joins_at_the_start_of_the_epoch() -> None:
    group = a_join_below_the_epoch_start(SAFE)
    assert group.leader_id == 2
    assert group.lost() == []


async def test_losing_records_is_caught_when_followers_join_too_early() -> None:
    group = a_join_below_the_epoch_start(without("join_at_epoch_start"))
    assert group.leader_id == 3
    assert group.lost() == [b"a", b"b", b"c"]


def a_diverging_member(safeguards: Safeguards) -> Replicas:
    """KAFKA-13141: broker 1 comes back with a longer log of its own and asks for more."""
    group = Replicas(brokers=2, safeguards=safeguards)
    group.produce(b"a")
    group.replicate()
    group.produce(b"old-1", b"old-2")  # nobody else gets these
    group.sync(1)
    group.elect(2)
    group.produce(b"new-1", b"new-2")
    group.sync(2)
    group.fetch(1)  # answered: diverging
    return group


async def test_a_diverging_fetch_says_nothing_about_what_is_held() -> None:
    group = a_diverging_member(SAFE)
    assert group.acked == [b"a"]
    group.replicate()
    assert group.acked == [b"a", b"new-1", b"new-2"]
    assert not group.diverged()


async def test_acknowledging_too_early_is_caught_when_diverging_fetches_count() -> None:
    group = a_diverging_member(without("ignore_diverging_fetches"))
    assert group.acked == [b"a", b"new-1", b"new-2"]
    assert group.values(1) == [b"a"]  # acknowledged by both, held by one


def a_late_order(safeguards: Safeguards) -> Replicas:
    """The order of epoch 0 comes again, after epoch 1 has begun at another leader."""
    group = Replicas(brokers=3, safeguards=safeguards, min_isr=2)
    first = group.elect(1)
    group.elect(2, to=[2, 3])
    group.deliver(first, 3)
    return group


async def test_a_late_order_changes_nothing() -> None:
    group = a_late_order(SAFE)
    assert group[3].partition.leader_id == 2
    assert group.deliver(group.elect(2, to=[]), 3) == 0
    late = group.elect(2, to=[])
    late.leader_epoch = 1
    assert group.deliver(late, 3) == FencedLeaderEpochError.code


async def test_following_a_deposed_leader_is_caught_when_late_orders_are_applied() -> None:
    group = a_late_order(without("apply_newer_epochs_only"))
    assert group[3].partition.leader_id == 1


def needs_no_third(safeguards: Safeguards) -> bool:
    """Return whether two in sync are enough for a leader, while a third replica is added."""
    role = LeaderRole(
        TopicPartition("t", 0),
        1,
        6,
        epoch_start_offset=0,
        replicas=(1, 2, 3),
        origin=(1, 2),
        isr=(1, 2),
        partition_epoch=3,
        now=0.0,
        safeguards=safeguards,
    )
    return role.has_min_isr(3)


def test_a_replica_that_is_added_refuses_no_write() -> None:
    assert needs_no_third(SAFE)
    assert not needs_no_third(without("origin_counts_for_min_isr"))


async def test_every_rule_can_be_left_out() -> None:
    assert left_out(kind() for kind in UNSAFE.values()) == decisions(Safeguards)
