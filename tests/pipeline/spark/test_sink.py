"""The sink writes to real brokers in a real session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

from integration.copied import settled
from integration.processes import Processes
from oncelog import Admin, Consumer, NewTopic, Producer, Record, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(400)]

DEADLINE_S = 180
KEYS = "cast(id % 97 as string) as key"


class Topics:
    """It makes the topics of one test, and reads them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.options = {"oncelog.bootstrap.servers": bootstrap}
        self._partitions: dict[str, int] = {}

    def create(self, partitions: int = 2) -> str:
        """Create a topic and return its name."""

        async def create(name: str) -> None:
            async with Admin(self.bootstrap) as admin:
                results = await admin.create_topics([NewTopic(name, partitions, 3)])
                results.raise_for_errors()

        name = f"sink-{uuid4().hex[:8]}"
        asyncio.run(create(name))
        self._partitions[name] = partitions
        return name

    def read(self, topic: str, isolation_level: str = "read_committed") -> list[Record]:
        """Return what there is up to the end, partition by partition.

        A reader of committed records waits until no transaction is open.
        """

        async def read() -> list[Record]:
            found: list[Record] = []
            if isolation_level == "read_committed":
                numbers = range(self._partitions[topic])
                await settled(self.bootstrap, [TopicPartition(topic, n) for n in numbers])
            async with (
                asyncio.timeout(DEADLINE_S),
                Consumer(
                    topic,
                    bootstrap_servers=self.bootstrap,
                    auto_offset_reset="earliest",
                    isolation_level=isolation_level,  # type: ignore[arg-type]
                ) as consumer,
            ):
                while any((await consumer.lag()).values()) or not await consumer.lag():
                    for records in (await consumer.getmany(timeout_ms=50)).values():
                        found += records
            return found

        return sorted(asyncio.run(read()), key=lambda record: (record.partition, record.offset))

    def values(self, topic: str) -> Counter[str]:
        """Count how often each value is there."""
        return Counter((record.value or b"").decode() for record in self.read(topic))

    def await_values(self, topic: str, expected: Counter[str]) -> None:
        """Markers come a moment behind the answer to a commit."""

        async def poll() -> None:
            await asyncio.sleep(0.1)

        for _ in range(DEADLINE_S * 5):
            found = self.values(topic)
            assert found <= expected, found - expected
            if found == expected:
                return
            asyncio.run(poll())
        pytest.fail(f"missing: {expected - self.values(topic)}")


@pytest.fixture
def topics(processes: Processes) -> Topics:
    return Topics(processes.bootstrap)


def save(frame: DataFrame, topics: Topics, **options: str) -> None:
    frame.write.format("oncelog").mode("append").options(**topics.options, **options).save()


class Numbers:
    """It streams numbers from files, three a batch, with a checkpoint that can lose its end."""

    def __init__(self, directory: Path, spark: SparkSession) -> None:
        self._source, self._checkpoint = directory / "source", directory / "checkpoint"
        self._source.mkdir()
        self._spark = spark
        self.expected: Counter[str] = Counter()

    def add(self, *numbers: int) -> None:
        text = "".join(f"{number}\n" for number in numbers)
        (self._source / f"{len(list(self._source.iterdir())):03}.txt").write_text(text)
        self.expected.update(map(str, numbers))

    def run(self, start: Callable[[Any], Any]) -> list[int]:
        """Run all there is, file by file; return the numbers of the batches that were run."""
        stream = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        writer = start(stream.load(str(self._source)))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(DEADLINE_S)
        return [progress["batchId"] for progress in query.recentProgress]

    def forget_commit(self, batch: int) -> None:
        """Pretend that Spark had died between the broker's commit and its own log."""
        (self._checkpoint / "commits" / str(batch)).unlink()
        (self._checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_every_column_of_a_batch_write(spark: SparkSession, topics: Topics) -> None:
    first, second = topics.create(3), topics.create(3)
    when = datetime(2024, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
    data = [
        (b"k1", "text", first, 2, when, [("h", b"1"), ("h", None)]),
        (b"k2", None, second, 0, None, []),
        (None, "", second, 0, when, [("g", b"")]),
    ]
    frame = spark.createDataFrame(
        data,
        "key binary, value string, topic string, partition int, timestamp timestamp,"
        " headers array<struct<key:string,value:binary>>",
    )
    save(frame, topics)
    (record,) = topics.read(first)
    assert (record.key, record.value, record.partition) == (b"k1", b"text", 2)
    assert record.timestamp == int(when.timestamp() * 1000)
    assert [*record.headers] == [("h", b"1"), ("h", None)]
    found = sorted(topics.read(second), key=lambda item: item.key is None)
    assert [(item.key, item.value) for item in found] == [(b"k2", None), (None, b"")]
    assert abs(found[0].timestamp - datetime.now(UTC).timestamp() * 1000) < 600_000
    assert [*found[0].headers] == []
    assert [*found[1].headers] == [("g", b"")]


@pytest.mark.parametrize("partitioner", ["default", "murmur2"])
def test_keys_land_where_a_producer_puts_them(
    spark: SparkSession, topics: Topics, partitioner: str
) -> None:
    ours, theirs = topics.create(5), topics.create(5)
    frame = spark.range(3000, numPartitions=2).selectExpr(KEYS, "cast(id as string) as value")
    save(frame, topics, topic=ours, partitioner=partitioner)

    async def send() -> None:
        async with Producer(topics.bootstrap, partitioner=partitioner) as producer:
            keys = [b"%d" % (number % 97) for number in range(3000)]
            await producer.send_many(theirs, [b"%d" % n for n in range(3000)], keys=keys)

    asyncio.run(send())
    places = [
        {(record.key, record.partition) for record in topics.read(topic)}
        for topic in (ours, theirs)
    ]
    assert places[0] == places[1]
    assert len(places[0]) == 97
    assert sum(topics.values(ours).values()) == 3000


def test_of_a_job_that_fails_nothing_is_visible(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    value = "if(id = 1999, raise_error('bad row'), cast(id as string)) as value"
    frame = spark.range(2000, numPartitions=2).selectExpr(value)
    with pytest.raises(PySparkException, match="bad row"):
        save(frame, topics, topic=topic)
    save(spark.range(3).selectExpr("cast(id as string) as value"), topics, topic=topic)
    topics.await_values(topic, Counter("012"))


def test_a_stream_is_exactly_once_when_batches_are_replayed(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    numbers = Numbers(tmp_path, spark)

    def sink(frame: DataFrame) -> Any:
        return frame.writeStream.format("oncelog").options(**topics.options).option("topic", topic)

    numbers.add(1, 2, 3)
    numbers.add(4, 5, 5)
    assert numbers.run(sink) == [0, 1]
    numbers.forget_commit(1)
    numbers.add(6)
    assert numbers.run(sink) == [1, 2]
    topics.await_values(topic, numbers.expected)
    everything = topics.read(topic, "read_uncommitted")
    assert len(everything) == 7  # the replay wrote nothing at all


def test_readers_do_not_wait_for_a_query_that_has_failed(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """Its only task has sent no message: the driver finds the query in the checkpoint."""
    topic = topics.create(1)
    numbers = Numbers(tmp_path, spark)
    numbers.add(*range(30_000), -1)  # three Arrow batches: something is written before the end

    def sink(frame: DataFrame) -> Any:
        good = frame.selectExpr("if(value = '-1', raise_error('bad row'), value) as value")
        return good.writeStream.format("oncelog").options(**topics.options).option("topic", topic)

    with pytest.raises(PySparkException, match="bad row"):
        numbers.run(sink)
    assert topics.read(topic, "read_uncommitted")
    save(spark.range(3).selectExpr("cast(id as string) as value"), topics, topic=topic)
    topics.await_values(topic, Counter("012"))


def test_updates_by_foreach_batch_are_exactly_once_with_a_sink_id(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    numbers = Numbers(tmp_path, spark)

    def sink(frame: DataFrame) -> Any:
        def write(batch: DataFrame, batch_id: int) -> None:
            lines = batch.selectExpr("value as key", "concat(value, '=', count) as value")
            save(lines, topics, topic=topic, sinkId="counts")

        return frame.groupBy("value").count().writeStream.outputMode("update").foreachBatch(write)

    numbers.add(1, 2, 2)
    numbers.add(2)
    numbers.run(sink)
    numbers.forget_commit(1)
    numbers.add(1)
    numbers.run(sink)
    topics.await_values(topic, Counter(["1=1", "2=2", "2=3", "1=2"]))


def test_two_writes_of_a_batch_with_one_sink_id_fail(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    numbers = Numbers(tmp_path, spark)

    def sink(frame: DataFrame) -> Any:
        def write(batch: DataFrame, batch_id: int) -> None:
            for side in ("debit", "credit"):
                lines = batch.selectExpr(f"concat(value, '{side}') as value")
                save(lines, topics, topic=topic, sinkId="sides")

        return frame.writeStream.foreachBatch(write)

    numbers.add(1)
    with pytest.raises(PySparkException, match="two writes of one micro-batch have sinkId='sides'"):
        numbers.run(sink)
    topics.await_values(topic, Counter(["1debit"]))


def test_complete_mode_appends_the_whole_result(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    numbers = Numbers(tmp_path, spark)
    numbers.add(1, 1)
    numbers.add(1)

    def sink(frame: DataFrame) -> Any:
        counted = frame.groupBy("value").count().selectExpr("cast(count as string) as value")
        writer = counted.writeStream.format("oncelog").outputMode("complete")
        return writer.options(**topics.options).option("topic", topic)

    numbers.run(sink)
    topics.await_values(topic, Counter("23"))


def test_sql_inserts_into_a_view_or_a_table(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    name = f"sink_{topic[5:]}"
    options = f"`oncelog.bootstrap.servers` '{topics.bootstrap}', topic '{topic}'"
    columns = "value, key, topic, partition"
    row = "CAST('v' AS BINARY), NULL, NULL, 1"
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING oncelog OPTIONS ({options})")
    spark.sql(f"INSERT INTO {name} ({columns}) VALUES ({row})")
    spark.catalog.dropTempView(name)
    spark.sql(f"CREATE TABLE {name} USING oncelog")
    try:
        with pytest.raises(PySparkException, match="WITH"):
            spark.sql(f"INSERT INTO {name} ({columns}) VALUES ({row})")
        given = options.replace("` '", "`='").replace("topic '", "topic='")
        spark.sql(f"INSERT INTO {name} WITH ({given}) ({columns}) VALUES ({row})")
    finally:
        spark.sql(f"DROP TABLE {name}")
    topics.await_values(topic, Counter(v=2))


def test_mistakes_are_told_with_their_remedy(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    values = spark.range(1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match="which topic"):
        save(values, topics)
    with pytest.raises(PySparkException, match="did you mean topic"):
        save(values, topics, topik="t")
    with pytest.raises(PySparkException, match="to_json"):
        save(spark.range(1).selectExpr("id as value"), topics, topic="t")
    with pytest.raises(PySparkException, match="append"):
        values.write.format("oncelog").mode("overwrite").options(**topics.options, topic="t").save()
    numbers = Numbers(tmp_path, spark)
    numbers.add(1)
    with pytest.raises(PySparkException, match="sinkId"):
        numbers.run(
            lambda frame: frame.writeStream.foreachBatch(
                lambda batch, _: save(batch, topics, topic="t")
            )
        )
