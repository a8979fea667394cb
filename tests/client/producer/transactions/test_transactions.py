"""One producer's transactions end, fail, are retried and are fenced at a scripted coordinator."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from oncelog.errors import (
    BufferExhaustedError,
    DeadlineExceededError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NoTransactionError,
    TransactionAbortableError,
)
from oncelog_protocol.errors import (
    ApiError,
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.batch import parse_header
from support.fake_cluster import Action, FakeCluster, committed_of
from support.histories import ListHistory
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

# ---------------------------------------------------------------- the usual way


async def test_a_commit_shows_everything_an_abort_nothing() -> None:
    async with started(2) as (cluster, producer):
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_many("t", [b"%d" % number] * 9, partition=0)
            for partition in range(3):
                await producer.enqueue("t", b"%d" % number, partition=partition)
            if number % 2:
                await producer.flush()
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        assert Counter(committed_of(cluster, "t")) == {b"0": 12, b"2": 12}
        assert len([value for p in cluster.topics["t"] for value in p.values()]) == 48


async def test_every_transaction_has_its_epoch_and_begins_at_sequence_zero() -> None:
    async with started(partitions=1) as (cluster, producer):
        for _ in range(3):
            await producer.begin_transaction()
            await producer.send("t", b"a")
            await producer.send("t", b"b")
            await producer.commit_transaction()
        headers = [parse_header(batch) for batch in cluster.partition("t").batches]
        data = [header for header in headers if not header.is_control]
        assert all(header.is_transactional for header in data)
        assert [(h.producer_epoch, h.base_sequence) for h in data] == [
            (epoch, sequence) for epoch in range(3) for sequence in range(2)
        ]
        assert {
            request.transactional_id
            for _, request in cluster.requests
            if request.api_key == ApiKey.PRODUCE
        } == {ID}


async def test_epochs_run_out_and_another_producer_id_goes_on() -> None:
    async with started() as (cluster, producer):
        first = transactions(producer).identity
        cluster.transactions.epoch_max = 1
        for number in range(4):
            await commit_one(producer, b"%d" % number, partition=0)
        assert transactions(producer).identity.producer_id != first.producer_id
        assert committed_of(cluster, "t") == [b"0", b"1", b"2", b"3"]


async def test_nothing_sent_nothing_said() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.enqueue("t", b"never goes out")
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send_offsets({}, GROUP)
        await producer.abort_transaction()
        assert cluster.count(ApiKey.END_TXN) == cluster.count(ApiKey.PRODUCE) == 0
        assert cluster.count(ApiKey.TXN_OFFSET_COMMIT) == 0
        await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


async def test_commit_waits_for_what_was_only_enqueued() -> None:
    async with started(linger_ms=60_000) as (cluster, producer):
        await producer.begin_transaction()
        deliveries = [await producer.enqueue("t", b"%d" % n) for n in range(5)]
        await producer.commit_transaction()
        assert all(delivery.exception() is None for delivery in deliveries)
        assert len(committed_of(cluster, "t")) == 5


async def test_leaders_and_coordinators_add_themselves() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v")
        await producer.send_offsets({TP: 7}, GROUP)
        await producer.commit_transaction()
        assert cluster.count(ApiKey.ADD_PARTITIONS_TO_TXN) == 0
        assert cluster.count(ApiKey.ADD_OFFSETS_TO_TXN) == 0
        assert cluster.transactions.committed["g", TP].offset == 7


# ---------------------------------------------------------------- what is not allowed


async def test_records_go_out_in_transactions_only() -> None:
    async with started() as (cluster, producer):
        for _ in range(2):
            with pytest.raises(NoTransactionError):
                await producer.send("t", b"v")
            with pytest.raises(NoTransactionError):
                await producer.send("t", b"v", key=b"k")
            with pytest.raises(NoTransactionError):
                producer.send_nowait("t", b"v")
            with pytest.raises(NoTransactionError):
                await producer.send_many("t", [b"v"])
            with pytest.raises(NoTransactionError):
                await producer.send_offsets({TP: 1}, GROUP)
            with pytest.raises(NoTransactionError, match="between"):
                await producer.commit_transaction()
            with pytest.raises(NoTransactionError):
                await producer.abort_transaction()
            await producer.begin_transaction()
            with pytest.raises(NoTransactionError):
                await producer.begin_transaction()
            await producer.enqueue("t", b"in", partition=0)
            await producer.enqueue("t", b"in", key=b"k")
            await producer.commit_transaction()
        assert committed_of(cluster, "t") == [b"in"] * 4


async def test_what_waited_over_the_end_is_not_taken_by_the_next() -> None:
    async with started(partitions=1, batch_size=200, buffer_memory=200) as (cluster, producer):
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.begin_transaction()
        await producer.enqueue("t", b"x" * 150)
        late = [
            asyncio.create_task(producer.send("t", b"y" * 150)),
            asyncio.create_task(producer.send_many("t", [b"z" * 60])),
        ]
        await eventually(lambda: len(producer._accumulator._waiting) == 2)
        await producer.abort_transaction()
        held.release.set()
        await producer.begin_transaction()
        for task in late:
            with pytest.raises(TransactionAbortableError):
                await task
        await producer.send("t", b"next")
        await producer.commit_transaction()
        assert committed_of(cluster, "t") == [b"next"]


async def test_what_waits_for_metadata_over_the_end_is_not_taken_either() -> None:
    async with started() as (cluster, producer):
        await producer.begin_transaction()
        late = asyncio.create_task(producer.send("u", b"late"))
        await asyncio.sleep(0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        cluster.create_topic("u")
        with pytest.raises(NoTransactionError, match="ended before"):
            await late
        await producer.commit_transaction()


async def test_the_callers_own_mistakes_harm_no_transaction() -> None:
    async with started(max_block_ms=50, batch_size=200, buffer_memory=300) as (cluster, producer):
        await producer.begin_transaction()
        with pytest.raises(MessageTooLargeError):
            await producer.send("t", b"x" * 2_000_000)
        with pytest.raises(TypeError):
            await producer.send("t", "text")  # type: ignore[arg-type]
        with pytest.raises(BufferExhaustedError):
            await producer.send("t", b"x" * 400)
        with pytest.raises(TypeError):
            await producer.send_offsets({TP: 1}, "g")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="offset"):
            await producer.send_offsets({TP: -1}, GROUP)
        await producer.send("t", b"good")
        await producer.commit_transaction()
        assert committed_of(cluster, "t") == [b"good"]


async def test_no_commit_while_offsets_are_on_their_way() -> None:
    async with started() as (cluster, producer):
        held = cluster.rule(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD)
        await producer.begin_transaction()
        offsets = asyncio.create_task(producer.send_offsets({TP: 1}, GROUP))
        await eventually(lambda: held.met == 1)
        with pytest.raises(NoTransactionError, match="send_offsets"):
            await producer.commit_transaction()
        held.release.set()
        await offsets
        await producer.commit_transaction()
        assert ("g", TP) in cluster.transactions.committed


# ---------------------------------------------------------------- starting, closing


async def test_starting_asks_until_it_is_answered() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.rule(ApiKey.FIND_COORDINATOR, Action.ERROR, error=CoordinatorNotAvailableError)
        cluster.rule(ApiKey.INIT_PID, Action.ERROR, error=ConcurrentTransactionsError)
        cluster.rule(ApiKey.INIT_PID, Action.DROP_AFTER)
        async with make(cluster) as producer:
            await commit_one(producer)
        assert committed_of(cluster, "t") == [b"v"]


@pytest.mark.parametrize(
    ("options", "rule", "error"),
    [
        ({"transaction_timeout_ms": 900_001}, None, InvalidTransactionTimeoutError),
        ({}, InvalidTxnStateError, InvalidTxnStateError),
        ({"max_block_ms": 60}, CoordinatorNotAvailableError, DeadlineExceededError),
    ],
)
async def test_starting_fails_with_its_reason_and_leaves_nothing(
    options: dict[str, Any], rule: type[ApiError] | None, error: type[Exception]
) -> None:
    async with FakeCluster() as cluster:
        if rule is not None:
            cluster.rule(ApiKey.INIT_PID, Action.ERROR, error=rule, times=10**6)
        with pytest.raises(error):
            async with make(cluster, **options):
                pass
        await eventually(lambda: cluster.brokers[1].connection_count == 0)


async def test_closing_aborts_what_is_open() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"v")
            waiting = await producer.enqueue("t", b"w")
        assert txn(cluster).state == "CompleteAbort"
        assert waiting.exception() is not None
        assert committed_of(cluster, "t") == []


async def test_closing_without_a_coordinator_ends_in_time() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster)
        await producer.start()
        await producer.begin_transaction()
        await producer.send("t", b"v")
        cluster.rule(ApiKey.END_TXN, Action.ERROR, error=NotCoordinatorError, times=10**6)
        await producer.close(timeout_ms=50)
        assert txn(cluster).state == "Ongoing", "its time-out ends it"


# ---------------------------------------------------------------- aborting


async def test_an_abort_waits_for_no_acknowledgement() -> None:
    async with started(2, partitions=2, batch_size=64) as (cluster, producer):
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.begin_transaction()
        deliveries = [await producer.enqueue("t", b"%d" % n, partition=0) for n in range(20)]
        await eventually(lambda: held.met == 1)
        await producer.abort_transaction()
        assert all(delivery.done() for delivery in deliveries)
        errors = [delivery.exception() for delivery in deliveries]
        assert all(isinstance(error, TransactionAbortableError) for error in errors)
        assert not getattr(errors[0], "definite", True), "the first was on its way"
        assert getattr(errors[-1], "definite", False), "the last was not"
        await commit_one(producer, partition=1)
        held.release.set()
        await commit_one(producer, b"w", partition=0)
        assert set(committed_of(cluster, "t")) == {b"v", b"w"}


# ---------------------------------------------------------------- the history


async def test_the_history_knows_transactions() -> None:
    history = ListHistory()
    async with started(history=history, delivery_timeout_ms=300) as (cluster, producer):
        await producer.begin_transaction()
        await producer.send("t", b"v", partition=0)
        await producer.send_offsets({TP: 7}, GROUP)
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send("t", b"w", partition=0)
        await producer.abort_transaction()
        await lose_the_end(cluster, producer, acts=True)
        await producer.begin_transaction()
        await producer.commit_transaction()
    numbers = [event[1] for event in history.events if event[2:] == ("txn", ID)]
    told = [
        [
            tuple(event[:1]) + tuple(event[2:3])
            for event in history.events
            if event[0] != "invoke" and event[1] == number
        ]
        for number in numbers
    ]
    assert [[event[0] for event in some] for some in told] == [
        ["ending", "ok"],
        ["ending", "fail"],
        ["ending", "info"],
        ["ok"],
    ]
    assert [some[0][1] for some in told[:3]] == [True, False, True]
    parts = [
        (event[2], event[-1])
        for event in history.events
        if event[0] == "invoke" and event[2] in ("send", "commit")
    ]
    first, second, third, _ = numbers
    assert parts == [("send", first), ("commit", first), ("send", second), ("send", third)]
