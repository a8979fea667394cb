"""These tests check what a batch query plans and reads."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, InputPartition, LessThan
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from pipeline.fake_topics import apart, opened, transaction
from pyspark_oncelog.batch_reader import BatchReader, PushdownReader
from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.planning import DataLossError

pytestmark = pytest.mark.usefixtures("fresh_connections")
SCHEMA = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])


async def planned(options: SourceOptions, *filters: Filter) -> list[tuple[int, int, int]]:
    reader = PushdownReader(options, SCHEMA)
    assert list(reader.pushFilters(list(filters))) == list(filters)
    found = await apart(reader.partitions)
    return [(p.value.partition, p.value.start, p.value.end) for p in found]


async def test_everything_that_is_there() -> None:
    async with opened("t", 3, 0, 5) as (_, options):
        assert await planned(options) == [(0, 0, 3), (2, 0, 5)]


async def test_from_and_to() -> None:
    given = {
        "startingOffsets": '{"t": {"0": 1, "1": -2}}',
        "endingOffsets": '{"t": {"0": 2, "1": -1}}',
    }
    async with opened("t", 3, 5, **given) as (_, options):
        assert await planned(options) == [(0, 1, 2), (1, 0, 5)]
    async with opened("t", 9, startingTimestamp="30", endingTimestamp="61") as (_, options):
        assert await planned(options) == [(0, 3, 7)]
    backwards = {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 2}}'}
    async with opened("t", 9, **backwards) as (_, options):
        assert await planned(options) == []


async def test_offsets_that_are_not_in_the_log() -> None:
    async with opened("t", 9, endingOffsets='{"t": {"0": 20}}') as (_, options):
        with pytest.raises(DataLossError, match="offsets 9 to 19 are lost"):
            await planned(options)
    given = {"startingOffsets": '{"t": {"0": 1}}', "failOnDataLoss": "false"}
    async with opened("t", 9, endingOffsets='{"t": {"0": 20}}', **given) as (cluster, options):
        cluster.partition("t").log_start_offset = 4
        assert await planned(options) == [(0, 4, 9)]


async def test_pieces() -> None:
    async with opened("t", 90, 10, minPartitions="3") as (_, options):
        assert await planned(options) == [(0, 0, 45), (0, 45, 90), (1, 0, 10)]
    async with opened("t", 90, maxRecordsPerPartition="50") as (_, options):
        assert await planned(options) == [(0, 0, 45), (0, 45, 90)]


async def test_filters_narrow_what_is_read() -> None:
    async with opened("t", 90, 10) as (_, options):
        assert await planned(options, EqualTo(("partition",), 1)) == [(1, 0, 10)]
        within = (GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 50))
        assert await planned(options, *within) == [(0, 5, 50), (1, 5, 10)]
        assert await planned(options, EqualTo(("topic",), "u")) == []


async def test_a_filter_on_time() -> None:
    from datetime import datetime, timezone

    moment = datetime.fromtimestamp(0.35, timezone.utc)  # noqa: UP017
    async with opened("t", 90, 10) as (_, options):
        assert await planned(options, GreaterThanOrEqual(("timestamp",), moment)) == [(0, 35, 90)]


async def test_read() -> None:
    async with opened("t", 3) as (cluster, options):
        transaction(cluster, "t", 2, commit=False)
        reader: Any = pickle.loads(pickle.dumps(BatchReader(options, SCHEMA)))
        (partition,) = await apart(reader.partitions)
        copied = pickle.loads(pickle.dumps(partition))
        found = await apart(lambda: list(reader.read(copied)))
        assert [row for batch in found for row in batch.to_pylist()] == [
            {"value": b"%d" % number, "offset": number} for number in range(3)
        ]
        assert list(reader.read(InputPartition(None))) == []


def test_a_schema_that_cannot_be_made() -> None:
    options = SourceOptions.parse({"bootstrap.servers": "a:1", "subscribe": "t"})
    with pytest.raises(OptionError, match="no column 'id'"):
        BatchReader(options, StructType([StructField("id", LongType())]))
