"""A consumer asks all kinds of questions about partitions that it need not have, and meets
errors."""

from __future__ import annotations

import pytest

from oncelog import Consumer, TopicPartition
from oncelog.errors import ClosedError, UnknownTopicOrPartitionError
from support.running import A, B, fake, fill


async def test_ends_times_and_lag() -> None:
    async with fake(3, 2) as cluster:
        async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
            assert await consumer.partitions_for("t") == [A, B]
            assert await consumer.beginning_offsets([A, B]) == {A: 0, B: 0}
            assert await consumer.end_offsets([A, B]) == {A: 3, B: 2}
            found = await consumer.offsets_for_times({A: 15, B: 1_000})
            assert found[B] is None
            assert found[A] is not None
            consumer.assign([A])
            consumer.seek(A, 1)
            assert await consumer.lag() == {A: 2}
            with pytest.raises(UnknownTopicOrPartitionError):
                await consumer.partitions_for("none")
        with pytest.raises(ClosedError):
            await consumer.end_offsets([A])


async def test_waiting_without_reading() -> None:
    async with fake(3) as cluster, Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        assert await consumer.wait_for_records({A: 2})
        assert not await consumer.wait_for_records({A: 3}, timeout_ms=20)
        fill(cluster, 1)
        assert await consumer.wait_for_records({TopicPartition("t", 0): 3}, timeout_ms=5_000)
