"""A task reads all of its span and nothing else, or it says what is gone."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from oncelog.errors import DeadlineExceededError
from oncelog_protocol.messages.base import ApiKey
from pipeline.fake_topics import apart, append, opened, transaction
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.planning import Cause, DataLossError, OffsetSpan
from pyspark_oncelog.span_reader import read_span
from support.fake_cluster import Action, FakeCluster

pytestmark = pytest.mark.usefixtures("fresh_connections")
SCHEMA = pa.schema([("value", pa.binary()), ("offset", pa.int64())])


def span(start: int, end: int, topic_id: str = "id-t") -> OffsetSpan:
    return OffsetSpan("t", topic_id, 0, start, end)


async def batches(options: SourceOptions, wanted: OffsetSpan) -> list[pa.RecordBatch]:
    return await apart(lambda: list(read_span(wanted, options, SCHEMA)))


async def offsets(options: SourceOptions, wanted: OffsetSpan) -> list[int]:
    found = [row for batch in await batches(options, wanted) for row in batch.to_pylist()]
    assert all(row["value"] == b"%d" % row["offset"] for row in found)
    return [row["offset"] for row in found]


async def lost(options: SourceOptions, wanted: OffsetSpan) -> Cause:
    with pytest.raises(DataLossError) as caught:
        await batches(options, wanted)
    (loss,) = caught.value.losses
    return loss.cause


def fetches(cluster: FakeCluster) -> int:
    return cluster.count(ApiKey.FETCH)


async def test_a_span_within_batches() -> None:
    async with opened("t", 10) as (cluster, options):
        append(cluster, "t", 10)
        append(cluster, "t", 10)
        assert await offsets(options, span(0, 30)) == list(range(30))
        assert await offsets(options, span(3, 17)) == list(range(3, 17))
        assert await offsets(options, span(25, 30)) == list(range(25, 30))
        assert await offsets(options, span(5, 5)) == []


async def test_arrow_batches_have_about_the_size_that_was_asked_for() -> None:
    async with opened("t", 10, recordsPerArrowBatch="15") as (cluster, options):
        for _ in range(3):
            append(cluster, "t", 10)
        found = await batches(options, span(0, 40))
        assert [batch.num_rows for batch in found] == [20, 20]
        assert all(batch.schema.equals(SCHEMA) for batch in found)


async def test_gaps_at_the_end_are_not_waited_for() -> None:
    """Markers and aborted records are the last of the span, and of the log."""
    async with opened("t", 3) as (cluster, options):
        transaction(cluster, "t", 2, commit=True)
        transaction(cluster, "t", 4, commit=False)
        assert cluster.partition("t").next_offset == 11
        assert await offsets(options, span(0, 11)) == [0, 1, 2, 3, 4]
        assert await offsets(options, span(6, 11)) == []
        assert await offsets(options, span(5, 6)) == []
    async with opened("t", 3, isolationLevel="read_uncommitted") as (cluster, options):
        transaction(cluster, "t", 2, commit=False)
        assert await offsets(options, span(0, 6)) == [0, 1, 2, 3, 4]


async def test_the_consumer_is_kept_from_task_to_task() -> None:
    async with opened("t", 10) as (cluster, options):
        for _ in range(3):
            assert await offsets(options, span(0, 10)) == list(range(10))
        (broker,) = cluster.brokers.values()
        first = broker.connection_count
        assert await offsets(options, span(0, 10)) == list(range(10))
        assert broker.connection_count == first


async def test_a_task_that_is_left_early_keeps_nothing() -> None:
    async with opened("t", 10, recordsPerArrowBatch="1") as (cluster, options):
        append(cluster, "t", 10)

        def take_one() -> Any:
            reading: Any = read_span(span(0, 20), options, SCHEMA)
            found = next(reading)
            reading.close()
            return found

        assert (await apart(take_one)).num_rows == 10
        assert await offsets(options, span(0, 20)) == list(range(20))


async def test_another_topic_of_the_same_name() -> None:
    async with opened("t", 10) as (_, options):
        assert await lost(options, span(0, 10, "id-before")) is Cause.RECREATED
    async with opened("t", 10, failOnDataLoss="false") as (_, options):
        assert await offsets(options, span(0, 10, "id-before")) == []


async def test_a_topic_that_is_gone() -> None:
    async with opened("t", 10) as (cluster, options):
        del cluster.topics["t"]
        assert await lost(options, span(0, 10)) is Cause.DELETED


async def test_a_topic_made_again_while_it_is_read() -> None:
    async with opened("t", 10, recordsPerArrowBatch="1") as (cluster, options):

        def take() -> None:
            reading = read_span(span(0, 10), options, SCHEMA)
            next(reading)
            cluster.topic_ids["t"] = "id-after"
            next(reading)

        with pytest.raises(DataLossError, match="deleted and made again"):
            await apart(take)


async def test_a_kept_consumer_that_knew_the_former_topic() -> None:
    """The topic was deleted and made again between two tasks: the second is planned on the new
    one, and reads it whole, although the consumer was placed as if it were the former one."""
    async with opened("t", 10) as (cluster, options):
        assert await offsets(options, span(0, 10)) == list(range(10))
        cluster.create_topic("t")
        append(cluster, "t", 20)
        again = cluster.topic_ids["t"]
        assert again != "id-t"
        assert await offsets(options, span(3, 20, again)) == list(range(3, 20))
        assert await lost(options, span(0, 10)) is Cause.RECREATED


async def test_retention_overtakes_a_task(caplog: pytest.LogCaptureFixture) -> None:
    async with opened("t", 10) as (cluster, options):
        append(cluster, "t", 10)
        cluster.partition("t").log_start_offset = 10
        with pytest.raises(DataLossError, match="offsets 4 to 9 are lost: retention") as caught:
            await batches(options, span(4, 20))
        assert caught.value.losses[0].cause is Cause.RETENTION
    async with opened("t", 10, failOnDataLoss="false") as (cluster, options):
        append(cluster, "t", 10)
        cluster.partition("t").log_start_offset = 10
        with caplog.at_level(logging.WARNING):
            assert await offsets(options, span(4, 20)) == list(range(10, 20))
            assert await offsets(options, span(4, 9)) == []
        assert "offsets 4 to 9 are lost" in caplog.text
        assert "offsets 4 to 8 are lost" in caplog.text


async def test_a_log_that_has_shrunk() -> None:
    async with opened("t", 10) as (_, options):
        assert await lost(options, span(12, 20)) is Cause.TRUNCATED
    async with opened("t", 10, **{"kafkaConsumer.pollTimeoutMs": "300"}) as (_, options):
        assert await lost(options, span(5, 20)) is Cause.TRUNCATED


async def test_a_log_that_has_shrunk_and_may_have(caplog: pytest.LogCaptureFixture) -> None:
    given = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "300"}
    async with opened("t", 10, **given) as (_, options):
        assert await offsets(options, span(5, 20)) == list(range(5, 10))
        assert "offsets 10 to 19 are lost" in caplog.text
        assert await offsets(options, span(12, 20)) == []
    async with opened("t", 10, **given) as (cluster, options):
        cluster.rule(ApiKey.FETCH, Action.HOLD, times=1)
        with pytest.raises(DeadlineExceededError, match="t-0"):
            await batches(options, span(0, 20))  # there is something, and it does not come


async def test_nothing_comes() -> None:
    """A failed task keeps no consumer: the next one begins with new connections."""
    async with opened("t", 10, **{"kafkaConsumer.pollTimeoutMs": "300"}) as (cluster, options):
        cluster.rule(ApiKey.FETCH, Action.HOLD, times=1)
        with pytest.raises(DeadlineExceededError, match="t-0"):
            await batches(options, span(0, 10))
        assert await offsets(options, span(0, 10)) == list(range(10))
