"""Transactions are blocks: leaving one ends it, with a consumer and without one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import OffsetAndMetadata, Producer, TopicPartition
from oncelog.errors import (
    CommitFailedError,
    NoTransactionError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionOutcomeUnknownError,
)
from oncelog_protocol.errors import InvalidRecordError
from oncelog_protocol.messages.base import ApiKey
from support.fake_cluster import Action, committed_of
from support.fake_members import GroupCluster
from support.group_members import committed, fill, member, take
from support.transactional import GROUP, ID, TP, make, started, transactions, txn
from support.waiting import eventually

IN = TopicPartition("t", 0)


class Boom(Exception):
    """An application may raise this."""


# ---------------------------------------------------------------- without a consumer


async def test_leaving_commits() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as block:
            assert (await block.send("t", b"a", key=b"k", partition=1)).offset == 0
            delivery = await block.enqueue("t", b"b", headers=[("h", b"1")])
            block.send_nowait("t", b"c", timestamp_ms=5)
            assert (await block.send_many("t", [b"d"] * 3, keys=[b"k"] * 3)).record_count == 3
            await block.flush()
            assert delivery.done()
            await block.send_offsets({TP: OffsetAndMetadata(4)}, GROUP)
        assert len(committed_of(cluster, "t")) == 6
        assert cluster.transactions.committed["g", TP].offset == 4


async def test_an_exception_aborts_and_goes_on_its_way() -> None:
    async with started() as (cluster, producer):

        async def work() -> None:
            async with producer.transaction() as block:
                await block.send("t", b"lost")
                raise Boom

        with pytest.raises(Boom):
            await work()
        async with producer.transaction() as block:
            await block.send("t", b"kept")
        assert committed_of(cluster, "t") == [b"kept"]


async def test_a_failed_send_that_nobody_looked_at_aborts() -> None:
    async with started() as (cluster, producer):
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=InvalidRecordError)
        with pytest.raises(TransactionAbortableError) as caught:
            async with producer.transaction() as block:
                await block.enqueue("t", b"lost")
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        async with producer.transaction() as block:
            await block.send("t", b"kept")
        assert committed_of(cluster, "t") == [b"kept"]


async def test_a_cancelled_block_is_aborted_within_a_while() -> None:
    async with started() as (cluster, producer):
        entered = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as block:
                await block.send("t", b"lost")
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert txn(cluster).state == "CompleteAbort"


async def test_aborting_inside_ends_the_block_quietly() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as block:
            await block.send("t", b"lost")
            await block.abort()
            with pytest.raises(NoTransactionError):
                await block.send("t", b"behind")
            with pytest.raises(NoTransactionError):
                await block.abort()
        assert committed_of(cluster, "t") == []


async def test_a_block_that_is_over_sends_nothing_into_the_next() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as first:
            pass
        async with producer.transaction() as second:
            for send in (first.send, first.enqueue):
                with pytest.raises(NoTransactionError):
                    await send("t", b"late")
            with pytest.raises(NoTransactionError):
                first.send_nowait("t", b"late")
            with pytest.raises(NoTransactionError):
                await first.send_many("t", [b"late"])
            await second.send("t", b"kept")
        with pytest.raises(NoTransactionError, match="entered once"):
            async with second:
                pass
        assert committed_of(cluster, "t") == [b"kept"]


async def test_a_block_ends_by_being_left_and_in_no_other_way() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as block:
            await block.send("t", b"kept")
            for call in (
                producer.commit_transaction(),
                producer.abort_transaction(),
                producer.begin_transaction(),
            ):
                with pytest.raises(NoTransactionError):
                    await call
            await producer.send("t", b"too")
        await producer.begin_transaction()
        await producer.send("t", b"by hand")
        await producer.commit_transaction()
        assert set(committed_of(cluster, "t")) == {b"kept", b"too", b"by hand"}


async def test_a_zombies_block() -> None:
    async with started() as (cluster, zombie):

        async def work() -> None:
            async with zombie.transaction() as block:
                await block.send("t", b"zombie")
                async with make(cluster):
                    pass

        with pytest.raises(ProducerFencedError):
            await work()
        with pytest.raises(ProducerFencedError):
            async with zombie.transaction():
                pass
        assert committed_of(cluster, "t") == []


async def test_the_exception_counts_not_the_abort_that_fails() -> None:
    async with started(delivery_timeout_ms=300) as (cluster, producer):

        async def work() -> None:
            async with producer.transaction() as block:
                await block.send("t", b"lost", partition=0)
                cluster.rule(ApiKey.END_TXN, Action.DROP_BEFORE, times=10**6)
                raise Boom

        with pytest.raises(Boom):
            await work()
        cluster.rules.clear()
        async with producer.transaction() as block:
            await block.send("t", b"kept", partition=0)
        assert committed_of(cluster, "t") == [b"kept"]


# ---------------------------------------------------------------- with a consumer


class World:
    """There is a topic to read, one to write, and a group."""

    def __init__(self, count: int = 6) -> None:
        self.cluster = GroupCluster()
        self.cluster.create_topic("t", 2)
        self.cluster.create_topic("out", 1)
        self.count = count

    async def __aenter__(self) -> World:
        await self.cluster.__aenter__()
        fill(self.cluster, self.count, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cluster.__aexit__()

    def committed(self) -> int | None:
        return committed(self.cluster).get(IN)

    def out(self) -> list[bytes | None]:
        return committed_of(self.cluster, "out")


async def copy(producer: Producer, consumer: Any, count: int, fail: bool = False) -> None:
    async with producer.transaction(consumer) as block:
        for record in await take(consumer, count):
            await block.send("out", record.value)
        if fail:
            raise Boom


async def test_positions_are_committed_with_what_was_sent() -> None:
    async with World() as world, member(world.cluster) as consumer, make(world.cluster) as producer:
        await copy(producer, consumer, 2)
        assert (world.committed(), len(world.out())) == (2, 2)
        await copy(producer, consumer, 3)
        assert (world.committed(), len(world.out())) == (5, 5)
        async with producer.transaction(consumer):
            pass
        assert world.committed() == 5


async def test_an_abort_reads_again() -> None:
    async with World() as world, member(world.cluster) as consumer, make(world.cluster) as producer:
        await copy(producer, consumer, 2)
        with pytest.raises(Boom):
            await copy(producer, consumer, 3, fail=True)
        assert world.committed() == 2
        await copy(producer, consumer, 4)
        assert world.out() == [b"%d" % number for number in range(6)]
        assert world.committed() == 6


async def test_aborting_inside_reads_again_too() -> None:
    async with World() as world, member(world.cluster) as consumer, make(world.cluster) as producer:
        async with producer.transaction(consumer) as block:
            await take(consumer, 2)
            await block.send("out", b"lost")
            await block.abort()
        await copy(producer, consumer, 6)
        assert world.out() == [b"%d" % number for number in range(6)]


async def test_a_member_that_the_group_lost_cannot_commit() -> None:
    async with World() as world, member(world.cluster) as consumer, make(world.cluster) as producer:
        await copy(producer, consumer, 1)

        async def work() -> None:
            async with producer.transaction(consumer) as block:
                await take(consumer, 2)
                await block.send("out", b"lost")
                world.cluster.group().expel(consumer.group_metadata().member_id)

        with pytest.raises(TransactionAbortableError) as caught:
            await work()
        causes = [caught.value.__cause__]
        while causes[-1] is not None:
            causes.append(causes[-1].__cause__)
        assert any(isinstance(cause, CommitFailedError) for cause in causes)
        assert world.committed() == 1
        await copy(producer, consumer, 5)
        assert world.out() == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("acts", [True, False])
async def test_when_nobody_knows_the_group_is_asked(acts: bool) -> None:
    async with (
        World() as world,
        member(world.cluster) as consumer,
        make(world.cluster, delivery_timeout_ms=400) as producer,
    ):
        await copy(producer, consumer, 1)
        action = Action.DROP_AFTER if acts else Action.DROP_BEFORE
        world.cluster.rule(ApiKey.END_TXN, action, times=10**6)
        with pytest.raises(TransactionOutcomeUnknownError):
            await copy(producer, consumer, 2)
        world.cluster.rules.clear()
        await copy(producer, consumer, 3 if acts else 5)
        assert world.out() == [b"%d" % number for number in range(6)]
        assert world.committed() == 6


async def test_a_consumer_without_a_group_opens_nothing() -> None:
    async with World() as world, make(world.cluster) as producer:
        async with member(world.cluster, group_id=None) as consumer:
            with pytest.raises(Exception, match="group"):
                async with producer.transaction(consumer):
                    pass
        async with producer.transaction() as block:
            await block.send("out", b"v")
        assert transactions(producer).identity == world.cluster.transactions.ids[ID].pair


async def test_offsets_travel_while_records_do() -> None:
    async with World() as world, member(world.cluster) as consumer, make(world.cluster) as producer:
        held = world.cluster.rule(ApiKey.PRODUCE, Action.HOLD)

        async def work() -> None:
            async with producer.transaction(consumer) as block:
                await take(consumer, 2)
                await block.enqueue("out", b"v")

        task = asyncio.create_task(work())
        await eventually(lambda: held.met == 1)
        await eventually(lambda: world.cluster.count(ApiKey.TXN_OFFSET_COMMIT) == 1)
        held.release.set()
        await task
        assert (world.committed(), world.out()) == (2, [b"v"])


async def test_the_commit_waits_for_lists_put_in_line() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as block:
            await block.enqueue_many("t", [b"a"] * 3, partition=0)
        assert committed_of(cluster, "t") == [b"a"] * 3
        with pytest.raises(NoTransactionError):
            await block.enqueue_many("t", [b"late"])
