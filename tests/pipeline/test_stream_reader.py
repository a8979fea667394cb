"""The tests ask the stream's source as Spark asks."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from pipeline.fake_topics import apart, append, opened
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.stream_reader import StreamReader

pytestmark = pytest.mark.usefixtures("fresh_connections")
SCHEMA = StructType([StructField("offset", LongType())])
QUIET = {"publishProgress": "false", "latestOffsetWaitMs": "0"}


def place(*offsets: int) -> dict[str, Any]:
    told = {str(number): offset for number, offset in enumerate(offsets)}
    return {"version": 1, "topics": {"t": {"id": "id-t", "offsets": told}}}


async def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Read as tasks do: another process has a copy of the source."""
    there: StreamReader = pickle.loads(pickle.dumps(reader))
    found: list[int] = []
    for partition in await apart(reader.partitions, start, end):
        copied = pickle.loads(pickle.dumps(partition))
        batches = await apart(lambda copied=copied: list(there.read(copied)))
        found += [row["offset"] for batch in batches for row in batch.to_pylist()]
    return found


async def test_micro_batches(caplog: pytest.LogCaptureFixture) -> None:
    async with opened("t", 5, startingOffsets="earliest", **QUIET) as (cluster, options):
        reader = StreamReader(options, SCHEMA)
        with caplog.at_level(logging.INFO):
            start = await apart(reader.initialOffset)
        assert "startingOffsets means nothing to one that is restarted" in caplog.text
        assert reader.reportLatestOffset() is None
        assert start == place(0) | {"initial": True}
        end = await apart(reader.latestOffset, start, ReadAllAvailable())
        assert json.dumps(end) == json.dumps(place(5) | {"from": place(0)})
        assert reader.reportLatestOffset() == place(5)
        assert await rows(reader, start, end) == [0, 1, 2, 3, 4]
        assert await apart(reader.latestOffset, end, ReadAllAvailable()) is end
        append(cluster, "t", 4)
        following = await apart(reader.latestOffset, end, ReadMaxRows(3))
        assert following == place(8)
        reader.commit(end)
        assert await rows(reader, end, following) == [5, 6, 7]


async def test_a_replayed_micro_batch_is_the_same() -> None:
    async with opened("t", 5, **QUIET) as (cluster, options):
        append(cluster, "t", 5)
        assert await rows(StreamReader(options, SCHEMA), place(2), place(7)) == [2, 3, 4, 5, 6]


async def test_what_is_available_now() -> None:
    async with opened("t", 5, maxOffsetsPerTrigger="3", **QUIET) as (cluster, options):
        reader = StreamReader(options, SCHEMA)
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(3)
        await apart(reader.prepareForTriggerAvailableNow)
        append(cluster, "t", 5)
        ends = [place(0)]
        while not ends[1:] or ends[-1] != ends[-2]:
            ends.append(await apart(reader.latestOffset, ends[-1], limit))
        assert ends == [place(0), place(3), place(5), place(5)]


async def test_a_beginning_is_kept_whatever_comes_and_whoever_asks() -> None:
    """Spark asks for the beginning again when it plans the first micro-batch, and after a crash."""
    async with opened("t", 5, **QUIET) as (cluster, options):
        reader = StreamReader(options, SCHEMA)
        start = await apart(reader.initialOffset)
        assert start == place(5) | {"initial": True}
        pinned = await apart(reader.latestOffset, start, ReadAllAvailable())
        assert pinned == place(5) | {"from": place(5)}, "an empty micro-batch, to be kept"
        assert await rows(reader, start, pinned) == []
        append(cluster, "t", 3)
        end = await apart(reader.latestOffset, start, ReadAllAvailable())
        assert end == place(8) | {"from": place(5)}
        assert await apart(reader.initialOffset) == start
        again = StreamReader(options, SCHEMA)
        append(cluster, "t", 9)
        moved = await apart(again.initialOffset)
        assert moved == place(17) | {"initial": True}
        assert await rows(again, moved, end) == [5, 6, 7]
        following = await apart(again.latestOffset, end, ReadAllAvailable())
        assert following == place(17)
        assert await rows(again, end, following) == list(range(8, 17))


def test_limits() -> None:
    options = SourceOptions.parse({"bootstrap.servers": "a:1", "subscribe": "t"})
    assert StreamReader(options, SCHEMA).getDefaultReadLimit() == ReadAllAvailable()


def test_a_checkpoint_of_another_source() -> None:
    options = SourceOptions.parse({"bootstrap.servers": "a:1", "subscribe": "t"})
    with pytest.raises(ValueError, match="version None"):
        StreamReader(options, SCHEMA).latestOffset({"t": {"0": 5}}, ReadAllAvailable())
