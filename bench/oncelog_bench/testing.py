"""This measures how long a test waits for ``oncelog.testing``, and for time to pass on it."""

from __future__ import annotations

import subprocess
import sys
import time

from oncelog.testing import Cluster
from oncelog_bench.report import Report

DAY_S = 86_400


def run(report: Report, repeats: int) -> None:
    """Measure the milliseconds until clusters serve, with all imported, and those of an import."""
    line = [sys.executable, "-c", "from oncelog.testing import Cluster"]
    bare = [sys.executable, "-c", "pass"]
    subprocess.run(line, check=True)  # the first one compiles
    imports = [_milliseconds(line) - _milliseconds(bare) for _ in range(repeats)]
    report.add("import of oncelog.testing.Cluster", imports, "ms")
    for brokers in (1, 3):
        started = [_started(brokers) for _ in range(3 * repeats)]
        report.add(f"a cluster for tests of {brokers} serves", started, "ms")
    report.add("a day on one of 1", [_advanced(1, DAY_S) for _ in range(repeats)], "ms")
    report.add("an hour on one of 3", [_advanced(3, DAY_S / 24) for _ in range(repeats)], "ms")


def _milliseconds(line: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(line, check=True)
    return (time.perf_counter() - began) * 1000


def _started(brokers: int) -> float:
    began = time.perf_counter()
    with Cluster(brokers):
        return (time.perf_counter() - began) * 1000


def _advanced(brokers: int, seconds: float) -> float:
    with Cluster(brokers) as cluster:
        cluster.create_topic("t", partitions=3)
        began = time.perf_counter()
        cluster.advance(seconds)
        return (time.perf_counter() - began) * 1000
