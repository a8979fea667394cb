"""A running pipeline must not shrug off trouble: its topic was made anew, retention has passed its
position, columns are not what they are taken for. It fails with words that help, before anything is
written; told to go on behind a loss, it does so without doubling anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from integration.copied import ends_of, read_all
from integration.processes import Processes
from oncelog import Consumer, Producer, TopicPartition

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

SOURCE = "mishaps-in"
TARGET = "mishaps-out"
WITHIN_S = 120
PADDING = 100
"""Bytes of a value: retention counts bytes."""


class Pipeline:
    """It is a copy that is run again and again with the same checkpoint."""

    def __init__(self, spark: Any, processes: Processes, checkpoint: Path) -> None:
        self.spark = spark
        self.processes = processes
        self._checkpoint = checkpoint

    def copy(self, **options: str) -> None:
        """Copy what there is.

        :raises StreamingQueryException: the query failed.
        """
        servers = self.processes.bootstrap
        rows = (
            self.spark.readStream.format("oncelog")
            .options(**{"bootstrap.servers": servers, "subscribe": SOURCE}, **options)
            .options(startingOffsets="earliest")
            .load()
        )
        query = (
            rows.select("key", "value", "partition")
            .writeStream.format("oncelog")
            .options(**{"bootstrap.servers": servers, "topic": TARGET})
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WITHIN_S), "the query takes too long"

    def fails(self, **options: str) -> str:
        """Run it; it must fail, and this is what it says."""
        from pyspark.errors import StreamingQueryException

        with pytest.raises(StreamingQueryException) as caught:
            self.copy(**options)
        return str(caught.value)

    def create(self, topic: str, **configs: str) -> None:
        """Create a topic of one partition."""
        asyncio.run(self.processes.create_topic(topic, 1, **configs))

    def write(self, values: Sequence[bytes]) -> None:
        """Write to the source, in batches of a few."""

        async def send() -> None:
            async with Producer(self.processes.bootstrap, linger_ms=0) as producer:
                for first in range(0, len(values), 10):
                    await producer.send_many(SOURCE, values[first : first + 10], partition=0)

        asyncio.run(send())

    def copied(self) -> list[bytes]:
        """Return what the target has."""
        return asyncio.run(read_all(self.processes.bootstrap, TARGET, 1))[0]

    def log_start(self) -> int:
        """Return where the source begins."""

        async def ask() -> int:
            tp = TopicPartition(SOURCE, 0)
            async with Consumer(bootstrap_servers=self.processes.bootstrap) as consumer:
                return (await consumer.beginning_offsets([tp]))[tp]

        return asyncio.run(ask())

    async def wait(self, what: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(what):
                await asyncio.sleep(0.1)

    def delete(self, topic: str) -> None:
        """Delete the topic, if it is there."""
        asyncio.run(self.processes.delete_topic(topic))


@pytest.fixture
def pipeline(spark: Any, processes: Processes, tmp_path: Path) -> Iterator[Pipeline]:
    """The copy's target is there and its source is not."""
    made = Pipeline(spark, processes, tmp_path / "checkpoint")
    made.create(TARGET)
    yield made
    made.delete(SOURCE)
    made.delete(TARGET)


def values_of(name: str, count: int) -> list[bytes]:
    return [f"{name}-{number}".encode().ljust(PADDING, b".") for number in range(count)]


def test_a_topic_that_was_made_again_is_another_one(pipeline: Pipeline) -> None:
    pipeline.create(SOURCE)
    old, new = values_of("old", 50), values_of("new", 80)
    pipeline.write(old)
    pipeline.copy()
    assert pipeline.copied() == old
    pipeline.delete(SOURCE)
    pipeline.create(SOURCE)
    pipeline.write(new)  # more than before: offsets alone would not tell
    said = pipeline.fails()
    assert "was deleted and made again" in said
    assert "failOnDataLoss=false" in said
    assert pipeline.copied() == old
    pipeline.copy(failOnDataLoss="false")
    assert pipeline.copied() == old + new
    pipeline.copy()  # it is the topic of the checkpoint now
    assert pipeline.copied() == old + new


def test_retention_that_has_passed_the_position(pipeline: Pipeline) -> None:
    pipeline.create(SOURCE, segment_bytes="2048", retention_bytes="30000")
    early, late = values_of("early", 50), values_of("late", 600)
    pipeline.write(early)
    pipeline.copy()
    assert pipeline.copied() == early
    pipeline.write(late)
    asyncio.run(pipeline.wait(lambda: pipeline.log_start() > len(early)))
    said = pipeline.fails()
    assert "retention has passed the query's position" in said
    assert pipeline.copied() == early
    pipeline.copy(failOnDataLoss="false")
    kept = pipeline.copied()[len(early) :]
    assert pipeline.copied()[: len(early)] == early
    assert 0 < len(kept) < len(late)
    assert kept == late[-len(kept) :]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["cast(id as string) as text"], "text"),
        (["cast(id as string) as key"], "value"),
        (["id as value"], "must be binary or string"),
        (["'v' as value", "cast(id as string) as partition"], "must be int"),
        (["'v' as value", "id as timestamp"], "must be timestamp"),
        (["'v' as value", "array('h') as headers"], "headers"),
    ],
)
def test_columns_that_are_no_record(
    pipeline: Pipeline, columns: list[str], said: str, processes: Processes
) -> None:
    pipeline.create(SOURCE)
    frame = pipeline.spark.range(3).selectExpr(*columns)
    options = {"bootstrap.servers": processes.bootstrap, "topic": TARGET}
    with pytest.raises(Exception) as caught:
        frame.write.format("oncelog").options(**options).mode("append").save()
    assert "SinkSchemaError" in str(caught.value)
    assert said in str(caught.value)
    tp = TopicPartition(TARGET, 0)
    ends = asyncio.run(ends_of(processes.bootstrap, [tp], isolation="read_uncommitted"))
    assert ends[tp] == 0


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        ("value STRING", {}, "is binary, not string"),
        ("body BINARY", {}, "there is no column 'body'"),
        (None, {"valueFormat": "json"}, "valueSchema"),
        (None, {"valueformats": "json"}, "did you mean valueFormat"),
    ],
)
def test_columns_that_the_source_cannot_make(
    pipeline: Pipeline, schema: str | None, options: dict[str, str], said: str
) -> None:
    pipeline.create(SOURCE)
    pipeline.write(values_of("row", 1))
    reader = pipeline.spark.read.format("oncelog").options(
        **{"bootstrap.servers": pipeline.processes.bootstrap, "subscribe": SOURCE}, **options
    )
    if schema is not None:
        reader = reader.schema(schema)
    with pytest.raises(Exception) as caught:
        reader.load().collect()
    assert "OptionError" in str(caught.value)
    assert said in str(caught.value)
