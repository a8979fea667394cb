"""Transactions fail: some only abort, some producers are fenced, and some ends nobody answers."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import OffsetAndMetadata
from oncelog.errors import (
    CommitFailedError,
    DeliveryTimeoutError,
    InvalidTxnStateError,
    Kind,
    NoTransactionError,
    PartialSendError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
)
from oncelog.producer.transactions.state import ProducerPhase
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    TransactionalIdAuthorizationFailedError,
)
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, FakeCluster, committed_of
from support.transactional import (
    GROUP,
    ID,
    TP,
    commit_one,
    lose_the_end,
    make,
    started,
    transactions,
    txn,
)
from support.waiting import eventually
from unsafe.producer import without

# ---------------------------------------------------------------- what only aborts


@pytest.mark.parametrize(
    "error",
    [
        InvalidRecordError,
        InvalidProducerEpochError,
        OutOfOrderSequenceNumberError,
        InvalidTxnStateError,
        TransactionAbortableError,
    ],
)
async def test_a_batch_that_failed_makes_the_transaction_abortable(error: type[ApiError]) -> None:
    async with started(linger_ms=0) as (cluster, producer):
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=error)
        await producer.begin_transaction()
        with pytest.raises(error):
            await producer.send("t", b"lost", partition=0)
        for _ in range(2):
            with pytest.raises(TransactionAbortableError) as caught:
                await producer.commit_transaction()
            assert caught.value.kind is Kind.ABORTABLE
            assert isinstance(caught.value.__cause__, error)
            with pytest.raises(TransactionAbortableError):
                await producer.send("t", b"behind")
        await producer.abort_transaction()
        await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


async def test_a_commit_finds_what_failed_and_nobody_looked_at() -> None:
    async with started(partitions=2) as (cluster, producer):
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.begin_transaction()
        first = await producer.enqueue("t", b"a", partition=0)
        second = await producer.enqueue("t", b"b", partition=1)
        with pytest.raises(TransactionAbortableError) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        assert first.done()
        assert second.done(), "a commit that is lost waits for nothing"
        held.release.set()
        await producer.abort_transaction()
        await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


async def test_what_has_not_gone_out_of_a_lost_transaction_never_does() -> None:
    async with started(partitions=2, linger_ms=50) as (cluster, producer):
        await producer.begin_transaction()
        waiting = await producer.enqueue("t", b"lingers", partition=1)
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
        with pytest.raises(PartialSendError):
            await producer.send_many("t", [b"lost"], partition=0)
        error = waiting.exception()
        assert isinstance(error, TransactionAbortableError)
        assert error.definite
        await producer.abort_transaction()
        await asyncio.sleep(0.06)
        assert cluster.partition("t", 1).batches == []


async def test_a_batch_out_of_time_aborts() -> None:
    async with started(partitions=1, delivery_timeout_ms=300) as (cluster, producer):
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError, times=10**6)
        await producer.begin_transaction()
        await producer.enqueue("t", b"v")
        with pytest.raises(TransactionAbortableError) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, DeliveryTimeoutError)
        cluster.rules.clear()
        await producer.abort_transaction()
        await commit_one(producer)


async def test_retries_stay_inside() -> None:
    """Leaders that are not ready, lost answers, a coordinator that loads: nobody hears of it."""
    async with started(2, partitions=2) as (cluster, producer):
        rules = [
            (ApiKey.PRODUCE, Action.DROP_AFTER, None),
            (ApiKey.PRODUCE, Action.ERROR, CoordinatorNotAvailableError),
            (ApiKey.PRODUCE, Action.ERROR, ConcurrentTransactionsError),
            (ApiKey.PRODUCE, Action.DROP_BEFORE, None),
            (ApiKey.TXN_OFFSET_COMMIT, Action.ERROR, CoordinatorLoadInProgressError),
            (ApiKey.TXN_OFFSET_COMMIT, Action.DROP_AFTER, None),
            (ApiKey.END_TXN, Action.ERROR, ConcurrentTransactionsError),
            (ApiKey.END_TXN, Action.ERROR, NotCoordinatorError),
            (ApiKey.END_TXN, Action.DROP_AFTER, None),
            (ApiKey.END_TXN, Action.ERROR, RequestTimedOutError),
        ]
        for api, action, error in rules:
            cluster.rule(api, action, error=error)
        await producer.begin_transaction()
        for number in range(10):
            await producer.enqueue("t", b"%d" % number, partition=number % 2)
            await asyncio.sleep(0)
        await producer.send_offsets({TP: OffsetAndMetadata(5, "note")}, GROUP)
        await producer.commit_transaction()
        assert all(rule.met == 1 for rule in cluster.rules)
        assert cluster.partition("t", 0).committed_values() == [b"0", b"2", b"4", b"6", b"8"]
        assert cluster.partition("t", 1).committed_values() == [b"1", b"3", b"5", b"7", b"9"]
        assert cluster.transactions.committed["g", TP].metadata == "note"
        assert transactions(producer).identity == txn(cluster).pair


async def test_several_in_flight_behind_a_first_that_is_refused() -> None:
    async with started(partitions=1, batch_size=64) as (cluster, producer):
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=CoordinatorNotAvailableError, times=2)
        for turn in range(3):
            await producer.begin_transaction()
            for number in range(20):
                await producer.enqueue("t", b"%d-%02d" % (turn, number))
            await producer.commit_transaction()
        expected = [b"%d-%02d" % (turn, n) for turn in range(3) for n in range(20)]
        assert committed_of(cluster, "t") == expected


@pytest.mark.parametrize(
    ("error", "cause"),
    [(IllegalGenerationError, CommitFailedError), (InvalidProducerEpochError, None)],
)
async def test_offsets_that_are_refused(error: type[ApiError], cause: type | None) -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v")
        cluster.rule(ApiKey.TXN_OFFSET_COMMIT, Action.ERROR, error=error)
        with pytest.raises(TransactionAbortableError) as caught:
            await producer.send_offsets({TP: 1}, GROUP)
        assert isinstance(caught.value.__cause__, cause or error)
        with pytest.raises(TransactionAbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert committed_of(cluster, "t") == []


async def test_time_over_is_recoverable_on_every_way_to_hear_of_it() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"1", partition=0)
        cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()

        await producer.begin_transaction()
        await producer.send("t", b"2", partition=0)
        cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortableError):
            await producer.send("t", b"2", partition=0)
        await producer.abort_transaction()

        await producer.begin_transaction()
        await producer.send("t", b"3", partition=0)
        cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortableError):
            await producer.send("t", b"3", partition=1)
        await producer.abort_transaction()

        await producer.begin_transaction()
        await producer.send("t", b"4", partition=0)
        cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortableError):
            await producer.send_offsets({TP: 1}, GROUP)
        await producer.abort_transaction()
        await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


@pytest.mark.parametrize("commits", [True, False])
async def test_an_id_that_was_forgotten_is_asked_for_anew(commits: bool) -> None:
    async with started() as (cluster, producer):
        await commit_one(producer)
        cluster.transactions.forget(ID)
        await producer.begin_transaction()
        with pytest.raises(InvalidProducerIdMappingError):
            await producer.send("t", b"lost")
        if commits:
            with pytest.raises(TransactionAbortableError):
                await producer.commit_transaction()
        await producer.abort_transaction()
        await commit_one(producer, b"w")
        assert committed_of(cluster, "t") == [b"v", b"w"]


async def test_a_forgotten_id_that_somebody_else_has_by_now_is_fenced() -> None:
    async with started() as (cluster, producer):
        await commit_one(producer)
        cluster.transactions.forget(ID)
        async with make(cluster) as newer:
            await producer.begin_transaction()
            with pytest.raises(InvalidProducerIdMappingError):
                await producer.send("t", b"lost")
            with pytest.raises(ProducerFencedError):
                await producer.abort_transaction()
            await commit_one(newer, b"w")


# ---------------------------------------------------------------- fencing


async def test_a_successor_aborts_and_fences() -> None:
    async with started() as (cluster, zombie):
        await zombie.begin_transaction()
        await zombie.send("t", b"zombie", partition=0)
        async with make(cluster) as successor:
            await commit_one(successor, b"new")
            with pytest.raises(ProducerFencedError) as caught:
                await zombie.commit_transaction()
            assert caught.value.kind is Kind.FATAL
            assert caught.value.definite
            for call in (
                zombie.begin_transaction(),
                zombie.abort_transaction(),
                zombie.commit_transaction(),
                zombie.send("t", b"zombie"),
                zombie.send_offsets({TP: 1}, GROUP),
            ):
                with pytest.raises(ProducerFencedError):
                    await call
            await commit_one(successor, b"newer")
        assert set(committed_of(cluster, "t")) == {b"new", b"newer"}


async def test_a_zombies_batches_fence_it_too() -> None:
    async with started() as (cluster, zombie), make(cluster):
        await zombie.begin_transaction()
        with pytest.raises(ProducerFencedError):
            await zombie.send("t", b"zombie")
        assert transactions(zombie).phase is ProducerPhase.FATAL


async def test_who_is_fenced_after_a_lost_answer_may_have_committed() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v")
        cluster.rule(ApiKey.END_TXN, Action.DROP_AFTER)
        cluster.rule(ApiKey.END_TXN, Action.ERROR, error=ProducerFencedError)
        with pytest.raises(ProducerFencedError) as caught:
            await producer.commit_transaction()
        assert not caught.value.definite
        assert committed_of(cluster, "t") == [b"v"]


@pytest.mark.parametrize("error", [TransactionalIdAuthorizationFailedError, InvalidTxnStateError])
async def test_other_refusals_of_an_end_are_final(error: type[ApiError]) -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v")
        cluster.rule(ApiKey.END_TXN, Action.ERROR, error=error)
        with pytest.raises(error):
            await producer.commit_transaction()
        with pytest.raises(error):
            await producer.begin_transaction()


# ---------------------------------------------------------------- nobody knows


@pytest.mark.parametrize("acts", [True, False])
async def test_unknown_then_the_next_begins_with_a_settled_past(acts: bool) -> None:
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=acts)
        with pytest.raises(NoTransactionError):
            await producer.send("t", b"v")
        with pytest.raises(NoTransactionError, match="nobody knows"):
            await producer.abort_transaction()
        await commit_one(producer, partition=0)
        assert committed_of(cluster, "t") == ([b"?", b"v"] if acts else [b"v"])
        assert transactions(producer).identity == txn(cluster).pair


@pytest.mark.parametrize("acts", [True, False])
async def test_unknown_then_asked_again(acts: bool) -> None:
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=acts)
        await producer.commit_transaction()
        await commit_one(producer, partition=0)
        assert committed_of(cluster, "t") == [b"?", b"v"]


async def test_unknown_then_closed_leaves_nothing_open(caplog: pytest.LogCaptureFixture) -> None:
    """Readers would wait at it for its whole time-out, as its producer is gone in peace."""
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=False)
        assert txn(cluster).state == "Ongoing"
        await producer.close()
        assert txn(cluster).state in ("CompleteAbort", "Empty")
        assert committed_of(cluster, "t") == []
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=False)
        cluster.rule(ApiKey.INIT_PID, Action.HOLD, times=100)
        await producer.close(timeout_ms=50)
        assert "nobody knows how its last transaction ended" in caplog.text


async def test_unknown_then_aborted_by_its_time_out() -> None:
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=False)
        cluster.transactions.time_out(ID)
        with pytest.raises(TransactionAbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await commit_one(producer, partition=0)
        assert committed_of(cluster, "t") == [b"v"]


async def test_unknown_and_fenced_meanwhile() -> None:
    async with started(delivery_timeout_ms=300) as (cluster, producer):
        await lose_the_end(cluster, producer, acts=False)
        async with make(cluster) as newer:
            with pytest.raises(ProducerFencedError):
                await producer.begin_transaction()
            await commit_one(newer, b"w")
        assert committed_of(cluster, "t") == [b"w"]


async def test_an_end_that_was_certainly_not_asked_for_is_no_riddle() -> None:
    # It asks at once and after half a second: an answer to the last question is never cut off.
    patience = {"delivery_timeout_ms": 1000, "retry_backoff_ms": 500, "retry_backoff_max_ms": 5000}
    async with started(**patience) as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"x")
        rule = {"error": CoordinatorNotAvailableError, "times": 10**6}
        cluster.rule(ApiKey.END_TXN, Action.ERROR, **rule)
        with pytest.raises(TransactionAbortableError):
            await producer.commit_transaction()
        with pytest.raises(TransactionOutcomeUnknownError, match="will not be committed"):
            await producer.abort_transaction()
        cluster.rules.clear()
        await producer.abort_transaction()
        await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


async def test_without_the_settling_a_late_end_hits_the_next_transaction() -> None:
    """[N26]: this is what the new epoch is for."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster, delivery_timeout_ms=300)
        producer._safeguards = without("reinit_after_indefinite")
        async with producer:
            await lose_the_end(cluster, producer, acts=False)
            epoch = transactions(producer).identity
            await producer.begin_transaction()
            assert transactions(producer).identity == epoch, "the next goes on under the old epoch"
            await producer.send("t", b"v")
            await producer.abort_transaction()


async def test_a_commit_that_is_cancelled() -> None:
    async with started() as (cluster, producer):
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.begin_transaction()
        await producer.enqueue("t", b"v", partition=0)
        task = asyncio.create_task(producer.commit_transaction())
        await eventually(lambda: held.met == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transactions(producer).phase is ProducerPhase.ABORTABLE
        held.release.set()
        await producer.abort_transaction()

        held = cluster.rule(ApiKey.END_TXN, Action.HOLD_AFTER)
        await producer.begin_transaction()
        await producer.send("t", b"w", partition=0)
        task = asyncio.create_task(producer.commit_transaction())
        await eventually(lambda: held.met == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transactions(producer).phase is ProducerPhase.UNKNOWN
        held.release.set()
        await commit_one(producer, b"x", partition=0)
        assert committed_of(cluster, "t") == [b"w", b"x"]
