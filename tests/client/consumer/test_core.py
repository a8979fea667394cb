"""The parts of a consumer work together: runs and transactions use its life and positions."""

from __future__ import annotations

import pytest

from oncelog import Consumer, TopicPartition
from oncelog.consumer.consumer import core_of
from oncelog.consumer.subscription import Reset
from oncelog.errors import ClientError, ClosedError
from oncelog_protocol.records.builder import encode_batch
from support.fake_cluster import FakeCluster

A = TopicPartition("t", 0)


async def test_nothing_works_before_the_start_nor_after_the_end() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        consumer = Consumer("t", bootstrap_servers=cluster.bootstrap)
        core = core_of(consumer)
        with pytest.raises(ClosedError, match="not started"):
            core.running()
        await core.start()
        assert core.running() is core.fetcher
        with pytest.raises(ClientError, match="no group"):
            core.in_group()
        with pytest.raises(ClosedError, match="once"):
            await core.start()
        await core.close()
        with pytest.raises(ClosedError, match="is closed"):
            core.running()


async def test_positions_are_lost_to_what_the_group_has_committed() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.partition("t").append(encode_batch([b"a", b"b"], timestamps=0))
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            assert (await consumer.getone()).offset == 0
            core = core_of(consumer)
            state = core.subscription.state(A)
            core.read_on_from_committed({state: None})
            assert state.offset is not None, "without a place it stays"
            core.read_on_from_committed({state: (1, 0)})
            assert state in core.subscription.without_position()
            assert (state.reset, state.origin) == (Reset.COMMITTED, (1, 0))
            core.seek(state, 1)
            assert (await consumer.getone()).offset == 1
