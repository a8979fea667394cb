"""``python -m oncelog_bench.spark`` measures PySpark pipelines, as ``make bench-spark``.

The table of ``docs/performance.md``: batch source and sink, topic to topic, what exactly once
costs, and the latency of small micro-batches, each beside what PySpark itself does with a source or
a sink that does nothing (``spark_stubs``), in turns in one run. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from oncelog_bench import spark_suite
from oncelog_bench.cluster import BenchCluster
from oncelog_bench.report import Report


def session(scratch: Path, cores: int) -> Any:
    """Make a session of its own; its Java is ended with it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from oncelog_bench import spark_stubs

    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(cores),
    }
    builder: Any = SparkSession.builder
    builder = builder.master(f"local[{cores}]").appName("oncelog-bench")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark_stubs.register(spark)
    return spark


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks; returns the exit code."""
    parser = argparse.ArgumentParser(prog="oncelog_bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small work, one repeat: does it run?")
    parser.add_argument("--only", action="append", choices=spark_suite.GROUPS, default=[])
    parser.add_argument("--repeats", type=int, help="runs a figure (the median is shown)")
    options = parser.parse_args(arguments)
    scale = spark_suite.QUICK if options.quick else spark_suite.FULL
    scale = scale.with_repeats(options.repeats)
    report = Report(sys.stderr)
    # Who is told to end takes the cluster along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-spark-") as scratch:
        home = Path(scratch)
        with BenchCluster(home / "cluster") as cluster:
            spark = session(home, spark_suite.PARTITIONS)
            try:
                bench = spark_suite.SparkBench(report, scale, cluster, spark, home)
                bench.run(frozenset(options.only))
            finally:
                spark.stop()
    print(report.table(), file=sys.stderr)
    print(report.json_line())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
