"""Each invariant, broken by hand: the replica goes out of service at once, alone, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from oncelog_broker.replication.invariants import (
    InvariantError,
    check_fetchers,
    check_isr,
    check_offsets,
    check_watermark,
)
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.errors import StorageError
from oncelog_protocol.messages.replication import AlterPartitionResult
from oncelog_protocol.types import Acks, FetchLane, TopicPartition
from support.replicas import TP, Replicas, batch_of
from support.replication_cluster import FAST, Cluster
from support.waiting import eventually

TP1 = TopicPartition("t", 1)


# ---- the checks


@pytest.mark.parametrize(
    ("start", "watermark", "end", "holds"),
    [(0, 0, 0, True), (2, 2, 2, True), (1, 2, 3, True), (0, 4, 3, False), (3, 2, 4, False)],
)
async def test_offsets(start: int, watermark: int, end: int, holds: bool) -> None:
    try:
        check_offsets(start, watermark, end)
    except InvariantError:
        assert not holds
    else:
        assert holds


async def test_watermark() -> None:
    check_watermark(3, 3)
    check_watermark(3, 9)
    with pytest.raises(InvariantError):
        check_watermark(3, 2)


async def test_isr() -> None:
    check_isr(1, committed=[1], maximal=[1], counted=[], pending=False)
    check_isr(1, committed=[1, 2], maximal=[1, 2, 3], counted=[2, 3], pending=True)
    check_isr(1, committed=[1, 2], maximal=[1, 2], counted=[2], pending=True)
    for broken in (
        {"committed": [2], "maximal": [2], "counted": [2], "pending": False},
        {"committed": [1, 2], "maximal": [1, 3], "counted": [2, 3], "pending": True},
        {"committed": [1, 2], "maximal": [1, 2, 3], "counted": [2, 3], "pending": False},
        {"committed": [1, 2, 3], "maximal": [1, 2, 3], "counted": [2], "pending": False},
    ):
        with pytest.raises(InvariantError):
            check_isr(1, **broken)  # type: ignore[arg-type]


async def test_fetchers() -> None:
    check_fetchers([], [])
    check_fetchers([(2, 7)], [(2, 7)])
    for fetchers in ([], [(2, 6)], [(3, 7)], [(2, 7), (3, 7)]):
        with pytest.raises(InvariantError):
            check_fetchers(fetchers, [(2, 7)])
    with pytest.raises(InvariantError):
        check_fetchers([(2, 7)], [])


# ---- what a replica does about it


def broken_down(group: Replicas, broker_id: int, caplog: pytest.LogCaptureFixture) -> None:
    """The replica is out of service, said so once, and its neighbours know nothing of it."""
    for number, broker in group.brokers.items():
        assert broker.partition.failed is (number == broker_id)
    said = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert len(said) == 1
    partition = group[broker_id].partition
    partition.check_invariants()
    with pytest.raises(StorageError):
        partition.leader_role()
    assert group.deliver(group.elect(broker_id, to=[]), broker_id) == StorageError.code
    assert len([r for r in caplog.records if r.levelno == logging.CRITICAL]) == 1


def gap(partition: Partition) -> None:
    partition.log.segments.active.next_offset += 1


async def test_a_leader_does_not_append_behind_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    group.produce(b"a")
    gap(group[1].partition)
    assert group.produce(b"b") == StorageError.code
    assert group.failed == [(b"a", StorageError.code)], "who waits is told to ask elsewhere"
    broken_down(group, 1, caplog)


async def test_a_follower_does_not_append_behind_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    group.produce(b"a")
    gap(group[2].partition)
    group.fetch(2)
    assert group[2].machine.state_of(TP) is None, "it is not fetched for any more"
    broken_down(group, 2, caplog)


def past_the_end(partition: Partition) -> None:
    partition.high_watermark = partition.log.log_end_offset + 1


def below_the_start(partition: Partition) -> None:
    partition.log.log_start_offset = partition.log.log_end_offset + 1


def backwards(partition: Partition) -> None:
    partition.high_watermark -= 1


def epochs_out_of_order(partition: Partition) -> None:
    epochs = partition.log.epochs
    epochs._epochs, epochs._starts = [3, 2], [0, 1]


@pytest.mark.parametrize("harm", [past_the_end, below_the_start, backwards, epochs_out_of_order])
async def test_a_leader_is_looked_at(
    harm: Callable[[Partition], None], caplog: pytest.LogCaptureFixture
) -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    harm(group[1].partition)
    group[1].partition.check_invariants()
    broken_down(group, 1, caplog)


async def test_a_watermark_that_went_back_is_seen_when_it_moves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    leader = group[1].partition
    leader.high_watermark = 0
    assert leader.leader is not None
    for follower in leader.leader.followers.values():
        follower.durable_offset = 1
    group.sync(1)
    leader.log.tell(again=True)
    broken_down(group, 1, caplog)


@pytest.mark.parametrize("harm", [past_the_end, below_the_start])
async def test_a_follower_is_looked_at_with_each_answer(
    harm: Callable[[Partition], None], caplog: pytest.LogCaptureFixture
) -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    follower = group[2].partition
    harm(follower)
    follower.leader_offsets(0, 0)
    broken_down(group, 2, caplog)


async def test_a_leader_outside_its_isr_does_not_lead(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    order = group.elect(2, isr=[1, 3], to=[1, 3])
    assert group.deliver(order, 2) == StorageError.code
    broken_down(group, 2, caplog)


async def test_a_leader_that_is_put_out_of_its_isr_stops(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    leader = group[1].partition
    group.pass_time(20)
    group.produce(b"a")
    group.sync(1)
    leader.check_isr(group.now, 10.0)
    item = leader.isr_item()
    assert item is not None
    answer = AlterPartitionResult("t", 0, 0, 1, group.leader_epoch, [2, 3], 9)
    assert not leader.isr_answered(item, answer, group.now)
    assert group.acked == []
    broken_down(group, 1, caplog)


async def test_a_member_that_is_not_waited_for_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    leader = group[1].partition
    assert leader.leader is not None
    leader.leader._counted.pop()
    leader.check_invariants()
    broken_down(group, 1, caplog)


# ---- fetchers


async def test_a_leader_that_is_fetched_for_goes_out_of_service_alone() -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TP1, 1)
        manager = cluster[1].replicas
        cluster.lead(TopicPartition("t", 2), 2)  # so that broker 1 has a loop
        partition = cluster[1].partition(TP)
        manager._loops[2, FetchLane.MAIN].add(partition)
        await eventually(lambda: partition.failed)
        assert TP not in manager._loops[2, FetchLane.MAIN]
        assert (await cluster.produced(TP1, b"x")).error_code == 0
        assert (await cluster.produced(TP, b"x")).error_code == StorageError.code
        assert cluster[1].broken == 1, "the controller is asked for its orders ..."
        results = cluster.send_orders(1, [cluster.orders[TP]])
        assert results[0].error_code == StorageError.code, "... and hears of it"
        assert not cluster[1].partition(TP1).failed
        cluster[1].broken = 0


@pytest.mark.parametrize("count", [0, 2])
async def test_a_follower_has_exactly_one_fetcher(count: int) -> None:
    async with Cluster() as cluster:
        cluster.lead(TP, 1)
        cluster.lead(TP1, 2)
        manager = cluster[3].replicas
        partition = cluster[3].partition(TP)
        if count:
            manager._loops[2, FetchLane.MAIN].add(partition)
        else:
            manager._loops[1, FetchLane.MAIN].remove(TP)
        await eventually(lambda: partition.failed)
        assert TP not in manager._loops[1, FetchLane.MAIN]
        assert TP not in manager._loops[2, FetchLane.MAIN]
        await cluster.isr_is(TP1, 1, 2, 3)
        cluster[3].broken = 0


async def test_a_follower_of_an_older_epoch_is_seen() -> None:
    async with Cluster(config=FAST) as cluster:
        cluster.lead(TP, 1)
        await cluster.produced(TP, b"x")
        partition = cluster[3].partition(TP)
        partition.leader_epoch += 1
        await eventually(lambda: partition.failed)
        cluster[3].broken = 0


async def test_what_is_right_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Roles change, replicas stop and leaders vanish without anybody breaking down."""
    async with Cluster() as cluster:
        for leader_id in (1, 2, 3, 1):
            cluster.lead(TP, leader_id)
            await cluster.produced(TP, b"x")
        cluster.lead(TP, -1)
        for broker_id in (1, 2, 3):
            partition = cluster[broker_id].partition(TP)
            cluster[broker_id].replicas._check_fetchers(partition)
            partition.check_invariants()
            assert not partition.failed
    group = Replicas()
    group[1].partition.append_as_leader(batch_of(b"a"), Acks.ALL, 0.0)
    group[1].partition.check_invariants()
    assert [r for r in caplog.records if r.levelno == logging.CRITICAL] == []
