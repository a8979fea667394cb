"""The source reads from real brokers in a real session: every option, and what goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

from integration.processes import Processes
from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.timeout(400)]

DEADLINE_S = 150.0
"""Long, for the first micro-batch of a session takes ten seconds on a quiet machine."""


class Log:
    """It holds topics, and does what the test does to them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, partitions: int = 2, name: str = "", **configs: str) -> str:
        """Create a topic and return its name."""
        name = name or f"source-{uuid4().hex[:8]}"

        async def create() -> None:
            async with Admin(self.bootstrap) as admin:
                new = NewTopic(name, partitions, 1, configs)
                (await admin.create_topics([new])).raise_for_errors()

        asyncio.run(create())
        return name

    def delete(self, topic: str) -> None:
        async def delete() -> None:
            async with Admin(self.bootstrap) as admin:
                (await admin.delete_topics([topic])).raise_for_errors()

        asyncio.run(delete())

    def grow(self, topic: str, partitions: int) -> None:
        async def grow() -> None:
            async with Admin(self.bootstrap) as admin:
                (await admin.create_partitions({topic: partitions})).raise_for_errors()

        asyncio.run(grow())

    def send(self, topic: str, values: Sequence[bytes | None], **columns: Any) -> None:
        """Send values, which are acknowledged when it returns."""

        async def send() -> None:
            async with Producer(self.bootstrap) as producer:
                await producer.send_many(topic, values, **columns)

        asyncio.run(send())

    def send_in_transaction(self, topic: str, values: Sequence[bytes], *, commit: bool) -> None:
        async def send() -> None:
            name = f"txn-{uuid4().hex[:8]}"
            async with Producer(self.bootstrap, transactional_id=name) as producer:
                await producer.begin_transaction()
                await producer.send_many(topic, values)
                await (producer.commit_transaction if commit else producer.abort_transaction)()

        asyncio.run(send())

    def ends(self, topic: str, *, first: bool = False) -> dict[int, int]:
        """Return the last, or first, offset of each partition."""

        async def ask() -> dict[TopicPartition, int]:
            async with Consumer(bootstrap_servers=self.bootstrap) as consumer:
                partitions = await consumer.partitions_for(topic)
                asked = consumer.beginning_offsets if first else consumer.end_offsets
                return await asked(partitions)

        return {tp.partition: offset for tp, offset in asyncio.run(ask()).items()}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return what a group has committed."""

        async def ask() -> dict[int, int]:
            async with Admin(self.bootstrap) as admin:
                found = await admin.list_group_offsets(group)
            return {tp.partition: c.offset for tp, c in found.items() if c and tp.topic == topic}

        return asyncio.run(ask())


class World:
    """It holds one test's log, session and place for checkpoints."""

    def __init__(self, spark: SparkSession, log: Log, home: Path) -> None:
        self.spark = spark
        self.log = log
        self.home = home

    def batch(self, topic: str, **options: str) -> DataFrame:
        return self.spark.read.format("oncelog").options(**self._given(topic, options)).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        told = {"startingOffsets": "earliest", **options}
        return self.spark.readStream.format("oncelog").options(**self._given(topic, told)).load()

    def _given(self, topic: str, options: dict[str, str]) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.log.bootstrap, **options}
        if not {"subscribePattern", "assign"} & set(options):
            given["subscribe"] = topic
        return given

    def start(self, frame: DataFrame, name: str = "out", **trigger: Any) -> StreamingQuery:
        """Values go to a directory, through Spark's own exactly-once file sink."""
        writer = frame.selectExpr("cast(value as string) as value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.home / f"checkpoint-{name}"))
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.start(str(self.home / name))

    def run(self, frame: DataFrame, name: str = "out") -> list[dict[str, Any]]:
        """Run all that is available; return what the micro-batches tell of themselves."""
        query = self.start(frame, name, availableNow=True)
        try:
            assert query.awaitTermination(int(DEADLINE_S)), "it did not end"
        finally:
            query.stop()
        return [dict(progress) for progress in query.recentProgress]

    def out(self, name: str = "out") -> list[str]:
        """Return all values that came out, sorted."""
        found = self.spark.read.schema("value string").parquet(str(self.home / name)).collect()
        return sorted(row.value for row in found if row.value is not None)

    def await_out(self, expected: Sequence[str], name: str = "out") -> None:
        wait_for(lambda: (self.home / name / "_spark_metadata").exists())
        wait_for(lambda: self.out(name), sorted(expected))


def wait_for(question: Callable[[], object], answer: object = True) -> None:
    """Wait until the answer is that, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := question()) != answer:
        assert time.monotonic() < deadline, f"it is {found!r}, not {answer!r}"
        time.sleep(0.1)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def texts(count: int, first: int = 0) -> list[str]:
    return sorted(str(number) for number in range(first, first + count))


def sizes(progresses: Sequence[dict[str, Any]]) -> list[int]:
    return [progress["numInputRows"] for progress in progresses if progress["numInputRows"]]


@pytest.fixture
def world(spark: SparkSession, processes: Processes, tmp_path: Path) -> World:
    return World(spark, Log(processes.bootstrap), tmp_path)


# ---------------------------------------------------------------------------------- batch


def test_all_columns_without_registering_anything(world: World) -> None:
    topic = world.log.create(1, retention_ms="-1")
    moment = 1_700_000_000_123
    world.log.send(
        topic,
        [b"a", None],
        keys=[b"k", b"m"],
        timestamps_ms=[moment, moment + 1],
        headers=[[("h", b"1"), ("n", None)], []],
    )
    frame = world.batch(topic, includeHeaders="true")
    assert [f"{name} {kind}" for name, kind in frame.dtypes] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
        "headers array<struct<key:string,value:binary>>",
    ]
    first, second = frame.orderBy("offset").collect()
    assert (first.key, first.value, first.topic, first.partition, first.offset) == (
        bytearray(b"k"),
        bytearray(b"a"),
        topic,
        0,
        0,
    )
    assert first.timestamp.astimezone(UTC) == datetime.fromtimestamp(moment / 1000, UTC)
    assert first.timestampType == 0
    assert [(h.key, h.value) for h in first.headers] == [("h", bytearray(b"1")), ("n", None)]
    assert (second.key, second.value, second.headers) == (bytearray(b"m"), None, [])
    assert "headers" not in world.batch(topic).columns


def test_where_a_batch_query_begins_and_ends(world: World) -> None:
    topic = world.log.create(1, retention_ms="-1")
    world.log.send(topic, numbered(100), timestamps_ms=[1000 + n for n in range(100)])

    def found(**options: str) -> tuple[int, int]:
        row = world.batch(topic, **options).selectExpr("min(offset) a", "max(offset) z").first()
        assert row is not None
        return row.a, row.z

    assert found() == (0, 99)
    given = {"startingOffsets": f'{{"{topic}": {{"0": 10}}}}'}
    assert found(**given, endingOffsets=f'{{"{topic}": {{"0": 20}}}}') == (10, 19)
    assert found(startingTimestamp="1030", endingTimestamp="1040") == (30, 39)
    by_time = {"startingOffsetsByTimestamp": f'{{"{topic}": {{"0": 1050}}}}'}
    assert found(**by_time, endingOffsetsByTimestamp=f'{{"{topic}": {{"0": 9999}}}}') == (50, 99)
    assert found(assign=f'{{"{topic}": [0]}}') == (0, 99)
    assert found(subscribePattern=f"{topic[:-1]}.") == (0, 99)


def test_pieces_and_filters(world: World) -> None:
    topic = world.log.create(2)
    world.log.send(topic, numbered(1000), keys=numbered(1000))
    assert world.batch(topic).rdd.getNumPartitions() == 2
    pieces = world.batch(topic, minPartitions="5")
    assert pieces.rdd.getNumPartitions() == 5
    assert pieces.count() == 1000
    whole = world.batch(topic)
    narrowed = whole.where("partition = 1 and offset >= 10 and offset < 20")
    assert narrowed.rdd.getNumPartitions() == 1
    assert sorted(row.offset for row in narrowed.collect()) == list(range(10, 20))
    recent = whole.where("timestamp > timestamp'2020-01-01 00:00:00'")
    assert recent.count() == 1000
    assert whole.where("timestamp > timestamp'2099-01-01 00:00:00'").count() == 0
    assert whole.where("topic = 'another'").count() == 0
    assert whole.where("not (offset >= 5) and partition = 0").count() == 5


def test_values_are_decoded(world: World) -> None:
    topic = world.log.create(1)
    good = b'{"id": 1, "name": "x", "inner": {"at": "2024-01-01T00:00:00Z"}}'
    world.log.send(topic, [good, b"nonsense", None], keys=[b"a", b"b", b"\xff"])
    ddl = "id BIGINT, name STRING, inner STRUCT<at: TIMESTAMP>"
    frame = world.batch(topic, keyFormat="string", valueFormat="json", valueSchema=ddl)
    rows = frame.selectExpr("key", "value.id", "value.name", "value.inner.at").collect()
    assert [(row.key, row.id, row.name) for row in rows] == [
        ("a", 1, "x"),
        ("b", None, None),
        (None, None, None),
    ]
    assert rows[0].at.astimezone(UTC) == datetime(2024, 1, 1, tzinfo=UTC)
    strict = world.batch(topic, valueFormat="json", valueSchema=ddl, decodeMode="failfast")
    with pytest.raises(PySparkException, match=f"the value of {topic}-0 at offset 1"):
        strict.collect()


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_times_without_a_zone_count_in_the_sessions(world: World, zone: str | None) -> None:
    topic = world.log.create(1)
    texts = ["2024-07-01T12:00:00", "2024-01-01", "2024-03-10 02:30:00", "2024-01-01 12:00:00Z"]
    world.log.send(topic, [f'{{"at": "{text}"}}'.encode() for text in [*texts, "soon"]])
    conf = world.spark.conf
    before = conf.get("spark.sql.session.timeZone")
    if zone is not None:
        conf.set("spark.sql.session.timeZone", zone)
    try:
        raw = world.batch(topic).selectExpr(
            "offset", "unix_micros(from_json(string(value), 'at TIMESTAMP').at) AS at"
        )
        expected = [tuple(row) for row in raw.orderBy("offset").collect()]
        read = world.batch(topic, valueFormat="json", valueSchema="at TIMESTAMP")
        found = read.selectExpr("offset", "unix_micros(value.at) AS at")
        assert [tuple(row) for row in found.orderBy("offset").collect()] == expected
        stream = world.stream(topic, valueFormat="json", valueSchema="at TIMESTAMP")
        world.run(stream.selectExpr("unix_micros(value.at) AS value"))
        assert world.out() == sorted(str(at) for _, at in expected if at)
    finally:
        conf.unset("spark.sql.session.timeZone")
    assert conf.get("spark.sql.session.timeZone") == before


def test_misfits_are_a_column(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, [b'{"n": 1}', b'{"n": 1.5, "m": 2}'])
    given = {"valueFormat": "json", "valueSchema": "n INT, m INT"}
    frame = world.batch(topic, **given, includeMisfits="true")
    rows = frame.selectExpr("value.n", "value.m", "misfit").collect()
    assert [tuple(row) for row in rows] == [(1, None, None), (None, 2, "value: n: 1.5 is no INT")]
    firm = {"valueFormat": "json", "valueSchema": "n INT NOT NULL"}
    with pytest.raises(PySparkException, match="valueSchema: NOT NULL cannot be promised"):
        world.batch(topic, **firm).collect()


def test_a_schema_takes_some_columns(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, numbered(3))
    reader = world.spark.read.format("oncelog").options(**world._given(topic, {}))
    frame = reader.schema("offset BIGINT, value BINARY").load()
    assert [(row.offset, bytes(row.value)) for row in frame.collect()] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]
    with pytest.raises(PySparkException, match="there is no column 'id'"):
        reader.schema("id BIGINT").load().collect()


def test_sql(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, numbered(3))
    world.spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING oncelog OPTIONS"
        f" (`kafka.bootstrap.servers` '{world.log.bootstrap}', subscribe '{topic}',"
        f" valueFormat 'string')"
    )
    assert [row.value for row in world.spark.sql("SELECT value FROM orders").collect()] == [
        "0",
        "1",
        "2",
    ]


def test_what_is_refused_names_the_remedy(world: World) -> None:
    topic = world.log.create(1)
    for options, told in (
        ({"kafka.group.id": "x"}, "give groupId"),
        ({"kafka.auto.offset.reset": "earliest"}, "give startingOffsets"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
        ({"startingOffsets": "latest"}, "a batch query would find nothing"),
    ):
        with pytest.raises(PySparkException, match=told):
            world.batch(topic, **options).collect()
    with pytest.raises(PySparkException, match="does not exist"):
        world.batch("no-such-topic").collect()


def test_transactions_are_read_when_they_are_committed(world: World) -> None:
    topic = world.log.create(1)
    world.log.send_in_transaction(topic, [b"good"], commit=True)
    world.log.send_in_transaction(topic, [b"bad"], commit=False)

    def values(**options: str) -> list[str]:
        rows = world.batch(topic, valueFormat="string", **options).collect()
        return [row.value for row in rows]

    wait_for(values, ["good"])
    assert values(isolationLevel="read_uncommitted") == ["good", "bad"]
    world.run(world.stream(topic))
    assert world.out() == ["good"]


# ---------------------------------------------------------------------------------- stream


def test_what_is_available_now_in_limited_batches_and_again(world: World) -> None:
    topic = world.log.create(2)
    world.log.send(topic, numbered(100))
    options = {"maxOffsetsPerTrigger": "40", "minPartitions": "3", "groupId": f"g-{topic}"}
    told = world.run(world.stream(topic, **options))
    assert sizes(told) == [40, 40, 20]
    assert world.out() == texts(100)
    assert world.log.committed(f"g-{topic}", topic) == world.log.ends(topic)
    source = next(p["sources"][0] for p in reversed(told) if p["numInputRows"])
    assert source["latestOffset"] == source["endOffset"]
    world.log.send(topic, numbered(10, 100))
    assert sizes(world.run(world.stream(topic, **options))) == [10]
    assert world.out() == texts(110)
    assert sizes(world.run(world.stream(topic, **options))) == []
    assert world.log.committed(f"g-{topic}", topic) == world.log.ends(topic)


def test_a_running_stream(world: World) -> None:
    """It waits, takes what comes, also in partitions that are new; its lag in the group goes to
    0 while it is idle."""
    topic = world.log.create(1)
    group = f"g-{topic}"
    world.log.send(topic, numbered(5))
    query = world.start(world.stream(topic, groupId=group, startingOffsets="latest"))
    try:
        wait_for(lambda: world.log.committed(group, topic), {0: 5})
        world.log.send(topic, numbered(5, 5))
        world.await_out(texts(5, 5))
        wait_for(lambda: world.log.committed(group, topic) == world.log.ends(topic))
        world.log.grow(topic, 2)
        world.log.send(topic, numbered(50, 10), partition=1)
        world.await_out(texts(55, 5))
        wait_for(lambda: world.log.committed(group, topic), {0: 10, 1: 50})
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None


def test_what_comes_while_a_new_query_is_down(world: World) -> None:
    """It has seen nothing, but where it began is in its checkpoint."""
    topic = world.log.create(1)
    world.log.send(topic, numbered(5))
    told = world.run(world.stream(topic, startingOffsets="latest"))
    assert sizes(told) == []
    world.log.send(topic, numbered(5, 5))
    assert sizes(world.run(world.stream(topic, startingOffsets="latest"))) == [5]
    assert world.out() == texts(5, 5)


def test_topics_of_a_pattern_that_come_later(world: World) -> None:
    stem = f"family-{uuid4().hex[:6]}"
    world.log.send(world.log.create(1, f"{stem}-1"), numbered(5))
    frame = world.stream("", subscribePattern=f"{stem}-.*")
    query = world.start(frame)
    try:
        world.await_out(texts(5))
        world.log.send(world.log.create(1, f"{stem}-2"), numbered(5, 5))
        world.await_out(texts(10))
    finally:
        query.stop()


def test_too_little_waits_for_more(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, numbered(5))
    options = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "1h"}
    query = world.start(world.stream(topic, **options))
    try:
        world.await_out(texts(5))
        world.log.send(topic, numbered(19, 5))
        wait_for(lambda: query.status["message"] == "Waiting for data to arrive")
        world.log.send(topic, numbered(1, 24))
        world.await_out(texts(25))
        # Spark reports a batch after its rows can be read.
        wait_for(lambda: sizes([dict(p) for p in query.recentProgress]), [5, 20])
    finally:
        query.stop()


def test_a_stream_by_processing_time(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, numbered(5))
    query = world.start(world.stream(topic), processingTime="500 milliseconds")
    try:
        world.await_out(texts(5))
        world.log.send(topic, numbered(5, 5))
        world.await_out(texts(10))
    finally:
        query.stop()


def test_an_end_is_none_of_a_stream(world: World) -> None:
    topic = world.log.create(1)
    with pytest.raises(PySparkException, match="availableNow"):
        world.run(world.stream(topic, endingOffsets="latest"))


# ---------------------------------------------------------------------------------- loss


def test_a_topic_that_was_made_again(world: World) -> None:
    topic = world.log.create(1)
    world.log.send(topic, numbered(5))
    world.run(world.stream(topic))
    world.log.delete(topic)
    wait_for(lambda: _gone(world.log, topic))
    world.log.create(1, topic)
    world.log.send(topic, numbered(9, 100))
    with pytest.raises(PySparkException, match="the topic was deleted and made again"):
        world.run(world.stream(topic))
    world.run(world.stream(topic, failOnDataLoss="false"))
    assert world.out() == sorted([*texts(5), *texts(9, 100)])


def _gone(log: Log, topic: str) -> bool:
    async def names() -> list[str]:
        async with Admin(log.bootstrap) as admin:
            return await admin.list_topics()

    return topic not in asyncio.run(names())


def test_retention_passes_the_position(world: World) -> None:
    configs = {"retention_bytes": "20000", "segment_bytes": "10000"}
    topic = world.log.create(1, **configs)
    world.log.send(topic, numbered(5))
    world.run(world.stream(topic))
    number = 5
    deadline = time.monotonic() + DEADLINE_S
    while world.log.ends(topic, first=True)[0] <= 5:
        assert time.monotonic() < deadline, "retention did not come"
        world.log.send(topic, [b"%04000d" % number])
        number += 1
    with pytest.raises(PySparkException, match=r"offsets 5 to \d+ are lost: retention"):
        world.run(world.stream(topic))
    world.run(world.stream(topic, failOnDataLoss="false"))
    found = [int(value) for value in world.out()]
    assert sorted(found)[:5] == [0, 1, 2, 3, 4]
    assert number - 1 in found
