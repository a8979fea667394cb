"""A transaction goes from PREPARE to COMPLETE, step by step."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.transaction.completion import TransactionCompletion
from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    SavedShared,
    SavedTransaction,
    SavedWriter,
    WriterFact,
    decode_record,
)
from oncelog_broker.coordinator.transaction.states import IllegalTxnTransitionError, TxnState
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.errors import NotEnoughReplicasError
from oncelog_protocol.types import TopicPartition
from support.clock import ManualClock
from support.group_world import ManualTimers
from support.transaction_world import Markers

A0 = TopicPartition("a", 0)
PREPARED = SavedTransaction(
    TxnState.PREPARE_COMMIT, 7, 4, 60_000, marker_id=7, marker_epoch=4, partitions=(A0,)
)


class World:
    """It has one id that is prepared, and timers that the test runs."""

    def __init__(self, saved: SavedTransaction | SavedShared = PREPARED) -> None:
        self.timers = ManualTimers(lambda: 0.0)
        self.markers = Markers()
        self.txn = TransactionMetadata("t")
        self.txn.saved = saved
        self.completion = TransactionCompletion(
            self.timers,
            self.markers,
            ManualClock(),
            {"t": self.txn}.get,
            lambda txn: txn.delayed.resume(),
        )
        self.completion.led_in(6)

    def next_due(self, *, fails: bool = False) -> Result[None]:
        at_s = self.timers.next_at()
        assert at_s is not None
        due = self.timers.pop_due(at_s)
        assert due is not None
        operation, reply = due
        result: Result[None] = operation()
        if fails:
            reply(None, NotEnoughReplicasError.code)
        return result


def test_markers_follow_the_commit_and_complete_follows_the_markers() -> None:
    world = World()
    result = world.completion.settle("t")
    assert (result.records, result.rests_on_log) == ((), True)
    assert result.on_committed is not None
    result.on_committed()
    result.on_committed()
    (order,) = world.markers.orders
    assert (order.transactional_id, order.coordinator_epoch) == ("t", 6)
    world.markers.done()
    (record,) = world.next_due().records
    fact = decode_record(record)
    assert isinstance(fact, IdFact)
    assert fact.saved is not None
    assert fact.saved.state is TxnState.COMPLETE_COMMIT


def test_a_commit_that_is_not_heard_of_is_waited_for_again() -> None:
    world = World()
    result = world.completion.settle("t")
    assert result.on_failure is not None
    result.on_failure(NotEnoughReplicasError.code)
    again = world.next_due()
    assert again.rests_on_log
    assert again.on_committed is not None
    again.on_committed()
    assert len(world.markers.orders) == 1


def test_what_is_no_longer_so_when_it_is_committed() -> None:
    world = World()
    result = world.completion.settle("t")
    world.txn.saved = PREPARED._replace(producer_epoch=5, marker_epoch=5)
    assert result.on_committed is not None
    assert result.on_failure is not None
    result.on_committed()
    result.on_failure(NotEnoughReplicasError.code)
    assert not world.markers.orders
    assert not world.timers.due
    world.txn.saved = PREPARED._replace(state=TxnState.COMPLETE_COMMIT)
    assert world.completion.settle("t") == Result()
    assert world.completion.settle("u") == Result()


def test_an_order_completes_its_own_transaction_only() -> None:
    world = World()
    world.completion.decided("t", PREPARED)
    (_, done) = world.markers.open[0]
    world.txn.stop_markers()
    assert world.markers.cancelled == world.markers.orders
    world.completion.decided("t", PREPARED)
    done()
    assert not world.timers.due
    world.markers.done()
    assert len(world.next_due().records) == 1


def test_a_refused_complete_is_tried_again() -> None:
    world = World()
    world.markers.at_once = True
    world.completion.decided("t", PREPARED)
    assert len(world.next_due(fails=True).records) == 1
    assert len(world.next_due(fails=True).records) == 1
    world.txn.stop_markers()
    assert not world.markers.cancelled
    assert world.next_due() == Result()
    assert not world.timers.due


def test_without_partitions_there_are_no_markers() -> None:
    world = World(PREPARED._replace(partitions=()))
    world.completion.decided("t", PREPARED._replace(partitions=()))
    assert not world.markers.orders
    assert len(world.next_due().records) == 1


def test_writers_go_with_their_transaction() -> None:
    saved = SavedShared(TxnState.PREPARE_ABORT, 5, 1, 60_000)
    world = World(saved)
    world.txn.set_writer(21, SavedWriter(5, "v", (A0,)))
    world.completion.decided("t", saved)
    world.markers.done()
    facts = [decode_record(record) for record in world.next_due().records]
    assert facts[1:] == [WriterFact("t", 21, None)]


def test_nothing_is_completed_that_was_not_prepared() -> None:
    world = World()
    world.completion.decided("t", PREPARED)
    world.txn.saved = PREPARED._replace(state=TxnState.ONGOING)
    world.markers.done()
    with pytest.raises(IllegalTxnTransitionError):
        world.next_due()
