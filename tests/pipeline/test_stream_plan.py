"""These tests check where micro-batches begin and end."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from oncelog.errors import UnknownTopicOrPartitionError
from oncelog_broker.config.model import BrokerConfig
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataTopic
from pipeline.fake_topics import append, asked, opened, transaction
from pyspark_oncelog import stream_plan
from pyspark_oncelog.offsets import LogOffsets, TopicOffsets
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.planning import Cause, DataLossError, OffsetSpan
from pyspark_oncelog.stream_plan import StreamPlan
from support.fake_cluster import FakeCluster
from support.waiting import eventually

pytestmark = pytest.mark.usefixtures("fresh_connections")


def place(*offsets: int, topic: str = "t", topic_id: str = "") -> LogOffsets:
    return LogOffsets({topic: TopicOffsets(topic_id or f"id-{topic}", dict(enumerate(offsets)))})


async def next_end(
    plan: StreamPlan, start: LogOffsets, most: int | None = None, wait_s: float = 0.0
) -> LogOffsets | None:
    found: LogOffsets | None = await asked(plan.next_end, start, most, time.monotonic() + wait_s)
    return found


async def spans(plan: StreamPlan, start: LogOffsets, end: LogOffsets) -> list[tuple[int, int, int]]:
    found: list[OffsetSpan] = await asked(plan.spans, start, end)
    return [(span.partition, span.start, span.end) for span in found]


async def lost(awaitable: Any) -> list[Cause]:
    with pytest.raises(DataLossError) as caught:
        await awaitable
    return [loss.cause for loss in caught.value.losses]


async def test_a_new_query_begins_at_the_latest_offsets() -> None:
    async with opened("t", 3, 5) as (_, options):
        assert await asked(StreamPlan(options).initial) == place(3, 5)
    async with opened("t", 3, 5, startingOffsets="earliest") as (_, options):
        assert await asked(StreamPlan(options).initial) == place(0, 0)


async def test_ends_are_what_is_there_and_nothing_new_is_no_batch() -> None:
    async with opened("t", 3, 5) as (cluster, options):
        plan = StreamPlan(options)
        assert await next_end(plan, place(0, 0)) == place(3, 5)
        assert plan.latest == place(3, 5)
        assert await next_end(plan, place(3, 5)) is None
        append(cluster, "t", 1)
        assert await next_end(plan, place(3, 5)) == place(4, 5)


async def test_an_idle_stream_waits_for_a_moment() -> None:
    async with opened("t", 3) as (cluster, options):
        plan = StreamPlan(options)
        waiting = asyncio.create_task(next_end(plan, place(3), wait_s=60.0))
        await asyncio.sleep(0.02)
        append(cluster, "t", 2)
        assert await waiting == place(5)


async def test_open_transactions_are_not_read() -> None:
    async with opened("t", 3) as (cluster, options):
        plan = StreamPlan(options)
        producer = transaction(cluster, "t", 2, commit=None)
        append(cluster, "t", 1)
        assert await next_end(plan, place(3)) is None
        cluster.partition("t").mark(True, producer, 0)
        assert await next_end(plan, place(3)) == place(7)


async def test_limits() -> None:
    async with opened("t", 300, 100) as (_, options):
        plan = StreamPlan(options)
        assert await next_end(plan, place(0, 0), 100) == place(75, 25)
        assert plan.latest == place(300, 100)


async def test_too_little_is_waited_for() -> None:
    given = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
    async with opened("t", 3, **given) as (cluster, options):
        plan = StreamPlan(options)
        assert await next_end(plan, place(0)) == place(3), "the first one is not delayed"
        append(cluster, "t", 9)
        assert await next_end(plan, place(3), wait_s=0.05) is None
        append(cluster, "t", 1)
        assert await next_end(plan, place(3)) == place(13)


async def test_too_little_is_enough_after_the_delay() -> None:
    given = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "0"}
    async with opened("t", 3, **given) as (cluster, options):
        plan = StreamPlan(options)
        assert await next_end(plan, place(0)) == place(3)
        append(cluster, "t", 1)
        assert await next_end(plan, place(3)) == place(4)


async def test_what_is_available_now() -> None:
    given = {"minOffsetsPerTrigger": "100", "maxTriggerDelay": "1h"}
    async with opened("t", 4, **given) as (cluster, options):
        plan = StreamPlan(options)
        await asked(plan.settle)
        append(cluster, "t", 50)
        assert await next_end(plan, place(0), 3) == place(3)
        assert await next_end(plan, place(3), 3) == place(4)
        assert await next_end(plan, place(4), 3, wait_s=60.0) is None


async def test_new_partitions_are_read_from_their_beginning() -> None:
    async with opened("t", 3) as (cluster, options):
        plan = StreamPlan(options)
        cluster.topics["t"].append(type(cluster.partition("t"))(1))
        append(cluster, "t", 4, 1)
        end = await next_end(plan, place(3))
        assert end == place(3, 4)
        assert end is not None
        assert await spans(plan, place(3), end) == [(1, 0, 4)]
        cluster.partition("t", 1).log_start_offset = 2
        assert await lost(spans(plan, place(3), end)) == [Cause.RETENTION]


async def test_new_topics_of_a_pattern() -> None:
    async with opened("t-1", 3, subscribePattern="t-.*") as (cluster, options):
        plan = StreamPlan(options)
        start = place(3, topic="t-1")
        cluster.create_topic("t-2")
        append(cluster, "t-2", 4)
        end = await next_end(plan, start)
        assert end == LogOffsets({**start.topics, **place(4, topic="t-2").topics})
        assert end is not None
        assert await spans(plan, start, end) == [(0, 0, 4)]


async def test_a_pattern_that_nothing_matches_yet() -> None:
    async with opened("other", 3, subscribePattern="t-.*") as (cluster, options):
        plan = StreamPlan(options)
        assert await asked(plan.initial) == LogOffsets()
        assert await next_end(plan, LogOffsets()) is None
        cluster.create_topic("t-1")
        append(cluster, "t-1", 4)
        assert await next_end(plan, LogOffsets()) == place(4, topic="t-1")


async def test_a_topic_that_is_another_one(caplog: pytest.LogCaptureFixture) -> None:
    before = place(3, topic_id="id-before")
    async with opened("t", 2, driverTimeoutMs="600") as (_, options):
        assert await lost(next_end(StreamPlan(options), before)) == [Cause.RECREATED]
    async with opened("t", 2, driverTimeoutMs="600", failOnDataLoss="false") as (_, options):
        plan = StreamPlan(options)
        with caplog.at_level(logging.WARNING):
            assert await next_end(plan, before) == place(2)
        assert "deleted and made again" in caplog.text
        assert await spans(plan, before, place(2)) == [(0, 0, 2)]


async def test_a_topic_that_is_gone() -> None:
    async with opened("t", 2, subscribe="t,u", driverTimeoutMs="600") as (cluster, options):
        cluster.create_topic("u")
        both = LogOffsets({**place(2).topics, **place(0, topic="u").topics})
        plan = StreamPlan(options)
        assert await next_end(plan, both) is None
        del cluster.topics["u"]
        assert await lost(next_end(plan, both)) == [Cause.DELETED]


@pytest.mark.parametrize("replaces", [False, True], ids=["unknown", "the one before"])
async def test_a_topic_that_a_broker_has_yet_to_hear_of_is_not_lost(replaces: bool) -> None:
    async with opened("t", 2) as (cluster, options):
        stale = cluster.metadata(MetadataRequest(["t"]))
        if replaces:
            cluster.create_topic("t")
            append(cluster, "t", 2)
        else:
            stale.topics = [MetadataTopic(UnknownTopicOrPartitionError.code, "t", "", False)]
        cluster.stale_metadata[1] = stale
        before = cluster.count(ApiKey.METADATA)
        now = place(1, topic_id=cluster.topic_ids["t"])
        looking = asyncio.create_task(next_end(StreamPlan(options), now))
        await eventually(lambda: cluster.count(ApiKey.METADATA) > before + 1 or looking.done())
        assert not looking.done()
        cluster.stale_metadata.clear()
        assert await looking == place(2, topic_id=cluster.topic_ids["t"])


def shrink(cluster: FakeCluster) -> None:
    """Drop the last batch, as an unclean election does."""
    log = cluster.partition("t")
    log.batches.pop()
    log.next_offset = 3


async def test_a_log_that_has_shrunk() -> None:
    async with opened("t", 3, driverTimeoutMs="600") as (cluster, options):
        append(cluster, "t", 4)
        shrink(cluster)
        assert await lost(next_end(StreamPlan(options), place(7))) == [Cause.TRUNCATED]
        assert await lost(spans(StreamPlan(options), place(0), place(7))) == [Cause.TRUNCATED]
    async with opened("t", 3, driverTimeoutMs="600", failOnDataLoss="false") as (_, options):
        plan = StreamPlan(options)
        assert await next_end(plan, place(7)) == place(3), "it goes on from there"
        assert await spans(plan, place(7), place(3)) == []
        assert await spans(StreamPlan(options), place(1), place(7)) == [(0, 1, 3)]


async def test_a_new_leader_that_does_not_know_yet_is_asked_again() -> None:
    async with opened("t", 3) as (cluster, options):
        plan = StreamPlan(options)
        asking = asyncio.create_task(next_end(plan, place(7)))
        await asyncio.sleep(0.05)
        append(cluster, "t", 4)
        assert await asking is None


async def test_pieces() -> None:
    async with opened("t", 100, 10, minPartitions="4") as (cluster, options):
        plan = StreamPlan(options)
        found = await spans(plan, place(0, 10), place(100, 10))
        assert found == [(0, 0, 25), (0, 25, 50), (0, 50, 75), (0, 75, 100)]
        cluster.partition("t").log_start_offset = 60
        assert await lost(spans(plan, place(0, 0), place(100, 10))) == [Cause.RETENTION]
    async with opened("t", 100, failOnDataLoss="false", maxRecordsPerPartition="30") as (
        cluster,
        options,
    ):
        cluster.partition("t").log_start_offset = 60
        assert await spans(StreamPlan(options), place(0), place(100)) == [
            (0, 60, 80),
            (0, 80, 100),
        ]


async def test_losses_are_told_too_when_only_what_is_available_is_taken() -> None:
    async with opened("t", 2, subscribe="t,u", driverTimeoutMs="600") as (_, options):
        plan = StreamPlan(options)
        await asked(plan.settle)
        assert await lost(next_end(plan, place(1, topic_id="id-before"))) == [Cause.RECREATED]
        assert await lost(next_end(plan, place(1, topic="u"))) == [Cause.DELETED]
        assert await lost(next_end(plan, place(7))) == [Cause.TRUNCATED]


def test_a_new_leader_has_more_time_than_its_followers_have_to_leave() -> None:
    """It knows how far its log is committed when those that do not ask are out of the ISR."""
    lag_ms = BrokerConfig.model_fields["replica_lag_time_max_ms"].default
    assert 2 * lag_ms <= stream_plan.SETTLE_S * 1000
    assert SourceOptions.driver_timeout_ms / 2000 >= stream_plan.SETTLE_S
