"""``run(transactional_id=)`` puts records and offsets into transactions, and survives failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import Consumer, Record, Retry
from oncelog.consumer.outgoing import ProducerRecord
from oncelog.errors import (
    ClientError,
    ConfigurationError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RequestTimedOutError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol import limits
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, Rule, committed_of
from support.fake_transactional_groups import TransactionalGroups
from support.running import A, B, fill, raised, running
from support.waiting import eventually


@asynccontextmanager
async def groups(*sizes: int, dead: bool = False) -> AsyncIterator[TransactionalGroups]:
    async with TransactionalGroups() as cluster:
        cluster.create_topic("t", len(sizes))
        for number, size in enumerate(sizes):
            if size:
                fill(cluster, size, number)
        cluster.create_topic("out")
        if dead:
            cluster.create_topic("dead")
        yield cluster


@asynccontextmanager
async def member(cluster: TransactionalGroups, **options: Any) -> AsyncIterator[Consumer]:
    given = {
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 20,
        "auto_commit_interval_ms": 50,
        "entropy": SeededEntropy(1),
        "retry_backoff_max_ms": 20,
        **options,
    }
    async with Consumer(
        "t", bootstrap_servers=cluster.bootstrap, group_id="g", **given
    ) as consumer:
        yield consumer


def copying(consumer: Consumer, handler: Any, **options: Any) -> Any:
    given = {"transactional_id": "copier", "commit_interval_ms": 5, **options}
    return running(consumer, handler, **given)


async def copy(record: Record) -> ProducerRecord:
    return ProducerRecord("out", record.value, record.key)


def results(cluster: TransactionalGroups, topic: str = "out") -> list[int]:
    return [int(value or b"-1") for value in committed_of(cluster, topic)]


def refuse_large(cluster: TransactionalGroups, most: int) -> None:
    """Refuse as brokers do whose topic ``out`` has a small ``max_message_bytes``."""

    def too_large(request: ProduceRequest) -> bool:
        out = [topic for topic in request.topics if topic.topic == "out"]
        return any(part.batch.length > most for topic in out for part in topic.partitions)

    error = MessageTooLargeError
    cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=error, times=1000, when=too_large)


async def test_each_record_is_answered_once_and_positions_move_with_the_answers() -> None:
    async with groups(300, 200) as cluster, member(cluster) as consumer:
        async with copying(consumer, copy, concurrency=8) as task:
            await eventually(lambda: len(results(cluster)) == 500)
            await eventually(lambda: cluster.committed() == {A: 300, B: 200})
            fill(cluster, 50)
            await eventually(lambda: cluster.committed() == {A: 350, B: 200})
            await consumer.close()
            await asyncio.wait_for(task, 10)
        assert sorted(results(cluster)) == sorted([*range(350), *range(200)])
        assert cluster.count(ApiKey.OFFSET_COMMIT) == 0
        txn = cluster.transactions.ids["copier"]
        assert txn.state == "CompleteCommit"


@pytest.mark.parametrize("order", ["key", "partition", "none"])
async def test_answers_keep_the_order_of_their_partition(order: Any) -> None:
    """The order in which handlers end does not matter."""
    entropy = SeededEntropy(7)

    async def slowly(record: Record) -> ProducerRecord:
        await asyncio.sleep(entropy.random() * 0.002)
        return await copy(record)

    async with (
        groups(200) as cluster,
        member(cluster) as consumer,
        copying(consumer, slowly, concurrency=16, order=order),
    ):
        await eventually(lambda: len(results(cluster)) == 200)
        assert results(cluster) == list(range(200))


def in_a_thread(record: Record) -> list[ProducerRecord]:
    return [ProducerRecord("out", record.value)] * 2


def yielding(record: Record) -> Any:
    yield ProducerRecord("out", record.value)
    yield ProducerRecord("out", record.value)


async def yielding_on_the_loop(record: Record) -> Any:
    yield ProducerRecord("out", record.value)
    await asyncio.sleep(0)
    yield ProducerRecord("out", record.value)


class Both:
    async def __call__(self, record: Record) -> Any:
        for item in in_a_thread(record):
            yield item


@pytest.mark.parametrize("handler", [in_a_thread, yielding, yielding_on_the_loop, Both()])
async def test_several_answers(handler: Any) -> None:
    async with (
        groups(5) as cluster,
        member(cluster) as consumer,
        copying(consumer, handler),
    ):
        await eventually(lambda: cluster.committed() == {A: 5})
        assert results(cluster) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_a_record_without_an_answer_is_done_all_the_same() -> None:
    async def nothing(record: Record) -> None:
        pass

    async with groups(5) as cluster, member(cluster) as consumer, copying(consumer, nothing):
        await eventually(lambda: cluster.committed() == {A: 5})
        assert results(cluster) == []


async def test_positions_go_over_markers_without_any_record() -> None:
    async with groups(2) as cluster, member(cluster) as consumer, copying(consumer, copy):
        await eventually(lambda: cluster.committed() == {A: 2})
        log = cluster.partition("t")
        log.append(
            encode_batch(
                [b"x"],
                timestamps=0,
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        )
        log.mark(False, 1, 1)
        cluster.announce()
        await eventually(lambda: cluster.committed() == {A: 4})
        assert results(cluster) == [0, 1]


async def test_nothing_waits_for_a_record_that_is_tried_again() -> None:
    """But its own partition: behind it nothing is committed, and no transaction is open."""
    seen: list[int] = []

    async def handle(record: Record) -> ProducerRecord:
        seen.append(record.offset)
        if record.partition == 0 and record.offset == 3 and seen.count(3) < 3:
            raise ValueError("not yet")
        return await copy(record)

    retry = Retry(5, backoff_ms=100)
    async with (
        groups(9, 2) as cluster,
        member(cluster) as consumer,
        copying(consumer, handle, concurrency=4, order="none", retry=retry),
    ):
        await eventually(lambda: cluster.committed() == {A: 3, B: 2})
        assert seen.count(3) < 3
        assert cluster.transactions.ids["copier"].state == "CompleteCommit"
        await eventually(lambda: cluster.committed() == {A: 9, B: 2})
        assert sorted(results(cluster)) == sorted([*range(9), *range(2)])


async def test_dead_letters_are_in_the_transaction() -> None:
    async def handle(record: Record) -> ProducerRecord:
        if record.offset % 3 == 0:
            raise ValueError("never")
        return await copy(record)

    def decode(record: Record) -> Record:
        if record.offset == 7:
            raise KeyError("undecodable")
        return record

    async with (
        groups(10, dead=True) as cluster,
        member(cluster) as consumer,
        copying(consumer, handle, dead_letter="dead", decode=decode),
    ):
        await eventually(lambda: cluster.committed() == {A: 10})
        assert results(cluster) == [1, 2, 4, 5, 8]
        assert results(cluster, "dead") == [0, 3, 6, 7, 9]


@pytest.mark.parametrize("where", ["client", "broker"])
async def test_a_result_that_is_too_large_is_a_dead_letter(where: str) -> None:
    large = b"x" * (limits.BATCH_BYTES_MAX + 1 if where == "client" else 5000)

    async def handle(record: Record) -> ProducerRecord:
        value = large if record.offset in (3, 4, 8) else record.value
        return ProducerRecord("out", value, record.key)

    async with groups(10, dead=True) as cluster, member(cluster) as consumer:
        refuse_large(cluster, 4000)
        async with copying(consumer, handle, dead_letter="dead") as task:
            await eventually(lambda: cluster.committed() == {A: 10})
            fill(cluster, 5)
            await eventually(lambda: cluster.committed() == {A: 15})
            assert not task.done()
            assert results(cluster) == [0, 1, 2, 5, 6, 7, 9, *range(10, 15)]
            assert results(cluster, "dead") == [3, 4, 8]


async def test_a_result_that_is_too_large_ends_a_run_without_dead_letters() -> None:
    async def handle(record: Record) -> ProducerRecord:
        return ProducerRecord("out", b"x" * 5000 if record.offset == 1 else record.value)

    async with groups(3) as cluster, member(cluster) as consumer:
        refuse_large(cluster, 4000)
        async with copying(consumer, handle) as task:
            error = await raised(task)
        assert isinstance(error, MessageTooLargeError)
        assert "t-0 offset 1" in "".join(error.__notes__)
        assert results(cluster) == [0]


async def test_a_handler_that_fails_ends_the_run_and_what_is_done_is_committed() -> None:
    async def handle(record: Record) -> ProducerRecord:
        if record.offset == 5:
            raise ValueError("bad")
        return await copy(record)

    async with groups(9) as cluster, member(cluster) as consumer:
        async with copying(consumer, handle, commit_interval_ms=60_000) as task:
            assert isinstance(await raised(task), ValueError)
        assert cluster.committed() == {A: 5}
        assert results(cluster) == [0, 1, 2, 3, 4]
        assert await consumer.position(A) == 5
        async with copying(consumer, copy):  # once more, from there
            await eventually(lambda: cluster.committed() == {A: 9})
        assert results(cluster) == list(range(9))


async def test_what_cannot_be_written_is_the_handler_s_fault() -> None:
    async def handle(record: Record) -> Any:
        return "text"

    async with groups(1) as cluster, member(cluster) as consumer:
        async with copying(consumer, handle) as task:
            error = await raised(task)
        assert isinstance(error, TypeError)
        assert "t-0 offset 0" in "".join(error.__notes__)


async def test_an_aborted_transaction_is_written_again_without_its_handlers() -> None:
    seen: list[int] = []

    async def handle(record: Record) -> ProducerRecord:
        seen.append(record.offset)
        if record.offset == 4:
            cluster.transactions.ids["copier"].state = "Ongoing"
            cluster.transactions.time_out("copier")
        return await copy(record)

    async with (
        groups(20) as cluster,
        member(cluster) as consumer,
        copying(consumer, handle, commit_interval_ms=30),
    ):
        await eventually(lambda: cluster.committed() == {A: 20})
        assert results(cluster) == list(range(20))
        assert seen == list(range(20))


async def test_too_many_failures_in_a_row_end_the_run() -> None:
    async def nowhere(record: Record) -> ProducerRecord:
        return ProducerRecord("nowhere", record.value)

    async with groups(3) as cluster, member(cluster, max_block_ms=100) as consumer:
        async with copying(consumer, nowhere) as task:
            error = await raised(task)
        assert isinstance(
            error, (UnknownTopicOrPartitionError, TransactionAbortableError, TimeoutError)
        )
        # Where it began may be committed, and nothing that it read.
        assert cluster.committed().get(A, 0) == 0


async def test_a_successor_with_the_same_id_fences() -> None:
    async with groups(5, 5) as cluster, member(cluster) as consumer:
        async with copying(consumer, copy) as task:
            await eventually(lambda: cluster.committed() == {A: 5, B: 5})
            async with member(cluster) as other, copying(other, copy):
                await eventually(lambda: cluster.count(ApiKey.INIT_PID) == 2)
                fill(cluster, 5)
                fill(cluster, 5, 1)
                assert isinstance(await raised(task), ProducerFencedError)
                await consumer.close()
                await eventually(lambda: cluster.committed() == {A: 10, B: 10})
        assert sorted(results(cluster)) == sorted([*range(10), *range(10)])


@pytest.mark.parametrize("action", [Action.DROP_BEFORE, Action.DROP_AFTER, Action.ERROR_AFTER])
@pytest.mark.parametrize(
    "api", [ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.PRODUCE, ApiKey.INIT_PID]
)
async def test_lost_answers_double_nothing(api: ApiKey, action: Action) -> None:
    error = NotEnoughReplicasError if api is ApiKey.PRODUCE else RequestTimedOutError
    async with groups(200) as cluster, member(cluster) as consumer:
        calls = 0

        def sometimes(request: Any) -> bool:
            nonlocal calls
            calls += 1
            return calls % 2 == 1

        cluster.rules.append(Rule(api, action, error, times=4, when=sometimes))
        async with copying(consumer, copy, transaction_records_max=20):
            await eventually(lambda: cluster.committed() == {A: 200}, timeout_s=20)
        assert results(cluster) == list(range(200))


async def test_nobody_knows_and_reading_goes_on_from_what_is_committed() -> None:
    """The run does not end: the group says what became of it."""
    async with groups(50) as cluster, member(cluster) as consumer:
        hold = Rule(ApiKey.END_TXN, Action.DROP_AFTER, times=10_000)
        cluster.rules.append(hold)
        async with copying(consumer, copy, transaction_records_max=10) as task:
            consumer_run = task
            await eventually(lambda: hold.met > 3)
            hold.times = 0
            await eventually(lambda: cluster.committed() == {A: 50}, timeout_s=20)
            assert not consumer_run.done()
        assert results(cluster) == list(range(50))


async def test_partitions_that_go_are_committed_up_to_what_is_done() -> None:
    """A rebalance in the middle of work, handlers slow: nothing twice, nothing left out."""
    done: list[tuple[int, int]] = []

    async def slowly(record: Record) -> ProducerRecord:
        await asyncio.sleep(0.002)
        done.append((record.partition, record.offset))
        return await copy(record)

    async with groups(150, 150) as cluster, member(cluster) as first:
        async with copying(first, slowly, transactional_id="one", concurrency=2):
            await eventually(lambda: len(results(cluster)) > 20)
            async with (
                member(cluster) as second,
                copying(second, slowly, transactional_id="two", concurrency=2),
            ):
                await eventually(lambda: cluster.group().generation >= 3)
                await eventually(lambda: cluster.committed() == {A: 150, B: 150}, timeout_s=30)
        assert sorted(results(cluster)) == sorted([*range(150), *range(150)])


async def test_a_member_that_was_expelled_writes_nothing_of_what_it_lost() -> None:
    gate = asyncio.Event()

    async def slowly(record: Record) -> ProducerRecord:
        if record.offset == 10:
            await gate.wait()
        return await copy(record)

    async with groups(30) as cluster, member(cluster) as consumer:
        async with copying(consumer, slowly):
            await eventually(lambda: cluster.committed() == {A: 10})
            cluster.group().expel(next(iter(cluster.group().members)))
            gate.set()
            await eventually(lambda: cluster.committed() == {A: 30}, timeout_s=20)
        assert results(cluster) == list(range(30))


async def test_cancelled_in_the_middle_it_aborts_and_goes_back() -> None:
    async with groups(30) as cluster, member(cluster) as consumer:
        hold = cluster.rule(ApiKey.TXN_OFFSET_COMMIT, Action.HOLD_AFTER)
        async with copying(consumer, copy) as task:
            await eventually(lambda: hold.met == 1)
            task.cancel()
            hold.release.set()
            await asyncio.gather(task, return_exceptions=True)
        assert cluster.transactions.ids["copier"].state == "CompleteAbort"
        assert (results(cluster), cluster.committed()) == ([], {})
        assert await consumer.position(A) == 0
        async with copying(consumer, copy):
            await eventually(lambda: cluster.committed() == {A: 30})
        assert results(cluster) == list(range(30))


async def test_cancelled_while_it_commits_the_group_decides() -> None:
    async with groups(30) as cluster, member(cluster) as consumer:
        hold = cluster.rule(ApiKey.END_TXN, Action.HOLD_AFTER)
        async with copying(consumer, copy) as task:
            await eventually(lambda: hold.met == 1)
            task.cancel()
            hold.release.set()
            await asyncio.gather(task, return_exceptions=True)
        assert await consumer.position(A) == sum(cluster.committed().values())
        async with copying(consumer, copy):
            await eventually(lambda: cluster.committed() == {A: 30})
        assert results(cluster) == list(range(30))


async def test_what_it_needs() -> None:
    async with groups(1) as cluster:
        async with Consumer("t", bootstrap_servers=cluster.bootstrap) as alone:
            with pytest.raises(ConfigurationError, match="group_id"):
                await alone.run(copy, transactional_id="copier")
        async with member(cluster, isolation_level="read_uncommitted") as consumer:
            with pytest.raises(ConfigurationError, match="read_committed"):
                await consumer.run(copy, transactional_id="copier")
        async with member(cluster) as consumer:
            part = consumer._join_transaction()
            with pytest.raises(ClientError, match="already"):
                await consumer.run(copy, transactional_id="copier")
            part.committed({})
            with pytest.raises(ConfigurationError):
                await consumer.run(copy, transactional_id="")


@pytest.mark.parametrize("crashes", [False, True])
async def test_what_comes_between_two_lives_is_read(crashes: bool) -> None:
    """With "latest" too: where the first life began is committed, before anything is handed out."""
    async with groups(5, 0) as cluster:
        latest = {"auto_offset_reset": "latest", "auto_commit_interval_ms": 3_600_000}
        async with member(cluster, **latest) as consumer, copying(consumer, copy) as task:
            await eventually(lambda: consumer.assignment() == [A, B])
            await asyncio.gather(*(consumer.position(tp) for tp in (A, B)))
            if not crashes:
                await consumer.close()
                await task
            assert cluster.committed() == {A: 5, B: 0}
        fill(cluster, 3)
        async with member(cluster, **latest) as consumer, copying(consumer, copy):
            await eventually(lambda: len(results(cluster)) == 3)
        assert results(cluster) == [5, 6, 7]
