"""A transaction takes offsets of a consumer, and gives them back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog import Consumer, OffsetAndMetadata, TopicPartition
from oncelog.consumer.subscription import TopicPartitionState
from oncelog.errors import (
    ClientError,
    CommitFailedError,
    IllegalGenerationError,
    RequestTimedOutError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.transactions import TxnOffsetCommitPartition
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action
from support.fake_transactional_groups import TransactionalGroups
from support.running import A, B, fill
from support.waiting import eventually


@asynccontextmanager
async def member(
    *sizes: int, assigned: bool = False, **options: Any
) -> AsyncIterator[tuple[TransactionalGroups, Consumer]]:
    async with TransactionalGroups() as cluster:
        cluster.create_topic("t", len(sizes))
        for number, size in enumerate(sizes):
            fill(cluster, size, number)
        given = {
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 20,
            "auto_commit_interval_ms": 20,
            "entropy": SeededEntropy(1),
            "retry_backoff_max_ms": 20,
            **options,
        }
        topics = () if assigned else ("t",)
        async with Consumer(
            *topics, bootstrap_servers=cluster.bootstrap, group_id="g", **given
        ) as consumer:
            if assigned:
                consumer.assign([TopicPartition("t", n) for n in range(len(sizes))])
            yield cluster, consumer


def moved(offsets: dict[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, int]:
    return {tp: item.offset for tp, item in offsets.items()}


async def test_what_was_handed_out_is_committed_and_nothing_else_commits() -> None:
    async with member(5) as (cluster, consumer):
        await consumer.getmany(max_records=1, timeout_ms=5000)
        part = consumer._join_transaction()
        await consumer.getmany(max_records=2, timeout_ms=5000)
        offsets, who = part.commits()
        assert moved(offsets) == {A: 3}
        assert who == consumer.group_metadata()
        assert who.generation_id == 1
        await asyncio.sleep(0.06)
        assert cluster.committed().get(A, 0) == 0, "auto commit is over"
        with pytest.raises(ClientError, match="by transactions"):
            await consumer.commit()
        part.committed(offsets)
        part.aborted()
        assert await consumer.position(A) == 3, "it was over"
        again = consumer._join_transaction()
        assert again.commits()[0] == {}, "nothing has moved since"
        await consumer.commit({A: 1})
        assert moved(again.commits()[0]) == {A: 3}, "but what is committed has"
        again.aborted()
        assert await consumer.position(A) == 3


async def test_an_abort_goes_back_to_before_what_was_in_hand() -> None:
    async with member(5) as (_, consumer):
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            part = consumer._join_transaction()
            if seen.count(record.offset) == 1:
                part.aborted()
            else:
                offsets, _ = part.commits()
                assert moved(offsets) == {A: record.offset + 1}
                part.committed(offsets)
                consumer._join_transaction().aborted()  # holds nothing: it is committed
            if len(seen) == 10:
                break
        assert seen == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


async def test_an_abort_keeps_no_position_of_what_came_in_between() -> None:
    """A partition whose position was found in the middle goes back to where it was found, although
    the policy would say otherwise by now."""
    async with member(3, 3, auto_offset_reset="latest") as (cluster, consumer):
        waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=10_000))
        await eventually(lambda: A in consumer._core.subscription.states)
        part = consumer._join_transaction()
        await eventually(lambda: consumer._core.subscription.states[A].offset is not None)
        fill(cluster, 2)
        taken = await waiting
        assert [record.offset for record in taken[A]] == [3, 4]
        part.aborted()
        assert await consumer.position(A) == 3


async def test_one_at_a_time_and_only_in_a_group() -> None:
    async with member(1) as (cluster, consumer):
        part = consumer._join_transaction()
        with pytest.raises(ClientError, match="already"):
            consumer._join_transaction()
        part.committed({})
        consumer._join_transaction().unknown()
        async with Consumer("t", bootstrap_servers=cluster.bootstrap) as alone:
            with pytest.raises(ClientError, match="group_id"):
                alone._join_transaction()


async def test_what_was_taken_away_spoils_a_transaction_that_read_it() -> None:
    async with member(4, 4) as (_, consumer):
        while not {A, B} <= consumer._core.subscription.states.keys():
            await consumer.getmany(timeout_ms=50)
        await consumer.position(A), await consumer.position(B)
        consumer._core.seek(consumer._core.subscription.state(A), 0)
        consumer._core.seek(consumer._core.subscription.state(B), 0)
        consumer.pause(B)
        part = consumer._join_transaction()
        assert len((await consumer.getmany(timeout_ms=5000))[A]) == 4
        consumer._core.subscription.remove([B])
        assert moved(part.commits()[0]) == {A: 4}, "nothing was read of what went"
        part.aborted()
        part = consumer._join_transaction()
        await consumer.getmany(max_records=1, timeout_ms=5000)
        consumer._core.reader.settle()
        consumer._core.subscription.remove([A])
        consumer._core.subscription.add(A, None)  # it came back: no better
        with pytest.raises(CommitFailedError, match="in the middle"):
            part.commits()
        part.aborted()


async def test_a_member_that_is_lost_commits_nothing() -> None:
    async with member(4) as (cluster, consumer):
        await consumer.getmany(timeout_ms=5000)
        part = consumer._join_transaction()
        await consumer.getmany(timeout_ms=50)
        consumer.seek(A, 2)
        cluster.group().expel(next(iter(cluster.group().members)))
        await eventually(lambda: consumer.group_metadata().generation_id == -1)
        with pytest.raises(CommitFailedError):
            part.commits()


async def test_an_empty_transaction_needs_no_membership() -> None:
    """It is still joining, as at the start."""
    async with member(4) as (_, consumer):
        part = consumer._join_transaction()
        offsets, who = part.commits()
        assert (offsets, who.generation_id) == ({}, -1)
        part.committed(offsets)


async def test_a_refusal_is_heard_by_the_membership() -> None:
    async with member(4) as (_, consumer):
        await consumer.getmany(timeout_ms=5000)
        part = consumer._join_transaction()
        await consumer.getmany(max_records=1, timeout_ms=50)
        part.refused(consumer.group_metadata(), IllegalGenerationError())
        assert consumer.group_metadata().generation_id == -1
        part.aborted()


async def test_unknown_the_group_decides() -> None:
    async with member(6) as (cluster, consumer):
        await consumer.getmany(max_records=2, timeout_ms=5000)
        part = consumer._join_transaction()
        await consumer.getmany(max_records=2, timeout_ms=5000)
        part.unknown()
        assert await consumer.position(A) == 0, "the group has nothing: before what was in hand"
        part = consumer._join_transaction()
        await consumer.getmany(max_records=2, timeout_ms=5000)
        pending = cluster.transactions.ids.setdefault("x", make_pending(cluster, 4))
        part.unknown()
        position = asyncio.ensure_future(consumer.position(A))
        await asyncio.sleep(0.1)
        assert not position.done(), "a transaction may still change it (KIP-447)"
        cluster.transactions.committed |= pending.offsets
        pending.offsets = {}
        assert await position == 4


def make_pending(cluster: TransactionalGroups, offset: int) -> Any:
    from support.fake_txn_coordinator import FakeTxn

    return FakeTxn((1, 1), "Ongoing", {}, {("g", A): TxnOffsetCommitPartition(0, offset)})


async def test_positions_of_before_the_fence_are_asked_for_again() -> None:
    """Partitions that are assigned by hand are fenced by the transactional id alone, and so by the
    start of the producer, which may come after our asking."""
    async with member(6, assigned=True) as (cluster, consumer):
        assert await consumer.position(A) == 0
        cluster.transactions.committed["g", A] = TxnOffsetCommitPartition(0, 4)
        part = consumer._join_transaction()
        assert (await consumer.getone()).offset == 4
        part.aborted()
        assert (await consumer.getone()).offset == 4, "not where it was before the fence"
        part = consumer._join_transaction()
        part.aborted()
        assert (await consumer.getone()).offset == 4


async def test_a_commit_from_before_must_not_land_behind_the_transaction_s() -> None:
    async with member(4, enable_auto_commit=False) as (cluster, consumer):
        await consumer.getmany(max_records=1, timeout_ms=5000)
        hold = cluster.rule(ApiKey.OFFSET_COMMIT, Action.HOLD)
        earlier = consumer.commit_async()
        await eventually(lambda: hold.met == 1)
        part = consumer._join_transaction()
        await consumer.getmany(max_records=1, timeout_ms=5000)
        with pytest.raises(CommitFailedError, match="under way"):
            part.commits()
        hold.release.set()
        await earlier
        assert moved(part.commits()[0]) == {A: 2}
        part.aborted()


async def test_an_auto_commit_that_failed_is_not_tried_again_beside_transactions() -> None:
    async with member(4) as (cluster, consumer):
        rule = cluster.rule(
            ApiKey.OFFSET_COMMIT, Action.ERROR, error=RequestTimedOutError, times=10_000
        )
        await consumer.getmany(max_records=1, timeout_ms=5000)
        await consumer.getmany(max_records=1, timeout_ms=5000)
        await eventually(lambda: rule.met > 0)
        part = consumer._join_transaction()
        await eventually(
            lambda: not consumer._core.group.commits.under_way if consumer._core.group else False
        )
        met = rule.met
        rule.times = 0
        await asyncio.sleep(0.05)
        assert (rule.met, cluster.committed()) == (met, {})
        assert moved(part.commits()[0]) == {A: 2}


async def test_the_end_of_a_consumer_in_a_transaction_is_no_error() -> None:
    async with member(4) as (_, consumer):
        await consumer.getmany(max_records=1, timeout_ms=5000)
        part = consumer._join_transaction()
        assert consumer._core.fetcher is not None
        consumer._core.fetcher.fail("test", ValueError("?"))
        part.aborted()
        consumer._core.fetcher.failure = None
        part = consumer._join_transaction()
        await consumer.close()
        part.aborted()


def test_a_state_is_itself() -> None:
    """Two assignments of one partition are told apart."""
    assert TopicPartitionState(A) != TopicPartitionState(A)


async def test_where_it_began_is_committed_before_anything_is_handed_out() -> None:
    """Or what the block was at when it died would be skipped, with "latest"."""
    async with member(3, 3, auto_offset_reset="latest") as (cluster, consumer):
        consumer._join_transaction()
        waiting = asyncio.ensure_future(consumer.getmany(timeout_ms=10_000))
        await eventually(lambda: cluster.committed() == {A: 3, B: 3})
        fill(cluster, 2)
        assert [record.offset for record in (await waiting)[A]] == [3, 4]


async def test_a_position_of_before_is_committed_with_the_first_transaction() -> None:
    options: dict[str, Any] = {"auto_offset_reset": "latest", "enable_auto_commit": False}
    async with member(3, **options) as (_, consumer):
        async with asyncio.timeout(15):
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=10)
        assert await consumer.position(A) == 3
        part = consumer._join_transaction()
        assert moved(part.commits()[0]) == {A: 3}
        part.aborted()
