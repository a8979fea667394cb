"""Transactions in a partition have a last stable offset, markers and guards, and their leader
changes at the worst moments [I15] [A23]."""

from __future__ import annotations

import pytest

from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.replication.invariants import InvariantError, check_stable
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionCoordinatorFencedError,
)
from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.records.batch import parse_header
from oncelog_protocol.types import Acks, IsolationLevel
from support.replicas import Replicas, batch_of
from support.transactional_logs import TxnProducer, committed_values, undecided_by_replay
from unsafe.replication import without


def send(group: Replicas, producer: TxnProducer, *values: bytes) -> LogAppend:
    """One batch to whoever leads, as its broker does after the coordinator said yes."""
    partition, data = group.leader.partition, producer.batch(*values)
    header, guard = parse_header(data), None
    if partition.log.producers.needs_guard(header):
        guard = partition.log.producers.take_guard(header.producer_id, header.producer_epoch)
    return partition.append_as_leader(data, Acks.ALL, group.now, guard)


def end(
    group: Replicas, producer: TxnProducer, *, commit: bool, coordinator_epoch: int = 0
) -> LogAppend:
    producer.epoch, producer.sequence = producer.epoch + 1, 0
    return group.leader.partition.append_marker(
        commit, producer.producer_id, producer.epoch, coordinator_epoch, group.now
    )


def read(partition: Partition) -> list[bytes | None]:
    """Return what a reader of committed records gets from whoever this is."""
    upto = partition.readable_end(IsolationLevel.READ_COMMITTED)
    return committed_values(partition.log, partition.aborted_transactions(0, upto), upto=upto)


class StableOffsets:
    """It remembers the last stable offset each time it is told of news."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.seen: list[int] = []
        partition.add_reader(self)

    def data_ready(self) -> None:
        pass

    def watermark_moved(self, stable_moved: bool) -> None:
        self.seen.append(self.partition.last_stable_offset)

    def role_changed(self) -> None:
        pass


async def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    group = Replicas()
    partition, producer = group[1].partition, TxnProducer()
    told = StableOffsets(partition)
    group.produce(b"plain")
    send(group, producer, b"a", b"b")
    group.produce(b"behind")
    group.replicate()
    assert (partition.high_watermark, partition.last_stable_offset) == (4, 1)
    assert partition.readable_end(IsolationLevel.READ_UNCOMMITTED) == 4
    assert read(partition) == [b"plain"]
    end(group, producer, commit=True)
    group.sync(1)
    assert partition.last_stable_offset == 1, "one broker alone has the marker"
    group.replicate()
    assert partition.last_stable_offset == partition.high_watermark == 5
    assert read(partition) == [b"plain", b"a", b"b", b"behind"]
    assert told.seen[-1] == 5, "whoever reads was told when it was so"
    assert told.seen == sorted(told.seen)


async def test_aborted_records_are_named_to_readers() -> None:
    group = Replicas()
    partition = group[1].partition
    aborted, committed = TxnProducer(7), TxnProducer(8)
    send(group, aborted, b"no")
    send(group, committed, b"yes")
    end(group, aborted, commit=False)
    group.replicate()
    assert partition.last_stable_offset == 1, "the other one is open"
    assert partition.aborted_transactions(0, 1) == [AbortedTransaction(7, 0)]
    assert partition.aborted_transactions(3, 4) == []
    end(group, committed, commit=True)
    group.replicate()
    assert read(partition) == [b"yes"]


async def test_without_the_last_stable_offset_open_transactions_are_read() -> None:
    group = Replicas(safeguards=without("lso_respects_transactions"))
    send(group, TxnProducer(), b"open")
    group.replicate()
    assert read(group[1].partition) == [b"open"]


async def test_records_deleted_in_a_transaction_do_not_hold_the_log_start() -> None:
    """log start <= last stable offset: DeleteRecords may reach over the begin of one."""
    group = Replicas()
    partition = group[1].partition
    send(group, TxnProducer(), b"a", b"b", b"c")
    group.replicate()
    partition.log.advance_log_start(2)
    assert partition.last_stable_offset == 2
    partition.check_invariants()
    assert not partition.failed


# ---- markers


async def test_a_marker_needs_the_insync_replicas() -> None:
    group = Replicas(min_isr=2)
    producer = TxnProducer()
    send(group, producer, b"a")
    group.replicate()
    group.elect(1, isr=[1])
    with pytest.raises(NotEnoughReplicasError):
        end(group, producer, commit=True)
    assert group[1].partition.log.log_end_offset == 1


async def test_a_marker_is_the_leaders_to_write() -> None:
    group = Replicas()
    with pytest.raises(NotLeaderOrFollowerError):
        group[2].partition.append_marker(True, 7, 1, 0, group.now)


async def test_a_repeated_marker_is_answered_when_the_first_is_committed() -> None:
    group = Replicas()
    partition, producer = group[1].partition, TxnProducer()
    send(group, producer, b"a")
    first = end(group, producer, commit=True)
    again = partition.append_marker(True, 7, 1, 0, group.now)
    assert (first.repeated, again.repeated) == (False, True)
    heard: list[int] = []
    partition.when_committed(again.last_offset + 1, heard.append)
    group.sync(1)
    assert heard == []
    group.replicate()
    assert heard == [0]
    assert partition.log.log_end_offset == 2


async def test_markers_that_come_late_or_from_the_past_are_refused() -> None:
    group = Replicas()
    partition, producer = group[1].partition, TxnProducer()
    send(group, producer, b"a")
    end(group, producer, commit=True, coordinator_epoch=3)
    send(group, producer, b"b")
    with pytest.raises(InvalidProducerEpochError):
        partition.append_marker(True, 7, 1, 3, group.now)
    with pytest.raises(TransactionCoordinatorFencedError):
        partition.append_marker(False, 7, 2, 2, group.now)
    opened = partition.log.producers.describe_open(2)
    assert [each.txn_start_offset for each in opened] == [2]


# ---- changes of the leader


@pytest.mark.parametrize("commit", [True, False])
async def test_the_next_leader_knows_what_is_open_before_it_serves(commit: bool) -> None:
    """The election comes between the data and the marker."""
    group = Replicas()
    producer, other = TxnProducer(7), TxnProducer(8)
    send(group, other, b"aborted before")
    end(group, other, commit=False)
    group.replicate()
    send(group, producer, b"a")
    group.replicate()
    group[1].crash("none")
    group.elect(2, isr=[2, 3])
    partition = group[2].partition
    assert partition.last_stable_offset == 2
    assert read(partition) == []
    late = producer.batch(b"b")
    partition.append_as_leader(late, Acks.ALL, group.now)  # open here too: no guard
    end(group, producer, commit=commit)
    group.replicate()
    assert partition.last_stable_offset == partition.high_watermark == 5
    assert read(partition) == ([b"a", b"b"] if commit else [])
    group[1].restart()
    group.elect(2, isr=[2, 3])
    group.replicate()
    assert group[1].partition.log.producers.contradiction() == ""
    assert group[1].partition.log.aborted.rows() == partition.log.aborted.rows()
    assert group[1].partition.last_stable_offset == 5


async def test_a_marker_that_was_cut_leaves_the_transaction_open() -> None:
    """The leader dies with a marker that nobody else has; the coordinator sends it again."""
    group = Replicas()
    producer = TxnProducer()
    send(group, producer, b"a")
    group.replicate()
    end(group, producer, commit=False)
    group.sync(1)
    group.elect(2, isr=[2, 3], to=[2, 3])
    group[2].partition.append_as_leader(batch_of(b"plain"), Acks.ALL, group.now)
    group.replicate(3)
    assert group[2].partition.last_stable_offset == 0
    group.elect(2, isr=[2, 3])
    group.replicate()
    partition = group[1].partition
    assert partition.log.log_end_offset == 2
    assert partition.last_stable_offset == 0
    assert not partition.log.aborted
    group[2].partition.append_marker(False, 7, 1, 0, group.now)
    group.replicate()
    assert read(partition) == read(group[2].partition) == [b"plain"]


async def test_a_guard_ends_with_the_leadership() -> None:
    group = Replicas()
    partition = group[1].partition
    guard = partition.log.producers.take_guard(7, 0)
    data = TxnProducer().batch(b"late")
    group.elect(1)
    assert not guard.valid
    with pytest.raises(InvalidTxnStateError):
        partition.append_as_leader(data, Acks.ALL, group.now, guard)
    again = partition.log.producers.take_guard(7, 0)
    partition.fail()
    assert not again.valid


async def test_a_leader_that_restarts_holds_back_what_it_cannot_know() -> None:
    """Its high watermark is of before: markers at or above it may have been cut elsewhere."""
    group = Replicas()
    producer = TxnProducer()
    send(group, producer, b"a")
    end(group, producer, commit=True)
    group.replicate()
    group[1].crash("all")
    group.checkpointed_high_watermark[1] = 1
    group[1].restart()
    assert (group[1].partition.high_watermark, group[1].partition.last_stable_offset) == (1, 0)
    group.elect(1)
    group.replicate()
    assert read(group[1].partition) == [b"a"]


# ---- invariants


async def test_stable() -> None:
    check_stable(3, 3, 3)
    check_stable(3, 4, 9)
    for before, now, high_watermark in ((3, 2, 9), (3, 10, 9)):
        with pytest.raises(InvariantError):
            check_stable(before, now, high_watermark)


async def test_a_last_stable_offset_that_moves_back_takes_the_replica_out_of_service() -> None:
    group = Replicas()
    partition = group[1].partition
    group.produce(b"a", b"b")
    group.replicate()
    partition.check_invariants()
    partition.log.producers.state.transactions.began(1)
    partition.check_invariants()
    assert partition.failed


async def test_the_last_stable_offset_is_what_a_replay_finds() -> None:
    """[I15], step by step, over leaders that come and go."""
    group = Replicas()
    producers = [TxnProducer(pid) for pid in range(3)]
    for step in range(60):
        producer = producers[step % 3]
        send(group, producer, b"%d" % step)
        if step % 4 == 1:
            end(group, producer, commit=step % 8 == 1)
        if step % 5 == 2:
            group.replicate()
        if step % 13 == 7:
            group.replicate()
            group.elect(1 + step % 3)
        partition = group.leader.partition
        first = undecided_by_replay(partition.log, partition.high_watermark)
        mark = partition.high_watermark
        assert partition.last_stable_offset == (mark if first is None else min(mark, first))
        assert partition.log.producers.contradiction() == ""
        partition.check_invariants()
        assert not partition.failed
