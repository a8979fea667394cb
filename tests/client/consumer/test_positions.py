"""Partitions begin where the group committed, or where the policy says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from oncelog import Consumer, OffsetAndMetadata, TopicPartition
from oncelog.consumer.subscription import Reset
from oncelog.errors import (
    CommitFailedError,
    DeadlineExceededError,
    NoOffsetForPartitionError,
    UnstableOffsetCommitError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.builder import encode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000


class Clock:
    def now_ms(self) -> int:
        return NOW_MS


def make(cluster: FakeCluster, **options: Any) -> Consumer:
    given: dict[str, Any] = {"entropy": SeededEntropy(1), "clock": Clock(), **options}
    return Consumer(bootstrap_servers=cluster.bootstrap, **given)


def fill(cluster: FakeCluster, *ages_s: int) -> None:
    """Append one record of each age to every partition."""
    for partition in cluster.topics["t"]:
        for age_s in ages_s:
            partition.append(encode_batch([b"v"], timestamps=[NOW_MS - age_s * 1000]))


@pytest.mark.parametrize(
    ("policy", "offset"),
    [
        ("earliest", 0),
        ("latest", 3),
        ("by_duration:PT20S", 2),
        (timedelta(seconds=60), 1),
        (timedelta(days=300), 0),
        (timedelta(seconds=1), 3),
    ],
)
async def test_policies(policy: Any, offset: int) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        fill(cluster, 100, 50, 10)
        async with make(cluster, auto_offset_reset=policy) as consumer:
            consumer.assign([A])
            assert await consumer.position(A) == offset


def ask_group(consumer: Consumer, answers: list[Any]) -> list[list[TopicPartition]]:
    """Let the group answer so, one after the other; what it was asked."""
    asked: list[list[TopicPartition]] = []

    async def committed(partitions: Sequence[TopicPartition]) -> Any:
        asked.append(list(partitions))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert consumer._core.fetcher is not None
    consumer._core.fetcher.positions._committed = committed
    consumer._router.want("t")
    for tp in (A, B):
        consumer._core.subscription.add(tp, Reset.COMMITTED)
    consumer._core.fetcher.wake()
    return asked


async def test_committed_offsets_first_the_policy_where_there_is_none() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 2, 1)
        async with make(cluster, auto_offset_reset="latest") as consumer:
            asked = ask_group(consumer, [{A: OffsetAndMetadata(1, "", 0), B: None}])
            assert [await consumer.position(tp) for tp in (A, B)] == [1, 3]
            assert asked == [[A, B]]
            assert consumer._core.subscription.state(A).fetch_epoch == 0, "checked by the fetch"


async def test_no_policy() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        async with make(cluster, auto_offset_reset="none") as consumer:
            ask_group(consumer, [{A: OffsetAndMetadata(0), B: None}, {B: OffsetAndMetadata(0)}])
            assert await consumer.position(A) == 0
            with pytest.raises(NoOffsetForPartitionError, match="t-1"):
                await consumer.getone()
            assert await consumer.position(B) == 0, "going on asks again"


async def test_a_group_that_changes_is_asked_again_other_errors_are_told() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 1)
        async with make(cluster) as consumer:
            answers = [
                CommitFailedError("no member at the moment"),
                DeadlineExceededError("nobody answered"),
                dict.fromkeys((A, B), OffsetAndMetadata(0)),
            ]
            asked = ask_group(consumer, answers)
            for _ in range(2):
                with pytest.raises(DeadlineExceededError, match="nobody"):
                    await consumer.getone()
            assert (await consumer.getone()).offset == 0
            assert len(asked) >= 3


async def test_a_seek_overtakes_the_group_s_answer() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 2, 1)
        async with make(cluster) as consumer:
            ask_group(consumer, [dict.fromkeys((A, B), OffsetAndMetadata(0))])
            consumer.seek(A, 2)
            assert [await consumer.position(tp) for tp in (A, B)] == [2, 0]
        assert cluster.count(ApiKey.LIST_OFFSETS) == 0


def unsettled() -> DeadlineExceededError:
    """Return what the group says when a transaction stays open for longer than the deadline."""
    error = DeadlineExceededError("committed did not succeed in time")
    error.__cause__ = UnstableOffsetCommitError()
    return error


async def test_an_open_transaction_is_waited_for_as_long_as_it_takes() -> None:
    """A partition waits only when the transaction may change its offset (KIP-447)."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 2, 1)
        async with make(cluster) as consumer:
            answers = [{B: OffsetAndMetadata(2)}, unsettled(), {A: OffsetAndMetadata(1)}]
            asked = ask_group(consumer, answers)
            assert [await consumer.position(tp) for tp in (B, A)] == [2, 1]
            assert asked == [[A, B], [A], [A]]


async def test_where_reading_began_is_where_a_group_without_offsets_goes_back_to() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 2)
        fill(cluster, 3, 2, 1)
        async with make(cluster, auto_offset_reset="latest") as consumer:
            answers: list[Any] = [{A: None, B: None}, {A: None}]
            ask_group(consumer, answers)
            assert [await consumer.position(tp) for tp in (A, B)] == [3, 3]
            fill(cluster, 9)
            state = consumer._core.subscription.states[A]
            assert state.origin == (3, -1)
            state.lose(Reset.COMMITTED)
            consumer.resume(A)
            assert await consumer.position(A) == 3, "not behind what came in between"
