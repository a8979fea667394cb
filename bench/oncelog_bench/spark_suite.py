"""Each work of ``oncelog_bench.spark`` is measured in turns with what it is set against.

Rates of batches count from the action's start to its end, planning included; rates of streams are
those of single micro-batches (rows by the duration of the trigger), the first of a query left out,
because a Python worker's imports fall into it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog_bench import spark_stubs
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.cpu import cpu_seconds
from oncelog_bench.report import Report, quantile

GROUPS = ("source", "sink", "stream", "transactions", "latency")
PARTITIONS = 2
VALUE_BYTES = 100
PIECE = 50_000
"""Records of one ``send_many`` when a topic is filled."""
WITHIN_S = 600
NO_TRANSACTIONS = {"deliveryGuarantee": "at-least-once"}
SMALL_BATCH = 20
CPU_UNIT = "s/M rows"
"""CPU seconds of Spark, its workers and the brokers for a million rows."""


@dataclass(frozen=True, slots=True)
class SparkScale:
    """Each figure does so much work."""

    repeats: int
    source_rows: int
    sink_rows: int
    stream_rows: int
    stream_batch: int
    txn_rows: int
    txn_batch: int
    small_batches: int

    def with_repeats(self, repeats: int | None) -> SparkScale:
        """Return the scale with another number of repeats, if one is given."""
        return replace(self, repeats=repeats) if repeats else self


FULL = SparkScale(5, 3_000_000, 2_000_000, 3_000_000, 500_000, 1_500_000, 100_000, 40)
QUICK = SparkScale(1, 200_000, 200_000, 200_000, 50_000, 100_000, 20_000, 8)


class SparkBench:
    """All groups run on one session and one cluster."""

    def __init__(
        self, report: Report, scale: SparkScale, cluster: BenchCluster, spark: Any, home: Path
    ) -> None:
        self._report = report
        self._scale = scale
        self._bootstrap = cluster.bootstrap
        self._processes = [os.getpid(), *cluster.pids().values()]
        """Spark's and the brokers', with what they start."""
        self._spark = spark
        self._home = home
        self._numbers = itertools.count()

    def run(self, only: frozenset[str]) -> None:
        """Measure the groups of ``only`` (all where it is empty)."""
        works = (self._source, self._sink, self._stream, self._transactions, self._latency)
        for group, work in zip(GROUPS, works, strict=True):
            if not only or group in only:
                work()

    # ---- batches

    def _source(self) -> None:
        rows = self._scale.source_rows
        topic = self._filled(rows)
        stub = self._spark.read.format(spark_stubs.PREBUILT).options(
            rows=rows, valuebytes=VALUE_BYTES
        )
        read = self._spark.read.format("oncelog").options(**self._reading(topic))
        works = {
            "PySpark: prebuilt Arrow batches to noop": partial(_to_noop, stub),
            "batch source to noop": partial(_to_noop, read),
        }
        self._in_turns(rows, works, lambda: None)
        self._drop(topic)

    def _sink(self) -> None:
        rows = self._scale.sink_rows
        target = ""

        def fresh() -> None:
            nonlocal target
            if target:
                self._drop(target)
            target = self._topic()

        def save(form: str, options: dict[str, str]) -> None:
            writing = {**self._writing(target), **options} if form == "oncelog" else {}
            self._save(rows, form, writing)

        works = {
            "PySpark: rows to an Arrow writer that drops them": partial(
                save, spark_stubs.DISCARD, {}
            ),
            "batch sink, without transactions": partial(save, "oncelog", NO_TRANSACTIONS),
            "batch sink, exactly once": partial(save, "oncelog", {}),
        }
        self._in_turns(rows, works, fresh)
        self._drop(target)

    def _in_turns(
        self, rows: int, works: Mapping[str, Callable[[], None]], before: Callable[[], None]
    ) -> None:
        """Measure the rates and CPU of each work against the first, in turns; first runs warm
        up."""
        rates: dict[str, list[float]] = {name: [] for name in works}
        cpu: dict[str, list[float]] = {name: [] for name in works}
        for turn in range(self._scale.repeats + 1):
            before()
            for name, work in works.items():
                rate = self._rate(rows, work, cpu[name])
                if turn:
                    rates[name].append(rate)
                else:
                    cpu[name].clear()
        self._add_against_first(rates, "rows/s")
        self._add_against_first({f"{name}, CPU": taken for name, taken in cpu.items()}, CPU_UNIT)

    def _add_against_first(self, values: dict[str, list[float]], unit: str) -> None:
        baseline = next(iter(values))
        for name, taken in values.items():
            against = None if name == baseline else baseline
            self._report.add(name, taken, unit, against=against)

    def _save(self, rows: int, form: str, options: dict[str, str]) -> None:
        frame = self._spark.range(0, rows, 1, PARTITIONS).selectExpr(
            f"cast(repeat('x', {VALUE_BYTES}) as binary) as value"
        )
        frame.write.format(form).options(**options).mode("append").save()

    def _rate(self, rows: int, work: Callable[[], None], cpu: list[float]) -> float:
        """Return the rows a second; ``cpu`` takes the CPU seconds of a million rows."""
        spent, began = cpu_seconds(self._processes), time.perf_counter()
        work()
        taken = time.perf_counter() - began
        cpu.append((cpu_seconds(self._processes) - spent) / rows * 1e6)
        return rows / taken

    # ---- streams

    def _stream(self) -> None:
        scale = self._scale
        source = self._filled(scale.stream_rows)
        rates: list[float] = []
        cpu: list[float] = []
        for _ in range(scale.repeats):
            rates += self._copied(source, scale.stream_rows, scale.stream_batch, {}, cpu)
        name = f"topic to topic, exactly once, micro-batches of {scale.stream_batch:,}"
        self._report.add(name, rates, "rows/s")
        self._report.add(f"{name}, CPU", cpu, CPU_UNIT)
        self._drop(source)

    def _transactions(self) -> None:
        scale = self._scale
        source = self._filled(scale.txn_rows)
        size = f"{scale.txn_batch:,}"
        kinds = {
            f"topic to topic, without transactions, micro-batches of {size}": NO_TRANSACTIONS,
            f"topic to topic, exactly once, micro-batches of {size}": {},
        }
        rates: dict[str, list[float]] = {name: [] for name in kinds}
        cpu: dict[str, list[float]] = {f"{name}, CPU": [] for name in kinds}
        for turn in range(scale.repeats):
            for name in list(kinds)[:: -1 if turn % 2 else 1]:
                taken = cpu[f"{name}, CPU"]
                rates[name] += self._copied(
                    source, scale.txn_rows, scale.txn_batch, kinds[name], taken
                )
        self._add_against_first(rates, "rows/s")
        self._add_against_first(cpu, CPU_UNIT)
        self._drop(source)

    def _copied(
        self, source: str, rows: int, batch: int, sink_options: dict[str, str], cpu: list[float]
    ) -> list[float]:
        """Return the rates of copying to a fresh topic; ``cpu`` takes the CPU of a million rows."""
        target = self._topic()
        spent = cpu_seconds(self._processes)
        rates = self._copy(source, target, batch, sink_options)
        cpu.append((cpu_seconds(self._processes) - spent) / rows * 1e6)
        self._drop(target)
        return rates

    def _copy(
        self, source: str, target: str, batch: int, sink_options: dict[str, str]
    ) -> list[float]:
        """Return the rates of the micro-batches of one query that reads a topic to its end."""
        reading = {**self._reading(source), "maxOffsetsPerTrigger": str(batch)}
        frame = self._spark.readStream.format("oncelog").options(**reading).load()
        frame = frame.select("key", "value", "partition")
        writing = {**self._writing(target), **sink_options}
        query = self._started(frame, "oncelog", writing, availableNow=True)
        assert query.awaitTermination(WITHIN_S), f"{source} to {target} takes too long"
        done = [p for p in query.recentProgress if p.numInputRows]
        assert sum(p.numInputRows for p in done) > 0, "no progress was kept"
        return [
            p.numInputRows / p.durationMs["triggerExecution"] * 1000
            for p in done[1:]
            if p.numInputRows >= batch // 2
        ]

    def _started(self, frame: Any, form: str, options: dict[str, str], **trigger: Any) -> Any:
        """Start a query with a checkpoint of its own."""
        writer = frame.writeStream.format(form).options(**options)
        checkpoint = self._home / f"checkpoint-{next(self._numbers)}"
        writer = writer.option("checkpointLocation", str(checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    # ---- latency

    def _latency(self) -> None:
        source, target = self._topic(), self._topic()
        stub = self._spark.readStream.format(spark_stubs.PREBUILT).options(
            rows=SMALL_BATCH, valuebytes=VALUE_BYTES
        )
        own = self._small(stub.load(), spark_stubs.DISCARD, {}, self._idle)
        read = self._spark.readStream.format("oncelog").options(**self._reading(source))
        late: list[float] = []

        def feed(query: Any) -> None:
            late.extend(asyncio.run(self._ping(query, source, target)))

        ours = self._small(read.load(), "oncelog", self._writing(target), feed)
        whole = "small micro-batches, PySpark with stubs, triggerExecution"
        self._report.add(whole, own["triggerExecution"], "ms")
        name = "small micro-batches, topic to topic exactly once, triggerExecution"
        self._report.add(name, ours["triggerExecution"], "ms", against=whole)
        for part in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets"):
            self._report.add(f"PySpark with stubs: {part}", own[part], "ms")
            self._report.add(f"topic to topic exactly once: {part}", ours[part], "ms")
        for mark in (0.5, 0.99):
            name = f"from send to what a committed reader gets, p{mark * 100:g}"
            self._report.add(name, [quantile(late, mark)], "ms")
        for topic in (source, target):
            self._drop(topic)

    def _small(
        self, frame: Any, form: str, options: dict[str, str], feed: Callable[[Any], None]
    ) -> dict[str, list[float]]:
        """Return the durations of the micro-batches that ``feed`` causes, by their part.

        The first five, in which workers start, are left out.
        """
        query = self._started(frame.select("key", "value"), form, options)
        try:
            feed(query)
            done = [p for p in query.recentProgress if p.numInputRows][5:]
        finally:
            query.stop()
        parts = {part for p in done for part in p.durationMs}
        return {part: [float(p.durationMs.get(part, 0)) for p in done] for part in sorted(parts)}

    def _idle(self, query: Any) -> None:
        self._wait_batches(query, 5 + self._scale.small_batches)

    def _wait_batches(self, query: Any, count: int) -> None:
        deadline = time.monotonic() + WITHIN_S
        while (query.lastProgress or {"batchId": -1})["batchId"] + 1 < count:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, f"no {count} micro-batches in {WITHIN_S} s"
            time.sleep(0.05)

    async def _ping(self, query: Any, source: str, target: str) -> list[float]:
        """Send a few records, await their copies, again and again; milliseconds until the last copy
        of each round is there. The first five rounds do not count."""
        every = [TopicPartition(target, number) for number in range(PARTITIONS)]
        late: list[float] = []
        async with (
            Producer(self._bootstrap, linger_ms=0) as producer,
            Consumer(
                bootstrap_servers=self._bootstrap,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
        ):
            consumer.assign(every)
            for turn in range(5 + self._scale.small_batches):
                began = time.perf_counter()
                await producer.send_many(source, [b"x" * VALUE_BYTES] * SMALL_BATCH)
                missing = SMALL_BATCH
                async with asyncio.timeout(WITHIN_S):
                    while missing > 0:
                        assert query.isActive, query.exception()
                        found = await consumer.getmany(timeout_ms=1000)
                        missing -= sum(map(len, found.values()))
                if turn >= 5:
                    late.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(0.2)
        return late

    # ---- topics

    def _reading(self, topic: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }

    def _writing(self, topic: str) -> dict[str, str]:
        return {"bootstrap.servers": self._bootstrap, "topic": topic}

    def _topic(self) -> str:
        name = f"bench-{next(self._numbers)}"

        async def create() -> None:
            configs = {"min_insync_replicas": "2", "file_delete_delay_ms": "0"}
            async with Admin(self._bootstrap) as admin:
                made = await admin.create_topics([NewTopic(name, PARTITIONS, 3, configs)])
                made.raise_for_errors()

        asyncio.run(create())
        return name

    def _filled(self, rows: int) -> str:
        """Make a topic with ``rows`` rows, as many in each partition."""
        name = self._topic()

        async def fill() -> None:
            values = [b"x" * VALUE_BYTES] * PIECE
            async with Producer(self._bootstrap, linger_ms=5, batch_size=512 * 1024) as producer:
                for partition in range(PARTITIONS):
                    for first in range(0, rows // PARTITIONS, PIECE):
                        piece = values[: min(PIECE, rows // PARTITIONS - first)]
                        await producer.send_many(name, piece, partition=partition)

        asyncio.run(fill())
        return name

    def _drop(self, topic: str) -> None:
        async def delete() -> None:
            async with Admin(self._bootstrap) as admin:
                (await admin.delete_topics([topic])).raise_for_errors()

        asyncio.run(delete())


def _to_noop(reader: Any) -> None:
    reader.load().write.format("noop").mode("overwrite").save()
