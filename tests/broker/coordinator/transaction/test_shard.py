"""These tests run one shard over the real engine: appends, timers and leaderships in any order."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_broker.coordinator.transaction.records import SavedTransaction, id_record
from oncelog_broker.coordinator.transaction.states import IllegalTxnTransitionError, TxnState
from oncelog_protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    PolicyViolationError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
    UnknownServerError,
)
from oncelog_protocol.messages.shared_transactions import LAST_TAG
from oncelog_protocol.types import TopicPartition
from support.transaction_world import TransactionWorld, transaction_world
from support.waiting import eventually
from unsafe.coordinators import without

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


async def prepared(world: TransactionWorld) -> tuple[int, int]:
    """Commit a first transaction, whose markers are not written yet; return the next producer."""
    first = await world.inited()
    world.add(first)
    return world.end(first).producer


async def test_a_transaction_from_its_first_batch_to_the_end() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        assert producer == (1000, 0)
        assert world.add(producer, 0).code == 0
        assert world.add(producer, 1).code == 0
        ended = world.end(producer)
        assert ended.producer == (1000, 1)
        (order,) = world.markers.orders
        assert order.transactional_id == "t"
        assert order.coordinator_epoch == 1
        assert order.markers == [(1000, 1, True, [A0, A1], -1)]
        await world.completed()
        assert world.states() == [
            "Empty",
            "Ongoing",
            "Ongoing",
            "PrepareCommit",
            "CompleteCommit",
        ]
        assert not world.shard.transactions["t"].delayed


async def test_the_next_transaction_waits_in_the_coordinator_until_the_last_is_complete() -> None:
    async with transaction_world() as world:
        second = await prepared(world)
        added = world.add(second)
        ending = world.end(second, False)
        assert added.waits
        assert ending.waits
        world.markers.done()
        await eventually(lambda: not ending.waits)
        assert added.code == 0
        assert ending.producer == (1000, 2)
        assert world.states()[-3:] == ["CompleteCommit", "Ongoing", "PrepareAbort"]


async def test_who_waits_writes_complete_along_with_its_own_records() -> None:
    async with transaction_world() as world:
        second = await prepared(world)
        added = world.add(second)
        before = len(world.partition.batches)
        world.markers.done()
        await eventually(lambda: not added.waits)
        assert added.code == 0
        await eventually(lambda: not world.shard.transactions["t"].order, what="markers are over")
        assert [len(batch) for batch in world.partition.batches[before:]] == [2]
        assert world.states()[-2:] == ["CompleteCommit", "Ongoing"]


async def test_complete_is_written_also_when_those_who_waited_append_nothing() -> None:
    async with transaction_world() as world:
        second = await prepared(world)
        added = world.add((second[0], second[1] + 7))
        repeated = world.end(second)
        world.markers.done()
        await world.completed()
        assert added.code == ProducerFencedError.code
        assert repeated.code == InvalidTxnStateError.code
        assert world.states()[-1] == "CompleteCommit"


async def test_complete_is_tried_again_when_it_is_refused_with_what_waits() -> None:
    async with transaction_world() as world:
        second = await prepared(world)
        added = world.add(second)
        world.writer.fail(NotEnoughReplicasError.code)
        world.markers.done()
        await eventually(lambda: world.writer.refused_count == 2, what="COMPLETE, refused twice")
        assert added.code == CoordinatorNotAvailableError.code
        assert world.states()[-1] == "PrepareCommit"
        world.writer.fail(0)
        await world.completed()
        assert world.states()[-1] == "CompleteCommit"
        assert world.add(second).code == 0


async def test_a_request_that_comes_before_complete_is_appended_writes_it_too() -> None:
    async with transaction_world() as world:
        second = await prepared(world)
        added = world.add(second)
        world.writer.fail(NotEnoughReplicasError.code)
        world.markers.done()
        await eventually(lambda: not added.waits)
        world.writer.fail(0)
        assert world.add(second).code == 0
        assert world.states()[-2:] == ["CompleteCommit", "Ongoing"]


async def test_who_waits_is_told_when_markers_take_too_long() -> None:
    async with transaction_world(transaction_wait_ms=1) as world:
        second = await prepared(world)
        added = world.add(second)
        await eventually(lambda: not added.waits)
        assert added.code == ConcurrentTransactionsError.code
        await world.completed()
        assert world.add(second).code == 0


async def test_the_wait_is_counted_from_the_decision() -> None:
    async with transaction_world(transaction_wait_ms=30) as world:
        second = await prepared(world)
        early = world.add(second)
        await asyncio.sleep(0.01)
        late = world.add(second)
        await eventually(lambda: not early.waits)
        assert (early.code, late.code) == (ConcurrentTransactionsError.code,) * 2
        after = world.add(second)
        await eventually(lambda: not after.waits)
        assert after.code == ConcurrentTransactionsError.code


async def test_only_so_many_wait() -> None:
    async with transaction_world(shared_txn_writers_max=1) as world:
        second = await prepared(world)
        added = world.add(second)
        assert world.add(second).code == ConcurrentTransactionsError.code
        world.markers.done()
        await eventually(lambda: not added.waits)
        assert added.code == 0


# ---- refused, late and lost appends


async def test_a_refused_prepare_has_changed_nothing() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.writer.fail(NotEnoughReplicasError.code)
        assert world.end(producer).code == CoordinatorNotAvailableError.code
        world.writer.fail(0)
        assert not world.markers.orders
        assert world.end(producer, False).producer == (1000, 1)


async def test_markers_wait_for_the_commit_of_prepare_however_long() -> None:
    async with transaction_world(commit_timeout_ms=5) as world:
        producer = await world.inited()
        world.add(producer)
        world.writer.auto_commit = False
        ended = world.end(producer)
        await eventually(lambda: not ended.waits)
        assert ended.code == RequestTimedOutError.code
        repeated = world.end(producer)
        await eventually(lambda: not repeated.waits)
        assert repeated.code == RequestTimedOutError.code
        assert not world.markers.orders
        world.writer.auto_commit = True
        world.partition.commit()
        await eventually(lambda: world.markers.orders, what="markers")
        assert world.end(producer).producer == (1000, 1)
        await world.completed()
        assert len(world.markers.orders) == 1


async def test_no_repeat_is_answered_before_what_it_repeats_is_committed() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.writer.auto_commit = False
        added, again = world.add(producer), world.add(producer)
        ended, ended_again = world.end(producer), world.end(producer)
        contrary = world.end(producer, False)
        answers = (added, again, ended, ended_again, contrary)
        assert all(answer.waits for answer in answers)
        world.partition.commit()
        assert [answer.code for answer in answers] == [0, 0, 0, 0, InvalidTxnStateError.code]


async def test_a_prepare_that_is_lost_with_its_coordinator_is_no_end() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.writer.auto_commit = False
        ended = world.end(producer)
        world.writer.auto_commit = True
        await world.moved(2)
        assert ended.code == RequestTimedOutError.code
        assert not world.markers.orders
        assert world.end(producer, False).producer == (1000, 1)
        assert [marker.commit for marker in world.markers.orders[0].markers] == [False]


async def test_a_prepare_that_survives_its_coordinator_is_carried_out_by_the_next() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.writer.auto_commit = False
        world.end(producer)
        await world.moved(2, keeps=1)
        # It leads, but what it found is not committed yet.
        assert not world.markers.orders
        world.partition.commit()
        (order,) = world.markers.orders
        assert order.coordinator_epoch == 2
        world.writer.auto_commit = True
        assert world.end(producer).producer == (1000, 1)
        await world.completed()


async def test_markers_of_a_coordinator_that_is_gone_complete_nothing() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.end(producer)
        (_, old_done) = world.markers.open[0]
        await world.moved(2)
        assert len(world.markers.cancelled) == 1
        old_done()
        await asyncio.sleep(0)
        assert world.states()[-1] == "PrepareCommit"
        assert len(world.markers.orders) == 2
        await world.completed()
        assert world.states().count("CompleteCommit") == 1


async def test_the_end_is_written_down_again_and_again_until_it_is() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        following = world.end(producer).producer
        world.writer.fail(NotEnoughReplicasError.code)
        (_, done) = world.markers.open[0]
        done()
        done()
        await eventually(lambda: world.writer.refused_count == 1, what="a refused COMPLETE")
        assert world.states()[-1] == "PrepareCommit"
        world.writer.fail(0)
        await eventually(lambda: world.states()[-1] == "CompleteCommit", what="COMPLETE")
        assert world.add(following).code == 0
        assert world.states().count("CompleteCommit") == 1


async def test_a_complete_that_is_lost_is_written_by_the_next_coordinator() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        following = world.end(producer).producer
        world.writer.auto_commit = False
        world.markers.done()
        await eventually(lambda: world.states()[-1] == "CompleteCommit")
        added = world.add(following)
        assert added.waits
        world.writer.auto_commit = True
        await world.moved(2)
        assert added.code == RequestTimedOutError.code
        assert world.states()[-1] == "PrepareCommit"
        await world.completed()
        assert world.add(following).code == 0


async def test_markers_name_the_present_leader_epoch() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.partition.leader_epoch = 7
        world.engine.elected(0, 7)
        world.end(producer)
        assert world.markers.orders[0].coordinator_epoch == 7


async def test_whoever_waits_hears_that_the_coordinator_has_moved() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        added = world.add(world.end(producer).producer)
        world.ids.gate = asyncio.Event()
        other = world.init(transactional_id="u")
        world.engine.resigned(0, 2)
        assert added.code == NotCoordinatorError.code
        assert other.code == NotCoordinatorError.code
        world.ids.gate.set()


# ---- InitPid


async def test_a_new_instance_aborts_and_fences_the_old_one() -> None:
    async with transaction_world() as world:
        old = await world.inited()
        world.add(old)
        arriving = world.init()
        assert arriving.waits
        assert world.markers.orders[0].markers == [(1000, 1, False, [A0], -1)]
        assert world.end(old).code == ProducerFencedError.code
        assert world.init(old).code == ProducerFencedError.code
        world.markers.done()
        await eventually(lambda: not arriving.waits)
        assert arriving.producer == (1000, 2)
        for answer in (world.add(old), world.end(old), world.end(old, False), world.init(old)):
            assert answer.code == ProducerFencedError.code


async def test_two_instances_that_wait_at_once_get_an_epoch_each() -> None:
    async with transaction_world() as world:
        world.add(await world.inited())
        first, second = world.init(), world.init()
        world.markers.done()
        await eventually(lambda: not second.waits)
        assert (first.producer, second.producer) == ((1000, 2), (1000, 3))
        assert world.add(first.producer).code == ProducerFencedError.code
        assert world.add(second.producer).code == 0


async def test_a_refused_fence_burns_no_epoch() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        world.writer.fail(NotEnoughReplicasError.code)
        for _ in range(3):
            assert world.init().code == CoordinatorNotAvailableError.code
        assert not world.shard.transactions["t"].delayed
        world.writer.fail(0)
        assert world.end(producer).producer == (1000, 1)


async def test_a_fence_that_is_not_committed_in_time_burns_one_epoch_however_often_tried() -> None:
    async with transaction_world(commit_timeout_ms=5, transaction_wait_ms=1) as world:
        world.add(await world.inited())
        world.writer.auto_commit = False
        arriving = world.init()
        await eventually(lambda: not arriving.waits)
        assert arriving.code in (RequestTimedOutError.code, ConcurrentTransactionsError.code)
        for _ in range(3):
            again = world.init()
            await eventually(lambda again=again: not again.waits)  # type: ignore[misc]
            assert again.code == ConcurrentTransactionsError.code
        assert world.states().count("PrepareAbort") == 1
        world.writer.auto_commit = True
        world.partition.commit()
        await eventually(lambda: world.markers.orders)
        await world.completed()
        assert await world.inited() == (1000, 2)


async def test_a_lost_reply_of_init_pid_is_given_again() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        assert world.init(producer).producer == (1000, 1)
        assert world.init(producer).producer == (1000, 1)
        await world.moved(2)
        assert world.init(producer).producer == (1000, 1)
        assert world.init((1000, 1)).producer == (1000, 2)
        assert world.init(producer).code == ProducerFencedError.code


async def test_a_producer_that_names_itself_while_its_transaction_is_open() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        first, again = world.init(producer), world.init(producer)
        world.markers.done()
        await eventually(lambda: not again.waits)
        assert first.producer == again.producer == (1000, 2)
        assert world.end(producer).code == ProducerFencedError.code


async def test_without_a_producer_id_there_is_no_answer_and_no_effect() -> None:
    async with transaction_world() as world:
        world.ids.is_empty = True
        answer = world.init()
        await eventually(lambda: not answer.waits)
        assert answer.code == CoordinatorNotAvailableError.code
        assert not world.shard.transactions


async def test_there_is_room_for_so_many_ids_and_no_more() -> None:
    async with transaction_world(transactional_ids_max=2) as world:
        for name in ("t", "u"):
            await world.inited(transactional_id=name)
        given = world.ids.given
        for third in (world.init(transactional_id="v"), world.join(1, 1, transactional_id="v")):
            assert third.code == PolicyViolationError.code
        assert world.ids.given == given
        assert await world.inited(transactional_id="u") == (1001, 1)


async def test_epochs_that_are_used_up_give_a_new_producer_id() -> None:
    async with transaction_world() as world:
        await world.inited()
        saved = world.saved()
        assert isinstance(saved, SavedTransaction)
        last = saved._replace(
            producer_epoch=32_766,
            state=TxnState.ONGOING,
            partitions=(A0,),
            start_ms=world.clock.now_ms(),
        )
        world.partition.append([id_record("t", last)])
        world.partition.commit()
        await world.moved(2)
        ended = world.end((1000, 32_766))
        await eventually(lambda: not ended.waits)
        assert ended.producer == (1001, 0)
        assert world.markers.orders[0].markers == [(1000, 32_767, True, [A0], -1)]
        assert world.end((1000, 32_766)).producer == (1001, 0)
        assert world.end((1000, 32_766), False).code == InvalidTxnStateError.code
        added = world.add((1001, 0))
        world.markers.done()
        await eventually(lambda: not added.waits)
        assert added.code == 0
        assert world.end((1000, 32_766)).code == ProducerFencedError.code
        assert world.add((1000, 32_766)).code == TransactionAbortableError.code


# ---- time


async def test_the_coordinator_aborts_what_takes_too_long() -> None:
    async with transaction_world() as world:
        producer = await world.inited(timeout_ms=5)
        world.add(producer)
        await eventually(lambda: world.markers.orders, what="markers")
        assert world.markers.orders[0].markers == [(1000, 1, False, [A0], -1)]
        assert world.end(producer).code == TransactionAbortableError.code
        assert world.add(producer, 1).code == TransactionAbortableError.code
        assert world.end(producer, False).producer == (1000, 1)
        await world.completed()
        assert world.end(producer).code == TransactionAbortableError.code
        assert world.end(producer, False).producer == (1000, 1)
        assert world.add((1000, 1)).code == 0


async def test_after_a_time_out_the_producer_may_also_begin_anew() -> None:
    async with transaction_world() as world:
        producer = await world.inited(timeout_ms=5)
        world.add(producer)
        await eventually(lambda: world.markers.orders)
        again = world.init(producer)
        world.markers.done()
        await eventually(lambda: not again.waits)
        assert again.producer == (1000, 2)
        assert world.end(producer, False).code == ProducerFencedError.code


async def test_an_abort_by_time_out_that_is_refused_is_tried_again() -> None:
    async with transaction_world() as world:
        producer = await world.inited(timeout_ms=5)
        world.add(producer)
        world.writer.fail(NotEnoughReplicasError.code)
        await eventually(lambda: world.writer.refused_count == 1, what="a refused abort")
        assert world.states()[-1] == "Ongoing"
        world.writer.fail(0)
        await eventually(lambda: world.states()[-1] == "PrepareAbort", what="the abort")
        assert world.end(producer, False).producer == (1000, 1)


async def test_the_time_of_a_transaction_that_is_being_ended_is_not_over() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer)
        timers = world.engine.led[0].timers
        assert "timeout t" in timers
        world.writer.auto_commit = False
        ended = world.end(producer)
        assert "timeout t" not in timers
        world.partition.commit()
        assert ended.producer == (1000, 1)
        assert world.states()[-1] == "PrepareCommit"


async def test_the_time_runs_on_when_the_coordinator_changes() -> None:
    async with transaction_world() as world:
        producer = await world.inited(timeout_ms=60_000)
        world.add(producer)
        world.clock.advance(59_999)
        await world.moved(2)
        await eventually(lambda: world.markers.orders, what="markers")


async def test_a_clock_set_back_does_not_make_a_transaction_last_longer_than_it_may() -> None:
    async with transaction_world() as world:
        world.add(await world.inited(timeout_ms=5))
        world.engine.resigned(0, 2)
        world.clock.advance(-3_600_000)
        await world.elected(2)
        await eventually(lambda: world.markers.orders, what="markers")


async def test_idle_ids_are_forgotten_and_open_ones_are_not() -> None:
    async with transaction_world(
        transactional_id_expiration_ms=1_000, transactional_id_expiration_check_interval_ms=1
    ) as world:
        world.add(await world.inited(transactional_id="open"), transactional_id="open")
        idle = await world.inited(transactional_id="idle")
        ordinal = world.begin_shared()
        await world.joined(ordinal, 1, transactional_id="shared")
        world.end_shared(ordinal, 1, [], transactional_id="shared")
        await world.completed("shared")
        await world.joined(ordinal, LAST_TAG, transactional_id="once")
        world.end_shared(ordinal, LAST_TAG, [], transactional_id="once")
        await world.completed("once")
        await world.joined(ordinal, 1, transactional_id="never")
        world.end_shared(ordinal, 1, transactional_id="never")
        await world.completed("never")
        world.clock.advance(2_000)
        await eventually(lambda: "idle" not in world.shard.transactions, what="expiry")
        assert sorted(world.shard.transactions) == ["open", "shared"]
        answer = world.add(idle, transactional_id="idle")
        assert answer.code == InvalidProducerIdMappingError.code
        again = world.init(idle, transactional_id="idle")
        await eventually(lambda: not again.waits)
        assert again.producer[1] == 0


# ---- a coordinator that was deposed and does not know it


async def test_who_was_deposed_condemns_nobody() -> None:
    async with transaction_world(commit_timeout_ms=5) as world:
        producer = await world.inited()
        world.writer.auto_commit = False
        refused = [
            world.end(producer),
            world.add((1000, 1)),
            world.add((77, 0)),
            world.end_shared(1, 1, []),
            world.init((1000, 5)),
        ]
        assert all(answer.waits for answer in refused)
        await eventually(lambda: not any(answer.waits for answer in refused))
        assert {answer.code for answer in refused} == {RequestTimedOutError.code}
        world.partition.leader_epoch = 2
        assert world.end(producer).code == NotCoordinatorError.code


async def test_who_coordinates_says_no_when_that_is_sure() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        codes = [
            world.end(producer).code,
            world.add((1000, 1)).code,
            world.add((77, 0)).code,
            world.add(producer, transactional_id="u").code,
            world.end_shared(1, 1, []).code,
            world.init((1000, 5)).code,
            world.join(1, 1).code,
        ]
        assert codes == [
            InvalidTxnStateError.code,
            ProducerFencedError.code,
            InvalidProducerIdMappingError.code,
            InvalidProducerIdMappingError.code,
            InvalidTxnStateError.code,
            ProducerFencedError.code,
            InvalidTxnStateError.code,
        ]
        assert world.add(producer).code == 0


# ---- defects and switches


async def test_a_record_that_cannot_follow_is_a_defect() -> None:
    async with transaction_world() as world:
        await world.inited()
        saved = world.saved()
        assert isinstance(saved, SavedTransaction)
        with pytest.raises(IllegalTxnTransitionError):
            world.shard.replay(id_record("t", saved._replace(state=TxnState.COMPLETE_COMMIT)))


async def test_an_operation_that_fails_harms_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        monkeypatch.setattr(world.shard, "add", lambda _: producer[2])  # type: ignore[misc]
        assert world.add(producer).code == UnknownServerError.code
        assert world.end(producer, False).producer == (1000, 1)


async def test_markers_go_out_too_early_without_the_rule() -> None:
    async with transaction_world(safeguards=without("prepare_before_markers")) as world:
        world.add(await world.inited())
        world.writer.auto_commit = False
        ended = world.end((1000, 0))
        assert ended.waits
        assert world.markers.orders


async def test_without_epochs_a_late_end_ends_the_next_transaction() -> None:
    async with transaction_world(safeguards=without("bump_epoch_per_txn")) as world:
        producer = await world.inited()
        world.add(producer)
        assert world.end(producer).producer == producer
        assert world.markers.orders[0].markers == [(1000, 0, True, [A0], -1)]
        assert world.end(producer).producer == producer
        await world.completed()
        world.add(producer, 1)
        assert world.end(producer).producer == producer
        assert world.states()[-1] == "PrepareCommit"
