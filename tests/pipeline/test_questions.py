"""The driver asks about topics, offsets and times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog.errors import DeadlineExceededError, NoBrokersAvailableError
from oncelog_protocol.errors import UnknownTopicOrPartitionError
from oncelog_protocol.messages.base import ApiKey
from pipeline.fake_topics import append, asked, opened, transaction
from pyspark_oncelog import questions
from pyspark_oncelog.offsets import SourcePartition
from pyspark_oncelog.option_values import OffsetPoint, OptionError
from pyspark_oncelog.options import SourceOptions
from support.fake_cluster import Action
from support.waiting import eventually

pytestmark = pytest.mark.usefixtures("fresh_connections")
A, B = SourcePartition("t", 0), SourcePartition("t", 1)


async def resolved(options: SourceOptions, point: OffsetPoint, *, begin: bool = True) -> Any:
    async def ask() -> Any:
        return await questions.resolve(options, point, (A, B), begin=begin)

    return await asked(ask)


async def test_topics_by_name() -> None:
    async with opened("t", 3, 0) as (cluster, options):
        found = await asked(questions.find_topics, options)
        assert (dict(found.ids), found.partitions) == ({"t": "id-t"}, (A, B))
        cluster.topic_ids["t"] = "another"
        assert dict((await asked(questions.find_topics, options)).ids) == {"t": "another"}


async def test_topics_by_pattern_match_whole_names() -> None:
    async with opened("orders-1", 1, subscribePattern="orders-.*") as (cluster, options):
        for name in ("orders-2", "my-orders-3", "t"):
            cluster.create_topic(name)
        found = await asked(questions.find_topics, options)
        assert list(found.ids) == ["orders-1", "orders-2"]


async def test_partitions_by_assignment() -> None:
    async with opened("t", 1, 1, assign='{"t": [1]}') as (_, options):
        assert (await asked(questions.find_topics, options)).partitions == (B,)
    async with opened("t", 1, 1, assign='{"t": [1, 2]}') as (_, options):
        with pytest.raises(UnknownTopicOrPartitionError, match="there is no 2"):
            await asked(questions.find_topics, options)


async def test_a_topic_that_does_not_exist() -> None:
    async with opened("t", 1, subscribe="t,u") as (_, options):
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 'u'"):
            await asked(questions.find_topics, options)
        found = await asked(questions.find_topics, options, True)
        assert list(found.ids) == ["t"]


async def test_ends() -> None:
    async with opened("t", 3, 5) as (cluster, options):
        cluster.partition("t", 1).log_start_offset = 2
        assert await asked(questions.earliest, options, [A, B]) == {A: 0, B: 2}
        assert await asked(questions.latest, options, [A, B]) == {A: 3, B: 5}
        assert await asked(questions.latest, options, []) == {}


async def test_the_latest_is_the_last_stable_offset() -> None:
    async with opened("t", 3) as (cluster, options):
        transaction(cluster, "t", 2, commit=None)
        assert await asked(questions.latest, options, [A]) == {A: 3}
    async with opened("t", 3, isolationLevel="read_uncommitted") as (cluster, options):
        transaction(cluster, "t", 2, commit=None)
        assert await asked(questions.latest, options, [A]) == {A: 5}


async def test_places() -> None:
    async with opened("t", 30, 50) as (_, options):
        assert await resolved(options, OffsetPoint("earliest")) == {A: 0, B: 0}
        assert await resolved(options, OffsetPoint("latest")) == {A: 30, B: 50}
        given = OffsetPoint("offsets", {"t": {0: -2, 1: -1}})
        assert await resolved(options, given) == {A: 0, B: 50}
        assert await resolved(options, OffsetPoint("offsets", {"t": {0: 7, 1: 8}})) == {A: 7, B: 8}
        assert await resolved(options, OffsetPoint("timestamp", timestamp_ms=101)) == {A: 11, B: 11}
        times = OffsetPoint("timestamps", {"t": {0: 100, 1: 0}})
        assert await resolved(options, times) == {A: 10, B: 0}


async def test_a_time_after_the_last_record() -> None:
    async with opened("t", 30, 50) as (_, options):
        late = OffsetPoint("timestamp", timestamp_ms=400)
        with pytest.raises(OptionError, match=r"t-0 has no record at or after 400"):
            await resolved(options, late)
        assert await resolved(options, late, begin=False) == {A: 30, B: 40}
    async with opened("t", 30, 50, startingOffsetsByTimestampStrategy="latest") as (_, options):
        assert await resolved(options, late) == {A: 30, B: 40}


async def test_all_partitions_are_to_be_named_and_no_others() -> None:
    async with opened("t", 1, 1) as (_, options):
        with pytest.raises(OptionError, match="starting offsets do not name t-1"):
            await resolved(options, OffsetPoint("offsets", {"t": {0: 0}}))
        with pytest.raises(OptionError, match="ending offsets name t-7"):
            await resolved(options, OffsetPoint("offsets", {"t": {0: 0, 1: 0, 7: 0}}), begin=False)


async def test_waiting_for_records() -> None:
    async with opened("t", 1, 1) as (cluster, options):
        await asked(questions.wait_for_records, options, {A: 1, B: 1}, 0.01)
        await asked(questions.wait_for_records, options, {}, 0.01)
        waiting = asyncio.create_task(
            asked(questions.wait_for_records, options, {A: 1, B: 1}, 60.0)
        )
        await eventually(lambda: cluster.count(ApiKey.FETCH) >= 2)
        append(cluster, "t", 1)
        await waiting


async def test_questions_have_deadlines() -> None:
    async with opened("t", 1, 1, driverTimeoutMs="200") as (cluster, options):
        cluster.rule(ApiKey.LIST_OFFSETS, Action.HOLD, times=100)
        with pytest.raises(DeadlineExceededError):
            await asked(questions.latest, options, [A])


async def test_nobody_answers() -> None:
    options = SourceOptions.parse({"bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    with pytest.raises(NoBrokersAvailableError, match=r"127\.0\.0\.1:1"):
        await asked(questions.find_topics, options)
