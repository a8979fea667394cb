"""It is a Spark driver for failure tests: ``python -m pipeline.chaos_driver OPTIONS``.

OPTIONS is the JSON of :class:`DriverOptions`. Runs streaming queries that copy topics, starts one
again that has failed, as whoever operates a pipeline would, and tells in a file how it goes. It
ends when a file named ``stop`` appears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipeline import faulty_sink

POLL_S = 0.1
STATUS = "status.json"
STOP = "stop"
FAILURES_MAX = 10
"""One query in one life may fail so often: more is no bad luck."""


@dataclass(frozen=True, slots=True)
class Query:
    """It copies from a topic to another, and keeps partitions."""

    name: str
    source: str
    target: str
    max_offsets: int
    """A micro-batch takes at most so many records."""
    fail_part: float = 0.0
    """This part of the task attempts fails by chance."""
    source_options: dict[str, str] = field(default_factory=dict)
    sink_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """They tell a driver what to do."""

    bootstrap: str
    directory: str
    """The life of this driver keeps its status here, and its order to stop."""
    state: str
    """Checkpoints and gates; lives share it."""
    queries: list[Query]
    master: str = "local[4,4]"
    conf: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text that the program takes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DriverOptions:
        """Read what ``to_json`` wrote."""
        given = json.loads(text)
        return cls(**{**given, "queries": [Query(**query) for query in given["queries"]]})


class Lives:
    """It runs the queries of one driver, and counts how often each had to be started again."""

    def __init__(self, options: DriverOptions, spark: SparkSession) -> None:
        self._options = options
        self._spark = spark
        self._running: dict[str, StreamingQuery] = {}
        self._failures: dict[str, list[str]] = {query.name: [] for query in options.queries}

    def run(self) -> None:
        """Run until told to stop, or until whoever started it is gone."""
        directory, parent = Path(self._options.directory), os.getppid()
        while not (directory / STOP).exists() and os.getppid() == parent:
            for query in self._options.queries:
                self._mind(query)
                if not self._is_under_way(query):
                    # One after the other: Spark gives a Python process ten seconds to start.
                    break
            self._tell(directory / STATUS)
            time.sleep(POLL_S)
        for running in self._running.values():
            running.stop()

    def _mind(self, query: Query) -> None:
        running = self._running.get(query.name)
        if running is not None and running.isActive:
            return
        if running is not None:
            self._failures[query.name].append(str(running.exception()))
            print(f"{query.name} failed: {running.exception()}", flush=True)
            if len(self._failures[query.name]) > FAILURES_MAX:
                raise SystemExit(f"{query.name} fails again and again")
        self._running[query.name] = self._start(query)

    def _is_under_way(self, query: Query) -> bool:
        """Return whether it has ended a micro-batch, in this life or in its last run of it."""
        running = self._running[query.name]
        return bool(self._failures[query.name]) or running.lastProgress is not None

    def _start(self, query: Query) -> StreamingQuery:
        options, state = self._options, Path(self._options.state)
        servers = {"bootstrap.servers": options.bootstrap}
        source = {
            **servers,
            "subscribe": query.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(query.max_offsets),
            "includeHeaders": "true",
            "groupId": f"spark-{query.name}",
            **query.source_options,
        }
        sink = {
            **servers,
            "topic": query.target,
            "checkpointLocation": str(state / "checkpoints" / query.name),
            **faulty_sink.options_of(state / "gates", query.name, query.fail_part),
            **query.sink_options,
        }
        rows = self._spark.readStream.format("oncelog").options(**source).load()
        columns = rows.select("key", "value", "partition", "headers")
        return columns.writeStream.format(faulty_sink.FORMAT).options(**sink).start()

    def _tell(self, path: Path) -> None:
        told: dict[str, Any] = {"pid": os.getpid(), "jvm": jvm_pid(self._spark), "queries": {}}
        for name, running in self._running.items():
            progress = running.lastProgress
            batch = -1 if progress is None else progress.batchId
            told["queries"][name] = {"batch": batch, "failures": self._failures[name]}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(told), encoding="utf-8")
        temporary.replace(path)


def jvm_pid(spark: SparkSession) -> int:
    """Return the process id of the session's Java."""
    gateway: Any = spark.sparkContext._gateway
    return int(gateway.proc.pid)


def session(options: DriverOptions) -> SparkSession:
    """Make a session of its own in this process, small, without a web page."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(Path(options.directory) / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(Path(options.directory) / "warehouse"),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **options.conf,
    }
    builder: Any = SparkSession.builder
    builder = builder.master(options.master).appName("chaos")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    faulty_sink.register(spark)
    return spark


def main(arguments: list[str]) -> None:
    options = DriverOptions.from_json(arguments[0])
    spark = session(options)
    try:
        Lives(options, spark).run()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
